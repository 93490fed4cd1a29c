import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as DynamicSampling from "../../src/training/DynamicSampling.js"
import { left, right, vector } from "./dataFixture.js"

describe("dynamic sampling", () => {
  it("from training-vectors.json filter.dynamic_sampling", () => {
    const { inputs, outputs } = vector(
      "filter.dynamic_sampling",
      Schema.Struct({ group_std: Schema.Array(Schema.Number), num_prompts_per_step: Schema.Number }),
      Schema.Struct({
        kept: Schema.Array(Schema.Number),
        discarded_surplus: Schema.Number,
        filtered: Schema.Array(Schema.Number)
      })
    )
    const groups = inputs.group_std.map((std, index) => ({ groupId: `G${index}`, std, index }))
    const limits = { groups: inputs.num_prompts_per_step, maxBatches: DynamicSampling.defaultMaxBatches }
    const sampled = right(DynamicSampling.add(DynamicSampling.empty, groups, limits))
    assert.deepStrictEqual(
      {
        kept: sampled.kept.map(({ index }) => index),
        discarded_surplus: sampled.surplus.length,
        filtered: sampled.filtered.map(({ index }) => index)
      },
      outputs
    )
    assert.isTrue(DynamicSampling.isFull(sampled, limits))
  })

  it("goes on over batches, and gives up after the last", () => {
    const limits = { groups: 2, maxBatches: 2 }
    const one = right(DynamicSampling.add(DynamicSampling.empty, [{ groupId: "a", std: 0.5 }], limits))
    assert.isFalse(DynamicSampling.isFull(one, limits))
    const two = right(DynamicSampling.add(one, [{ groupId: "b", std: 0.1 }], limits))
    assert.deepStrictEqual([two.kept.length, two.batches], [2, 2])
    const short = left(DynamicSampling.add(one, [{ groupId: "b", std: 0 }], limits))
    assert.deepStrictEqual([short.reason, short.field], ["Empty", "groups"])
    const nan = left(DynamicSampling.add(one, [{ groupId: "b", std: Number.NaN }], limits))
    assert.deepStrictEqual([nan.reason, nan.group], ["NotFinite", "b"])
  })

  it("goes by the deviation of the whole group", () => {
    // Mean 1/4, squares 9/16 + 3/16 over 4: the square root of 3/16.
    assert.closeTo(right(DynamicSampling.groupStd([1, 0, 0, 0], "G")), Math.sqrt(3) / 4, 1e-15)
    assert.strictEqual(left(DynamicSampling.groupStd([], "G")).group, "G")
    const nan = left(DynamicSampling.groupStd([0, Number.NaN], "G"))
    assert.deepStrictEqual([nan.reason, nan.owner, nan.group], ["NotFinite", 1, "G"])
  })

  it.prop(
    "equal rewards have a deviation of exactly 0",
    {
      reward: FC.double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 }),
      size: FC.integer({ min: 1, max: 20 })
    },
    ({ reward, size }) => {
      assert.strictEqual(right(DynamicSampling.groupStd(new Array<number>(size).fill(reward), "G")), 0)
    }
  )
})
