import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { keeps, statisticOf, sumOf } from "../../src/training/Gate.js"
import {
  importanceWeight,
  isOutOfBounds,
  sequenceWeight,
  type Truncation,
  truncate
} from "../../src/training/ImportanceSampling.js"
import { evaluate, type Objective } from "../../src/training/Objective.js"
import { right, vector } from "./dataFixture.js"
import { close, near, stepOf } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Pair = Schema.Tuple(Schema.Number, Schema.Number)

describe("importance weights", () => {
  it("are truncated as published (training-vectors.json `is.truncation`)", () => {
    const { inputs, outputs } = vector(
      "is.truncation",
      Schema.Struct({
        prev: Numbers,
        gen: Numbers,
        tis_max: Schema.Number,
        icepop: Pair,
        seq_mask: Pair,
        seq_mask_wide: Pair
      }),
      Schema.Struct({
        weights: Numbers,
        tis: Numbers,
        icepop: Numbers,
        geo_mean: Schema.Number,
        seq_mask_tis: Numbers,
        seq_mask_tis_wide: Numbers,
        sequence_weight: Schema.Number,
        oob_ratio_tis: Schema.Number
      })
    )
    const weights = inputs.prev.map((previous, at) => importanceWeight(previous, inputs.gen[at] ?? 0))
    close(weights, outputs.weights)
    const tis: Truncation = { name: "tis", max: inputs.tis_max }
    const icepop: Truncation = { name: "icepop", min: inputs.icepop[0], max: inputs.icepop[1] }
    close(
      weights.map((weight) => truncate(weight, tis)),
      outputs.tis
    )
    close(
      weights.map((weight) => truncate(weight, icepop)),
      outputs.icepop
    )
    near(weights.filter((weight) => isOutOfBounds(weight, tis)).length / weights.length, outputs.oob_ratio_tis)

    const [previous, generation] = [Float64Array.from(inputs.prev), Float64Array.from(inputs.gen)]
    const mask = Uint8Array.of(1, 1, 1, 1)
    near(sequenceWeight(previous, generation, mask, 0, 4), outputs.sequence_weight)
    const mean = statisticOf("ratio", sumOf("ratio", generation, previous, mask, 0, 4), 4)
    near(mean, outputs.geo_mean)
    for (const [[min, max], wanted] of [
      [inputs.seq_mask, outputs.seq_mask_tis],
      [inputs.seq_mask_wide, outputs.seq_mask_tis_wide]
    ] as const) {
      const kept = keeps({ min, max }, mean)
      close(
        weights.map((weight) => (kept ? truncate(weight, { name: "seq-mask-tis" }) : 0)),
        wanted
      )
    }

    // The same through an objective: with reward 1 as advantage and the mean over 4 tokens, a weight is -4 times the gradient.
    const through = (importance: Objective["importance"], gate?: Objective["gate"]) => {
      const [generation, previous] = [inputs.gen, inputs.prev]
      const result = right(
        evaluate(
          {
            advantage: { name: "raw_reward", whiten: false },
            loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.2 },
            aggregation: { name: "token-mean" },
            ...(importance === undefined ? {} : { importance }),
            ...(gate === undefined ? {} : { gate })
          },
          stepOf(
            [{ id: "A_g0", group: "A", reward: 1 }],
            [{ id: "A_g0_s0", owner: "A_g0", group: "A", mask: [1, 1, 1, 1], generation, previous, current: previous }]
          )
        )
      )
      return { ...result, weights: result.gradient.map((value) => -4 * value) }
    }
    const clamped = through({ truncation: tis, level: "token" })
    close(clamped.weights, outputs.tis)
    assert.strictEqual(clamped.outOfBoundsTokens / clamped.tokens, outputs.oob_ratio_tis)
    close(through({ truncation: icepop, level: "token" }).weights, outputs.icepop)
    close(through({ truncation: { name: "none" }, level: "token" }).weights, outputs.weights)
    close(through({ truncation: { name: "none" }, level: "sequence" }).weights, Array(4).fill(outputs.sequence_weight))
    const masked = { truncation: { name: "seq-mask-tis" }, level: "token" } as const
    const [min, max] = inputs.seq_mask
    close(through(masked, { statistic: "ratio", min, max }).weights, outputs.seq_mask_tis)
    const [low, high] = inputs.seq_mask_wide
    close(through(masked, { statistic: "ratio", min: low, max: high }).weights, outputs.seq_mask_tis_wide)
    close(through(undefined).weights, [1, 1, 1, 1])
  })

  it("that are no finite number are 0", () => {
    assert.strictEqual(importanceWeight(0, -1000), 0)
    assert.strictEqual(importanceWeight(-1000, 0), 0)
  })
})
