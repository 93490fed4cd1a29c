/** `deskhand report`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import { recorded, shownAs } from "../arguments.js"
import { later } from "../later.js"

export const report = Command.make(
  "report",
  { folder: recorded("run"), ...shownAs },
  later(
    () => import("../../Report.js"),
    (Report, options) => Report.report(options)
  )
).pipe(Command.withDescription("Say what a run came to: scores, coverage, terminations, repeats"))
