/**
 * The policy's loss of one token, each with its derivative beside it. Derivatives are with respect to the current log-probability of
 * that token; whatever else goes in is held still.
 *
 * @since 0.1.0
 */

/**
 * With r = exp(current - previous) and A the advantage:
 *
 * - `ppo`: max(-A r, -A clip(r, 1 - clipLow, 1 + clipHigh)) (arXiv 1707.06347); clipHigh above clipLow is DAPO's clip-higher (arXiv
 *   2503.14476); where A < 0 never above -A dualClip, if that is given (arXiv 1912.09729).
 * - `on_policy`: `ppo` with previous = current, so that r is 1 and the derivative -A. For one update of each rollout.
 * - `reinforce`: -A current, without a ratio.
 * - `cispo`: -A clip(r) current, the clipped ratio held still (arXiv 2506.13585).
 * - `gspo`: as `ppo`, with one r for all tokens of a row: exp of the mean of their differences (arXiv 2507.18071).
 *
 * @since 0.1.0
 * @category models
 */
export type PolicyLoss =
  | { readonly name: "ppo"; readonly clipLow: number; readonly clipHigh: number; readonly dualClip?: number }
  | { readonly name: "on_policy" }
  | { readonly name: "reinforce" }
  | { readonly name: "cispo"; readonly clipLow: number; readonly clipHigh: number }
  | { readonly name: "gspo"; readonly clipLow: number; readonly clipHigh: number }

/**
 * The clips of PPO, the same on both sides.
 *
 * @since 0.1.0
 * @category constants
 */
export const ppo = { name: "ppo", clipLow: 0.2, clipHigh: 0.2 } as const satisfies PolicyLoss

/**
 * The clips of DAPO, the upper one higher. Source: arXiv 2503.14476.
 *
 * @since 0.1.0
 * @category constants
 */
export const dapo = { name: "ppo", clipLow: 0.2, clipHigh: 0.28 } as const satisfies PolicyLoss

const clipRatio = (ratio: number, low: number, high: number): number => Math.min(Math.max(ratio, 1 - low), 1 + high)

/**
 * The ratio that counts: the clipped loss is -A times it, and has a derivative where it is `ratio` itself. Of max(-A r, -A clip(r)) only
 * one side of the clip is left: the upper one where A > 0, else the lower one and `dualClip`.
 *
 * @since 0.1.0
 * @category losses
 */
export const boundRatio = (
  ratio: number,
  advantage: number,
  clipLow: number,
  clipHigh: number,
  dualClip: number
): number => (advantage > 0 ? Math.min(ratio, 1 + clipHigh) : Math.min(Math.max(ratio, 1 - clipLow), dualClip))

/**
 * The clipped loss of a ratio: max(-A r, -A clip(r)), and where A < 0 at most -A dualClip.
 *
 * @since 0.1.0
 * @category losses
 */
export const clippedLoss = (
  ratio: number,
  advantage: number,
  clipLow: number,
  clipHigh: number,
  dualClip = Number.POSITIVE_INFINITY
): number => -advantage * boundRatio(ratio, advantage, clipLow, clipHigh, dualClip)

/**
 * The derivative of `clippedLoss` with respect to the logarithm of the ratio: -A r, and 0 where a clip holds.
 *
 * @since 0.1.0
 * @category losses
 */
export const clippedGradient = (
  ratio: number,
  advantage: number,
  clipLow: number,
  clipHigh: number,
  dualClip = Number.POSITIVE_INFINITY
): number => (boundRatio(ratio, advantage, clipLow, clipHigh, dualClip) === ratio ? -advantage * ratio : 0)

/**
 * `cispo` of a token.
 *
 * @since 0.1.0
 * @category losses
 */
export const cispoLoss = (
  current: number,
  previous: number,
  advantage: number,
  clipLow: number,
  clipHigh: number
): number => cispoGradient(current, previous, advantage, clipLow, clipHigh) * current

/**
 * The derivative of `cispoLoss`: -A clip(r).
 *
 * @since 0.1.0
 * @category losses
 */
export const cispoGradient = (
  current: number,
  previous: number,
  advantage: number,
  clipLow: number,
  clipHigh: number
): number => -advantage * clipRatio(Math.exp(current - previous), clipLow, clipHigh)

/**
 * The one ratio of a row: exp of the mean of current - previous over the places `[from, to)` that are not masked, 1 without any. Its
 * logarithm's derivative with respect to each of them is one over their number.
 *
 * @since 0.1.0
 * @category losses
 */
export const sequenceRatio = (
  current: Float64Array,
  previous: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number => {
  let [sum, tokens] = [0, 0]
  for (let place = from; place < to; place++) {
    if (mask[place] !== 1) continue
    sum += (current[place] ?? 0) - (previous[place] ?? 0)
    tokens++
  }
  return tokens === 0 ? 1 : Math.exp(sum / tokens)
}

/**
 * The loss of a token under a loss that looks at single tokens.
 *
 * @since 0.1.0
 * @category losses
 */
export const tokenLoss = (
  loss: Exclude<PolicyLoss, { readonly name: "gspo" }>,
  current: number,
  previous: number,
  advantage: number
): number => {
  switch (loss.name) {
    case "ppo":
      return clippedLoss(Math.exp(current - previous), advantage, loss.clipLow, loss.clipHigh, loss.dualClip)
    case "on_policy":
      return -advantage
    case "reinforce":
      return -advantage * current
    case "cispo":
      return cispoLoss(current, previous, advantage, loss.clipLow, loss.clipHigh)
  }
}

/**
 * The derivative of `tokenLoss`.
 *
 * @since 0.1.0
 * @category losses
 */
export const tokenGradient = (
  loss: Exclude<PolicyLoss, { readonly name: "gspo" }>,
  current: number,
  previous: number,
  advantage: number
): number => {
  switch (loss.name) {
    case "ppo":
      return clippedGradient(Math.exp(current - previous), advantage, loss.clipLow, loss.clipHigh, loss.dualClip)
    case "on_policy":
    case "reinforce":
      return -advantage
    case "cispo":
      return cispoGradient(current, previous, advantage, loss.clipLow, loss.clipHigh)
  }
}

/**
 * What is added for rollouts that succeed, so that the policy imitates them: coefficient times the mean of -current over all their
 * tokens, of which those in rows that a gate rejects add nothing. The derivative of -current is -1. Source: arXiv 2504.05118 (VAPO).
 *
 * @since 0.1.0
 * @category models
 */
export interface PositiveNll {
  readonly coefficient: number
  /** An owner whose reward is at least this has succeeded. */
  readonly minReward: number
}
