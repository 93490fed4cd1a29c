/** `deskhand verify`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import { runFolder } from "../arguments.js"
import { later } from "../later.js"

export const verify = Command.make(
  "verify",
  { folder: runFolder },
  later(
    () => import("../../Verify.js"),
    (Verify, { folder }) => Verify.verify(folder)
  )
).pipe(Command.withDescription("Check a run's evidence: every byte and blob, and every prompt made again"))
