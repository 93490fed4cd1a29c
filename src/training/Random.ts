/**
 * Draws that come out the same on every machine: a seed, and each number after it.
 *
 * @since 0.1.0
 */

/**
 * mulberry32, a generator of 32 bits of state in the public domain: each call gives the next number in [0, 1), a multiple
 * of 2^-32. It is for tests, toys and sampling that must be had again; it keeps no secrets.
 *
 * The seed counts modulo 2^32.
 *
 * @since 0.1.0
 * @category constructors
 */
export const mulberry32 = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/**
 * The index that `u` in [0, 1) falls on when `probabilities` lie end to end (the inverse of their sums); the last one where
 * they sum to less than `u`, as rounding may have it.
 *
 * @since 0.1.0
 * @category decisions
 */
export const choose = (probabilities: ArrayLike<number>, u: number): number => {
  let sum = 0
  for (let index = 0; index < probabilities.length - 1; index++) {
    sum += probabilities[index] ?? 0
    if (u < sum) return index
  }
  return probabilities.length - 1
}
