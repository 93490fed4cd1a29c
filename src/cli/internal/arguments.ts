/** Arguments and options that several commands have. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import type * as Usage from "@effect/cli/Usage"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { UsageError } from "../Run.js"

/** A whole number, which is named by its option when it is none: a schema's own message does not know for what it is. */
export const whole = (name: string, from: number, to = Number.MAX_SAFE_INTEGER) =>
  Options.text(name).pipe(
    Options.withPseudoName("integer"),
    Options.withSchema(
      Schema.NumberFromString.pipe(Schema.int(), Schema.between(from, to)).annotations({
        message: ({ actual }) => ({
          message: `--${name} must be a whole number from ${from}${to === Number.MAX_SAFE_INTEGER ? "" : ` to ${to}`}, and is ${actual}`,
          override: true
        })
      })
    )
  )

export const positive = (name: string) => whole(name, 1)

/** Where a server listens; Node throws at a number that no port has. */
export const port = (description: string) =>
  whole("port", 0, 65_535).pipe(Options.optional, Options.withDescription(description))

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

/** Options by their names, as `--name`, and whether each takes a value. */
const named = (usage: Usage.Usage): ReadonlyArray<readonly [name: string, takesValue: boolean]> => {
  switch (usage._tag) {
    case "Named":
      return usage.names.map((name) => [name, Option.isSome(usage.acceptedValues)])
    case "Optional":
    case "Repeated":
      return named(usage.usage)
    case "Alternation":
    case "Concat":
      return [...named(usage.left), ...named(usage.right)]
    default:
      return []
  }
}

const isOption = (text: string | undefined) => text !== undefined && /^--?[a-z]/.test(text)

/**
 * What cannot be read as an option arrives as a task, because tasks may come before options: an option that nobody knows,
 * one that was given before, and one whose value is missing. `values` are those of options, where another option may have
 * been taken for one.
 */
export const rejectUnknownOptions = (
  patterns: ReadonlyArray<string>,
  options: ReadonlyArray<Options.Options<unknown>>,
  values: Iterable<readonly [name: string, value: string]> = []
): Effect.Effect<void, UsageError> => {
  const known = new Map(options.flatMap((option) => named(Options.getUsage(option))))
  for (const [name, value] of values) {
    if (known.has(value)) return new UsageError({ reason: `--${name} wants a value, and ${value} is an option` })
  }
  const index = patterns.findIndex(isOption)
  const stray = patterns[index]
  if (stray === undefined) return Effect.void
  const [name = stray, value] = stray.split("=", 2)
  const takesValue = known.get(name)
  if (takesValue === undefined) {
    return new UsageError({ reason: `there is no option ${name}; --help lists the options` })
  }
  const next = patterns[index + 1]
  return new UsageError({
    reason:
      takesValue && value === undefined && (next === undefined || isOption(next))
        ? `${name} wants a value`
        : `${name} is given twice`
  })
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
