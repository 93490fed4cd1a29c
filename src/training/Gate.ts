/**
 * Which rows, and which tokens, are too far from the policy that generated them to learn from.
 *
 * @since 0.1.0
 */
import { binaryKl, binaryTv } from "./Divergence.js"

/**
 * What is measured over the tokens of a row that are not masked:
 *
 * - `ratio`: exp of the mean of trainer - generation, each kept within ±30. Shifts of opposite sign cancel.
 * - `binary_kl`: the mean of `Divergence.binaryKl`, from 0 up.
 * - `tv`: the mean of `Divergence.binaryTv`, from 0 to 1.
 *
 * Without a token it is 0, and 1 for `ratio`.
 *
 * @since 0.1.0
 * @category models
 */
export type GateStatistic = "ratio" | "binary_kl" | "tv"

/**
 * Keeps what has a statistic from `min` to `max`, both inclusive. With level `row`, which is the default, each segment is judged
 * by itself; with `owner`, all segments of an owner together by all their tokens, so that it does not matter how an episode
 * is split. What is rejected adds nothing to the loss and stays in every count that the loss is divided by.
 *
 * @since 0.1.0
 * @category models
 */
export interface Gate {
  readonly statistic: GateStatistic
  readonly min: number
  readonly max: number
  readonly level?: "row" | "owner"
}

/**
 * The bound of mean binary KL of the FlashREINFORCE recipes, in nats.
 *
 * @since 0.1.0
 * @category constants
 */
export const flashThreshold = 0.01

/**
 * The gate of the FlashREINFORCE recipes: mean binary KL from 0 to 0.01 of each row.
 *
 * @since 0.1.0
 * @category constants
 */
export const flashGate: Gate = { statistic: "binary_kl", min: 0, max: flashThreshold }

/**
 * A difference of two log-probabilities is kept within plus and minus this, in `ratio`.
 *
 * @since 0.1.0
 * @category constants
 */
export const logRatioClamp = 30

const sumBinaryKl = (
  generation: Float64Array,
  trainer: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number => {
  let sum = 0
  for (let place = from; place < to; place++)
    if (mask[place] === 1) sum += binaryKl(generation[place] ?? 0, trainer[place] ?? 0)
  return sum
}

const sumBinaryTv = (
  generation: Float64Array,
  trainer: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number => {
  let sum = 0
  for (let place = from; place < to; place++)
    if (mask[place] === 1) sum += binaryTv(generation[place] ?? 0, trainer[place] ?? 0)
  return sum
}

const sumLogRatio = (
  generation: Float64Array,
  trainer: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number => {
  let sum = 0
  for (let place = from; place < to; place++) {
    if (mask[place] !== 1) continue
    const difference = (trainer[place] ?? 0) - (generation[place] ?? 0)
    sum += Math.min(Math.max(difference, -logRatioClamp), logRatioClamp)
  }
  return sum
}

/**
 * The sum over the places `[from, to)` that `statisticOf` makes a statistic of: sums of several rows add up to that of their
 * owner.
 *
 * @since 0.1.0
 * @category statistics
 */
export const sumOf = (
  statistic: GateStatistic,
  generation: Float64Array,
  trainer: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number =>
  statistic === "binary_kl"
    ? sumBinaryKl(generation, trainer, mask, from, to)
    : statistic === "tv"
      ? sumBinaryTv(generation, trainer, mask, from, to)
      : sumLogRatio(generation, trainer, mask, from, to)

/**
 * The statistic of a row from its sum over the row's `tokens`: the mean, and for `ratio` the exponential of the mean.
 *
 * @since 0.1.0
 * @category statistics
 */
export const statisticOf = (statistic: GateStatistic, sum: number, tokens: number): number => {
  const mean = tokens === 0 ? 0 : sum / tokens
  return statistic === "ratio" ? Math.exp(mean) : mean
}

/**
 * Whether a row with this statistic trains: both bounds belong to the interval.
 *
 * @since 0.1.0
 * @category decisions
 */
export const keeps = ({ max, min }: Pick<Gate, "max" | "min">, statistic: number): boolean =>
  statistic >= min && statistic <= max

/**
 * Mean over the places `[from, to)` that are not masked of exp(|generation - previous|): how far, as a factor, trainer and engine
 * differ. `undefined` for a row without a token, which stays masked and out of all statistics.
 *
 * @since 0.1.0
 * @category statistics
 */
export const sequenceError = (
  generation: Float64Array,
  previous: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number | undefined => {
  let [sum, tokens] = [0, 0]
  for (let place = from; place < to; place++) {
    if (mask[place] !== 1) continue
    sum += Math.exp(Math.abs((generation[place] ?? 0) - (previous[place] ?? 0)))
    tokens++
  }
  return tokens === 0 ? undefined : sum / tokens
}

/**
 * Drops single tokens by their own divergence.
 *
 * - `asymmetric` drops a token that is too far away and would be pushed further: its advantage is above 0 and its probability has
 *   grown, or below 0 and it has shrunk (arXiv 2602.04879, equations 11 and 12).
 * - `symmetric` drops each token that is too far away.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenMask {
  readonly divergence: "tv" | "kl"
  /** A token goes if its divergence is above this. */
  readonly threshold: number
  readonly side: "asymmetric" | "symmetric"
}

/**
 * Whether the token may train. `trainer` is the policy that is moved, `generation` the one that sampled.
 *
 * @since 0.1.0
 * @category decisions
 */
export const keepsToken = (
  { divergence, side, threshold }: TokenMask,
  generation: number,
  trainer: number,
  advantage: number
): boolean => {
  if (side === "asymmetric" && !(advantage > 0 ? trainer > generation : advantage < 0 && trainer < generation))
    return true
  const distance = divergence === "tv" ? binaryTv(generation, trainer) : binaryKl(generation, trainer)
  return !(distance > threshold)
}
