/**
 * Dynamic sampling: groups whose owners all got the same reward teach nothing, so others are generated in their place
 * (DAPO, arXiv 2503.14476).
 *
 * Not for steps of owners with segments: there a group that was dispatched is a group that counts.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { StepError } from "./StepError.js"

/**
 * One generated group.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampledGroup {
  readonly groupId: string
  /** Standard deviation of its raw rewards, before any shaping. */
  readonly std: number
}

/**
 * What was generated for one step so far.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampled<G extends SampledGroup> {
  /** Groups to train on, at most as many as a step takes. */
  readonly kept: ReadonlyArray<G>
  /** Groups that came after the step was full. */
  readonly surplus: ReadonlyArray<G>
  /** Groups whose rewards are all the same. */
  readonly filtered: ReadonlyArray<G>
  /** How often groups were generated. */
  readonly batches: number
}

/**
 * How a step is filled.
 *
 * @since 0.1.0
 * @category models
 */
export interface SamplingLimits {
  /** Groups of a step. */
  readonly groups: number
  /** How often groups are generated before the step is given up. */
  readonly maxBatches: number
}

/**
 * The field's ten batches.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultMaxBatches = 10

/**
 * Before any batch was looked at.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: Sampled<never> = { kept: [], surplus: [], filtered: [], batches: 0 }

/**
 * The standard deviation of a group's rewards, over all of them: exactly 0 where they are the same. A deviation that
 * leaves each owner out of its own would be 0 for the one owner that succeeded.
 *
 * @since 0.1.0
 * @category statistics
 */
export const groupStd = (rewards: ReadonlyArray<number>, groupId: string): Either.Either<number, StepError> => {
  const [first] = rewards
  if (first === undefined) {
    return Either.left(new StepError({ reason: "Empty", field: "rewards", detail: "there is none", group: groupId }))
  }
  const bad = rewards.findIndex((reward) => !Number.isFinite(reward))
  if (bad >= 0) {
    const detail = `found ${rewards[bad]}`
    return Either.left(new StepError({ reason: "NotFinite", field: "rewards", detail, owner: bad, group: groupId }))
  }
  // Rounding would give equal rewards a deviation that is not quite 0.
  if (rewards.every((reward) => reward === first)) return Either.right(0)
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  const squares = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0)
  return Either.right(Math.sqrt(squares / rewards.length))
}

/**
 * Takes in what one batch generated. Fails for a deviation that is no number, and when the last batch that is allowed
 * leaves the step short.
 *
 * @since 0.1.0
 * @category operations
 */
export const add = <G extends SampledGroup>(
  sampled: Sampled<G>,
  groups: ReadonlyArray<G>,
  { groups: wanted, maxBatches }: SamplingLimits
): Either.Either<Sampled<G>, StepError> => {
  const kept = [...sampled.kept]
  const surplus = [...sampled.surplus]
  const filtered = [...sampled.filtered]
  for (const group of groups) {
    if (!Number.isFinite(group.std) || group.std < 0) {
      const detail = `found ${group.std}`
      return Either.left(new StepError({ reason: "NotFinite", field: "std", detail, group: group.groupId }))
    }
    if (group.std === 0) filtered.push(group)
    else if (kept.length < wanted) kept.push(group)
    else surplus.push(group)
  }
  const batches = sampled.batches + 1
  if (kept.length < wanted && batches >= maxBatches) {
    const detail = `${kept.length} of ${wanted} groups differ in their rewards after ${batches} batches; ${filtered.length} don't`
    return Either.left(new StepError({ reason: "Empty", field: "groups", detail }))
  }
  return Either.right({ kept, surplus, filtered, batches })
}

/**
 * Whether a step has all its groups.
 *
 * @since 0.1.0
 * @category queries
 */
export const isFull = <G extends SampledGroup>({ kept }: Sampled<G>, { groups }: SamplingLimits): boolean =>
  kept.length >= groups
