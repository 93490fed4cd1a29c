import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as RouterReplay from "../../src/training/RouterReplay.js"
import { left, right, vector } from "./dataFixture.js"

describe("routed experts", () => {
  const { inputs, outputs } = vector(
    "r3.envelope",
    Schema.Struct({ array: Schema.Array(Schema.Array(Schema.Array(Schema.Number))) }),
    Schema.Struct({
      int8: Schema.String,
      int16: Schema.String,
      fallback_rows: Schema.Struct({
        all_sentinel_means_model_router: Schema.Array(Schema.Array(Schema.Number)),
        partial_sentinel: Schema.Literal("error"),
        duplicate_expert: Schema.Literal("error")
      })
    })
  )

  it("from training-vectors.json r3.envelope", () => {
    const routes = right(RouterReplay.decode(inputs.array))
    assert.deepStrictEqual([routes.tokens, routes.layers, routes.topK], [3, 2, 2])
    assert.strictEqual(right(RouterReplay.encode(routes, "int8")), outputs.int8)
    assert.strictEqual(right(RouterReplay.encode(routes, "int16")), outputs.int16)
    assert.deepStrictEqual(right(RouterReplay.decode(outputs.int8)), routes)
    assert.deepStrictEqual(right(RouterReplay.decode(outputs.int16)), routes)
    assert.strictEqual(RouterReplay.smallestType(routes.experts), "int8")
  })

  it("-1 alone leaves a choice to the trainer, and nothing else is mended", () => {
    const check = (choice: ReadonlyArray<number>) =>
      RouterReplay.validate(right(RouterReplay.decode([[[...choice]]])), 8)
    const [fallback = []] = outputs.fallback_rows.all_sentinel_means_model_router
    assert.isTrue(Either.isRight(check(fallback)))
    assert.isTrue(Either.isRight(check([7, 0])))
    assert.deepStrictEqual(
      [check([3, -1]), check([3, 3]), check([3, 8]), check([3, -2])].map((either) => left(either).reason),
      ["partial", "duplicate", "range", "range"]
    )
  })

  it("refuse what is no envelope", () => {
    const reason = (value: unknown) => left(RouterReplay.decode(value)).reason
    assert.deepStrictEqual(
      [
        reason("nrlre2:int8:1x1x1:AA=="),
        reason("nrlre1:uint16:1x1x1:AAA="),
        reason("nrlre1:int8:1x1:AA=="),
        reason("nrlre1:int8:-1x1x1:AA=="),
        reason("nrlre1:int8:1x1x1:A*=="),
        reason("nrlre1:int8:1x1x1:AA==:"),
        reason("nrlre1:int16:1x1x1:AA=="),
        reason("nrlre1:int8:2x1x1:AA=="),
        reason(42),
        reason([[[1, 2]], [[1]]]),
        reason([[[1], [2]], [[1]]]),
        reason([[["1"]]])
      ],
      [
        "envelope",
        "envelope",
        "envelope",
        "envelope",
        "envelope",
        "envelope",
        "shape",
        "shape",
        "envelope",
        "shape",
        "shape",
        "range"
      ]
    )
    const wide = right(RouterReplay.decode([[[200]]]))
    assert.strictEqual(left(RouterReplay.encode(wide, "int8")).reason, "range")
  })

  it.prop(
    "come back from every envelope that holds them",
    {
      shape: FC.tuple(FC.integer({ min: 0, max: 4 }), FC.integer({ min: 1, max: 3 }), FC.integer({ min: 1, max: 3 })),
      experts: FC.array(FC.integer({ min: -1, max: 127 }), { minLength: 36, maxLength: 36 }),
      type: FC.constantFrom(...RouterReplay.RouteType.literals)
    },
    ({ experts, shape: [tokens, layers, topK], type }) => {
      const routes = { tokens, layers, topK, experts: Int32Array.from(experts.slice(0, tokens * layers * topK)) }
      assert.deepStrictEqual(right(RouterReplay.decode(right(RouterReplay.encode(routes, type)))), routes)
    }
  )

  it("the last token of a call takes the choice of the next call's prefix, and the very last has none", () => {
    const of = (...experts: ReadonlyArray<number>) => right(RouterReplay.decode(experts.map((expert) => [[expert]])))
    const joined = right(
      RouterReplay.assemble([
        // Prompt of 2 and a reply of 2: its last token has no choice.
        { length: 4, routes: of(1, 2, 3, -1) },
        // The prefix was routed again, differently; one token was added, two generated.
        { length: 7, routes: of(9, 9, 9, 4, 5, 6, -1) }
      ])
    )
    assert.deepStrictEqual(Array.from(joined?.experts ?? []), [1, 2, 3, 4, 5, 6, -1])
    // Engines may leave the last token away.
    const shorter = right(RouterReplay.assemble([{ length: 4, routes: of(1, 2, 3) }]))
    assert.deepStrictEqual(Array.from(shorter?.experts ?? []), [1, 2, 3, -1])
    assert.isUndefined(right(RouterReplay.assemble([{ length: 4, routes: undefined }])))
    assert.strictEqual(left(RouterReplay.assemble([{ length: 4, routes: of(1, 2) }])).reason, "shape")
    assert.strictEqual(
      left(
        RouterReplay.assemble([
          { length: 1, routes: of(1) },
          { length: 2, routes: right(RouterReplay.decode([[[1, 2]], [[1, 2]]])) }
        ])
      ).reason,
      "shape"
    )
  })
})
