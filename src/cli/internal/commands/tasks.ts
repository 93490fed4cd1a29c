/** `deskhand tasks`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { rejectUnknownOptions, tasks } from "../arguments.js"
import { later } from "../later.js"

const own = {
  coverage: Options.boolean("coverage").pipe(
    Options.withDescription("Say of each task whether all of its parts are supported, and why not")
  ),
  list: Options.choice("list", ["getters", "metrics", "steps"]).pipe(
    Options.optional,
    Options.withDescription("The names of what there is")
  ),
  format: Options.choice("format", ["text", "json"]).pipe(
    Options.withDefault("text" as const),
    Options.withDescription("text, the default, or json with all of it")
  )
}

export const tasksCommand = Command.make(
  "tasks",
  { tasks, ...own },
  later(
    () => import("../../Tasks.js"),
    ({ tasks }, options) => Effect.zipRight(rejectUnknownOptions(options.tasks, Object.values(own)), tasks(options))
  )
).pipe(Command.withDescription("Say which tasks can be carried out and graded, and what there is for it"))
