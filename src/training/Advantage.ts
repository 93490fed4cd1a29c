/**
 * One advantage for each owner, from the rewards of its group or of the whole step.
 *
 * Rewards are taken to be finite and indices to be in range: `StepColumns.validate` sees to it. Where all rewards that make a
 * baseline are the same, the baseline is that reward and the spread is 0, exactly: a mean that rounding has moved would
 * otherwise be divided by next to nothing.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { type BaselineOptions, type BaselinePopulation, baselineAndSpread, type GroupedRewards } from "./Baseline.js"
import { type KlEstimator, kl } from "./Divergence.js"
import type { OwnerColumns } from "./StepColumns.js"
import { StepError } from "./StepError.js"
import type { TokenBatch } from "./TokenBatch.js"

/**
 * Below this a variance is taken for this, where advantages are whitened.
 *
 * @since 0.1.0
 * @category constants
 */
export const varianceFloor = 1e-8

/**
 * What GRPO adds to a spread before it divides by it.
 *
 * @since 0.1.0
 * @category constants
 */
export const spreadOffset = 1e-6

const voters = ({ group, reward, valid }: GroupedRewards, population: BaselinePopulation): GroupedRewards =>
  population === "valid_owners" && valid !== undefined ? { group, reward, valid } : { group, reward }

const minus = (values: Float64Array, others: Float64Array): Float64Array =>
  values.map((value, at) => value - (others[at] ?? 0))

// -----------------------------------------------------------------------------
// Estimators
// -----------------------------------------------------------------------------

/**
 * @since 0.1.0
 * @category models
 */
export interface GrpoOptions extends BaselineOptions {
  /** Divide by the spread, where there is one. */
  readonly normalize: boolean
}

/**
 * Group-relative advantage: the reward less the baseline, over the spread plus 1e-6. Where the spread is 0 the difference
 * stays as it is; with `leaveOneOut` that is so for a lone winner. Source: arXiv 2402.03300; leave-one-out: arXiv 2402.14740.
 *
 * @since 0.1.0
 * @category estimators
 */
export const grpo = (rewards: GroupedRewards, options: GrpoOptions): Float64Array => {
  const { baseline, spread } = baselineAndSpread(rewards, options)
  return rewards.reward.map((reward, owner) => {
    const difference = reward - (baseline[owner] ?? 0)
    const deviation = spread[owner] ?? 0
    return options.normalize && deviation > 0 ? difference / (deviation + spreadOffset) : difference
  })
}

/**
 * The reward less the group's mean; never divided, so that easy and hard groups weigh by how their rewards differ. Source:
 * arXiv 2503.20783.
 *
 * @since 0.1.0
 * @category estimators
 */
export const drGrpo = (rewards: GroupedRewards, population: BaselinePopulation): Float64Array =>
  minus(rewards.reward, baselineAndSpread(voters(rewards, population), { leaveOneOut: false }).baseline)

/**
 * The reward less the mean of the others of its group. Source: arXiv 2402.14740.
 *
 * @since 0.1.0
 * @category estimators
 */
export const rloo = (rewards: GroupedRewards): Float64Array =>
  minus(rewards.reward, baselineAndSpread(rewards, { leaveOneOut: true }).baseline)

/**
 * Advantages as they are when each owner's one counts as often as the owner has tokens that train.
 *
 * @since 0.1.0
 * @category models
 */
export interface Whitened {
  readonly advantage: Float64Array
  /** Token-weighted, before whitening; 0 both without tokens. */
  readonly mean: number
  readonly variance: number
}

/**
 * (a - mean) / sqrt(max(variance, 1e-8)), mean and variance over tokens (not the unbiased one). All 0 where no token trains.
 *
 * @since 0.1.0
 * @category operations
 */
export const whiten = (values: Float64Array, tokens: ArrayLike<number>): Whitened => {
  let [weighted, count, low, high] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let at = 0; at < values.length; at++) {
    const value = values[at] ?? 0
    const weight = tokens[at] ?? 0
    weighted += weight * value
    count += weight
    if (weight > 0 && value < low) low = value
    if (weight > 0 && value > high) high = value
  }
  if (count === 0) return { advantage: new Float64Array(values.length), mean: 0, variance: 0 }
  const mean = low === high ? low : weighted / count
  let squares = 0
  for (let at = 0; at < values.length; at++) {
    const difference = (values[at] ?? 0) - mean
    squares += (tokens[at] ?? 0) * difference * difference
  }
  const variance = squares / count
  const deviation = Math.sqrt(Math.max(variance, varianceFloor))
  return { advantage: values.map((value) => (value - mean) / deviation), mean, variance }
}

/**
 * REINFORCE with the group's mean as baseline, whitened over the tokens of the whole optimizer batch: give all owners of the
 * step at once, or the result is another. All owners make the baseline; an owner without tokens has no weight in the
 * whitening. `tokens` are those that train, `[owners]`, over all segments of each. Source: the whitening of arXiv 2501.03262
 * over a group baseline.
 *
 * @since 0.1.0
 * @category estimators
 */
export const reinforceBaseline = ({ group, reward }: GroupedRewards, tokens: ArrayLike<number>): Whitened =>
  whiten(drGrpo({ group, reward }, "all_owners"), tokens)

/**
 * @since 0.1.0
 * @category models
 */
export interface RewardComponent {
  readonly name: string
  /** `[owners]` */
  readonly reward: Float64Array
  /** 1 unless given. */
  readonly weight?: number
}

/**
 * Components of each owner's reward by name, as columns: those whose name begins with `reward/`, in alphabetical order. One that
 * an owner lacks is 0 for it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const componentsOf = (
  owners: ReadonlyArray<Readonly<Record<string, number>>>,
  weights: Readonly<Record<string, number>> = {}
): ReadonlyArray<RewardComponent> => {
  const names = new Set(owners.flatMap((components) => Object.keys(components)))
  return Array.from(names)
    .filter((name) => name.startsWith("reward/"))
    .sort()
    .map((name) => ({
      name,
      reward: Float64Array.from(owners, (components) => components[name] ?? 0),
      weight: weights[name] ?? 1
    }))
}

const component = (name: string, detail: string, owner?: number) =>
  new StepError({ reason: "OutOfRange", field: name, detail, ...(owner === undefined ? {} : { owner }) })

const checkComponents = (
  { reward }: GroupedRewards,
  components: ReadonlyArray<RewardComponent>
): StepError | undefined => {
  if (components.length < 2)
    return component("components", `${components.length} given: gdpo wants two at least, grpo takes one reward`)
  for (const { name, reward: part, weight = 1 } of components) {
    if (part.length !== reward.length)
      return new StepError({
        reason: "Length",
        field: name,
        detail: `${part.length} given and ${reward.length} owners: give one for each owner`
      })
    if (!Number.isFinite(weight)) return component(name, `${weight} is no weight`)
    const owner = part.findIndex((value) => !Number.isFinite(value))
    if (owner >= 0)
      return new StepError({ reason: "NotFinite", field: name, detail: `${part[owner]} is no reward`, owner })
  }
  for (const [owner, value] of reward.entries()) {
    const sum = components.reduce((total, { reward: part }) => total + (part[owner] ?? 0), 0)
    if (Math.abs(sum - value) > Math.max(1e-5 * Math.max(Math.abs(sum), Math.abs(value)), 1e-6))
      return component("components", `they add up to ${sum} and the reward is ${value}`, owner)
  }
  return undefined
}

/**
 * GRPO on each component of the reward, their weighted sum, less its mean over the step and over its standard deviation
 * (unbiased; not divided where it is 0). Refuses fewer than two components, and components that don't add up to the reward
 * (within 1e-5 of it, or 1e-6). Source: arXiv 2601.05242.
 *
 * @since 0.1.0
 * @category estimators
 */
export const gdpo = (
  rewards: GroupedRewards,
  components: ReadonlyArray<RewardComponent>,
  options: GrpoOptions
): Either.Either<Float64Array, StepError> => {
  const wrong = checkComponents(rewards, components)
  if (wrong !== undefined) return Either.left(wrong)
  const sum = new Float64Array(rewards.reward.length)
  for (const { reward, weight = 1 } of components) {
    const part = grpo({ ...rewards, reward }, options)
    for (let owner = 0; owner < sum.length; owner++) sum[owner] = (sum[owner] ?? 0) + weight * (part[owner] ?? 0)
  }
  const { baseline, spread } = baselineAndSpread(
    { group: new Int32Array(sum.length), reward: sum },
    { leaveOneOut: false }
  )
  return Either.right(
    sum.map((value, owner) => {
      const deviation = spread[owner] ?? 0
      return (value - (baseline[owner] ?? 0)) / (deviation > 0 ? deviation : 1)
    })
  )
}

/**
 * The reward as it is, or whitened over tokens.
 *
 * @since 0.1.0
 * @category estimators
 */
export const rawReward = (reward: Float64Array, tokens?: ArrayLike<number>): Float64Array =>
  tokens === undefined ? Float64Array.from(reward) : whiten(reward, tokens).advantage

/**
 * The reward less the mean of the whole step: one rollout for each prompt, no group, no whitening. Refuses an owner without
 * tokens, which a mean over each rollout's tokens can't be made of. Source: FlashREINFORCE.
 *
 * @since 0.1.0
 * @category estimators
 */
export const flashReinforce = (
  reward: Float64Array,
  tokens: ArrayLike<number>
): Either.Either<Float64Array, StepError> => {
  for (let owner = 0; owner < reward.length; owner++) {
    if (!((tokens[owner] ?? 0) > 0))
      return Either.left(
        new StepError({
          reason: "Empty",
          field: "tokens",
          detail: "no token trains: leave the rollout out, or use a group baseline",
          owner
        })
      )
  }
  return Either.right(drGrpo({ group: new Int32Array(reward.length), reward }, "all_owners"))
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ReinforcePlusPlusOptions {
  /** Take the mean of the group off first. */
  readonly subtractGroupMean: boolean
  /** A penalty in the reward of each token; none unless given. */
  readonly kl?: {
    readonly estimator: KlEstimator
    readonly coefficient: number
    /** `[places]` */
    readonly logprobs: Float64Array
    readonly reference: Float64Array
  }
}

/**
 * REINFORCE++: an advantage for each token, the reward of the row's owner less the group's mean and the token's KL penalty,
 * whitened over all tokens that train. Writes `[places]` and gives mean and variance before whitening; places that don't train
 * get a number too, and must be masked by whoever uses it. Source: arXiv 2501.03262.
 *
 * @since 0.1.0
 * @category estimators
 */
export const reinforcePlusPlus = (
  rewards: GroupedRewards,
  rowOwner: Int32Array,
  { mask, offsets, sampleMask }: Pick<TokenBatch, "mask" | "offsets" | "sampleMask">,
  { kl: penalty, subtractGroupMean }: ReinforcePlusPlusOptions,
  out: Float64Array
): { readonly mean: number; readonly variance: number } => {
  const owned = subtractGroupMean
    ? minus(rewards.reward, baselineAndSpread(rewards, { leaveOneOut: false }).baseline)
    : rewards.reward
  let [sum, count] = [0, 0]
  for (let row = 0; row < rowOwner.length; row++) {
    const value = owned[rowOwner[row] ?? -1] ?? 0
    const end = offsets[row + 1] ?? 0
    for (let place = offsets[row] ?? 0; place < end; place++) {
      const own =
        penalty === undefined || mask[place] !== 1
          ? value
          : value -
            penalty.coefficient * kl(penalty.estimator, penalty.logprobs[place] ?? 0, penalty.reference[place] ?? 0)
      out[place] = own
      if (mask[place] === 1 && sampleMask[row] === 1) {
        sum += own
        count++
      }
    }
  }
  const mean = count === 0 ? 0 : sum / count
  let squares = 0
  for (let row = 0; row < rowOwner.length; row++) {
    if (sampleMask[row] !== 1) continue
    const end = offsets[row + 1] ?? 0
    for (let place = offsets[row] ?? 0; place < end; place++) {
      if (mask[place] !== 1) continue
      const difference = (out[place] ?? 0) - mean
      squares += difference * difference
    }
  }
  const variance = count === 0 ? 0 : squares / count
  const deviation = Math.sqrt(Math.max(variance, varianceFloor))
  for (let place = 0; place < out.length; place++) out[place] = ((out[place] ?? 0) - mean) / deviation
  return { mean, variance }
}

// -----------------------------------------------------------------------------
// By name
// -----------------------------------------------------------------------------

/**
 * An estimator that gives one advantage for each owner, as an objective names it.
 *
 * @since 0.1.0
 * @category models
 */
export type AdvantageEstimator =
  | {
      readonly name: "grpo"
      readonly leaveOneOut: boolean
      readonly normalize: boolean
      readonly population: BaselinePopulation
    }
  | { readonly name: "dr_grpo"; readonly population: BaselinePopulation }
  | { readonly name: "rloo" }
  | { readonly name: "reinforce_baseline"; readonly population: "all_owners" }
  | { readonly name: "reinforce_plus_plus"; readonly subtractGroupMean: boolean }
  | { readonly name: "raw_reward"; readonly whiten: boolean }
  | { readonly name: "flash_reinforce" }

/**
 * The advantage of each owner, `[owners]`, with what the estimator's name asks for. `tokens` are those that train, `[owners]`;
 * `spreadReward` are rewards that `grpo` takes its spread from, where shaping has changed the others.
 *
 * @since 0.1.0
 * @category estimators
 */
export const ownerAdvantages = (
  estimator: AdvantageEstimator,
  owners: Pick<OwnerColumns, "group" | "ids" | "reward" | "valid">,
  tokens: Float64Array,
  spreadReward = owners.reward
): Either.Either<Float64Array, StepError> => {
  const wrong = tokens.findIndex((count) => !(count >= 0 && count < Number.POSITIVE_INFINITY))
  if (wrong >= 0)
    return Either.left(
      new StepError({
        reason: "OutOfRange",
        field: "tokens",
        detail: `${tokens[wrong]} is no number of tokens`,
        owner: owners.ids[wrong] ?? wrong
      })
    )
  switch (estimator.name) {
    case "grpo":
      return Either.right(grpo(voters(owners, estimator.population), { ...estimator, spreadReward }))
    case "dr_grpo":
      return Either.right(drGrpo(owners, estimator.population))
    case "rloo":
      return Either.right(rloo(owners))
    case "reinforce_baseline":
      return Either.right(reinforceBaseline(owners, tokens).advantage)
    case "reinforce_plus_plus":
      return Either.right(
        whiten(
          estimator.subtractGroupMean
            ? minus(owners.reward, baselineAndSpread(owners, { leaveOneOut: false }).baseline)
            : owners.reward,
          tokens
        ).advantage
      )
    case "raw_reward":
      return Either.right(rawReward(owners.reward, estimator.whiten ? tokens : undefined))
    case "flash_reinforce":
      return Either.mapLeft(
        flashReinforce(owners.reward, tokens),
        (error) =>
          new StepError({
            reason: error.reason,
            field: error.field,
            detail: error.detail,
            ...(typeof error.owner === "number" ? { owner: owners.ids[error.owner] ?? error.owner } : {})
          })
      )
  }
}
