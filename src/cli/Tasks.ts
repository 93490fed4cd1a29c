/**
 * `deskhand tasks`: which tasks can be carried out and graded, and what there is to carry them out with.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Coverage from "../osworld/Coverage.js"
import { table } from "./internal/table.js"
import { type UsageError, usage } from "./internal/usage.js"

/**
 * What can be listed.
 *
 * @since 0.1.0
 * @category constants
 */
export const lists = ["getters", "metrics", "steps"] as const

/**
 * @since 0.1.0
 * @category models
 */
export interface TasksOptions {
  /** Files, folders, globs and JSONL files of rows. */
  readonly tasks: ReadonlyArray<string>
  readonly coverage: boolean
  readonly list: Option.Option<(typeof lists)[number]>
  readonly format: "text" | "json"
}

/**
 * Some tasks are not supported; the report has said which and why.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotCovered extends Schema.TaggedError<NotCovered>("deskhand/cli/NotCovered")("NotCovered", {
  tasks: Schema.Int,
  supported: Schema.Int
}) {
  override get message() {
    return `${this.tasks - this.supported} of ${this.tasks} tasks are not supported`
  }
}

const gapLine = (gap: Coverage.TaskCoverage["gaps"][number]): string => {
  const what = gap.kind === "task" ? "no task" : `${gap.kind} ${gap.name}`
  const reason = gap.reason.split("\n").map((line) => line.trim())
  return `    ${gap.at === "" ? "" : `${gap.at}: `}${what}: ${reason.join(" ")}`
}

/**
 * The totals as a table, and below it each task that is not supported, with its reasons.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = ({ domains, tasks, total }: Coverage.Coverage): string => {
  const share = (supported: number, all: number) => `${((100 * supported) / all).toFixed(1)} %`
  const row = (name: string, one: Coverage.Coverage["total"]) => [
    name,
    String(one.tasks),
    String(one.supported),
    one.tasks === 0 ? "-" : share(one.supported, one.tasks)
  ]
  const short = tasks.filter(({ supported }) => !supported)
  return [
    table(
      ["domain", "tasks", "supported", "share"],
      [...domains.map(({ domain, ...one }) => row(domain, one)), row("all", total)]
    ),
    ...(short.length === 0 ? ["", "Every part of every task is supported."] : [""]),
    ...short.flatMap(({ domain, gaps, id, source }) => [`${domain}/${id} (${source})`, ...gaps.map(gapLine)])
  ].join("\n")
}

/**
 * Lists what there is, or says of each task whether all of it is supported. Fails with `NotCovered` where a task is not,
 * and with `UsageError` where it is not told which of the two it is asked for.
 *
 * @since 0.1.0
 * @category programs
 */
export const tasks = (
  options: TasksOptions
): Effect.Effect<void, UsageError | NotCovered, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const { coverage, format, list, tasks } = options
    if (Option.isSome(list)) {
      if (coverage) return yield* usage("--list and --coverage are two questions: ask one of them")
      const names = Coverage.names(list.value)
      return yield* Console.log(format === "json" ? JSON.stringify(names, null, 2) : names.join("\n"))
    }
    if (!coverage) return yield* usage(`ask with --coverage, or with --list ${lists.join("|")}`)
    if (tasks.length === 0) return yield* usage("--coverage wants task files, folders, globs, or files of rows")
    const survey = Coverage.survey(tasks)
    // What is passed over is told among the log's lines, and JSON stands alone.
    const report = yield* format === "json" ? Logger.withMinimumLogLevel(survey, LogLevel.Warning) : survey
    yield* Console.log(format === "json" ? JSON.stringify(report, null, 2) : render(report))
    if (report.total.supported < report.total.tasks) return yield* new NotCovered(report.total)
  })
