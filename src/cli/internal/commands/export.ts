/** `deskhand export`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Export from "../../Export.js"
import { runFolder } from "../arguments.js"

export const exported = Command.make(
  "export",
  {
    run: runFolder,
    format: Options.choice("format", Export.formats).pipe(
      Options.withDescription("ng-trajectory, exact-trace (schema 2) or atif (ATIF-v1.6)")
    ),
    out: Options.text("out").pipe(Options.withDescription("The file that is written: a line for each rollout"))
  },
  Export.exportRun
).pipe(Command.withDescription("Write a run's rollouts in a format of others"))
