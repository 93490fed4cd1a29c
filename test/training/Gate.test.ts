import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { binaryKl, binaryTv } from "../../src/training/Divergence.js"
import { keeps, keepsToken, sequenceError, statisticOf, sumOf, type TokenMask } from "../../src/training/Gate.js"
import { evaluate } from "../../src/training/Objective.js"
import { right, vector } from "./dataFixture.js"
import { close, flash, near, stepOf } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Pair = Schema.Tuple(Schema.Number, Schema.Number)
const Verdict = Schema.Struct({ stat: Schema.Number, keep: Schema.Boolean })
const statistics = ["binary_kl", "tv", "ratio"] as const

describe("the gate of rows", () => {
  it("measures and keeps as published (training-vectors.json `gate.sequence`)", () => {
    const { inputs, outputs } = vector(
      "gate.sequence",
      Schema.Struct({
        sequences: Schema.Record({
          key: Schema.String,
          value: Schema.Struct({ gen: Numbers, train: Numbers, mask: Numbers })
        }),
        bounds: Schema.Struct({ binary_kl: Pair, tv: Pair, ratio: Pair })
      }),
      Schema.Record({ key: Schema.String, value: Schema.Struct({ binary_kl: Verdict, tv: Verdict, ratio: Verdict }) })
    )
    for (const [name, { gen, mask, train }] of Object.entries(inputs.sequences)) {
      const marks = Uint8Array.from(mask)
      for (const statistic of statistics) {
        const wanted = outputs[name]?.[statistic]
        const sum = sumOf(statistic, Float64Array.from(gen), Float64Array.from(train), marks, 0, gen.length)
        const found = statisticOf(
          statistic,
          sum,
          mask.reduce((total, one) => total + one, 0)
        )
        near(found, wanted?.stat, 1e-12, `${name} ${statistic}`)
        const [min, max] = inputs.bounds[statistic]
        assert.strictEqual(keeps({ min, max }, found), wanted?.keep, `${name} ${statistic}`)
      }
    }
  })

  it("holds at its bounds, both", () => {
    assert.isTrue(keeps({ min: 0.5, max: 2 }, 0.5) && keeps({ min: 0.5, max: 2 }, 2))
    assert.isFalse(keeps({ min: 0.5, max: 2 }, 0.4999) || keeps({ min: 0.5, max: 2 }, 2.001))
    assert.isFalse(keeps({ min: 0.5, max: 2 }, Number.NaN))
  })

  it("judges segments one by one, or an owner by all its tokens", () => {
    const near9 = Math.log(0.9)
    const step = stepOf(
      [
        { id: "A_g0", group: "A", reward: 1 },
        { id: "A_g1", group: "A", reward: 0 }
      ],
      [
        {
          id: "A_g0_s0",
          owner: "A_g0",
          group: "A",
          mask: [1, 1, 1],
          generation: [near9, near9, near9],
          current: [near9, near9, near9]
        },
        { id: "A_g0_s1", owner: "A_g0", group: "A", mask: [1], generation: [near9], current: [Math.log(0.8)] },
        { id: "A_g1_s0", owner: "A_g1", group: "A", mask: [1], generation: [near9], current: [near9] }
      ]
    )
    const divergence = binaryKl(near9, Math.log(0.8))
    assert.isAbove(divergence, 0.03)
    const byRow = right(evaluate(flash, step))
    assert.strictEqual(byRow.rejectedRows, 1)
    assert.strictEqual(byRow.rejectedTokens, 1)
    // A quarter of it, over four tokens, is below 0.01.
    const gate = { statistic: "binary_kl", min: 0, max: 0.01, level: "owner" } as const
    const byOwner = right(evaluate({ ...flash, gate }, step))
    assert.isBelow(divergence / 4, 0.01)
    assert.strictEqual(byOwner.rejectedRows, 0)
    const strict = right(evaluate({ ...flash, gate: { ...gate, max: divergence / 5 } }, step))
    assert.strictEqual(strict.rejectedRows, 2)
    assert.deepStrictEqual(Array.from(strict.gradient.subarray(0, 4)), [0, 0, 0, 0])
    assert.strictEqual(strict.tokens, 5)
  })
})

describe("masks of tokens", () => {
  it("are the published ones (training-vectors.json `mask.dppo`)", () => {
    const Sides = Schema.Struct({ pos: Numbers, neg: Numbers })
    const { inputs, outputs } = vector(
      "mask.dppo",
      Schema.Struct({
        p_behaviour: Numbers,
        p_train: Numbers,
        delta_tv: Schema.Number,
        delta_kl: Schema.Number
      }),
      Schema.Struct({
        tv: Sides,
        kl: Sides,
        ratio: Numbers,
        tv_values: Numbers,
        kl_values: Numbers,
        symmetric_tv_0_2: Numbers
      })
    )
    const pairs = inputs.p_behaviour.map((p, at) => [Math.log(p), Math.log(inputs.p_train[at] ?? 0)] as const)
    const masked = (rule: TokenMask, advantage: number) =>
      pairs.map(([generation, trainer]) => (keepsToken(rule, generation, trainer, advantage) ? 1 : 0))
    for (const [divergence, threshold] of [
      ["tv", inputs.delta_tv],
      ["kl", inputs.delta_kl]
    ] as const) {
      const rule = { divergence, threshold, side: "asymmetric" } as const
      assert.deepStrictEqual(masked(rule, 1), outputs[divergence].pos)
      assert.deepStrictEqual(masked(rule, -1), outputs[divergence].neg)
      assert.deepStrictEqual(masked(rule, 0), [1, 1, 1, 1, 1, 1])
    }
    assert.deepStrictEqual(masked({ divergence: "tv", threshold: 0.2, side: "symmetric" }, 1), outputs.symmetric_tv_0_2)
    close(
      pairs.map(([a, b]) => binaryTv(a, b)),
      outputs.tv_values
    )
    close(
      pairs.map(([a, b]) => binaryKl(a, b)),
      outputs.kl_values
    )
    close(
      pairs.map(([a, b]) => Math.exp(b - a)),
      outputs.ratio
    )

    // Through an objective: -sum M r A, over the 6 tokens.
    const [generation, current] = [pairs.map(([a]) => a), pairs.map(([, b]) => b)]
    const result = right(
      evaluate(
        {
          advantage: { name: "raw_reward", whiten: false },
          loss: { name: "on_policy" },
          importance: { truncation: { name: "none" }, level: "token" },
          tokenMask: { divergence: "tv", threshold: inputs.delta_tv, side: "asymmetric" },
          aggregation: { name: "token-mean" }
        },
        stepOf(
          [{ id: "A_g0", group: "A", reward: 1 }],
          [{ id: "A_g0_s0", owner: "A_g0", group: "A", mask: [1, 1, 1, 1, 1, 1], generation, current }]
        )
      )
    )
    assert.strictEqual(result.droppedTokens, 1)
    close(
      result.gradient.map((value) => -6 * value),
      outputs.ratio.map((ratio, at) => ratio * (outputs.tv.pos[at] ?? 0))
    )
  })

  it("of rows by their probability error are the published ones (training-vectors.json `mask.seq_logprob_error`)", () => {
    const Rows = Schema.Array(Numbers)
    const { inputs, outputs } = vector(
      "mask.seq_logprob_error",
      Schema.Struct({ gen: Rows, prev: Rows, mask: Rows, threshold: Schema.Number }),
      Schema.Struct({ error: Schema.Array(Schema.NullOr(Schema.Number)), keep: Schema.Array(Schema.Boolean) })
    )
    for (const [row, wanted] of outputs.error.entries()) {
      const [gen = [], prev = [], mask = []] = [inputs.gen[row], inputs.prev[row], inputs.mask[row]]
      const found = sequenceError(Float64Array.from(gen), Float64Array.from(prev), Uint8Array.from(mask), 0, gen.length)
      if (wanted === null) assert.isUndefined(found)
      else near(found, wanted)
    }
    const result = right(
      evaluate(
        {
          advantage: { name: "raw_reward", whiten: false },
          loss: { name: "reinforce" },
          aggregation: { name: "token-mean" },
          maxSequenceError: inputs.threshold
        },
        stepOf(
          inputs.gen.map((_, row) => ({ id: `A_g${row}`, group: "A", reward: 1 })),
          inputs.gen.map((generation, row) => ({
            id: `A_g${row}_s0`,
            owner: `A_g${row}`,
            group: "A",
            mask: inputs.mask[row] ?? [],
            generation,
            current: inputs.prev[row] ?? []
          }))
        )
      )
    )
    const third = -1 / 3
    close(
      result.gradient,
      outputs.keep.flatMap((kept) => (kept ? [third, third, third] : [0, 0, 0]))
    )
  })
})
