import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { TokenBundle } from "../../src/model/TokenBundle.js"

const whole: Omit<TokenBundle, "routedExperts"> = {
  promptTokenIds: [0, 2 ** 31 - 1],
  generationTokenIds: [7, 8],
  generationLogProbs: [-0.5, 0]
}

const wire = {
  prompt_token_ids: whole.promptTokenIds,
  generation_token_ids: whole.generationTokenIds,
  generation_log_probs: whole.generationLogProbs
}

const decode = Schema.decodeUnknownEither(TokenBundle)

describe("TokenBundle", () => {
  it("takes tokens as they are, and writes them under the field's keys", () => {
    const bundle = new TokenBundle(whole)
    assert.deepEqual({ ...bundle }, whole)
    assert.deepStrictEqual(Schema.encodeSync(TokenBundle)(bundle), wire)
    assert.deepStrictEqual(Either.getOrThrow(decode(wire)), bundle)
    new TokenBundle({ promptTokenIds: [], generationTokenIds: [], generationLogProbs: [] })
  })

  it("refuses what is no token and no log-probability, and says where it is", () => {
    const refused: ReadonlyArray<[string, object, string]> = [
      ["generationLogProbs", { generationLogProbs: [-1, 0.5] }, "found 0.5 at place 1 of 2"],
      ["generationLogProbs", { generationLogProbs: [-1, 1e-9] }, "at most 0"],
      ["generationLogProbs", { generationLogProbs: [Number.NaN, 0] }, "found NaN at place 0"],
      ["generationLogProbs", { generationLogProbs: [Number.NEGATIVE_INFINITY, 0] }, "found -Infinity"],
      ["generationLogProbs", { generationLogProbs: [-1] }, "2 tokens have 1 log-probabilities"],
      ["generationTokenIds", { generationTokenIds: [2 ** 40, 1] }, "found 1099511627776 at place 0 of 2"],
      ["generationTokenIds", { generationTokenIds: [2 ** 31, 1] }, "from 0 to 2147483647"],
      ["promptTokenIds", { promptTokenIds: [1, 2, -1] }, "found -1 at place 2 of 3"],
      ["promptTokenIds", { promptTokenIds: [1.5] }, "found 1.5"]
    ]
    for (const [key, wrong, said] of refused) {
      assert.throws(() => new TokenBundle({ ...whole, ...wrong }), said)
      const name = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      const value: unknown = Object.values(wrong)[0]
      const error = Either.getOrThrow(Either.flip(decode({ ...wire, [name]: value })))
      assert.include(error.message, said)
    }
    assert.include(
      Either.getOrThrow(Either.flip(decode({ ...wire, prompt_token_ids: "1" }))).message,
      "a list of token ids"
    )
    assert.isTrue(Either.isLeft(decode({ ...wire, generation_token_ids: ["7", 8] })))
  })

  it("checks the tokens of a long prompt in no time to speak of", () => {
    const promptTokenIds = Array.from({ length: 50_000 }, (_, id) => id)
    const began = performance.now()
    for (let at = 0; at < 20; at++) new TokenBundle({ ...whole, promptTokenIds })
    // A schema of each number took more than ten times as long.
    assert.isBelow((performance.now() - began) / 20, 20)
  })
})
