/** The loss and the gradient of one row, place by place. Nothing here allocates. */
import { type KlEstimator, klPenalty, klPenaltyGradient } from "../Divergence.js"
import { keepsToken, type TokenMask } from "../Gate.js"
import { importanceWeight, isOutOfBounds, sequenceWeight, type Truncation, truncate } from "../ImportanceSampling.js"
import { boundRatio, cispoGradient, clippedGradient, clippedLoss, type PolicyLoss, sequenceRatio } from "../Loss.js"
import type { TokenBatch } from "../TokenBatch.js"

/** Where in a tally is what. */
export const tally = { clipped: 0, outOfBounds: 1, weights: 2, dropped: 3, kl: 4, size: 5 } as const

export type Tally = Float64Array

const add = (counts: Tally, at: number, amount: number): void => {
  counts[at] = (counts[at] ?? 0) + amount
}

/** One row of a batch, and what its tokens are multiplied with. A field is written anew for each row. */
export interface RowCursor {
  from: number
  to: number
  /** Tokens that are not masked. */
  tokens: number
  /** Of all tokens, where there is no array of them. */
  advantage: number
  /** What the row's sum is multiplied with in the loss of the step. */
  scale: number
}

const rawWeights = (
  { generation, mask }: TokenBatch,
  trainer: Float64Array,
  { from, to }: RowCursor,
  weight: Float64Array,
  counts: Tally
): void => {
  let sum = 0
  for (let place = from; place < to; place++) {
    let own = 0
    if (mask[place] === 1) {
      own = importanceWeight(trainer[place] ?? 0, generation[place] ?? 0)
      sum += own
    }
    weight[place - from] = own
  }
  add(counts, tally.weights, sum)
}

/** What `truncate` does, by numbers: looking at the name for each token costs a third of the loop. */
const boundedWeights = (
  { generation, mask }: TokenBatch,
  trainer: Float64Array,
  bounds: { readonly low: number; readonly high: number; readonly belowLow: number; readonly aboveHigh: number },
  { from, to }: RowCursor,
  weight: Float64Array,
  counts: Tally
): void => {
  const { aboveHigh, belowLow, high, low } = bounds
  let [sum, outside] = [0, 0]
  for (let place = from; place < to; place++) {
    let own = 0
    if (mask[place] === 1) {
      own = importanceWeight(trainer[place] ?? 0, generation[place] ?? 0)
      sum += own
      if (own < low) {
        outside++
        own = belowLow
      } else if (own > high) {
        outside++
        own = aboveHigh
      }
    }
    weight[place - from] = own
  }
  add(counts, tally.weights, sum)
  add(counts, tally.outOfBounds, outside)
}

const sequenceWeights = (
  { generation, mask }: TokenBatch,
  trainer: Float64Array,
  truncation: Truncation,
  { from, to, tokens }: RowCursor,
  weight: Float64Array,
  counts: Tally
): void => {
  const raw = sequenceWeight(trainer, generation, mask, from, to)
  const kept = truncate(raw, truncation)
  for (let place = from; place < to; place++) weight[place - from] = mask[place] === 1 ? kept : 0
  if (isOutOfBounds(raw, truncation)) add(counts, tally.outOfBounds, tokens)
  add(counts, tally.weights, raw * tokens)
}

/** Weights that are held still, into `weight` from 0. A masked place gets 0. */
export const fillWeights = (
  batch: TokenBatch,
  trainer: Float64Array,
  importance: { readonly truncation: Truncation; readonly level: "token" | "sequence" } | undefined,
  cursor: RowCursor,
  weight: Float64Array,
  counts: Tally
): void => {
  if (importance === undefined) {
    for (let place = cursor.from; place < cursor.to; place++) weight[place - cursor.from] = batch.mask[place] ?? 0
    add(counts, tally.weights, cursor.tokens)
    return
  }
  const { level, truncation } = importance
  if (level === "sequence") sequenceWeights(batch, trainer, truncation, cursor, weight, counts)
  else if (truncation.name === "none" || truncation.name === "seq-mask-tis")
    rawWeights(batch, trainer, cursor, weight, counts)
  else {
    const { max: high, min: low = 0, name } = truncation
    const [belowLow, aboveHigh] = name === "tis" ? [low, high] : [0, 0]
    boundedWeights(batch, trainer, { low, high, belowLow, aboveHigh }, cursor, weight, counts)
  }
}

/** Sets the weight of tokens to 0 that are too far away. */
export const dropTokens = (
  { current, generation, mask }: TokenBatch,
  rule: TokenMask,
  { advantage, from, to }: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  counts: Tally
): void => {
  let dropped = 0
  for (let place = from; place < to; place++) {
    if (mask[place] !== 1) continue
    const own = advantages === undefined ? advantage : (advantages[place] ?? 0)
    if (keepsToken(rule, generation[place] ?? 0, current[place] ?? 0, own)) continue
    weight[place - from] = 0
    dropped++
  }
  add(counts, tally.dropped, dropped)
}

const onPolicy = (
  { advantage, from, scale, to }: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  gradient: Float64Array
): number => {
  let sum = 0
  if (advantages === undefined) {
    const factor = -advantage
    const scaled = factor * scale
    for (let place = from; place < to; place++) {
      const own = weight[place - from] ?? 0
      sum += factor * own
      // Not a product: 0 times a negative advantage is -0.
      gradient[place] = own === 0 ? 0 : scaled * own
    }
    return sum
  }
  for (let place = from; place < to; place++) {
    const own = weight[place - from] ?? 0
    const value = own === 0 ? 0 : -(advantages[place] ?? 0) * own
    sum += value
    gradient[place] = value * scale
  }
  return sum
}

const reinforce = (
  { current }: TokenBatch,
  { advantage, from, scale, to }: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  gradient: Float64Array
): number => {
  let sum = 0
  for (let place = from; place < to; place++) {
    const own = weight[place - from] ?? 0
    if (own === 0) {
      gradient[place] = 0
      continue
    }
    const derivative = -(advantages === undefined ? advantage : (advantages[place] ?? 0)) * own
    sum += derivative * (current[place] ?? 0)
    gradient[place] = derivative * scale
  }
  return sum
}

const clipped = (
  { current, previous }: TokenBatch,
  clipLow: number,
  clipHigh: number,
  dualClip: number,
  { advantage, from, scale, to }: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  gradient: Float64Array,
  counts: Tally
): number => {
  let [sum, held] = [0, 0]
  for (let place = from; place < to; place++) {
    const own = weight[place - from] ?? 0
    const ours = advantages === undefined ? advantage : (advantages[place] ?? 0)
    // Not 0 times a ratio, which may be infinite.
    if (own === 0 || ours === 0) {
      gradient[place] = 0
      continue
    }
    const ratio = Math.exp((current[place] ?? 0) - (previous[place] ?? 0))
    const bound = boundRatio(ratio, ours, clipLow, clipHigh, dualClip)
    const value = -ours * bound * own
    sum += value
    if (bound === ratio) gradient[place] = value * scale
    else {
      held++
      gradient[place] = 0
    }
  }
  add(counts, tally.clipped, held)
  return sum
}

const cispo = (
  { current, previous }: TokenBatch,
  clipLow: number,
  clipHigh: number,
  { advantage, from, scale, to }: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  gradient: Float64Array,
  counts: Tally
): number => {
  let [sum, held] = [0, 0]
  for (let place = from; place < to; place++) {
    const own = weight[place - from] ?? 0
    const ours = advantages === undefined ? advantage : (advantages[place] ?? 0)
    if (own === 0 || ours === 0) {
      gradient[place] = 0
      continue
    }
    const now = current[place] ?? 0
    const before = previous[place] ?? 0
    const derivative = own * cispoGradient(now, before, ours, clipLow, clipHigh)
    const ratio = Math.exp(now - before)
    if (ratio < 1 - clipLow || ratio > 1 + clipHigh) held++
    sum += derivative * now
    gradient[place] = derivative * scale
  }
  add(counts, tally.clipped, held)
  return sum
}

/** One ratio for the row: each token's loss moves with all tokens. */
const gspo = (
  { current, mask, previous }: TokenBatch,
  clipLow: number,
  clipHigh: number,
  { advantage, from, scale, to, tokens }: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  gradient: Float64Array,
  counts: Tally
): number => {
  const ratio = sequenceRatio(current, previous, mask, from, to)
  let [sum, slope] = [0, 0]
  for (let place = from; place < to; place++) {
    const own = weight[place - from] ?? 0
    const ours = advantages === undefined ? advantage : (advantages[place] ?? 0)
    if (own === 0 || ours === 0) continue
    const derivative = clippedGradient(ratio, ours, clipLow, clipHigh)
    if (derivative === 0) add(counts, tally.clipped, 1)
    sum += own * clippedLoss(ratio, ours, clipLow, clipHigh)
    slope += own * derivative
  }
  const each = tokens === 0 ? 0 : (slope / tokens) * scale
  for (let place = from; place < to; place++) gradient[place] = mask[place] === 1 ? each : 0
  return sum
}

/** The sum of weight times loss over the row, not scaled; the scaled gradient is written. */
export const rowLoss = (
  batch: TokenBatch,
  loss: PolicyLoss,
  cursor: RowCursor,
  advantages: Float64Array | undefined,
  weight: Float64Array,
  gradient: Float64Array,
  counts: Tally
): number => {
  switch (loss.name) {
    case "on_policy":
      return onPolicy(cursor, advantages, weight, gradient)
    case "reinforce":
      return reinforce(batch, cursor, advantages, weight, gradient)
    case "ppo": {
      const { clipHigh, clipLow, dualClip = Number.POSITIVE_INFINITY } = loss
      return clipped(batch, clipLow, clipHigh, dualClip, cursor, advantages, weight, gradient, counts)
    }
    case "cispo":
      return cispo(batch, loss.clipLow, loss.clipHigh, cursor, advantages, weight, gradient, counts)
    case "gspo":
      return gspo(batch, loss.clipLow, loss.clipHigh, cursor, advantages, weight, gradient, counts)
  }
}

/** Adds a KL penalty: its sum over the row, not scaled, is given; the scaled gradient is added. */
export const addKl = (
  { current, generation, mask }: TokenBatch,
  reference: Float64Array,
  penalty: {
    readonly estimator: KlEstimator
    readonly coefficient: number
    readonly behaviour: "current" | "generation"
  },
  { from, scale, to }: RowCursor,
  gradient: Float64Array,
  counts: Tally
): number => {
  const { behaviour, coefficient, estimator } = penalty
  let sum = 0
  for (let place = from; place < to; place++) {
    if (mask[place] !== 1) continue
    const now = current[place] ?? 0
    const other = reference[place] ?? 0
    const sampler = behaviour === "current" ? now : (generation[place] ?? 0)
    sum += klPenalty(estimator, now, other, sampler)
    gradient[place] = (gradient[place] ?? 0) + scale * coefficient * klPenaltyGradient(estimator, now, other, sampler)
  }
  add(counts, tally.kl, sum)
  return coefficient * sum
}

/** Adds `factor` times -current for each token: gives the sum, and adds to the gradient. */
export const addNll = (
  { current, mask }: TokenBatch,
  factor: number,
  { from, to }: RowCursor,
  gradient: Float64Array
): number => {
  let sum = 0
  for (let place = from; place < to; place++) {
    if (mask[place] !== 1) continue
    sum -= current[place] ?? 0
    gradient[place] = (gradient[place] ?? 0) - factor
  }
  return factor * sum
}
