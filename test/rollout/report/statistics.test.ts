import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import {
  bootstrapMeans,
  mcnemar,
  mean,
  median,
  passAtK,
  quantile,
  sampleDeviation
} from "../../../src/rollout/internal/report/statistics.js"

/** All ways to draw k of the items. */
const draws = <A>(items: ReadonlyArray<A>, k: number): ReadonlyArray<ReadonlyArray<A>> => {
  const [first, ...rest] = items
  if (k === 0) return [[]]
  if (first === undefined) return []
  return [...draws(rest, k - 1).map((drawn) => [first, ...drawn]), ...draws(rest, k)]
}

const choose = (n: number, k: number): bigint => {
  let result = 1n
  for (let i = 1n; i <= BigInt(k); i++) result = (result * (BigInt(n) - i + 1n)) / i
  return result
}

describe("mcnemar", () => {
  // Three public runs over the 361 tasks of OSWorld: 166 full scores against 159 and against 154.
  it("gives the published runs p 0.42 and 0.17", () => {
    assert.strictEqual(mcnemar(31, 24).toFixed(2), "0.42")
    assert.strictEqual(mcnemar(38, 26).toFixed(2), "0.17")
  })

  it.prop(
    "is the two-sided binomial tail that whole numbers give, and does not know the sides",
    { a: FastCheck.nat(60), b: FastCheck.nat(60) },
    ({ a, b }) => {
      let tail = 0n
      for (let i = 0; i <= Math.min(a, b); i++) tail += choose(a + b, i)
      const exact = Math.min(1, Number((2n * tail * 10n ** 15n) / 2n ** BigInt(a + b)) / 1e15)
      assert.approximately(mcnemar(a, b), exact, 1e-12)
      assert.strictEqual(mcnemar(a, b), mcnemar(b, a))
    }
  )

  it("says nothing without discordant pairs, and stands many", () => {
    assert.strictEqual(mcnemar(0, 0), 1)
    // Where 2^-n is no number any more: half a standard deviation off is p 0.62 by the normal approximation.
    assert.approximately(mcnemar(5_025, 4_975), 0.62, 0.005)
  })
})

describe("passAtK", () => {
  it.prop(
    "is the share of draws of k that have a right one in them",
    {
      rights: FastCheck.array(FastCheck.boolean(), { minLength: 1, maxLength: 7 }),
      k: FastCheck.integer({ min: 1, max: 7 })
    },
    ({ k, rights }) => {
      FastCheck.pre(k <= rights.length)
      const all = draws(rights, k)
      const share = all.filter((drawn) => drawn.includes(true)).length / all.length
      const wrong = rights.filter((right) => !right).length
      assert.approximately(passAtK(rights.length, wrong, k), share, 1e-12)
    }
  )
})

describe("descriptive statistics", () => {
  it("are those of numpy", () => {
    // numpy.percentile([1, 2, 3, 4], 40), numpy.median, numpy.std(ddof=1)
    assert.approximately(quantile([1, 2, 3, 4], 0.4) ?? 0, 2.2, 1e-12)
    assert.strictEqual(median([3, 1, 4, 2]), 2.5)
    assert.approximately(sampleDeviation([2, 4, 4, 4, 5, 5, 7, 9]) ?? 0, 2.138089935299395, 1e-12)
  })

  it("claim nothing over nothing", () => {
    assert.deepStrictEqual([mean([]), median([]), sampleDeviation([1]), quantile([], 0.5)], Array(4).fill(undefined))
  })
})

describe("bootstrapMeans", () => {
  it("has the deviation that the mean of a sample has", () => {
    const column = Array.from({ length: 100 }, (_, index) => index % 2)
    const [drawn = new Float64Array()] = bootstrapMeans([column], 10_000, 1)
    // Each value is 0 or 1 with p = 1/2, so the mean of 100 has sqrt(1/4 / 100) = 0.05.
    assert.approximately(sampleDeviation(Array.from(drawn)) ?? 0, 0.05, 0.002)
    assert.approximately(quantile(drawn, 0.5) ?? 0, 0.5, 0.005)
  })

  it("is the same for the same seed and another for another", () => {
    const column = [0, 1, 5, 7, 100]
    const draw = (seed: number) => Array.from(bootstrapMeans([column], 50, seed)[0] ?? [])
    assert.deepStrictEqual(draw(3), draw(3))
    assert.notDeepEqual(draw(3), draw(4))
  })

  it("shows all columns the same samples", () => {
    const column = [0, 1, 5, 7, 100]
    const [one, other] = bootstrapMeans([column, column.map((value) => 2 * value)], 50, 0)
    assert.deepStrictEqual(
      Array.from(other ?? []),
      Array.from(one ?? [], (value) => 2 * value)
    )
  })
})
