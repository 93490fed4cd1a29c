import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { growsAt, limitAt, RampUp } from "../../src/rollout/Admissions.js"
import { costOf, DispatchBudget, drainMargin, quantile, refuses } from "../../src/rollout/DispatchBudget.js"

const spent = (milliseconds: number, promptTokens = 0, completionTokens = 0) => ({
  milliseconds,
  promptTokens,
  completionTokens
})

describe("DispatchBudget", () => {
  it("starts nothing that would not end in time: by the margin that was given, or by how long three of four took", () => {
    const fixed = new DispatchBudget({ milliseconds: 1_000, drainMilliseconds: 300 })
    assert.isUndefined(refuses(fixed, spent(699), []))
    assert.strictEqual(refuses(fixed, spent(700), []), "time_budget")
    const adaptive = new DispatchBudget({ milliseconds: 1_000 })
    // gym-core.md 1.9: p75 of the durations once there are five, else 0.
    assert.strictEqual(drainMargin(adaptive, [100, 200, 300, 400]), 0)
    assert.strictEqual(drainMargin(adaptive, [100, 200, 300, 400, 500]), 400)
    assert.isUndefined(refuses(adaptive, spent(999), [900, 900]))
    assert.strictEqual(refuses(adaptive, spent(600), [100, 200, 300, 400, 500]), "time_budget")
  })

  it("stops at a ceiling of tokens and of money", () => {
    const tokens = new DispatchBudget({ tokens: 100 })
    assert.isUndefined(refuses(tokens, spent(1e9, 60, 39), []))
    assert.strictEqual(refuses(tokens, spent(0, 60, 40), []), "token_budget")
    const prices = { promptMillion: 3, completionMillion: 15 }
    const cost = new DispatchBudget({ cost: 1, prices })
    // 200,000 prompt tokens at 3 and 20,000 reply tokens at 15 a million: 0.6 + 0.3.
    assert.closeTo(costOf(cost, spent(0, 200_000, 20_000)), 0.9, 1e-12)
    assert.isUndefined(refuses(cost, spent(0, 200_000, 20_000), []))
    assert.strictEqual(refuses(cost, spent(0, 200_000, 27_000), []), "cost_budget")
    assert.isUndefined(refuses(new DispatchBudget({}), spent(1e12, 1e12, 1e12), []))
  })

  it.prop(
    "a quantile is one of the values, with at least its part at or below it",
    {
      values: FastCheck.array(FastCheck.integer(), { minLength: 1 }),
      part: FastCheck.double({ min: 0.01, max: 1, noNaN: true })
    },
    ({ part, values }) => {
      const ascending = values.slice().sort((a, b) => a - b)
      const value = quantile(ascending, part)
      const atOrBelow = ascending.filter((each) => each <= value).length
      const below = ascending.filter((each) => each < value).length
      assert.isAtLeast(atOrBelow, part * values.length - 1e-9)
      assert.isBelow(below, part * values.length)
    }
  )
})

describe("Ramp-up", () => {
  it.prop(
    "grows from its beginning to all places, one moment after the other",
    {
      concurrency: FastCheck.integer({ min: 1, max: 300 }),
      from: FastCheck.integer({ min: 1, max: 300 }),
      milliseconds: FastCheck.integer({ min: 1, max: 100_000 })
    },
    ({ concurrency, from, milliseconds }) => {
      const rampUp = new RampUp({ from, milliseconds })
      let limit = limitAt(concurrency, rampUp, 0)
      assert.isTrue(limit === Math.min(from, concurrency))
      let last = 0
      for (let at = growsAt(concurrency, rampUp, limit); at !== undefined; at = growsAt(concurrency, rampUp, limit)) {
        assert.isAtLeast(at, last)
        assert.isAtLeast(limitAt(concurrency, rampUp, at), limit + 1)
        last = at
        limit += 1
      }
      assert.strictEqual(limit, concurrency)
      assert.isAtMost(last, milliseconds)
    }
  )
})
