/**
 * What a metric is: a getter's value in, a score in [0, 1] out.
 *
 * Two things must never be confused. A result that is missing or unreadable because the agent left it so scores 0. A
 * judgement that cannot be made (gold file unreadable, bad options, a value of the wrong kind, a rule that we don't
 * support) is an `EvaluationError`, which masks the rollout and never becomes a score.
 *
 * @since 0.1.0
 */
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"

/**
 * A file on this machine's disk. `name` is what the task calls it (`dest`); metrics look at its extension only.
 *
 * @since 0.1.0
 * @category models
 */
export interface FileRef {
  readonly path: string
  readonly name: string
}

/**
 * What a getter produced.
 *
 * - `Missing`: the thing was looked for, properly, and is not there. As a result it scores 0, so a getter that failed for
 *   any other reason (guest down, time-out) fails and does not answer `Missing`.
 * - `File`, `Files`: they exist. A file that is gone when a metric reads it is our fault and an `EvaluationError`.
 *
 * @since 0.1.0
 * @category models
 */
export type Value = Data.TaggedEnum<{
  Missing: { readonly reason: string }
  Text: { readonly text: string }
  Json: { readonly json: unknown }
  File: FileRef
  Files: { readonly files: ReadonlyArray<FileRef> }
}>

/**
 * Constructors and matchers of `Value`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Value = Data.taggedEnum<Value>()

/**
 * The evaluation cannot be decided. It is not a score.
 *
 * @since 0.1.0
 * @category errors
 */
export class EvaluationError extends Schema.TaggedError<EvaluationError>("deskhand/EvaluationError")(
  "EvaluationError",
  {
    /** The metric's name as the task gives it. */
    metric: Schema.String,
    reason: Schema.String,
    cause: Schema.optionalWith(Schema.Defect, { exact: true })
  }
) {
  override get message(): string {
    return `${this.metric} cannot decide: ${this.reason}`
  }
}

/**
 * What metrics use of this machine: files, and programs such as ffmpeg that read what no library of ours reads.
 *
 * @since 0.1.0
 * @category models
 */
export type Requirements = FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor

/**
 * Runs Python in the desktop, beside some files: the only place where an agent's own code runs.
 *
 * @since 0.1.0
 * @category models
 */
export type RunPython = (program: {
  /** Laid into the program's own folder, by name. */
  readonly files: ReadonlyArray<FileRef>
  readonly code: string
}) => Effect.Effect<
  { readonly exitCode: number; readonly stdout: string; readonly stderr: string },
  { readonly message: string }
>

/**
 * How a metric judges, whatever it judges.
 *
 * @since 0.1.0
 * @category models
 */
export interface MetricContext {
  /** Scores as upstream scores, its known defects included. */
  readonly compat: boolean
  /** Undefined where there is no desktop, as in an evaluation of files alone. */
  readonly runPython: RunPython | undefined
}

/**
 * What a metric judges. `expected` is undefined when the task gives none.
 *
 * @since 0.1.0
 * @category models
 */
export interface MetricInput {
  readonly result: Value
  readonly expected: Value | undefined
  readonly options: Record<string, unknown>
  /**
   * Whether `expected` was read from the desktop, where an agent can spoil it: that it is missing or no such file is then
   * a 0, as it is of a result. Of a task's own gold it is an error.
   */
  readonly expectedOnDesktop?: boolean
  /** Without one: our own scores, and no desktop. */
  readonly context?: MetricContext
}

/**
 * A metric of upstream's name. The score is in [0, 1].
 *
 * @since 0.1.0
 * @category models
 */
export interface Metric {
  readonly name: string
  /** Whether `evaluate` would accept these options: to be asked before an episode, not after it. */
  readonly validate: (options: Record<string, unknown>) => Either.Either<void, EvaluationError>
  readonly evaluate: (input: MetricInput) => Effect.Effect<number, EvaluationError, Requirements>
}

/**
 * Why a `Reader` could not give a metric what it needs.
 *
 * - `Missing`: the value is absent. For a result: 0.
 * - `Unparsable`: the content is not what it should be. For a result: 0.
 * - `Undecidable`: wrong kind of value, an I/O error, beyond a size limit. Never a score.
 *
 * @since 0.1.0
 * @category errors
 */
export class Unusable extends Data.TaggedError("Unusable")<{
  readonly kind: "Missing" | "Unparsable" | "Undecidable"
  readonly reason: string
  readonly cause?: unknown
}> {}

/**
 * Turns a value into what a metric's pure part works on. `evaluator/Reader` has the common ones.
 *
 * @since 0.1.0
 * @category models
 */
export type Reader<A> = (value: Value | undefined) => Effect.Effect<A, Unusable, Requirements>

/**
 * What a pure score function answers: a score, or the reason why there is none.
 *
 * @since 0.1.0
 * @category models
 */
export type Score = Either.Either<number, string>

/**
 * 1 or 0.
 *
 * @since 0.1.0
 * @category constructors
 */
export const verdict = (passed: boolean): Score => Either.right(passed ? 1 : 0)

/**
 * A parse error in one line: the places and what is wrong there.
 *
 * @since 0.1.0
 * @category errors
 */
export const showParseError = (error: ParseResult.ParseError): string =>
  Array.from(
    new Set(
      ParseResult.ArrayFormatter.formatErrorSync(error).map(({ message, path }) =>
        path.length === 0 ? message : `${path.join(".")}: ${message}`
      )
    )
  ).join("; ")

interface Definition<Result, Expected, Options, OptionsJson> {
  readonly name: string
  readonly result: Reader<Result>
  readonly expected: Reader<Expected>
  readonly options: Schema.Schema<Options, OptionsJson>
}

const alone: MetricContext = { compat: false, runPython: undefined }

/**
 * `make` for the few metrics whose judgement is itself an effect: one that runs a program. A failure is the reason why
 * there is no score.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeEffect = <Result, Expected, Options, OptionsJson>(
  definition: Definition<Result, Expected, Options, OptionsJson> & {
    readonly score: (
      result: NoInfer<Result>,
      expected: NoInfer<Expected>,
      options: NoInfer<Options>,
      context: MetricContext
    ) => Effect.Effect<number, string, Requirements>
  }
): Metric => {
  const { name } = definition
  const undecided = (reason: string, cause?: unknown) =>
    new EvaluationError({ metric: name, reason, ...(cause === undefined ? {} : { cause }) })
  const decodeOptions = (options: Record<string, unknown>) =>
    Either.mapLeft(Schema.decodeUnknownEither(definition.options)(options), (error) =>
      undecided(`bad options: ${showParseError(error)}`)
    )

  const evaluate = Effect.fnUntraced(function* (input: MetricInput) {
    const options = yield* decodeOptions(input.options)
    const gold = yield* Effect.either(definition.expected(input.expected))
    if (Either.isLeft(gold)) {
      const { cause, kind, reason } = gold.left
      const spoilt = input.expectedOnDesktop === true && kind !== "Undecidable"
      return spoilt ? 0 : yield* undecided(`expected value: ${reason}`, cause)
    }
    const result = yield* Effect.either(definition.result(input.result))
    if (Either.isLeft(result)) {
      const { cause, kind, reason } = result.left
      return kind === "Undecidable" ? yield* undecided(`result: ${reason}`, cause) : 0
    }
    const score = yield* Effect.mapError(
      definition.score(result.right, gold.right, options, input.context ?? alone),
      (reason) => undecided(reason)
    )
    return score >= 0 && score <= 1 ? score : yield* undecided(`the score ${score} is outside [0, 1]`)
  })

  return { name, validate: (options) => Either.map(decodeOptions(options), () => undefined), evaluate }
}

/**
 * A metric from two readers, an options schema (unknown keys are ignored) and a pure function.
 *
 * Gold and options are read before the result, so that a task that nobody can judge is an error whatever the agent did.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <Result, Expected, Options, OptionsJson>(
  definition: Definition<Result, Expected, Options, OptionsJson> & {
    readonly score: (
      result: NoInfer<Result>,
      expected: NoInfer<Expected>,
      options: NoInfer<Options>,
      context: MetricContext
    ) => Score
  }
): Metric => makeEffect(definition)
