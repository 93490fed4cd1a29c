import { createHash } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { canonicalJson, float, stableId } from "../../src/identity/StableId.js"

describe("StableId", () => {
  it("gives the published id of a trajectory group", () => {
    // osworld-gym.md section 3.6, computed there with the field's own recipe.
    assert.strictEqual(
      stableId("trajectory-group", "bb5e4c0d-f964-439c-97b6-bdb9747de3f4"),
      "trajectory-group-e08e0125b56151193508b27c"
    )
  })

  it("sorts keys by code point, not by UTF-16 unit", () => {
    // U+FF5E is one unit (0xFF5E); U+1F600 is two, the first of them 0xD83D, which is smaller.
    assert.strictEqual(canonicalJson({ "😀": 1, "～": 2, a: [3, null, "é"] }), '{"a":[3,null,"é"],"～":2,"😀":1}')
  })

  it("writes numbers as Python does", () => {
    // Each right-hand side is what CPython's json.dumps writes for the number on its left.
    for (const [value, written] of [
      [0.6, "0.6"],
      [float(1), "1.0"],
      [float(0), "0.0"],
      [float(-0), "-0.0"],
      [float(1e-4), "0.0001"],
      [float(1e-5), "1e-05"],
      [float(2.5e-7), "2.5e-07"],
      [float(1e15), "1000000000000000.0"],
      [float(1e16), "1e+16"],
      [float(1.5e300), "1.5e+300"],
      [float(123456789.125), "123456789.125"],
      [-0.1, "-0.1"],
      [16384, "16384"]
    ] as const) {
      assert.strictEqual(canonicalJson(value), written)
    }
  })

  it("gives the published ids that floats are in", () => {
    // osworld-gym.md section 3.6.
    const contract = (temperature: number, top_p: number | null, max_output_tokens: number) =>
      stableId("sampling-contract", {
        temperature: float(temperature),
        top_p: top_p === null ? null : float(top_p),
        max_output_tokens
      })
    assert.strictEqual(contract(0.6, 0.95, 16384), "sampling-contract-5c9ff2ca32eb1f50692b8660")
    assert.strictEqual(contract(1, null, 1500), "sampling-contract-3d659b171b660b1d79a2b219")
    assert.strictEqual(
      createHash("sha256")
        .update(canonicalJson({ b: float(1), a: 1 }))
        .digest("hex"),
      "386f210ad07c6df906a0d5d0b05f01a9ad19bf1da1ba515fb01eb4afd012278a"
    )
  })

  it("gives the published id of a picture, whose source is hashed by itself", () => {
    // osworld-gym.md section 3.6: not wrapped in a list.
    const source = { type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "high" }
    const digest = createHash("sha256").update(canonicalJson(source)).digest("hex")
    assert.strictEqual(`media-${digest.slice(0, 24)}`, "media-4ae62df475df7ace88bf8bdc")
  })

  it("refuses numbers that have no form, and says where they are", () => {
    assert.throws(() => canonicalJson({ a: [1, Number.NaN] }), RangeError, "$.a[1] is NaN")
    assert.throws(() => canonicalJson({ a: float(Number.POSITIVE_INFINITY) }), RangeError, "$.a is Infinity")
    assert.throws(() => canonicalJson(2 ** 60), RangeError, "mark it as a float")
  })
})
