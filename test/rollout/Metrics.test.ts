import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Metrics from "../../src/rollout/Metrics.js"

const entry = (taskIndex: number, rolloutIndex: number, reward: number | null): Metrics.Entry => ({
  taskIndex,
  rolloutIndex,
  taskId: `task-${taskIndex}`,
  domain: "os",
  attempt: 0,
  earlier: false,
  result:
    reward === null ? { _tag: "Masked", reason: "timeout", detail: "" } : { _tag: "Scored", reward, score: reward }
})

const entriesOf = (tasks: ReadonlyArray<ReadonlyArray<number | null>>) =>
  tasks.flatMap((rewards, task) => rewards.map((reward, rollout) => entry(task, rollout, reward)))

const rewards = FastCheck.array(FastCheck.array(FastCheck.constantFrom(0, 1, null), { minLength: 1, maxLength: 5 }), {
  maxLength: 6
})

describe("Metrics.repeats", () => {
  // The definitions of gym-core.md 7.4, worked by hand: pass@2 of a task with 1 of 3 right is 1 - C(2,2)/C(3,2) = 2/3.
  it("has pass@k, avg-of-k and their spread", () => {
    const repeats = Metrics.repeats(
      entriesOf([
        [1, 0, 0],
        [1, 1, 1]
      ])
    )
    const rounded = repeats.map((each) =>
      Object.fromEntries(Object.entries(each).map(([key, value]) => [key, Math.round(value * 1000) / 1000]))
    )
    // The averages of the three repeats are 100, 50 and 50: sample deviations 35.355 and 28.868.
    assert.deepStrictEqual(rounded, [
      { k: 1, passTasks: 2, averageTasks: 2, pass: 66.667, average: 100 },
      { k: 2, passTasks: 2, averageTasks: 2, pass: 83.333, average: 75, deviation: 35.355, error: 25 },
      { k: 3, passTasks: 2, averageTasks: 2, pass: 100, average: 66.667, deviation: 28.868, error: 16.667 }
    ])
  })

  it("takes the largest of the first k where rewards are not 0 and 1", () => {
    const passes = Metrics.repeats(entriesOf([[0.2, 0.7, 0.4]])).map(({ pass }) => pass)
    assert.deepStrictEqual(passes, [20, 70, 70])
  })

  it("says over how many tasks each k is, and leaves masked rollouts out", () => {
    const repeats = Metrics.repeats(entriesOf([[0, null, 1], [1], [null]]))
    assert.deepStrictEqual(
      repeats.map(({ average, averageTasks, k, pass, passTasks }) => [k, pass, passTasks, average, averageTasks]),
      [
        [1, 75, 2, 50, 2],
        [2, 100, 1, 75, 2]
      ]
    )
    // The third repeat stays the third: 100 for its one task, against 50 for the two of the first.
    assert.approximately(repeats[1]?.deviation ?? 0, Math.sqrt(2 * 25 ** 2), 1e-9)
  })

  it.prop("pass@k lies between pass@1 and 100 and, over the same tasks, never falls", { rewards }, ({ rewards }) => {
    const full = rewards.map((task) => task.slice(0, 1).concat(task.slice(0, 1), task.slice(0, 1)))
    const passes = Metrics.repeats(entriesOf(full)).map(({ pass = 0 }) => pass)
    for (const [index, pass] of passes.entries()) {
      assert.isAtMost(pass, 100)
      assert.isAtLeast(pass + 1e-9, passes[index - 1] ?? 0)
    }
  })

  it.prop("depends on no order of the entries", { rewards, seed: FastCheck.nat() }, ({ rewards, seed }) => {
    const entries = entriesOf(rewards)
    const shuffled = [...entries].sort((a, b) => {
      const place = ({ rolloutIndex, taskIndex }: Metrics.Entry) => ((taskIndex * 7 + rolloutIndex) * (seed + 13)) % 31
      return place(a) - place(b)
    })
    assert.deepStrictEqual(Metrics.repeats(shuffled), Metrics.repeats(entries))
  })
})
