/** Arguments and options that several commands have. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { UsageError } from "../Run.js"

export const positive = (name: string) =>
  Options.integer(name).pipe(Options.withSchema(Schema.Int.pipe(Schema.positive())))

export const tasks = Args.text({ name: "tasks" }).pipe(
  Args.repeated,
  Args.withDescription(
    "Task files, folders, globs in quotes, or JSONL files of rows; without any, the ten tasks that come with Deskhand"
  )
)

export const domains = Options.text("domain").pipe(
  Options.repeated,
  Options.withDescription("Only tasks of this domain; may be given several times")
)

export const setup = Options.boolean("setup").pipe(
  Options.withDescription("Install what the tasks need first (apt-get, as root)")
)

/** An option that nobody knows arrives as a task, because tasks may come before options. */
export const rejectUnknownOptions = (patterns: ReadonlyArray<string>) => {
  const unknown = patterns.find((pattern) => /^--?[a-z]/.test(pattern))
  return unknown === undefined
    ? Effect.void
    : Effect.fail(new UsageError({ reason: `there is no option ${unknown}; --help lists the options` }))
}

export const runFolder = Args.text({ name: "run" }).pipe(Args.withDescription("The folder that deskhand run wrote"))

export const shownAs = {
  json: Options.boolean("json").pipe(Options.withDescription("JSON on standard output, with all numbers")),
  markdown: Options.boolean("markdown").pipe(Options.withDescription("Markdown on standard output")),
  html: Options.text("html").pipe(
    Options.optional,
    Options.withDescription("Write a page with plots into this file; it needs nothing beside itself")
  )
}

export const recorded = (name: string) =>
  Args.text({ name }).pipe(Args.withDescription("The folder of a run (its --out)"))
