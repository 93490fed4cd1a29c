/** `deskhand ctl`: what it takes, and what carries it out. */

import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Control from "../../Control.js"
import { runFolder } from "../arguments.js"

const verbs = Control.verbs.map((verb): [string, (typeof Control.verbs)[number]] => [verb, verb])

export const ctl = Command.make(
  "ctl",
  {
    run: runFolder,
    verb: Args.choice([...verbs], { name: "verb" }).pipe(Args.withDescription(Control.verbs.join(", "))),
    value: Args.text({ name: "value" }).pipe(
      Args.optional,
      Args.withDescription("How many for concurrency, which rollout for cancel")
    ),
    json: Options.boolean("json").pipe(Options.withDescription("Print the status as JSON"))
  },
  Control.control
).pipe(Command.withDescription("Watch over a run while it goes on: look, pause, change, call off, drain"))
