import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { type GaeOptions, type GaeStep, gae, gaeOfStep, lambdaOf } from "../../src/training/Gae.js"
import { mulberry32 } from "../../src/training/Random.js"
import { left, right, vector } from "./dataFixture.js"
import { close, near } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Discounts = Schema.Record({ key: Schema.String, value: Schema.Number })

const published = vector(
  "adv.gae_compaction",
  Schema.Struct({
    rewards: Numbers,
    values: Numbers,
    mask: Numbers,
    segments: Schema.Array(Schema.Struct({ index: Schema.Number, tokens: Schema.Number })),
    gamma: Schema.Number,
    alpha: Schema.Number,
    lambda_value: Schema.Number
  }),
  Schema.Struct({
    gae_1_095: Numbers,
    gae_099_095: Numbers,
    lambda_policy: Schema.Number,
    policy_discount: Discounts,
    value_discount: Discounts
  })
)

/** Segments of one owner, in this order of rows, of so many tokens each. */
const segmented = (
  tokens: ReadonlyArray<number>,
  segment: ReadonlyArray<number>,
  values: (place: number) => number,
  reward = 1
): GaeStep => {
  const offsets = new Int32Array(tokens.length + 1)
  for (const [row, count] of tokens.entries()) offsets[row + 1] = (offsets[row] ?? 0) + count
  const places = offsets[tokens.length] ?? 0
  return {
    batch: { offsets, mask: new Uint8Array(places).fill(1), sampleMask: new Uint8Array(tokens.length).fill(1) },
    rowIds: segment.map((index) => `A_g0_s${index}`),
    owner: new Int32Array(tokens.length),
    segment: Int32Array.from(segment),
    reward: Float64Array.of(reward),
    values: Float64Array.from({ length: places }, (_, place) => values(place))
  }
}

const outputs = (step: GaeStep) => ({
  advantage: new Float64Array(step.values.length),
  returns: new Float64Array(step.values.length)
})

describe("generalised advantage estimation", () => {
  it("passes masked places over as published (training-vectors.json `adv.gae_compaction`)", () => {
    const { mask, rewards, values } = published.inputs
    const row = {
      from: 0,
      to: mask.length,
      mask: Uint8Array.from(mask),
      values: Float64Array.from(values),
      rewards: Float64Array.from(rewards)
    }
    for (const [gamma, wanted] of [
      [1, published.outputs.gae_1_095],
      [0.99, published.outputs.gae_099_095]
    ] as const) {
      const out = new Float64Array(mask.length)
      gae(row, gamma, 0.95, out)
      close(out, wanted)
      // The reward at the end of an episode is the one of its last token.
      const { rewards: _, ...bare } = row
      gae({ ...bare, terminal: 1 }, gamma, 0.95, out)
      close(out, wanted)
    }
  })

  it("discounts a segment by all tokens of later ones (training-vectors.json `adv.gae_compaction`)", () => {
    const { alpha, gamma, lambda_value, segments } = published.inputs
    const { lambda_policy, policy_discount, value_discount } = published.outputs
    near(lambdaOf({ alpha }, 12), lambda_policy)
    const tokens = segments.map((segment) => segment.tokens)
    const options: GaeOptions = { gamma, lambdaPolicy: { alpha }, lambdaValue: lambda_value, whiten: false }
    const step = segmented(tokens, [0, 1, 2], () => 0)
    const out = outputs(step)
    right(gaeOfStep(step, options, out))
    // With values of 0 the last token of a segment has advantage and return 1, but for the discount.
    for (const [row, { index }] of segments.entries()) {
      const last = (step.batch.offsets[row + 1] ?? 0) - 1
      near(out.advantage[last], policy_discount[index])
      near(out.returns[last], value_discount[index])
    }
  })

  it("of segments is, with values of 0, that of the whole episode, in any order of rows", () => {
    FC.assert(
      FC.property(
        FC.array(FC.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 }),
        FC.double({ min: 0.5, max: 1, noNaN: true }),
        FC.double({ min: 0, max: 1, noNaN: true }),
        (tokens, gamma, lambda) => {
          const options: GaeOptions = { gamma, lambdaPolicy: lambda, lambdaValue: 1, whiten: false }
          const total = tokens.reduce((sum, count) => sum + count, 0)
          const whole = segmented([total], [0], () => 0)
          const split = segmented(
            tokens,
            tokens.map((_, index) => index),
            () => 0
          )
          const backwards = segmented(tokens.slice().reverse(), tokens.map((_, index) => index).reverse(), () => 0)
          const [one, many, reversed] = [outputs(whole), outputs(split), outputs(backwards)]
          right(gaeOfStep(whole, options, one))
          right(gaeOfStep(split, options, many))
          right(gaeOfStep(backwards, options, reversed))
          // The last token of a segment has gamma lambda for each token after it, as in one row.
          close(many.advantage, one.advantage)
          close(many.returns, one.returns)
          let at = total
          for (const [row, count] of tokens.entries()) {
            at -= tokens[tokens.length - 1 - row] ?? 0
            const from = tokens.slice(0, tokens.length - 1 - row).reduce((sum, each) => sum + each, 0)
            assert.isAtLeast(at, 0)
            assert.strictEqual(count > 0, true)
            const end = from + (tokens[tokens.length - 1 - row] ?? 0)
            const start = backwards.batch.offsets[row] ?? 0
            close(reversed.advantage.subarray(start, start + end - from), many.advantage.subarray(from, end))
          }
        }
      )
    )
  })

  it("whitens to mean 0 and deviation 1 over what trains, and leaves the rest 0", () => {
    const random = mulberry32(3)
    const step = segmented([20, 10], [0, 1], () => random(), 0.5)
    step.batch.mask[4] = 0
    const out = outputs(step)
    right(gaeOfStep(step, { gamma: 1, lambdaPolicy: 0.9, lambdaValue: 1, whiten: true }, out))
    assert.strictEqual(out.advantage[4], 0)
    assert.strictEqual(out.returns[4], 0)
    near(
      out.advantage.reduce((sum, value) => sum + value, 0),
      0,
      1e-9
    )
    near(out.advantage.reduce((sum, value) => sum + value * value, 0) / 28, 1, 1e-6)
  })

  it("refuses values that are no numbers and segments that are missing or there twice", () => {
    const options: GaeOptions = { gamma: 1, lambdaPolicy: 1, lambdaValue: 1, whiten: false }
    const run = (step: GaeStep) => left(gaeOfStep(step, options, outputs(step)))
    const error = run(segmented([2, 2], [0, 1], (place) => (place === 3 ? Number.NaN : 0)))
    assert.deepInclude({ ...error }, { reason: "NotFinite", row: "A_g0_s1", place: 1 })
    assert.strictEqual(run(segmented([1, 1], [0, 2], () => 0)).reason, "MissingOwner")
    assert.strictEqual(run(segmented([1], [1], () => 0)).reason, "MissingOwner")
    assert.strictEqual(run(segmented([1, 1], [0, 0], () => 0)).reason, "DuplicateOwner")
    assert.strictEqual(run({ ...segmented([1], [0], () => 0), owner: Int32Array.of(3) }).reason, "Foreign")
    assert.strictEqual(run({ ...segmented([1], [0], () => 0), values: new Float64Array(2) }).reason, "Length")
  })
})
