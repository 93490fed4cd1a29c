import { assert, describe, it } from "@effect/vitest"
import { choose, mulberry32 } from "../../src/training/Random.js"
import vectors from "../vectors/training-vectors.json" with { type: "json" }

describe("Random", () => {
  it("draws what mulberry32 draws (training-vectors.json `rng.mulberry32`)", () => {
    const vector = vectors.vectors.find(({ id }) => id === "rng.mulberry32")
    const next = mulberry32(Number(vector?.inputs.seed))
    assert.deepStrictEqual(
      Array.from({ length: 8 }, () => next()),
      vector?.outputs["first8"]
    )
  })

  it("counts seeds modulo 2^32", () => {
    assert.strictEqual(mulberry32(2 ** 32 + 7)(), mulberry32(7)())
    assert.strictEqual(mulberry32(-1)(), mulberry32(2 ** 32 - 1)())
  })

  it("chooses by the inverse of the sums", () => {
    const quarters = [0.25, 0.25, 0.25, 0.25]
    assert.deepStrictEqual(
      [0, 0.2499, 0.25, 0.5, 0.9999].map((u) => choose(quarters, u)),
      [0, 0, 1, 2, 3]
    )
    // Rounding may leave a gap below 1.
    assert.strictEqual(choose([0.3, 0.3, 0.3999], 0.99999), 2)
    assert.strictEqual(choose([0, 1], 0), 1)
  })
})
