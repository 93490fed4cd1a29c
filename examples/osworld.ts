/** The `deskhand` command, run from a clone: `npx tsx examples/osworld.ts run`. */
import { main } from "../src/cli/Cli.js"
import { runBesideTsx, underTsx } from "../src/cli/internal/tsx.js"
import { runMain } from "../src/cli/Program.js"

if (underTsx) runBesideTsx()
else runMain(main(process.argv))
