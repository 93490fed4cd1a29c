/** The `deskhand` command, run from a clone: `npx tsx examples/osworld.ts run`. */
import { main } from "../src/cli/Cli.js"
import { runMain } from "../src/cli/Program.js"

runMain(main(process.argv))
