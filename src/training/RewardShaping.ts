/**
 * Changes to an owner's reward before advantages are made of it.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { StepError } from "./StepError.js"

/**
 * The soft penalty for replies that come near the limit.
 *
 * @since 0.1.0
 * @category models
 */
export interface Overlong {
  /** In tokens, as the two below. */
  readonly maxResponseLength: number
  /** The penalty begins this far from the limit. */
  readonly bufferLength: number
  /** What is taken off at the limit; beyond it the line goes on without a floor. */
  readonly penalty: number
}

/**
 * A linear map from one interval to another. Rewards outside the first are moved to its ends.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scaling {
  readonly source: readonly [low: number, high: number]
  readonly target: readonly [low: number, high: number]
}

/**
 * In the order in which they are applied.
 *
 * @since 0.1.0
 * @category models
 */
export interface RewardShaping {
  readonly scaling?: Scaling
  readonly overlong?: Overlong
  /** What the reward of a truncated episode is multiplied with. */
  readonly stopProperly?: number
  readonly clip?: readonly [low: number, high: number]
}

/**
 * `r + min(-(length - (max - buffer)) / buffer * penalty, 0)`. Source: arXiv 2503.14476, equation 13.
 *
 * @since 0.1.0
 * @category operations
 */
export const overlong = (reward: number, length: number, options: Overlong): number => {
  const excess = length - (options.maxResponseLength - options.bufferLength)
  return excess <= 0 ? reward : reward - (excess / options.bufferLength) * options.penalty
}

/**
 * Multiplies the reward of an episode that did not stop by itself.
 *
 * @since 0.1.0
 * @category operations
 */
export const stopProperly = (reward: number, truncated: boolean, coefficient: number): number =>
  truncated ? reward * coefficient : reward

/**
 * The reward, held within the two bounds.
 *
 * @since 0.1.0
 * @category operations
 */
export const clip = (reward: number, [low, high]: readonly [number, number]): number =>
  Math.min(Math.max(reward, low), high)

/**
 * The reward from its source interval, in which it is held, to the target interval; linear.
 *
 * @since 0.1.0
 * @category operations
 */
export const scale = (reward: number, { source, target }: Scaling): number => {
  const [from, to] = target
  return from + ((clip(reward, source) - source[0]) / (source[1] - source[0])) * (to - from)
}

/**
 * What shaping wants to know of each owner, besides its reward.
 *
 * @since 0.1.0
 * @category models
 */
export interface ShapingFacts {
  /** `[owners]`: tokens of the reply. */
  readonly length?: ArrayLike<number>
  /** `[owners]`: 1 where the episode was cut off. */
  readonly truncated?: ArrayLike<number>
}

const mismatch = (field: string, found: number | undefined, owners: number): StepError =>
  new StepError({
    reason: "Length",
    field,
    detail: `${found ?? "none"} given and ${owners} owners: give one for each owner`
  })

/**
 * Shapes `[owners]` rewards into a new array; what was given stays as it is. Refuses facts that are missing or too few.
 *
 * @since 0.1.0
 * @category operations
 */
export const shape = (
  shaping: RewardShaping,
  rewards: ArrayLike<number>,
  { length, truncated }: ShapingFacts = {}
): Either.Either<Float64Array, StepError> => {
  const owners = rewards.length
  if (shaping.overlong !== undefined && length?.length !== owners)
    return Either.left(mismatch("length", length?.length, owners))
  if (shaping.stopProperly !== undefined && truncated?.length !== owners)
    return Either.left(mismatch("truncated", truncated?.length, owners))
  const shaped = Float64Array.from(rewards)
  for (let owner = 0; owner < owners; owner++) {
    let reward = shaped[owner] ?? 0
    // A comparison with NaN is false, so that clamping would make a number of some and hide it.
    if (!Number.isFinite(reward))
      return Either.left(
        new StepError({ reason: "NotFinite", field: "rewards", detail: `${reward} is no reward`, owner })
      )
    if (shaping.scaling !== undefined) reward = scale(reward, shaping.scaling)
    if (shaping.overlong !== undefined) reward = overlong(reward, length?.[owner] ?? 0, shaping.overlong)
    if (shaping.stopProperly !== undefined)
      reward = stopProperly(reward, truncated?.[owner] === 1, shaping.stopProperly)
    if (shaping.clip !== undefined) reward = clip(reward, shaping.clip)
    shaped[owner] = reward
  }
  return Either.right(shaped)
}
