/** What a JSON text is to the loading of tasks: a task, an index, a row, or none of them, and what is wrong with it. */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { RolloutPurpose } from "../../rollout/TaskRow.js"
import * as Task from "../Task.js"
import type { TaskSourceError } from "../TaskSource.js"

export type Problem = TaskSourceError["problems"][number]

/** What one file, line or pattern came to. */
export type Found<A> = Either.Either<A, Arr.NonEmptyReadonlyArray<Problem>>

export const wrong = (
  source: string,
  message: string,
  path = ""
): Either.Either<never, Arr.NonEmptyReadonlyArray<Problem>> => Either.left([{ source, path, message }])

export const isObject = (json: unknown): json is Readonly<Record<string, unknown>> =>
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

export const parseJson = (text: string, source: string): Found<unknown> =>
  Either.try({
    try: (): unknown => JSON.parse(text.replace(/^\uFEFF/, "")),
    catch: (error): Arr.NonEmptyReadonlyArray<Problem> => [{ source, path: "", message: jsonProblem(error, text) }]
  })

/** A file that is in a folder of tasks for another reason, such as `INDEX.json`; a task with a key missing is no such file. */
export const isNoTask = (json: unknown): boolean =>
  !isObject(json) || !["id", "instruction", "evaluator"].some((key) => Object.hasOwn(json, key))

export const describe = (json: unknown): string =>
  json === null
    ? "null"
    : Array.isArray(json)
      ? "an array"
      : typeof json === "object"
        ? "an object without id, instruction and evaluator"
        : `a ${typeof json}`

export const decodeTask = (json: unknown, source: string, within = ""): Found<Task.Task> =>
  Either.mapLeft(Task.decode(json, source), ({ issues }) =>
    Arr.map(issues, ({ path, message }) => ({
      source,
      path: within === "" ? path : path === "(top level)" ? within : `${within}.${path}`,
      message
    }))
  )

/** OSWorld's `test_all.json` and its like: task ids by domain. */
export const IndexFile = Schema.Record({ key: Schema.String, value: Schema.Array(Schema.NonEmptyString) })

export const isIndex = (json: unknown): json is typeof IndexFile.Type =>
  Schema.is(IndexFile)(json) && Object.keys(json).length > 0

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

export const GymRow = Schema.Struct({
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
export const purposeOf = (row: typeof GymRow.Type, source: string): Found<RolloutPurpose | undefined> => {
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
export const rowProblems = (source: string, error: ParseResult.ParseError): Arr.NonEmptyReadonlyArray<Problem> => {
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
