/**
 * What holds the weights: it says how likely it finds tokens, takes optimizer steps, and hands weights to the engines.
 *
 * Everything that looks over a whole step (advantages, gates, importance weights, denominators) is worked out before and
 * comes as numbers, so a trainer needs to know a forward pass, a backward pass and one formula.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { PolicyLoss } from "./Loss.js"

/**
 * Tokens of which the log-probabilities are asked for.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScoreRow {
  readonly id: string
  /** `[n]`: prompt and replies end to end. */
  readonly tokenIds: Int32Array
}

/**
 * One row of a step. Arrays are in the view of predicted tokens: place `t` is about token `t + 1`.
 *
 * @since 0.1.0
 * @category models
 */
export interface UpdateRow extends ScoreRow {
  /** `[n - 1]`: what the token's loss is multiplied by; 0 where it does not train. It does not depend on the weights. */
  readonly weight: Float64Array
  /** `[n - 1]`: log-probabilities by the weights that the step starts from. */
  readonly previous: Float64Array
  /** Of every token of the row. */
  readonly advantage: number
}

/**
 * A loss that looks at one token at a time.
 *
 * @since 0.1.0
 * @category models
 */
export type TokenLoss = Exclude<PolicyLoss, { readonly name: "gspo" }>

/**
 * One optimizer step: it minimises the sum over rows and places of `weight * loss(current, previous, advantage)`, where
 * `current` is the token's log-probability by the weights that are being trained.
 *
 * @since 0.1.0
 * @category models
 */
export interface UpdateBatch {
  /** Unique among a run's steps. A trainer that has taken the step already answers as it did then and takes it no second time. */
  readonly id: string
  /** The weight version that the step starts from. */
  readonly version: number
  readonly rows: ReadonlyArray<UpdateRow>
  readonly loss: TokenLoss
}

/**
 * What a step came to.
 *
 * @since 0.1.0
 * @category models
 */
export class UpdateReport extends Schema.Class<UpdateReport>("deskhand/training/UpdateReport")({
  /** One more than before, whatever the step changed: a step of zero gradient counts. */
  version: Schema.NonNegativeInt,
  loss: Schema.Finite,
  /** Euclidean, of the whole gradient, before any clipping. */
  gradientNorm: Schema.Finite.pipe(Schema.nonNegative())
}) {}

/**
 * - `unavailable`: it cannot be reached, did not answer in time, or said that it cannot now; trying again may help
 * - `unauthorised`: it wants another token
 * - `conflict`: it is at another weight version than the step starts from
 * - `refused`: it does not take what it was given
 * - `reply`: its answer is none that it may give
 *
 * @since 0.1.0
 * @category models
 */
export const TrainerErrorReason = Schema.Literal("unavailable", "unauthorised", "conflict", "refused", "reply")

/**
 * The trainer did not do what it was asked. After `unavailable` and `reply` nobody can say whether a step was taken; ask for
 * it again with the same id.
 *
 * @since 0.1.0
 * @category errors
 */
export class TrainerError extends Schema.TaggedError<TrainerError>("deskhand/TrainerError")("TrainerError", {
  reason: TrainerErrorReason,
  operation: Schema.Literal("version", "score", "update", "publish"),
  /** Where it was asked, or the name of one that is in this process. */
  trainer: Schema.String,
  detail: Schema.String,
  /** Tries that were made. */
  attempts: Schema.Int
}) {
  override get message() {
    const tries = this.attempts > 1 ? ` after ${this.attempts} tries` : ""
    return `the trainer ${this.trainer} failed${tries} (${this.operation}, ${this.reason}): ${this.detail}`
  }
}

/**
 * Whoever holds the weights, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class Trainer extends Context.Tag("deskhand/training/Trainer")<
  Trainer,
  {
    /** The weight version that it is at: how many steps it has taken. */
    readonly version: Effect.Effect<number, TrainerError>
    /** For each row, in order, the log-probability of each token but the first: `[n - 1]`, all at most 0. */
    readonly score: (rows: ReadonlyArray<ScoreRow>) => Effect.Effect<ReadonlyArray<Float64Array>, TrainerError>
    readonly update: (batch: UpdateBatch) => Effect.Effect<UpdateReport, TrainerError>
    /** Hands the weights of that version to the engines. All of them have it when it returns. */
    readonly publish: (version: number) => Effect.Effect<void, TrainerError>
  }
>() {}
