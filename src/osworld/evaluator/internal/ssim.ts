/**
 * Structural similarity (Wang et al. 2004) as scikit-image computes it by default: a uniform window, sample covariance,
 * K1 = 0.01, K2 = 0.03, and the mean over the windows that lie wholly inside, then over the channels.
 */
import * as Effect from "effect/Effect"

export const usualWindow = 7

/** Two channels of one size. */
export interface Pair {
  readonly width: number
  readonly height: number
  readonly a: Uint8Array
  readonly b: Uint8Array
}

const c1 = (0.01 * 255) ** 2
const c2 = (0.03 * 255) ** 2

/** The sum over the windows whose top row is in [from, to). */
export const windowSum = ({ a, b, width }: Pair, size: number, from: number, to: number): number => {
  const area = size * size
  const sample = area / (area - 1)
  // Sums down the columns of the window's rows; integers, so that sliding adds no error.
  const sumA = new Int32Array(width)
  const sumB = new Int32Array(width)
  const sumAA = new Int32Array(width)
  const sumBB = new Int32Array(width)
  const sumAB = new Int32Array(width)
  const row = (y: number, sign: 1 | -1): void => {
    for (let x = 0, i = y * width; x < width; x++, i++) {
      const p = a[i] ?? 0
      const q = b[i] ?? 0
      sumA[x] = (sumA[x] ?? 0) + sign * p
      sumB[x] = (sumB[x] ?? 0) + sign * q
      sumAA[x] = (sumAA[x] ?? 0) + sign * p * p
      sumBB[x] = (sumBB[x] ?? 0) + sign * q * q
      sumAB[x] = (sumAB[x] ?? 0) + sign * p * q
    }
  }
  for (let y = from; y < from + size - 1; y++) row(y, 1)
  let total = 0
  for (let top = from; top < to; top++) {
    row(top + size - 1, 1)
    let [wa, wb, waa, wbb, wab] = [0, 0, 0, 0, 0]
    for (let x = 0; x < width; x++) {
      wa += sumA[x] ?? 0
      wb += sumB[x] ?? 0
      waa += sumAA[x] ?? 0
      wbb += sumBB[x] ?? 0
      wab += sumAB[x] ?? 0
      if (x < size - 1) continue
      const meanA = wa / area
      const meanB = wb / area
      const varianceA = sample * (waa / area - meanA * meanA)
      const varianceB = sample * (wbb / area - meanB * meanB)
      const covariance = sample * (wab / area - meanA * meanB)
      total +=
        ((2 * meanA * meanB + c1) * (2 * covariance + c2)) /
        ((meanA * meanA + meanB * meanB + c1) * (varianceA + varianceB + c2))
      const first = x - size + 1
      wa -= sumA[first] ?? 0
      wb -= sumB[first] ?? 0
      waa -= sumAA[first] ?? 0
      wbb -= sumBB[first] ?? 0
      wab -= sumAB[first] ?? 0
    }
    row(top, -1)
  }
  return total
}

/** Other rollouts get their turn between two bands of this many pixels. */
const bandPixels = 500_000

/** In [-1, 1]; 1 for equal pictures. The channels are at least `size` pixels wide and high. */
export const similarity = (pairs: ReadonlyArray<Pair>, size: number = usualWindow): Effect.Effect<number> =>
  Effect.gen(function* () {
    let sum = 0
    for (const pair of pairs) {
      const rows = pair.height - size + 1
      const band = Math.max(size, Math.ceil(bandPixels / pair.width))
      let total = 0
      for (let from = 0; from < rows; from += band) {
        total += windowSum(pair, size, from, Math.min(rows, from + band))
        yield* Effect.yieldNow()
      }
      sum += total / (rows * (pair.width - size + 1))
    }
    return sum / pairs.length
  })
