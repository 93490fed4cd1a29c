/**
 * Finds tasks: in task files, folders, globs, files of rows, and OSWorld's index files.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import * as Schema from "effect/Schema"
import { TaskRow } from "../rollout/TaskRow.js"
import * as TaskFiles from "./internal/taskFiles.js"
import { type Found, type Problem, wrong } from "./internal/taskJson.js"
import type * as Task from "./Task.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface LoadedTask {
  readonly row: TaskRow
  readonly task: Task.Task
  /** The file, and for a row of a JSONL file its line: `rows.jsonl:3`. */
  readonly source: string
}

/**
 * @since 0.1.0
 * @category models
 */
export type LoadedTasks = ReadonlyArray<LoadedTask>

/**
 * @since 0.1.0
 * @category models
 */
export interface LoadOptions {
  /** Only tasks of these domains. */
  readonly domain?: ReadonlyArray<string>
  /** No more than the first so many, after `domain`. */
  readonly limit?: number
}

/**
 * Everything that is wrong with the tasks that were asked for, at once. The message shows 20 of the problems.
 *
 * @since 0.1.0
 * @category errors
 */
export class TaskSourceError extends Schema.TaggedError<TaskSourceError>("deskhand/TaskSourceError")(
  "TaskSourceError",
  {
    problems: Schema.NonEmptyArray(
      Schema.Struct({
        /** A file, `file:line`, or the pattern as it was given. */
        source: Schema.String,
        /** Where in the JSON, such as `evaluator.result[1].type`; empty when it is about the whole. */
        path: Schema.String,
        message: Schema.String
      })
    )
  }
) {
  override get message(): string {
    const { problems } = this
    const shown = problems
      .slice(0, 20)
      .map(({ source, path, message }) => `  ${source}: ${path === "" ? "" : `${path}: `}${message}`)
    const more = problems.length > shown.length ? [`  and ${problems.length - shown.length} more`] : []
    const head = problems.length === 1 ? "1 problem" : `${problems.length} problems`
    return [`The tasks could not be loaded: ${head}`, ...shown, ...more].join("\n")
  }
}

/** One problem for each that comes second. */
const clashes = <K>(
  tasks: LoadedTasks,
  key: (loaded: LoadedTask) => K,
  message: (key: K, first: string) => string
): ReadonlyArray<Problem> => {
  const first = new Map<K, string>()
  return tasks.flatMap((loaded) => {
    const there = first.get(key(loaded))
    if (there !== undefined) return [{ source: loaded.source, path: "", message: message(key(loaded), there) }]
    first.set(key(loaded), loaded.source)
    return []
  })
}

/** Rows may be for several rollouts of one task, or for several groups, and then each says for which. */
const taskClashes = (tasks: LoadedTasks): ReadonlyArray<Problem> => {
  const ids = new Map<string, string>()
  return clashes(
    tasks,
    ({ row: { groupId, rolloutIndex, taskId } }) => {
      const key = JSON.stringify([taskId, groupId, rolloutIndex])
      ids.set(key, taskId)
      return key
    },
    (key, first) => `the task id ${ids.get(key)} is taken by ${first}`
  )
}

/** The rows of a task share its index, and those of another task have none of it; rollouts share nothing. */
const indexClashes = (tasks: LoadedTasks): ReadonlyArray<Problem> => {
  const owners = new Map<number, LoadedTask>()
  const foreign = tasks.flatMap((loaded) => {
    const owner = owners.get(loaded.row.taskIndex) ?? loaded
    owners.set(loaded.row.taskIndex, owner)
    const message = `the _ng_task_index ${loaded.row.taskIndex} is taken by ${owner.source}; give one to every row or to none`
    return owner.row.taskId === loaded.row.taskId ? [] : [{ source: loaded.source, path: "", message }]
  })
  return foreign.length > 0
    ? foreign
    : clashes(
        tasks,
        ({ row }) => row.rolloutId ?? `${row.taskIndex}-${row.rolloutIndex ?? 0}`,
        (id, first) => `the rollout id ${id} is the one of ${first}`
      )
}

const select = (tasks: LoadedTasks, patterns: ReadonlyArray<string>, options: LoadOptions): Found<LoadedTasks> => {
  const { domain, limit } = options
  const selected = tasks
    .filter(({ row }) => domain === undefined || domain.includes(row.domain))
    .slice(0, limit ?? tasks.length)
  if (selected.length > 0) return Either.right(selected)
  const there = Arr.dedupe(tasks.map(({ row }) => row.domain)).sort(Order.string)
  const looked = patterns.length === 0 ? "(no pattern)" : patterns.join(", ")
  if (tasks.length === 0) return wrong(looked, "expected at least one task, found none")
  return domain === undefined || tasks.some(({ row }) => domain.includes(row.domain))
    ? wrong(looked, `a limit of ${limit} leaves none of ${tasks.length} tasks`)
    : wrong(
        looked,
        `none of ${tasks.length} tasks is of the domain ${domain.join(" or ")}; there are: ${there.join(", ")}`
      )
}

/**
 * Loads tasks. A pattern is
 *
 * - a task file, or a folder: all `*.json` below it, by path;
 * - a glob (quoted, or the shell expands it first);
 * - a JSONL file of rows, with the task in `verifier_metadata.osworld_task` or `osworld_task`;
 * - an OSWorld index file, `{ "os": ["id", ...] }`, with its tasks in `examples/<domain>/<id>.json` beside it.
 *
 * In a folder and under a glob a JSON file that is plainly no task is passed over, with a line in the log. A task's index
 * is its place among all that were loaded, before `domain` and `limit`, unless its row has a `_ng_task_index`; so filters
 * don't renumber. A file that two patterns lead to is loaded once.
 *
 * @since 0.1.0
 * @category loading
 */
export const load: (
  patterns: ReadonlyArray<string>,
  options?: LoadOptions
) => Effect.Effect<LoadedTasks, TaskSourceError, FileSystem.FileSystem | Path.Path> = Effect.fn("TaskSource.load", {
  captureStackTrace: false
})(function* (patterns: ReadonlyArray<string>, options: LoadOptions = {}) {
  const { fromPattern } = yield* TaskFiles.make
  const seen = new Set<string>()
  const found = (yield* Effect.forEach(patterns, (pattern) => fromPattern(pattern, seen))).flat()
  const [problems, candidates] = Arr.separate(found)
  const tasks = candidates.map((candidate, position): LoadedTask => {
    const { attemptIndex, domain, names, purpose, rolloutIndex, source, task, taskIndex } = candidate
    const row = new TaskRow({
      taskIndex: taskIndex ?? position,
      taskId: task.id,
      domain,
      instruction: task.instruction,
      source,
      ...names,
      ...(rolloutIndex === undefined ? {} : { rolloutIndex }),
      ...(attemptIndex === undefined ? {} : { attemptIndex }),
      ...(purpose === undefined ? {} : { purpose }),
      task: task.raw
    })
    return { row, task, source }
  })
  const all = [
    ...problems.flat(),
    ...taskClashes(tasks),
    // A place counts only if nothing before it is missing.
    ...(problems.length > 0 ? [] : indexClashes(tasks))
  ]
  if (Arr.isNonEmptyArray(all)) return yield* new TaskSourceError({ problems: all })
  return yield* Either.mapLeft(select(tasks, patterns, options), (problems) => new TaskSourceError({ problems }))
})
