/**
 * Finds tasks: in task files, folders, globs, files of rows, and OSWorld's index files.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { glob, isDynamicPattern } from "tinyglobby"
import * as TrajectoryIdentity from "../identity/TrajectoryIdentity.js"
import { RolloutPurpose, TaskRow } from "../rollout/TaskRow.js"
import * as Task from "./Task.js"

/**
 * OSWorld's ten domains, which are the names of its folders.
 *
 * @since 0.1.0
 * @category constants
 */
export const domains: ReadonlyArray<string> = [
  "chrome",
  "gimp",
  "libreoffice_calc",
  "libreoffice_impress",
  "libreoffice_writer",
  "multi_apps",
  "os",
  "thunderbird",
  "vlc",
  "vs_code"
]

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

type Problem = TaskSourceError["problems"][number]

/** What one file, line or pattern came to. */
type Found<A> = Either.Either<A, Arr.NonEmptyReadonlyArray<Problem>>

const wrong = (source: string, message: string, path = ""): Either.Either<never, Arr.NonEmptyReadonlyArray<Problem>> =>
  Either.left([{ source, path, message }])

/** A task that has no place in the whole order yet. */
interface Candidate {
  readonly source: string
  readonly task: Task.Task
  readonly domain: string
  readonly taskIndex: number | undefined
  readonly rolloutIndex: number | undefined
  readonly attemptIndex: number | undefined
  readonly names: TrajectoryIdentity.CallerIdentity
  readonly purpose: RolloutPurpose | undefined
}

// -------------------------------------------------------------------------------------------------------------------
// JSON
// -------------------------------------------------------------------------------------------------------------------

const isObject = (json: unknown): json is Readonly<Record<string, unknown>> =>
  typeof json === "object" && json !== null && !Array.isArray(json)

/** V8 gives an offset, or ten characters to each side of the place. */
const jsonOffset = (message: string, text: string): number | undefined => {
  const offset = /at position (\d+)/.exec(message)?.[1]
  if (offset !== undefined) return Number(offset)
  const around = /, \.\.\."([\s\S]*)"(?:\.\.\.)? is not valid JSON$/.exec(message)?.[1]
  const at = around === undefined ? -1 : text.indexOf(around)
  return around === undefined || at < 0 || text.includes(around, at + 1) ? undefined : at + 10
}

/** Where a JSON error is, in words that an editor understands. */
const jsonProblem = (error: unknown, text: string): string => {
  const message = error instanceof Error ? error.message : String(error)
  const offset = jsonOffset(message, text)
  if (offset === undefined) return `expected JSON: ${message.replace(/\s+/g, " ")}`
  const before = text.slice(0, offset).split("\n")
  const what = message.replace(/ (?:in JSON )?at position \d+[\s\S]*$|, \.\.\."[\s\S]*$/, "")
  return `expected JSON: ${what} at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`
}

const parseJson = (text: string, source: string): Found<unknown> =>
  Either.try({
    try: (): unknown => JSON.parse(text.replace(/^\uFEFF/, "")),
    catch: (error): Arr.NonEmptyReadonlyArray<Problem> => [{ source, path: "", message: jsonProblem(error, text) }]
  })

/** A file that is in a folder of tasks for another reason, such as `INDEX.json`; a task with a key missing is no such file. */
const isNoTask = (json: unknown): boolean =>
  !isObject(json) || !["id", "instruction", "evaluator"].some((key) => Object.hasOwn(json, key))

const describe = (json: unknown): string =>
  json === null
    ? "null"
    : Array.isArray(json)
      ? "an array"
      : typeof json === "object"
        ? "an object without id, instruction and evaluator"
        : `a ${typeof json}`

const decodeTask = (json: unknown, source: string, within = ""): Found<Task.Task> =>
  Either.mapLeft(Task.decode(json, source), ({ issues }) =>
    Arr.map(issues, ({ path, message }) => ({
      source,
      path: within === "" ? path : path === "(top level)" ? within : `${within}.${path}`,
      message
    }))
  )

/** OSWorld's `test_all.json` and its like: task ids by domain. */
const IndexFile = Schema.Record({ key: Schema.String, value: Schema.Array(Schema.NonEmptyString) })

const isIndex = (json: unknown): json is typeof IndexFile.Type =>
  Schema.is(IndexFile)(json) && Object.keys(json).length > 0

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const GymRow = Schema.Struct({
  verifier_metadata: optional(
    Schema.Struct({
      task_id: optional(Schema.String),
      domain: optional(Schema.String),
      osworld_task: Schema.optional(Schema.Unknown)
    })
  ),
  osworld_task: Schema.optional(Schema.Unknown),
  _ng_task_index: optional(Schema.NonNegativeInt),
  _ng_rollout_index: optional(Schema.NonNegativeInt),
  _ng_attempt_index: optional(Schema.NonNegativeInt),
  rollout_purpose: optional(RolloutPurpose),
  responses_create_params: optional(
    Schema.Struct({ metadata: optional(Schema.Struct({ nemo_rl_rollout_purpose: optional(RolloutPurpose) })) })
  )
})

/** What the rollout is for, which two places may say, and then the same. */
const purposeOf = (row: typeof GymRow.Type, source: string): Found<RolloutPurpose | undefined> => {
  const said = row.rollout_purpose ?? undefined
  const carried = row.responses_create_params?.metadata?.nemo_rl_rollout_purpose ?? undefined
  return said !== undefined && carried !== undefined && said !== carried
    ? wrong(
        source,
        `expected ${carried}, as responses_create_params.metadata.nemo_rl_rollout_purpose says, found ${said}`,
        "rollout_purpose"
      )
    : Either.right(said ?? carried)
}

/** One problem for each place. That a key may also be null or left out is not worth a word. */
const rowProblems = (source: string, error: ParseResult.ParseError): Arr.NonEmptyReadonlyArray<Problem> => {
  const issues = ParseResult.ArrayFormatter.formatErrorSync(error).map(
    ({ path, message }): Problem => ({
      source,
      path: path.join("."),
      message: message.replace(", actual ", ", found ")
    })
  )
  const telling = issues.filter(({ message }) => !/^Expected (?:null|undefined),/.test(message))
  const places = Arr.dedupeWith(telling, (one, other) => one.path === other.path)
  return Arr.isNonEmptyArray(places) ? places : [{ source, path: "", message: error.message }]
}

// -------------------------------------------------------------------------------------------------------------------
// Files
// -------------------------------------------------------------------------------------------------------------------

const isRows = (file: string) => /\.(?:jsonl|ndjson)$/i.test(file)

/** How a file came to be read. One that was merely met, in a folder or by a glob, may turn out to be no task. */
type Asked = "named" | "met"

interface Source {
  readonly file: string
  readonly asked: Asked
}

const make = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path

  const read = (file: string): Effect.Effect<Found<string>> =>
    Effect.match(fs.readFileString(file), {
      onSuccess: (text) => Either.right(text),
      onFailure: (error: PlatformError) =>
        wrong(
          file,
          error._tag === "SystemError" && error.reason === "NotFound"
            ? "there is no such file"
            : `could not be read: ${error.message}`
        )
    })

  const domainOf = (file: string, task: Task.Task): string => {
    const parent = path.basename(path.dirname(path.resolve(file)))
    const prefix = /^(.+?)__./.exec(path.basename(file))?.[1]
    return prefix ?? (domains.includes(parent) ? parent : undefined) ?? task.snapshot ?? "unknown"
  }

  const candidate = (file: string, json: unknown, domain?: string): Found<Candidate> =>
    Either.map(decodeTask(json, file), (task) => ({
      source: file,
      task,
      domain: domain ?? domainOf(file, task),
      taskIndex: undefined,
      rolloutIndex: undefined,
      attemptIndex: undefined,
      names: {},
      purpose: undefined
    }))

  const fromRow = (file: string, line: number, text: string): Found<Candidate> =>
    Either.gen(function* () {
      const source = `${file}:${line}`
      const json = yield* parseJson(text, source)
      const row = yield* Either.mapLeft(Schema.decodeUnknownEither(GymRow, { errors: "all" })(json), (error) =>
        rowProblems(source, error)
      )
      const inner = row.verifier_metadata?.osworld_task ?? undefined
      const [within, raw] =
        inner === undefined
          ? (["osworld_task", row.osworld_task ?? undefined] as const)
          : (["verifier_metadata.osworld_task", inner] as const)
      if (raw === undefined) {
        return yield* wrong(source, "expected the task in verifier_metadata.osworld_task or in osworld_task")
      }
      const task = yield* decodeTask(raw, source, within)
      const names = yield* Either.mapLeft(
        TrajectoryIdentity.fromRow(isObject(json) ? json : {}, row.verifier_metadata?.task_id ?? task.id),
        ({ message, path }): Arr.NonEmptyReadonlyArray<Problem> => [{ source, path, message }]
      )
      return {
        source,
        task,
        domain: row.verifier_metadata?.domain ?? domainOf(file, task),
        taskIndex: row._ng_task_index ?? undefined,
        rolloutIndex: row._ng_rollout_index ?? names.trajectory?.rollout_index,
        attemptIndex: row._ng_attempt_index ?? names.trajectory?.attempt_index,
        names,
        purpose: yield* purposeOf(row, source)
      }
    })

  const fromRows = (file: string, text: string): ReadonlyArray<Found<Candidate>> => {
    const found = text
      .split("\n")
      .flatMap((line, index) => (line.trim() === "" ? [] : [fromRow(file, index + 1, line)]))
    return found.length === 0 ? [wrong(file, "expected a row on each line; the file is empty")] : found
  }

  const fromIndex = (file: string, index: typeof IndexFile.Type) =>
    Effect.forEach(
      Object.entries(index).flatMap(([domain, ids]) => ids.map((id) => ({ domain, id }))),
      ({ domain, id }) => {
        const at = path.join(path.dirname(file), "examples", domain, `${id}.json`)
        return Effect.map(read(at), (text) =>
          text.pipe(
            Either.mapLeft(Arr.map((problem) => ({ ...problem, message: `${problem.message}; ${file} names it` }))),
            Either.flatMap((text) => parseJson(text, at)),
            Either.flatMap((json) => candidate(at, json, domain))
          )
        )
      },
      { concurrency: 16 }
    )

  const fromFile = ({ file, asked }: Source): Effect.Effect<ReadonlyArray<Found<Candidate>>> =>
    Effect.gen(function* () {
      const text = yield* read(file)
      if (Either.isLeft(text)) return [Either.left(text.left)]
      if (isRows(file)) return fromRows(file, text.right)
      const json = parseJson(text.right, file)
      if (Either.isLeft(json)) return [Either.left(json.left)]
      if (!isNoTask(json.right)) return [candidate(file, json.right)]
      if (asked === "met") {
        yield* Effect.logInfo(`${file}: passed over, it is no task but ${describe(json.right)}`)
        return []
      }
      if (isIndex(json.right)) return yield* fromIndex(file, json.right)
      return [
        wrong(
          file,
          `expected a task (an object with id, instruction and evaluator) or an OSWorld index (task ids by domain), found ${describe(json.right)}`
        )
      ]
    })

  const matches = (pattern: string, cwd?: string) =>
    Effect.map(
      Effect.promise(() => glob(pattern, cwd === undefined ? {} : { cwd, expandDirectories: false })),
      (files) =>
        files.map((file) => (cwd === undefined ? path.normalize(file) : path.join(cwd, file))).sort(Order.string)
    )

  const sources = (pattern: string): Effect.Effect<Found<ReadonlyArray<Source>>> =>
    Effect.gen(function* () {
      const met = (files: ReadonlyArray<string>) => files.map((file): Source => ({ file, asked: "met" }))
      const info = yield* Effect.option(fs.stat(pattern))
      if (info._tag === "Some" && info.value.type !== "Directory") {
        return Either.right<ReadonlyArray<Source>>([{ file: pattern, asked: "named" }])
      }
      if (info._tag === "Some") {
        const files = yield* matches("**/*.json", pattern)
        return files.length > 0
          ? Either.right(met(files))
          : wrong(pattern, "expected task files (*.json) in this folder or below it, found none")
      }
      if (!isDynamicPattern(pattern)) {
        return wrong(pattern, `there is no such file or folder (looked in ${path.resolve(".")})`)
      }
      const files = (yield* matches(pattern)).filter((file) => /\.json$/i.test(file) || isRows(file))
      return files.length > 0
        ? Either.right(met(files))
        : wrong(pattern, `expected .json or .jsonl files, found none that match (looked in ${path.resolve(".")})`)
    })

  /** What a pattern leads to. Files that an earlier pattern led to are left out. */
  const fromPattern = (pattern: string, seen: Set<string>): Effect.Effect<ReadonlyArray<Found<Candidate>>> =>
    Effect.gen(function* () {
      const found = yield* sources(pattern)
      if (Either.isLeft(found)) return [Either.left(found.left)]
      const fresh = found.right.filter(({ file }) => !seen.has(path.resolve(file)))
      for (const { file } of fresh) seen.add(path.resolve(file))
      const candidates = (yield* Effect.forEach(fresh, fromFile, { concurrency: 16 })).flat()
      return candidates.length === 0 && fresh.length > 0
        ? [wrong(pattern, `expected tasks, found none in ${fresh.length} JSON file${fresh.length === 1 ? "" : "s"}`)]
        : candidates
    })

  return { fromPattern }
})

// -------------------------------------------------------------------------------------------------------------------
// The whole
// -------------------------------------------------------------------------------------------------------------------

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

/** Rows may be for several rollouts of one task, and then each says for which. */
const taskClashes = (tasks: LoadedTasks): ReadonlyArray<Problem> =>
  clashes(
    tasks,
    ({ row }) => `${row.rolloutIndex ?? ""} ${row.taskId}`,
    (key, first) => `the task id ${key.slice(key.indexOf(" ") + 1)} is taken by ${first}`
  )

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
  const { fromPattern } = yield* make
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
