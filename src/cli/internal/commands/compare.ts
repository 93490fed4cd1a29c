/** `deskhand compare`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { recorded, shownAs } from "../arguments.js"
import { later } from "../later.js"

export const compare = Command.make(
  "compare",
  {
    a: recorded("a"),
    b: recorded("b"),
    ...shownAs,
    seed: Options.integer("seed").pipe(
      Options.withDefault(0),
      Options.withDescription("Of the bootstrap: the same seed gives the same interval; 0 unless given")
    )
  },
  later(
    () => import("../../Compare.js"),
    (Compare, options) => Compare.compare(options)
  )
).pipe(
  Command.withDescription("Compare two runs over the same tasks, and say whether they differ more than repeats do")
)
