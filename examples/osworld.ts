/** The `deskhand` command, run from a clone: `npx tsx examples/osworld.ts run`. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { main } from "../src/cli/Cli.js"

NodeRuntime.runMain(main(process.argv))
