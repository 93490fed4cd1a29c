import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { TokenEntry } from "../../src/model/TokenEntry.js"
import { build } from "../../src/model/TraceBuilder.js"
import * as Segment from "../../src/training/Segment.js"
import { call, left, right, vector } from "./dataFixture.js"

const numbers = Schema.Array(Schema.Number)
const strings = Schema.Array(Schema.String)

const image = (id: string, offset: number) => ({ id, offset, length: 2, tokenId: 99, height: 28, width: 56 })

describe("segments", () => {
  it("from training-vectors.json data.segmentation", () => {
    const { inputs, outputs } = vector(
      "data.segmentation",
      Schema.Struct({
        calls: Schema.Array(Schema.Struct({ id: Schema.String, prompt: numbers, gen: numbers, lp: numbers }))
      }),
      Schema.Struct({
        segments: Schema.Array(
          Schema.Struct({
            call_ids: strings,
            input_ids: numbers,
            token_mask: numbers,
            generation_logprobs: numbers,
            shifted_loss_mask: numbers,
            trainable_tokens: Schema.Number
          })
        )
      })
    )
    const made = right(
      Segment.segments(
        inputs.calls.map(({ gen, id, lp, prompt }) => ({
          modelCallId: id,
          promptTokenIds: prompt,
          generationTokenIds: gen,
          generationLogProbs: lp
        }))
      )
    )
    assert.deepStrictEqual(
      made.map((segment) => ({
        call_ids: segment.calls.map(({ modelCallId }) => modelCallId),
        input_ids: Array.from(segment.tokenIds),
        token_mask: Array.from(segment.tokenMask),
        generation_logprobs: Array.from(segment.generationLogProbs),
        shifted_loss_mask: Array.from(segment.tokenMask.subarray(1)),
        trainable_tokens: Segment.trainableTokens(segment)
      })),
      outputs.segments
    )
  })

  it("begin anew where the same tokens stand for other pictures", () => {
    const prompt = [1, 99, 99, 2]
    const next = [...prompt, 10, 3]
    const same = right(
      Segment.segments([
        call("a", prompt, [10], { images: [image("x", 1)] }),
        call("b", next, [11], { images: [image("x", 1)] })
      ])
    )
    const other = right(
      Segment.segments([
        call("a", prompt, [10], { images: [image("x", 1)] }),
        call("b", next, [11], { images: [image("y", 1)] })
      ])
    )
    assert.deepStrictEqual([same.length, other.length], [1, 2])
  })

  it("keep pictures where the processor put them, and a picture's token that was generated as text that trains", () => {
    const [only] = right(Segment.segments([call("a", [1, 99, 99, 2], [99, 7], { images: [image("x", 1)] })]))
    assert.isDefined(only)
    if (only === undefined) return
    assert.deepStrictEqual(Array.from(Segment.mediaMask(only)), [0, 1, 1, 0, 0, 0])
    assert.deepStrictEqual(Array.from(only.tokenMask), [0, 0, 0, 0, 1, 1])
  })

  it("leave out calls that generated nothing", () => {
    const made = right(Segment.segments([call("a", [1], [10]), call("b", [7], []), call("c", [1, 10, 2], [11])]))
    assert.deepStrictEqual(
      made.map(({ calls }) => calls.map(({ modelCallId }) => modelCallId)),
      [["a", "c"]]
    )
  })

  it.prop(
    "hold every generated token exactly once, with its log-probability",
    {
      // Each turn goes on from the last one, or cuts the prompt back to so many tokens.
      turns: FC.array(
        FC.record({
          cut: FC.option(FC.nat({ max: 5 }), { nil: undefined }),
          added: FC.array(FC.nat({ max: 3 }), { minLength: 1, maxLength: 4 }),
          generated: FC.array(FC.nat({ max: 3 }), { minLength: 0, maxLength: 4 })
        }),
        { minLength: 1, maxLength: 8 }
      )
    },
    ({ turns }) => {
      let known: Array<number> = []
      const calls = turns.map(({ added, cut, generated }, index) => {
        const prompt = [...(cut === undefined ? known : known.slice(0, cut)), ...added]
        known = [...prompt, ...generated]
        return call(`c${index}`, prompt, generated)
      })
      const made = Segment.segments(calls)
      const spoken = calls.filter(({ generationTokenIds }) => generationTokenIds.length > 0)
      if (spoken.length === 0) {
        assert.strictEqual(left(made).reason, "no_generated_token")
        return
      }
      const trained = right(made).flatMap(({ generationLogProbs, tokenIds, tokenMask }) =>
        Array.from(tokenIds, (token, at) => ({ token, logProb: generationLogProbs[at] ?? 0, on: tokenMask[at] === 1 }))
          .filter(({ on }) => on)
          .map(({ logProb, token }) => [token, logProb])
      )
      assert.deepStrictEqual(
        trained,
        spoken.flatMap(({ generationLogProbs, generationTokenIds }) =>
          Array.from(generationTokenIds, (token, at) => [token, generationLogProbs[at] ?? 0])
        )
      )
      for (const segment of right(made)) {
        assert.isTrue(segment.tokenIds.length === segment.tokenMask.length)
        assert.isTrue(segment.generationLogProbs.every((value, at) => segment.tokenMask[at] === 1 || value === 0))
      }
    }
  )

  it("take captured token entries and chains of traces as they are", () => {
    const entry = (modelCallId: string, prompt: ReadonlyArray<number>, generated: ReadonlyArray<number>, at: number) =>
      new TokenEntry({
        schemaVersion: 1,
        rolloutId: "r",
        modelCallId,
        model: "m",
        promptTokenIds: prompt,
        generationTokenIds: generated,
        generationLogProbs: generated.map(() => -1),
        outputItems: [],
        createdAt: at
      })
    const entries = [entry("a", [1, 2], [3], 0), entry("b", [1, 2, 3, 4], [5], 1), entry("c", [1, 9], [6], 2)]
    assert.strictEqual(right(Segment.segments(entries)).length, 2)
    const [chain] = build({ rolloutId: "r", entries, incomplete: false }).chains
    assert.isDefined(chain)
    if (chain === undefined) return
    assert.deepStrictEqual(Array.from(right(Segment.join(chain)).tokenMask), [0, 0, 1, 0, 1])
  })

  it("train a call that two chains share in one of them", () => {
    const chain = { calls: [call("a", [1], [2]), call("b", [1, 2, 3], [4])], owns: new Set(["b"]) }
    const joined = right(Segment.join(chain))
    assert.deepStrictEqual(Array.from(joined.tokenMask), [0, 0, 0, 1])
    assert.deepStrictEqual(Array.from(joined.generationLogProbs), [0, 0, 0, -0.1])
  })

  it("are refused when they cannot be right, and say whose they are", () => {
    const at = { owner: "G_g0", group: "G" }
    const bad = (more: Partial<Segment.ModelCall>) => left(Segment.segments([call("a", [1, 2], [3], more)], at))
    const cases: ReadonlyArray<readonly [Segment.SegmentError, Segment.SegmentError["reason"]]> = [
      [bad({ generationLogProbs: [Number.NaN] }), "log_probs"],
      [bad({ generationLogProbs: [Number.NEGATIVE_INFINITY] }), "log_probs"],
      [bad({ generationLogProbs: [0.1] }), "log_probs"],
      [bad({ generationLogProbs: [] }), "length"],
      [bad({ promptTokenIds: [1, -2] }), "token_ids"],
      [bad({ promptTokenIds: [1, 2 ** 31] }), "token_ids"],
      [bad({ generationTokenIds: [1.5] }), "token_ids"],
      [bad({ images: [image("x", 0)] }), "images"],
      [bad({ routedExperts: "nrlre1:int8:3x2x2:AAAA" }), "routes"],
      [bad({ routedExperts: [[[0, 1]]] }), "routes"],
      [bad({ routedExperts: [[[0, 1]], [[0, -1]], [[-1, -1]]] }), "routes"],
      [bad({ routedExperts: [[[0, 1]], [[4, 4]], [[-1, -1]]] }), "routes"],
      [left(Segment.segments([call("a", [1], [])], at)), "no_generated_token"],
      [left(Segment.segments([call("a", [1], [2]), call("a", [1, 2, 3], [4])], at)), "duplicate_call"],
      [left(Segment.join({ calls: [call("a", [1], [2]), call("b", [1, 3], [4])] }, at)), "not_contiguous"]
    ]
    for (const [error, reason] of cases) {
      assert.deepStrictEqual([error.reason, error.owner, error.group], [reason, "G_g0", "G"])
      assert.include(error.message, "G_g0")
    }
  })

  it("are truncated at exactly the row's length, and refused beyond", () => {
    const [only] = right(Segment.segments([call("a", [1, 2], [3, 4])]))
    if (only === undefined) return assert.fail()
    assert.strictEqual(right(Segment.truncated(only, 5)), false)
    assert.strictEqual(right(Segment.truncated(only, 4)), true)
    assert.strictEqual(left(Segment.truncated(only, 3)).reason, "too_long")
  })

  it("sample_mask * !mask_sample * (!truncated if overlong_filtering)", () => {
    const of = (sampleMask: 0 | 1, maskSample: boolean, truncated: boolean, overlongFiltering: boolean) =>
      Segment.effectiveSampleMask({ sampleMask, maskSample, truncated, overlongFiltering })
    assert.deepStrictEqual(
      [
        of(1, false, false, true),
        of(1, false, true, false),
        of(1, false, true, true),
        of(1, true, false, false),
        of(0, false, false, false)
      ],
      [1, 1, 0, 0, 0]
    )
  })
})
