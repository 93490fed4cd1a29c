/**
 * How far the trainer's policy is from the one that generated a token, from the two log-probabilities of that token alone.
 *
 * @since 0.1.0
 */

/**
 * Probabilities in `binaryKl` are kept this far from 0 and from 1.
 *
 * @since 0.1.0
 * @category constants
 */
export const probabilityFloor = 1e-6

/**
 * `reference - current` in a KL estimate is kept within plus and minus this.
 *
 * @since 0.1.0
 * @category constants
 */
export const klInputClamp = 20

/**
 * A KL estimate is kept within plus and minus this.
 *
 * @since 0.1.0
 * @category constants
 */
export const klOutputClamp = 10

const ceiling = 1 - probabilityFloor
const logFloor = Math.log(probabilityFloor)
const logCeiling = Math.log(ceiling)
const logRestOfFloor = Math.log1p(-probabilityFloor)
const logRestOfCeiling = Math.log1p(-ceiling)

/**
 * KL divergence in nats between "this token" and "another one" under two policies: p ln(p/q) + (1-p) ln((1-p)/(1-q)), p
 * and q the probabilities by the generating engine and by the trainer, both kept in [1e-6, 1 - 1e-6]. At least 0 but for
 * rounding; at most 13.8155. From two log-probabilities, which must be finite. Source: arXiv 2602.04879, equation 14.
 *
 * @since 0.1.0
 * @category divergences
 */
export const binaryKl = (generation: number, trainer: number): number => {
  // The logarithm of a probability that is not clamped is what we are given.
  let p = probabilityFloor
  let logP = logFloor
  let logRestP = logRestOfFloor
  if (generation >= logCeiling) {
    p = ceiling
    logP = logCeiling
    logRestP = logRestOfCeiling
  } else if (generation > logFloor) {
    p = Math.exp(generation)
    logP = generation
    logRestP = Math.log1p(-p)
  }
  let logQ = logFloor
  let logRestQ = logRestOfFloor
  if (trainer >= logCeiling) {
    logQ = logCeiling
    logRestQ = logRestOfCeiling
  } else if (trainer > logFloor) {
    logQ = trainer
    logRestQ = Math.log1p(-Math.exp(trainer))
  }
  return p * (logP - logQ) + (1 - p) * (logRestP - logRestQ)
}

/**
 * Total variation between "this token" and "another one" under two policies: |p - q|, from 0 to 1. Source: arXiv
 * 2602.04879, equation 13.
 *
 * @since 0.1.0
 * @category divergences
 */
export const binaryTv = (generation: number, trainer: number): number =>
  Math.abs(Math.exp(generation) - Math.exp(trainer))

/**
 * Estimates of the KL divergence from a reference policy, from one sampled token (J. Schulman, "Approximating KL
 * divergence"), x = reference - current:
 *
 * - `k1`: -x. Unbiased, of either sign.
 * - `k2`: x^2 / 2. Biased, never negative.
 * - `k3`: e^x - 1 - x. Unbiased, never negative.
 *
 * @since 0.1.0
 * @category models
 */
export type KlEstimator = "k1" | "k2" | "k3"

const estimate = (estimator: KlEstimator, x: number): number =>
  // `expm1` would be closer for small x, and further from what the field's trainers compute.
  estimator === "k1" ? -x : estimator === "k2" ? (x * x) / 2 : Math.exp(x) - 1 - x

/**
 * The estimate in nats, with x kept within ±20 and the result within ±10.
 *
 * @since 0.1.0
 * @category divergences
 */
export const kl = (estimator: KlEstimator, current: number, reference: number): number => {
  const x = Math.min(Math.max(reference - current, -klInputClamp), klInputClamp)
  return Math.min(Math.max(estimate(estimator, x), -klOutputClamp), klOutputClamp)
}

/**
 * The derivative of `kl` with respect to `current`: 0 where either clamp holds.
 *
 * @since 0.1.0
 * @category divergences
 */
export const klGradient = (estimator: KlEstimator, current: number, reference: number): number => {
  const x = reference - current
  if (x < -klInputClamp || x > klInputClamp) return 0
  const value = estimate(estimator, x)
  if (value < -klOutputClamp || value > klOutputClamp) return 0
  return estimator === "k1" ? 1 : estimator === "k2" ? -x : 1 - Math.exp(x)
}

/**
 * What a KL penalty adds to a token's loss for each unit of its coefficient: s * kl. `behaviour` is whose sample the token
 * is, and s = exp(current - behaviour) corrects for it: give `current` itself where the trainer is taken for the sampler, and
 * s is 1; give the generating engine's log-probability for the on-policy approximation.
 *
 * @since 0.1.0
 * @category divergences
 */
export const klPenalty = (estimator: KlEstimator, current: number, reference: number, behaviour: number): number =>
  Math.exp(current - behaviour) * kl(estimator, current, reference)

/**
 * The derivative of `klPenalty` with respect to `current`, `behaviour` held still: s * (kl + dkl). The first term is there
 * because the sample would be another under another policy.
 *
 * @since 0.1.0
 * @category divergences
 */
export const klPenaltyGradient = (
  estimator: KlEstimator,
  current: number,
  reference: number,
  behaviour: number
): number => {
  const derivative = kl(estimator, current, reference) + klGradient(estimator, current, reference)
  return Math.exp(current - behaviour) * derivative
}
