/** Plain statistics over plain numbers. Nothing here knows of rollouts. */
import { PCGRandom } from "effect/Utils"

/** Undefined over nothing. */
export const mean = (values: ReadonlyArray<number>): number | undefined =>
  values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length

/** With n - 1 in the denominator; undefined for fewer than two values. */
export const sampleDeviation = (values: ReadonlyArray<number>): number | undefined => {
  const middle = mean(values)
  if (middle === undefined || values.length < 2) return undefined
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0)
  return Math.sqrt(squares / (values.length - 1))
}

/**
 * The value below which the share `p` of sorted values lies, with a straight line between neighbours (type 7 of Hyndman and
 * Fan, 1996). Undefined over nothing.
 */
export const quantile = (sorted: ArrayLike<number>, p: number): number | undefined => {
  const at = (sorted.length - 1) * p
  const low = sorted[Math.floor(at)]
  const high = sorted[Math.ceil(at)]
  return low === undefined || high === undefined ? undefined : low + (high - low) * (at - Math.floor(at))
}

export const median = (values: ReadonlyArray<number>): number | undefined =>
  quantile(
    [...values].sort((a, b) => a - b),
    0.5
  )

/**
 * The chance that at least one of `k` out of `n` rollouts, drawn without putting back, is right when `wrong` of them are
 * not: 1 - C(wrong, k) / C(n, k), the unbiased estimate of Chen and others, 2021 (arXiv:2107.03374). Wants k <= n.
 */
export const passAtK = (n: number, wrong: number, k: number): number => {
  if (wrong < k) return 1
  let allWrong = 1
  for (let drawn = 0; drawn < k; drawn++) allWrong *= (wrong - drawn) / (n - drawn)
  return 1 - allWrong
}

/**
 * Exact McNemar test: the chance, if both sides were equal, of discordant pairs that are at least as unequal. Twice the
 * smaller tail of a binomial with p = 1/2, and 1 at most. No discordant pair gives 1.
 */
export const mcnemar = (oneWay: number, otherWay: number): number => {
  const n = oneWay + otherWay
  let logChoose = 0
  let tail = 0
  for (let i = 0; i <= Math.min(oneWay, otherWay); i++) {
    if (i > 0) logChoose += Math.log((n - i + 1) / i)
    tail += Math.exp(logChoose - n * Math.LN2)
  }
  return Math.min(1, 2 * tail)
}

/**
 * Means of `draws` samples with replacement of the rows of `columns`, sorted, for each column. All columns see the same
 * samples; the same seed gives the same samples. Wants columns of one length, and at least one row.
 */
export const bootstrapMeans = (
  columns: ReadonlyArray<ReadonlyArray<number>>,
  draws: number,
  seed: number
): ReadonlyArray<Float64Array> => {
  const size = columns[0]?.length ?? 0
  const random = new PCGRandom(seed)
  const means = columns.map(() => new Float64Array(draws))
  const rows = new Uint32Array(size)
  for (let draw = 0; draw < draws; draw++) {
    for (let at = 0; at < size; at++) rows[at] = random.integer(size)
    columns.forEach((column, which) => {
      let sum = 0
      for (const row of rows) sum += column[row] ?? 0
      const out = means[which]
      if (out !== undefined) out[draw] = sum / size
    })
  }
  for (const column of means) column.sort()
  return means
}
