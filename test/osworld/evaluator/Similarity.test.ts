import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { indelSimilarity } from "../../../src/osworld/evaluator/Similarity.js"

/** The textbook table. */
const lcs = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number => {
  let previous = new Array<number>(b.length + 1).fill(0)
  for (const x of a) {
    const row = [0]
    b.forEach((y, j) => {
      row.push(x === y ? (previous[j] ?? 0) + 1 : Math.max(row[j] ?? 0, previous[j + 1] ?? 0))
    })
    previous = row
  }
  return previous[b.length] ?? 0
}

/** Few letters, so that much matches; long enough for several machine words; one outside the basic plane. */
const word = FastCheck.array(FastCheck.constantFrom("a", "b", "c", "歡", "😀"), { maxLength: 150 })

describe("indelSimilarity", () => {
  it.prop("equals 2 LCS / (|a| + |b|) over code points, by the textbook table", [word, word], ([a, b]) => {
    const total = a.length + b.length
    const expected = total === 0 ? 1 : (2 * lcs(a, b)) / total
    assert.strictEqual(indelSimilarity(a.join(""), b.join("")), expected)
  })

  it.prop("is symmetric, and 1 only of equals", [word, word], ([left, right]) => {
    const [a, b] = [left.join(""), right.join("")]
    assert.strictEqual(indelSimilarity(a, b), indelSimilarity(b, a))
    assert.strictEqual(indelSimilarity(a, b) === 1, a === b)
  })

  it("agrees with rapidfuzz 3.14 fuzz.ratio / 100", () => {
    assert.strictEqual(indelSimilarity("", ""), 1)
    assert.strictEqual(indelSimilarity("", "a"), 0)
    // fuzz.ratio("this is a test", "this is a test!") is 96.55172413793103.
    assert.closeTo(indelSimilarity("this is a test", "this is a test!"), 0.9655172413793103, 1e-12)
  })

  it("compares whole documents in a moment", () => {
    const page = Array.from({ length: 40_000 }, (_, i) => String.fromCharCode(97 + ((i * 7919) % 26))).join("")
    assert.isAbove(indelSimilarity(page, `x${page.slice(0, 20_000)}yz${page.slice(20_010)}`), 0.999)
  })
})
