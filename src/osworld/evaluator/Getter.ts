/**
 * What a getter is: it brings what a metric judges, from the guest, the task or the rollout's own folder.
 *
 * @since 0.1.0
 */
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { Assets } from "../Assets.js"
import type { GetterSpec } from "../EvaluatorSpec.js"
import type { TaskContext } from "../Setup.js"
import type { Value } from "./Metric.js"

/**
 * A getter could not find out. That is no score: what was looked for and is not there is a `Value.Missing`.
 *
 * @since 0.1.0
 * @category errors
 */
export class GetterError extends Schema.TaggedError<GetterError>("deskhand/GetterError")("GetterError", {
  getter: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `the getter ${this.getter} failed: ${this.reason}`
  }
}

/**
 * Whether a value is under judgement or what it is judged by: the two may ask for the same file name.
 *
 * @since 0.1.0
 * @category models
 */
export type Role = "result" | "expected"

/**
 * @since 0.1.0
 * @category models
 */
export type Requirements = FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor | Assets

/**
 * @since 0.1.0
 * @category models
 */
export interface Input {
  readonly context: TaskContext
  readonly role: Role
}

/**
 * A getter of upstream's name.
 *
 * @since 0.1.0
 * @category models
 */
export interface Getter {
  readonly name: string
  /** Whether `get` would accept these parameters: to be asked before an episode, not after it. */
  readonly validate: (spec: GetterSpec) => Effect.Effect<void, GetterError>
  readonly get: (spec: GetterSpec, input: Input) => Effect.Effect<Value, GetterError, Requirements>
}

/**
 * A getter from the schema of its parameters (unknown keys are ignored) and what it does with them. A failure whose
 * message says what happened becomes a `GetterError`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <A, I>(
  name: string,
  parameters: Schema.Schema<A, I>,
  get: (parameters: A, input: Input) => Effect.Effect<Value, { readonly message: string }, Requirements>
): Getter => {
  const decode = (spec: GetterSpec) =>
    Effect.mapError(
      Schema.decodeUnknown(parameters)(spec.parameters),
      (error) => new GetterError({ getter: name, reason: ParseResult.TreeFormatter.formatErrorSync(error) })
    )
  return {
    name,
    validate: (spec) => Effect.asVoid(decode(spec)),
    get: (spec, input) =>
      Effect.flatMap(decode(spec), (decoded) =>
        Effect.mapError(get(decoded, input), (error) => new GetterError({ getter: name, reason: error.message }))
      )
  }
}
