import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { checkConfigStatus } from "../../../src/osworld/evaluator/gimp.js"
import { file, fixture, json, judge, missing, text } from "./support.js"

/** GIMP 2.10's own file: `fixtures/media/make-apps.sh`. */
const gimprc = file(fixture("media/gimprc"))

const cases: ReadonlyArray<readonly [unknown, unknown, number]> = [
  ["undo-levels", "100", 1],
  ["undo-levels", 100, 1],
  ["undo-levels", "5", 0],
  ["theme", '"Light"', 1],
  ["theme", "Light", 0],
  // Of several lines each is looked at by itself, whatever it is in.
  ["feather-radius", "10", 1],
  [["dash-offset", "0"], "0", 1],
  [["undo-levels", "99"], "100", 0],
  ["no-such-thing", "1", 0]
]

describe("GIMP", () => {
  for (const [key, value, score] of cases) {
    it.effect(`check_config_status of ${JSON.stringify(key)} for ${value} is ${score}`, () =>
      Effect.map(judge(checkConfigStatus, gimprc, json({ "type:": "key-value", key, value })), (actual) =>
        assert.strictEqual(actual, score)
      )
    )
  }

  it.effect("check_config_status knows two words, leaves comments and empty lines, and survives anything", () =>
    Effect.gen(function* () {
      const judged = (content: string, key: unknown) =>
        judge(checkConfigStatus, text(content), json({ key, value: "yes" }))
      assert.strictEqual(yield* judged('(session-info "toplevel" (open yes))', ["session-info", '"toplevel"']), 1)
      assert.strictEqual(yield* judged("(hide-docks yes)", "hide-docks"), 1)
      assert.strictEqual(yield* judged("# (hide-docks yes)\n   \n()\n", "hide-docks"), 0)
      assert.strictEqual(yield* judged("", "hide-docks"), 0)
      assert.strictEqual(yield* judge(checkConfigStatus, missing, json({ key: "a", value: "b" })), 0)
      assert.include(String(yield* judge(checkConfigStatus, gimprc, json({ key: "a" }))), "cannot decide")
      assert.include(String(yield* judge(checkConfigStatus, gimprc, json({ key: ["a"], value: "b" }))), "cannot decide")
    })
  )
})
