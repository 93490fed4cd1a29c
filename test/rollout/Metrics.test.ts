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

describe("Metrics.keyMetrics", () => {
  it("are means, OSWorld's rates and the largest k of each, without the spread and without subsets", () => {
    const metrics = {
      "mean/reward": 0.5,
      "max/reward": 1,
      "os/mean/reward": 0.5,
      "osworld/binary_success_rate": 50,
      "osworld/raw_reward_rate": 60,
      "osworld/raw_reward_sum": 3,
      "pass@2/accuracy": 70,
      "pass@10/accuracy": 90,
      "pass@10/accuracy/task_count": 4,
      "pass@10/no_answer": 5,
      "pass@1[avg-of-2]/accuracy": 60,
      "pass@1[avg-of-10]/accuracy": 65,
      "pass@1[avg-of-10]/no_answer": 1,
      "pass@1[avg-of-10]/accuracy/std_dev_across_runs": 2,
      "majority@2/accuracy": 55,
      "os/pass@10/accuracy": 90
    }
    assert.deepStrictEqual(Metrics.keyMetrics(metrics), {
      "mean/reward": 0.5,
      "osworld/binary_success_rate": 50,
      "osworld/raw_reward_rate": 60,
      "pass@10/accuracy": 90,
      "pass@1[avg-of-10]/accuracy": 65,
      "pass@1[avg-of-10]/no_answer": 1,
      "majority@2/accuracy": 55
    })
  })
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
      {
        k: 2,
        passTasks: 2,
        averageTasks: 2,
        pass: 83.333,
        average: 75,
        deviation: 35.355,
        error: 25,
        sampleDeviation: 0.354
      },
      {
        k: 3,
        passTasks: 2,
        averageTasks: 2,
        pass: 100,
        average: 66.667,
        deviation: 28.868,
        error: 16.667,
        sampleDeviation: 0.289
      }
    ])
  })

  // gym-core.md 7.4, worked by hand. Task 0: "a" is right once, "b" twice wrong, "a" right again.
  it("has what the most frequent answer earns, of ties the mean, and 0 where there is no answer", () => {
    const answered = (task: number, rollouts: ReadonlyArray<readonly [answer: string | null, reward: number]>) =>
      rollouts.map(([answer, reward], rollout) => ({
        ...entry(task, rollout, reward),
        ...(answer === null ? {} : { answer })
      }))
    const entries = [
      ...answered(0, [
        ["a", 1],
        ["b", 0],
        ["b", 0],
        ["a", 1]
      ]),
      ...answered(1, [
        [null, 0],
        ["c", 1],
        [null, 0]
      ]),
      ...answered(2, [[null, 1]])
    ]
    const repeats = Metrics.repeats(entries)
    assert.deepStrictEqual(
      repeats.map(({ k, majority = 0, passTasks }) => [k, Math.round(majority * 1000) / 1000, passTasks]),
      [
        // 1, 0 and 0: the reward of a rollout without an answer is not counted.
        [1, 33.333, 3],
        // A tie of 1 and 0, and the only answer.
        [2, 75, 2],
        // "b" twice against "a" once, and the only answer.
        [3, 50, 2],
        // A tie again.
        [4, 50, 1]
      ]
    )
    const keys = Metrics.toKeys(Metrics.facts(entries, 8))
    assert.strictEqual(keys["majority@2/accuracy"], 75)
    // Without an answer are 0 of the first, 2 of 3 and 1 of 1: 0 + 1 + 1 of the first rollouts of three tasks.
    assert.approximately(keys["pass@1[avg-of-1]/no_answer"] ?? 0, 200 / 3, 1e-9)
    assert.approximately(keys["pass@1[avg-of-4]/no_answer"] ?? 0, (100 * (0 + 2 / 3 + 1)) / 3, 1e-9)
    const { noAnswer } = Metrics.facts(entriesOf([[1, 0]]), 2)
    assert.isUndefined(noAnswer)
    assert.notProperty(Metrics.repeats(entriesOf([[1, 0]]))[0], "majority")
  })

  it("has the mean of each repeat, over the tasks that it measured", () => {
    assert.deepStrictEqual(Metrics.samples(entriesOf([[0, null, 1], [1], [null, 0.5]])), [
      { repeat: 0, tasks: 2, mean: 50 },
      { repeat: 1, tasks: 1, mean: 50 },
      { repeat: 2, tasks: 1, mean: 100 }
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
