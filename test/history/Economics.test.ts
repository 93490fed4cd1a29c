import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Compaction from "../../src/history/Compaction.js"
import { episodeCost } from "../../src/history/Economics.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"

const sizes = { system: 100, image: 1000, text: 10, summary: 50 }

describe("the economics of a history policy", () => {
  it("of a fixed window are worked by hand", () => {
    const { prompts, ...whole } = episodeCost(FixedWindow.make({ keepImages: 2 }), 4, sizes)
    // Prompt 2 is 100 + 10 (turn 0 is text) + 2 x 1010, and shares with prompt 1 what comes before turn 0.
    assert.deepStrictEqual(
      prompts.map(({ images, reused, tokens }) => [images, tokens, reused]),
      [
        [1, 1110, 0],
        [2, 2120, 1110],
        [2, 2130, 100],
        [2, 2140, 110]
      ]
    )
    assert.deepStrictEqual(whole, {
      imagesSent: 7,
      tokensSent: 7500,
      reusedShare: 1320 / 7500,
      breaks: 2,
      largestPrompt: 2140,
      meanPrompt: 1875
    })
  })

  it("of hysteresis reuse everything between breaks", () => {
    const { prompts } = episodeCost(Hysteresis.make({ lowWater: 1, highWater: 3 }), 5, sizes)
    assert.deepStrictEqual(
      prompts.map(({ images, reused, tokens }) => [images, tokens, reused]),
      [
        [1, 1110, 0],
        [2, 2120, 1110],
        [3, 3130, 2120],
        [1, 1140, 100],
        [2, 2150, 1140]
      ]
    )
  })

  it("of compaction count the prompt that makes the summary", () => {
    const { breaks, prompts, tokensSent } = episodeCost(Compaction.make({ keepImages: 1, triggerImages: 2 }), 3, sizes)
    // At turn 2 the turns 0 and 1 are a summary of 50, which took one more prompt like that of turn 1.
    assert.deepStrictEqual(
      prompts.map(({ images, summaryTokens, tokens }) => [images, tokens, summaryTokens]),
      [
        [1, 1110, 0],
        [2, 2120, 0],
        [1, 1160, 2120]
      ]
    )
    assert.strictEqual(breaks, 1)
    assert.strictEqual(tokensSent, 1110 + 2120 + 1160 + 2120)
  })

  it.prop(
    "never reuse more than was sent, nor more than the prompt before",
    {
      low: FC.integer({ min: 1, max: 6 }),
      more: FC.integer({ min: 1, max: 6 }),
      turns: FC.integer({ min: 1, max: 40 })
    },
    ({ low, more, turns }) => {
      const { prompts } = episodeCost(Hysteresis.make({ lowWater: low, highWater: low + more }), turns, sizes)
      for (const [index, { reused, tokens }] of prompts.entries()) {
        assert.isAtMost(reused, Math.min(tokens, prompts[index - 1]?.tokens ?? 0))
      }
    }
  )
})
