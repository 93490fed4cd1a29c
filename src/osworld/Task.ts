/**
 * OSWorld task files as typed values.
 *
 * A task file says how a desktop is prepared (`config`), what the agent is asked (`instruction`) and how the result is
 * judged (`evaluator`). Decoding turns upstream's loose conventions into sums that cannot be misread, and keeps the
 * original JSON in `raw`, because rows echo the task unchanged.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { issuesOf } from "../identity/Issues.js"
import { Checks, Evaluator, Infeasible } from "./EvaluatorSpec.js"
import { flag, list, optional } from "./internal/fields.js"
import { SetupStep } from "./SetupStep.js"

/**
 * OSWorld's ten domains, which are the names of the folders that its tasks are in.
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

const TaskJson = Schema.Struct({
  id: Schema.NonEmptyString,
  instruction: Schema.String,
  snapshot: optional(Schema.String),
  source: optional(Schema.Union(Schema.String, Schema.Array(Schema.String))),
  config: list(SetupStep),
  relatedApps: list(Schema.String).pipe(Schema.fromKey("related_apps")),
  evaluator: Evaluator,
  proxy: flag("proxy"),
  fixedIp: flag("fixed_ip"),
  possibilityOfEnvChange: optional(Schema.String).pipe(Schema.fromKey("possibility_of_env_change"))
})

/**
 * One task. `Schema.decodeUnknown(TaskFromJson)` or `decode` makes it.
 *
 * @since 0.1.0
 * @category models
 */
export class Task extends Schema.Class<Task>("deskhand/osworld/Task")({
  /** UUID-shaped; the file's name without its extension. */
  id: Schema.NonEmptyString,
  /** What the agent is asked to do. */
  instruction: Schema.String,
  snapshot: Schema.optionalWith(Schema.String, { exact: true }),
  source: Schema.optionalWith(Schema.Union(Schema.String, Schema.Array(Schema.String)), { exact: true }),
  config: Schema.Array(Schema.typeSchema(SetupStep)),
  /** Application names in upstream's free spelling. */
  relatedApps: Schema.Array(Schema.String),
  evaluator: Schema.Union(Infeasible, Checks),
  /** The task wants its traffic to leave through a proxy. */
  proxy: Schema.Boolean,
  /** The task wants a fixed public address (the Google Drive ones). */
  fixedIp: Schema.Boolean,
  /** `low`, `medium` or `high`. */
  possibilityOfEnvChange: Schema.optionalWith(Schema.String, { exact: true }),
  /** The JSON that this was decoded from, unknown keys and all. */
  raw: Schema.Unknown
}) {}

/**
 * Task JSON to `Task`; encoding gives the original JSON back.
 *
 * @since 0.1.0
 * @category schemas
 */
export const TaskFromJson = Schema.transformOrFail(Schema.Unknown, Schema.typeSchema(Task), {
  strict: true,
  decode: (raw) =>
    Either.mapBoth(ParseResult.decodeUnknownEither(TaskJson, { errors: "all" })(raw), {
      onLeft: (issue) => issue,
      onRight: (fields) => new Task({ ...fields, raw }, { disableValidation: true })
    }),
  encode: (task) => Either.right(task.raw)
})

/**
 * A task file that does not say what a task file has to say. `issues` are in the file's own terms: `path` is a JSON path
 * such as `evaluator.result[1].type`.
 *
 * @since 0.1.0
 * @category errors
 */
export class TaskDecodeError extends Schema.TaggedError<TaskDecodeError>("deskhand/TaskDecodeError")(
  "TaskDecodeError",
  {
    /** The file, or wherever else the JSON came from. */
    source: Schema.String,
    issues: Schema.NonEmptyArray(Schema.Struct({ path: Schema.String, message: Schema.String }))
  }
) {
  override get message(): string {
    return `${this.source}: ${this.issues.map(({ message, path }) => `${path}: ${message}`).join("; ")}`
  }
}

/**
 * Reads one task. `source` names the file in the error.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decode = (json: unknown, source: string): Either.Either<Task, TaskDecodeError> =>
  Either.mapLeft(
    Schema.decodeUnknownEither(TaskFromJson)(json),
    (error) => new TaskDecodeError({ source, issues: issuesOf(error) })
  )
