import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Json from "../../../src/osworld/evaluator/json.js"
import { file, json, judge, missing, text, written } from "./support.js"

describe("metrics over JSON", () => {
  it.effect("check_json_settings: comments and trailing commas as VS Code writes them", () =>
    Effect.gen(function* () {
      const at = yield* written({
        settings: '// mine\n{ "a": "// not one, }", /* two\nlines */ "editor.wordWrapColumn": 50, "list": [1, 2,], }',
        plain: '{"editor.wordWrapColumn": 80}',
        broken: '{"editor.wordWrapColumn": 50',
        list: "[50]"
      })
      const gold = json({ expected: { "editor.wordWrapColumn": 50 } })
      const check = (name: string, expected = gold) => judge(Json.checkJsonSettings, file(at(name)), expected)
      assert.strictEqual(yield* check("settings"), 1)
      assert.strictEqual(yield* check("settings", json({ expected: { a: "// not one, }", list: [1, 2] } })), 1)
      assert.strictEqual(yield* check("settings", json({ expected: { b: null } })), 0)
      assert.strictEqual(yield* check("plain"), 0)
      // What the agent left unreadable is its own fault.
      assert.strictEqual(yield* check("broken"), 0)
      assert.strictEqual(yield* check("list"), 0)
      assert.strictEqual(yield* judge(Json.checkJsonSettings, missing, gold), 0)
      assert.include(yield* check("settings", json({ expect: {} })), "expected: is missing")
    }).pipe(Effect.scoped)
  )

  it.effect("check_direct_json_object: keys, order, parts", () =>
    Effect.gen(function* () {
      const check = (result: Parameters<typeof judge>[1], rules: unknown) =>
        judge(Json.checkDirectJsonObject, result, json(rules))
      // Task f5d96daf.
      const models = ["iphone-15-pro-max", "iphone-14-pro-max", "iphone-13-pro-max"]
      const rules = { expected: { modelList: models }, ignore_list_order: true }
      assert.strictEqual(yield* check(json({ modelList: [...models].reverse(), q: 1 }), rules), 1)
      assert.strictEqual(yield* check(json({ modelList: models.slice(1) }), rules), 0)
      assert.strictEqual(
        yield* check(json({ modelList: [...models].reverse() }), { expected: { modelList: models } }),
        0
      )
      assert.strictEqual(yield* check(text("{'a': 'b'}"), { expected: { a: "b" } }), 1)
      assert.strictEqual(yield* check(text("a: b"), { expected: { a: "b" } }), 0)
      const part = { expected: { title: "Flights", place: ["Rome", "Paris"] }, expect_in_result: true }
      assert.strictEqual(yield* check(json({ title: "Cheap Flights", place: "Paris" }), part), 1)
      assert.strictEqual(yield* check(json({ title: "Cheap Flights", place: ["Oslo", "Rome"] }), part), 1)
      assert.strictEqual(yield* check(json({ title: "Cheap", place: "Paris" }), part), 0)
      assert.strictEqual(yield* check(json({ title: "Flights", place: "Par" }), part), 0)
      assert.strictEqual(yield* check(json(null), rules), 0)
      assert.strictEqual(yield* check(json({}), { expected: { constructor: "x" } }), 0)
    })
  )
})
