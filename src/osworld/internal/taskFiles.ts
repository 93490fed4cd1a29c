/** From a pattern to the files that it leads to, and from these to tasks. */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import * as Schema from "effect/Schema"
import { glob, isDynamicPattern } from "tinyglobby"
import * as TrajectoryIdentity from "../../identity/TrajectoryIdentity.js"
import type { RolloutPurpose } from "../../rollout/TaskRow.js"
import * as Task from "../Task.js"
import {
  decodeTask,
  describe,
  type Found,
  GymRow,
  type IndexFile,
  isIndex,
  isNoTask,
  isObject,
  type Problem,
  parseJson,
  purposeOf,
  rowProblems,
  wrong
} from "./taskJson.js"

/** A task that has no place in the whole order yet. */
export interface Candidate {
  readonly source: string
  readonly task: Task.Task
  readonly domain: string
  readonly taskIndex: number | undefined
  readonly rolloutIndex: number | undefined
  readonly attemptIndex: number | undefined
  readonly names: TrajectoryIdentity.CallerIdentity
  readonly purpose: RolloutPurpose | undefined
}

/** Where a row has its task: data sets of frozen tasks have it where others have what is said of it. */
const taskIn = (row: typeof GymRow.Type, json: unknown): readonly [at: string, task: unknown] => {
  const within = row.verifier_metadata?.osworld_task ?? undefined
  if (within !== undefined) return ["verifier_metadata.osworld_task", within]
  const own = row.osworld_task ?? undefined
  if (own !== undefined) return ["osworld_task", own]
  const metadata = isObject(json) ? json["verifier_metadata"] : undefined
  return ["verifier_metadata", isNoTask(metadata) ? undefined : metadata]
}

const isRows = (file: string) => /\.(?:jsonl|ndjson)$/i.test(file)

/** How a file came to be read. One that was merely met, in a folder or by a glob, may turn out to be no task. */
type Asked = "named" | "met"

interface Source {
  readonly file: string
  readonly asked: Asked
}

/** Finds the tasks of one pattern after another. */
export const make = Effect.gen(function* () {
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
    return prefix ?? (Task.domains.includes(parent) ? parent : undefined) ?? task.snapshot ?? "unknown"
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
      const [within, raw] = taskIn(row, json)
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
