import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Compare from "../../src/rollout/Compare.js"
import type { Entry } from "../../src/rollout/Metrics.js"

const entry = (task: number, score: number | null, rolloutIndex = 0, taskId = `task-${task}`): Entry => ({
  taskIndex: task,
  rolloutIndex,
  taskId,
  domain: task % 2 === 0 ? "os" : "vlc",
  attempt: 0,
  earlier: false,
  result: score === null ? { _tag: "Failed", fault: "task", detail: "" } : { _tag: "Scored", reward: score, score }
})

/** Runs over 361 tasks with so many full scores, of which so many on one side alone. */
const published = (a: number, onlyA: number, onlyB: number) => {
  const both = a - onlyA
  const scores = (lead: number, own: number) =>
    Array.from({ length: 361 }, (_, task) =>
      entry(task, task < both || (task >= both + lead && task < both + lead + own) ? 1 : 0)
    )
  return [scores(0, onlyA), scores(onlyA, onlyB)] as const
}

const scores = FastCheck.array(
  FastCheck.tuple(FastCheck.constantFrom(0, 0.5, 1, null), FastCheck.constantFrom(0, 1, null)),
  {
    minLength: 1,
    maxLength: 30
  }
)

describe("Compare.compare", () => {
  // The counts of three public runs over OSWorld's 361 tasks, which repeat one another.
  it.each([
    { onlyA: 31, onlyB: 24, b: 159, p: "0.42" },
    { onlyA: 38, onlyB: 26, b: 154, p: "0.17" }
  ])("finds the published 166 and $b of 361 within repeat noise, p $p", ({ b, onlyA, onlyB, p }) => {
    const comparison = Compare.compare(...published(166, onlyA, onlyB))
    assert.deepInclude(comparison, { pairs: 361, repeats: 1, onlyInA: [], onlyInB: [], unpairedA: 0, unpairedB: 0 })
    const { success, discordance } = comparison
    if (success === undefined || discordance === undefined) return assert.fail("nothing was compared")
    assert.deepInclude(discordance, { both: 166 - onlyA, onlyA, onlyB, neither: 361 - 166 - onlyB })
    assert.strictEqual(discordance.p.toFixed(2), p)
    assert.approximately(success.a, (100 * 166) / 361, 1e-9)
    assert.approximately(success.b, (100 * b) / 361, 1e-9)
    // The interval of a mean of 361 differences, by the central limit theorem.
    const share = (onlyB - onlyA) / 361
    const error = 100 * Math.sqrt(((onlyA + onlyB) / 361 - share ** 2) / 361)
    assert.approximately(success.low, 100 * share - 1.96 * error, 0.35)
    assert.approximately(success.high, 100 * share + 1.96 * error, 0.35)
    assert.deepStrictEqual(comparison.verdict, { _tag: "WithinNoise", because: "both" })
  })

  it("says which side is better when the difference is beyond noise", () => {
    const [a, b] = published(200, 60, 20)
    assert.deepStrictEqual(Compare.compare(a, b).verdict, { _tag: "Beyond", better: "A" })
    assert.deepStrictEqual(Compare.compare(b, a).verdict, { _tag: "Beyond", better: "B" })
  })

  it("pairs by task id and rollout, and says what has no pair", () => {
    const a = [entry(0, 1, 0), entry(0, 0.5, 1), entry(0, 1, 2), entry(1, 1), entry(2, 1), entry(3, null)]
    // The same tasks under other numbers, as in another selection of tasks.
    const b = [entry(7, 0, 0, "task-0"), entry(7, 1, 1, "task-0"), entry(8, null, 0, "task-1"), entry(9, 1)]
    const comparison = Compare.compare(a, b)
    assert.deepInclude(comparison, {
      pairs: 2,
      repeats: 2,
      onlyInA: ["task-2", "task-3"],
      onlyInB: ["task-9"],
      unpairedA: 2,
      unpairedB: 0
    })
    assert.deepStrictEqual(comparison.tasks, [
      { taskId: "task-0", domain: "os", pairs: 2, a: 0.75, b: 0.5, successesA: 1, successesB: 1 }
    ])
  })

  it("has nothing to say without pairs", () => {
    const comparison = Compare.compare([entry(0, 1)], [entry(0, null), entry(1, 1)])
    assert.deepStrictEqual(comparison.verdict, { _tag: "NoPairs" })
    for (const key of ["success", "score", "discordance", "drawn"]) assert.notProperty(comparison, key)
  })

  it("tells ids that several tasks have, and takes the first", () => {
    const comparison = Compare.compare([entry(4, 0, 0, "x"), entry(2, 1, 0, "x")], [entry(0, 1, 0, "x")])
    assert.deepStrictEqual(comparison.ambiguous, ["x"])
    assert.strictEqual(comparison.pairs, 1)
    assert.strictEqual(comparison.tasks[0]?.a, 1)
  })

  it("leaves the decision to the interval where tasks have repeats", () => {
    const success = { a: 50, b: 55, difference: 5, low: 1, high: 9 }
    assert.deepStrictEqual(Compare.decide(success, 0.2, 2), { _tag: "Beyond", better: "B" })
    assert.deepStrictEqual(Compare.decide(success, 0.2, 1), { _tag: "WithinNoise", because: "test" })
    assert.deepStrictEqual(Compare.decide({ ...success, low: -1 }, 0.01, 2), {
      _tag: "WithinNoise",
      because: "interval"
    })
  })

  it.prop(
    "turned round it is the same with its sides changed",
    { scores },
    ({ scores }) => {
      const a = scores.map(([score], task) => entry(task, score))
      const b = scores.map(([, score], task) => entry(task, score))
      const [one, other] = [Compare.compare(a, b), Compare.compare(b, a)]
      assert.strictEqual(one.discordance?.p, other.discordance?.p)
      assert.approximately(one.success?.difference ?? 0, -(other.success?.difference ?? 0), 1e-9)
      assert.approximately(one.success?.low ?? 0, -(other.success?.high ?? 0), 1e-9)
      assert.deepStrictEqual(
        Compare.wins(one, "A").map(({ taskId }) => taskId),
        Compare.wins(other, "B").map(({ taskId }) => taskId)
      )
      assert.strictEqual(one.pairs + one.unpairedA, a.filter(({ result }) => result._tag === "Scored").length)
    },
    { fastCheck: { numRuns: 15 } }
  )

  it("a run is within noise of itself, and the same seed gives the same interval", () => {
    const [a, b] = published(166, 31, 24)
    const same = Compare.compare(a, a)
    assert.deepInclude(same.success, { difference: 0, low: 0, high: 0 })
    assert.strictEqual(same.verdict._tag, "WithinNoise")
    assert.deepStrictEqual(Compare.compare(a, [...b].reverse(), { seed: 5 }), Compare.compare(a, b, { seed: 5 }))
    assert.notDeepEqual(Compare.compare(a, b, { seed: 6 }).drawn, Compare.compare(a, b, { seed: 5 }).drawn)
  })
})
