import { assert, describe, it } from "@effect/vitest"
import { canonicalJson, stableId } from "../../src/identity/StableId.js"

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

  it("refuses numbers that other languages write differently", () => {
    assert.throws(() => canonicalJson([1.5]), RangeError)
    assert.throws(() => canonicalJson([Number.NaN]), RangeError)
  })
})
