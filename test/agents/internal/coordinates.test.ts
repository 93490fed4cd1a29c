import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { toScreen } from "../../../src/agents/internal/coordinates.js"

const screen = { width: 1920, height: 1080 }
const thousandths = { width: 1000, height: 1000 }
const grid = { width: 999, height: 999 }
const picture = { width: 1932, height: 1092 }

describe("toScreen", () => {
  // By hand: value * pixels / extent, rounded down, and the last pixel for the far edge.
  for (const [space, x, y, expected] of [
    [thousandths, 0, 0, { x: 0, y: 0 }],
    [thousandths, 500, 250, { x: 960, y: 270 }],
    [thousandths, 1000, 1000, { x: 1919, y: 1079 }],
    [thousandths, 29, 29, { x: 55, y: 31 }],
    [grid, 999, 999, { x: 1919, y: 1079 }],
    [grid, 500, 500, { x: 960, y: 540 }],
    [grid, 1000, 1000, { x: 1919, y: 1079 }],
    [picture, 966, 546, { x: 960, y: 540 }],
    [picture, 1931, 1091, { x: 1919, y: 1079 }],
    [thousandths, 1002, 1, undefined],
    [thousandths, 1, -1, undefined],
    [picture, Number.NaN, 1, undefined],
    [picture, 1, Number.POSITIVE_INFINITY, undefined]
  ] as const) {
    it(`(${x}, ${y}) of ${space.width} by ${space.height}`, () => {
      assert.deepStrictEqual(toScreen(x, y, space, screen), expected)
    })
  }

  const space = FastCheck.constantFrom(thousandths, grid, picture)
  const value = FastCheck.double({ min: -100, max: 3000, noNaN: true })

  it.prop("is a pixel of the screen or none, and keeps order", [space, value, value], ([space, a, b]) => {
    const [low, high] = [toScreen(Math.min(a, b), 1, space, screen), toScreen(Math.max(a, b), 1, space, screen)]
    for (const point of [low, high]) {
      if (point === undefined) continue
      assert.isTrue(Number.isInteger(point.x) && point.x >= 0 && point.x < screen.width)
    }
    if (low !== undefined && high !== undefined) assert.isAtMost(low.x, high.x)
  })
})
