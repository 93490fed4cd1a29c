import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { smartResize } from "../../../src/agents/internal/smartResize.js"

const qwen25 = { factor: 28, minPixels: 3136, maxPixels: 12845056 }
const qwen3 = { factor: 32, minPixels: 3136, maxPixels: 13107200 }
const uiTars = { factor: 28, minPixels: 78400, maxPixels: 12845056 }
const small = { factor: 28, minPixels: 3136, maxPixels: 1003520 }

const sized = (resizing: typeof qwen25, width: number, height: number): readonly [number, number] => {
  const size = smartResize({ width, height }, resizing)
  return [size.width, size.height]
}

describe("smartResize", () => {
  // What CPython 3.11 makes of the formula of Qwen's vision_process (`smart_resize`), whose round takes halves to even.
  for (const [resizing, from, to] of [
    [qwen25, [1920, 1080], [1932, 1092]],
    [qwen25, [1280, 720], [1288, 728]],
    [qwen25, [7680, 4320], [4760, 2688]],
    [qwen25, [70, 70], [56, 56]],
    [qwen25, [42, 1080], [56, 1092]],
    [qwen25, [20, 20], [56, 56]],
    [small, [1920, 1080], [1316, 728]],
    [small, [1280, 800], [1260, 784]],
    [qwen3, [1920, 1080], [1920, 1088]],
    [qwen3, [1280, 720], [1280, 704]],
    [qwen3, [3840, 2160], [3840, 2176]],
    [qwen3, [7680, 4320], [4800, 2688]],
    [uiTars, [70, 70], [280, 280]],
    [uiTars, [42, 1080], [56, 1428]]
  ] as const) {
    it(`${from.join(" by ")} in squares of ${resizing.factor}, at most ${resizing.maxPixels}: ${to.join(" by ")}`, () => {
      assert.deepStrictEqual(sized(resizing, from[0], from[1]), to)
    })
  }

  const side = FastCheck.integer({ min: 64, max: 8000 })
  const resizing = FastCheck.constantFrom(qwen25, qwen3, uiTars, small)

  it.prop(
    "has sides of whole squares and an area within the limits",
    [resizing, side, side],
    ([resizing, width, height]) => {
      const [wide, high] = sized(resizing, width, height)
      assert.strictEqual(wide % resizing.factor, 0)
      assert.strictEqual(high % resizing.factor, 0)
      assert.isAtLeast(wide * high, resizing.minPixels)
      assert.isAtMost(wide * high, resizing.maxPixels)
    }
  )

  // So a picture of that size is one that a server with the same limits leaves alone.
  it.prop("leaves what it made as it is", [resizing, side, side], ([resizing, width, height]) => {
    const once = smartResize({ width, height }, resizing)
    assert.deepStrictEqual(smartResize(once, resizing), once)
  })
})
