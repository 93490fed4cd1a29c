/**
 * Dynamic time warping of two rows of vectors, approximately and in linear time: the path through the rows at half the
 * resolution, and what is within a radius of it, is where the path at full resolution is looked for (FastDTW, Salvador
 * and Chan 2007).
 */
import * as Effect from "effect/Effect"

/** Vectors of one length, one after the other. */
export interface Vectors {
  readonly length: number
  readonly dimension: number
  readonly values: Float64Array
}

/** The total distance along the path, and the cells of `a` and `b` that it meets, from the first. */
export interface Warp {
  readonly distance: number
  readonly path: ReadonlyArray<readonly [number, number]>
}

/** 1 less the cosine of the angle; a vector without direction is as far from any other. */
const cosineDistance = (a: Vectors, i: number, b: Vectors, j: number): number => {
  let [product, squaresA, squaresB] = [0, 0, 0]
  for (let d = 0, p = i * a.dimension, q = j * b.dimension; d < a.dimension; d++, p++, q++) {
    const x = a.values[p] ?? 0
    const y = b.values[q] ?? 0
    product += x * y
    squaresA += x * x
    squaresB += y * y
  }
  if (squaresA === 0 || squaresB === 0) return squaresA === squaresB ? 0 : 1
  return Math.max(0, 1 - product / Math.sqrt(squaresA * squaresB))
}

/** For each vector of `a` the first and the last of `b` that it may meet. */
type Window = ReadonlyArray<readonly [number, number]>

const [fromAbove, fromLeft, fromBoth] = [0, 1, 2]

const batch = 500

const within = (a: Vectors, b: Vectors, window: Window): Effect.Effect<Warp> =>
  Effect.gen(function* () {
    const steps: Array<Uint8Array> = []
    let above: Float64Array = new Float64Array(0)
    let aboveFirst = 0
    for (const [i, [first, last]] of window.entries()) {
      if (i % batch === batch - 1) yield* Effect.yieldNow()
      const row = new Float64Array(last - first + 1)
      const step = new Uint8Array(row.length)
      const up = (j: number): number => above[j - aboveFirst] ?? Number.POSITIVE_INFINITY
      for (let j = first; j <= last; j++) {
        const distance = cosineDistance(a, i, b, j)
        const before = i === 0 ? Number.POSITIVE_INFINITY : up(j)
        const left = j === first ? Number.POSITIVE_INFINITY : (row[j - first - 1] ?? Number.POSITIVE_INFINITY)
        const both = i === 0 && j === 0 ? 0 : i === 0 || j === 0 ? Number.POSITIVE_INFINITY : up(j - 1)
        const best = Math.min(before, left, both)
        row[j - first] = best + distance
        step[j - first] = best === before && i > 0 ? fromAbove : best === left && j > first ? fromLeft : fromBoth
      }
      steps.push(step)
      above = row
      aboveFirst = first
    }
    const path: Array<readonly [number, number]> = []
    let [i, j] = [a.length - 1, b.length - 1]
    while (i >= 0 && j >= 0) {
      path.push([i, j])
      const taken = steps[i]?.[j - (window[i]?.[0] ?? 0)]
      if (taken !== fromLeft) i--
      if (taken !== fromAbove) j--
    }
    return { distance: above[b.length - 1 - aboveFirst] ?? Number.POSITIVE_INFINITY, path: path.reverse() }
  })

const halved = ({ dimension, length, values }: Vectors): Vectors => {
  const half = length >> 1
  const means = new Float64Array(half * dimension)
  for (let i = 0; i < half; i++) {
    for (let d = 0; d < dimension; d++) {
      const at = 2 * i * dimension + d
      means[i * dimension + d] = ((values[at] ?? 0) + (values[at + dimension] ?? 0)) / 2
    }
  }
  return { dimension, length: half, values: means }
}

/** What lies around the path of the halved rows, at full resolution. */
const around = (path: Warp["path"], lengthA: number, lengthB: number, radius: number): Window => {
  const rows = new Map<number, [number, number]>()
  for (const [i, j] of path) {
    for (let row = i - radius; row <= i + radius; row++) {
      const span = rows.get(row)
      if (span === undefined) rows.set(row, [j - radius, j + radius])
      else {
        span[0] = Math.min(span[0], j - radius)
        span[1] = Math.max(span[1], j + radius)
      }
    }
  }
  return Array.from({ length: lengthA }, (_, i): readonly [number, number] => {
    const [first, last] = rows.get(i >> 1) ?? [0, lengthB - 1]
    return [Math.max(0, 2 * first), Math.min(lengthB - 1, 2 * last + 1)]
  })
}

/** Both rows have at least one vector. */
export const warp = (a: Vectors, b: Vectors, radius = 1): Effect.Effect<Warp> =>
  Effect.suspend(() => {
    if (a.length < radius + 2 || b.length < radius + 2) {
      return within(
        a,
        b,
        Array.from({ length: a.length }, () => [0, b.length - 1])
      )
    }
    return Effect.flatMap(warp(halved(a), halved(b), radius), ({ path }) =>
      within(a, b, around(path, a.length, b.length, radius))
    )
  })
