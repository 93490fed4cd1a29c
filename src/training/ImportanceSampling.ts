/**
 * Weights that correct for tokens that another policy generated than the one whose loss is computed: the generating engine's
 * numbers are never quite the trainer's, and its weights may be older.
 *
 * @since 0.1.0
 */

/**
 * What becomes of weights that are far from 1. Bounds are inclusive.
 *
 * - `none`: the raw weight.
 * - `tis`: kept within the bounds (truncated importance sampling).
 * - `icepop`: 0 outside the bounds.
 * - `seq-mask-tis`: raw; rows whose statistic is out of bounds go as a whole, which is the gate's business (`Gate`).
 *
 * @since 0.1.0
 * @category models
 */
export type Truncation =
  | { readonly name: "none" }
  | { readonly name: "tis"; readonly min?: number; readonly max: number }
  | { readonly name: "icepop"; readonly min: number; readonly max: number }
  | { readonly name: "seq-mask-tis" }

/**
 * exp(trainer - generation), held still when a gradient is taken; 0 where that is no finite number.
 *
 * @since 0.1.0
 * @category weights
 */
export const importanceWeight = (trainer: number, generation: number): number => {
  const weight = Math.exp(trainer - generation)
  return weight < Number.POSITIVE_INFINITY ? weight : 0
}

/**
 * The weight after truncation.
 *
 * @since 0.1.0
 * @category weights
 */
export const truncate = (weight: number, truncation: Truncation): number => {
  switch (truncation.name) {
    case "none":
    case "seq-mask-tis":
      return weight
    case "tis":
      return Math.min(Math.max(weight, truncation.min ?? 0), truncation.max)
    case "icepop":
      return weight >= truncation.min && weight <= truncation.max ? weight : 0
  }
}

/**
 * Whether truncation changed the weight. Source of the share that trainers report.
 *
 * @since 0.1.0
 * @category weights
 */
export const isOutOfBounds = (weight: number, truncation: Truncation): boolean =>
  (truncation.name === "tis" || truncation.name === "icepop") &&
  (weight < (truncation.min ?? 0) || weight > truncation.max)

/**
 * The weight of a whole row: exp of the sum of the differences over the tokens that are not masked; 0 where that is no finite
 * number.
 *
 * @since 0.1.0
 * @category weights
 */
export const sequenceWeight = (
  trainer: Float64Array,
  generation: Float64Array,
  mask: Uint8Array,
  from: number,
  to: number
): number => {
  let sum = 0
  for (let place = from; place < to; place++)
    if (mask[place] === 1) sum += (trainer[place] ?? 0) - (generation[place] ?? 0)
  return importanceWeight(sum, 0)
}
