/**
 * What the evaluator said: the only source of reward.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * What an evaluator says of a desktop: a score in [0, 1], and how it came about.
 *
 * @since 0.1.0
 * @category models
 */
export class Evaluation extends Schema.Class<Evaluation>("deskhand/rollout/Evaluation")({
  /** In [0, 1], and often a fraction. */
  score: Schema.Finite.pipe(Schema.between(0, 1)),
  /** What the score was made from, for a reader: a line for each check. */
  details: Schema.Array(Schema.String)
}) {}

/**
 * Two readings of one score: `raw` is the score, `binary` is 1 for a full score and 0 for anything less.
 *
 * @since 0.1.0
 * @category models
 */
export const RewardMode = Schema.Literal("binary", "raw")

/**
 * @since 0.1.0
 * @category models
 */
export type RewardMode = typeof RewardMode.Type

/**
 * The reward in [0, 1] that a score is worth: itself, or 1 where it is full and else 0.
 *
 * @since 0.1.0
 * @category combinators
 */
export const reward = (evaluation: Evaluation, mode: RewardMode): number =>
  mode === "raw" ? evaluation.score : evaluation.score >= 1 ? 1 : 0
