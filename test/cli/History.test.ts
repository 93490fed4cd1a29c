import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import { DOMParser } from "@xmldom/xmldom"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { history } from "../../src/cli/History.js"
import { defaultSizes } from "../../src/history/Economics.js"
import { compact, ticks } from "../../src/rollout/Plot.js"

const folder = mkdtempSync(join(tmpdir(), "deskhand-history-"))

describe("deskhand history", () => {
  it.effect("draws a curve for each policy in each panel, in an SVG that is well-formed", () =>
    Effect.gen(function* () {
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const file = join(folder, "policies.svg")
      const options = {
        policies: ["fixed:3", "hysteresis:3,10"],
        turns: 30,
        sizes: defaultSizes,
        svg: Option.some(file)
      }
      yield* history(options)
      const document = new DOMParser().parseFromString(readFileSync(file, "utf8"), "image/svg+xml")
      const curves = Array.from(document.getElementsByTagName("path"), (path) => path.getAttribute("d") ?? "")
      assert.strictEqual(curves.length, 4)
      // A point for each turn; the share of the first prompt says nothing.
      assert.deepStrictEqual(
        curves.map((curve) => curve.split(/[ML]/).length - 1),
        [30, 30, 29, 29]
      )
      const texts = Array.from(document.getElementsByTagName("text"), (text) => text.textContent)
      assert.includeMembers(texts, ["fixed:3", "hysteresis:3,10", "Tokens of each prompt", "100 %"])
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )

  it.effect("says which policies there are", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        history({ policies: ["windw:3"], turns: 30, sizes: defaultSizes, svg: Option.none() })
      )
      assert.include(error.message, "windw:3 names no history policy: fixed:IMAGES, hysteresis:LOW,HIGH")
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it("has axes that a person would choose", () => {
    assert.deepStrictEqual(ticks(100, 5), [0, 20, 40, 60, 80, 100])
    assert.deepStrictEqual(ticks(0.7, 6), [0, 0.2, 0.4, 0.6])
    assert.deepStrictEqual(ticks(0, 5), [0])
    assert.deepStrictEqual([0, 0.25, 950, 45_000, 1_234_567].map(compact), ["0", "0.25", "950", "45k", "1.23M"])
  })
})
