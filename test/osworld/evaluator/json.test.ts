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
      // JSON as it is; only what is none has its quotes exchanged.
      assert.strictEqual(yield* check(text('{"a": "it\'s"}'), { expected: { a: "it's" } }), 1)
      const part = { expected: { title: "Flights", place: ["Rome", "Paris"] }, expect_in_result: true }
      assert.strictEqual(yield* check(json({ title: "Cheap Flights", place: "Paris" }), part), 1)
      assert.strictEqual(yield* check(json({ title: "Cheap Flights", place: ["Oslo", "Rome"] }), part), 1)
      assert.strictEqual(yield* check(json({ title: "Cheap", place: "Paris" }), part), 0)
      assert.strictEqual(yield* check(json({ title: "Flights", place: "Par" }), part), 0)
      assert.strictEqual(yield* check(json(null), rules), 0)
      assert.strictEqual(yield* check(json({}), { expected: { constructor: "x" } }), 0)
    })
  )

  it.effect("check_json: the rules of task 3f49d2cc, paths and methods", () =>
    Effect.gen(function* () {
      const smart = {
        expect: [
          {
            key: ["chrome://messenger/content/messenger.xhtml", "folderTree", "mode"],
            method: "re",
            ref: "\\bsmart\\b"
          }
        ]
      }
      const at = yield* written({
        smart: JSON.stringify({ "chrome://messenger/content/messenger.xhtml": { folderTree: { mode: "all,smart" } } }),
        plain: JSON.stringify({ "chrome://messenger/content/messenger.xhtml": { folderTree: { mode: "smarter" } } }),
        list: '{"a": [1, {"b": 2.0}, null], "n": null}',
        broken: '{"a": [',
        empty: "",
        yaml: "a:\n  - 1\n  - b: 2\non: yes\nbase: &base {x: 1}\nmore: *base\n",
        twice: "a: 1\na: 2\n",
        open: "a: [1",
        bomb: `a: &a [x, x, x, x, x, x, x, x, x]\n${Array.from("bcdefgh", (name, i) => {
          const before = `*${"abcdefg"[i]}`
          return `${name}: &${name} [${Array(9).fill(before).join(", ")}]\n`
        }).join("")}`
      })
      const check = (name: string, rules: unknown, options = {}) =>
        judge(Json.checkJson, file(at(name)), json(rules), options)
      assert.strictEqual(yield* check("smart", smart), 1)
      assert.strictEqual(yield* check("plain", smart), 0)
      assert.strictEqual(yield* check("broken", smart), 0)
      assert.strictEqual(yield* check("empty", {}), 0)
      assert.strictEqual(yield* judge(Json.checkJson, missing, json(smart)), 0)

      const expecting = (key: ReadonlyArray<string | number>, ref: unknown, method = "eq") => ({
        expect: [{ key, method, ref }]
      })
      assert.strictEqual(yield* check("list", expecting(["a", 1, "b"], 2)), 1)
      assert.strictEqual(yield* check("list", expecting(["a", -2, "b"], 2)), 1)
      assert.strictEqual(yield* check("list", expecting(["a", 9], 2)), 0)
      assert.strictEqual(yield* check("list", expecting(["a", "length"], 3)), 0)
      assert.strictEqual(yield* check("list", expecting(["constructor", "name"], "Object")), 0)
      // What is null is there; what is not there is not null where it is expected, and null where it is not.
      assert.strictEqual(yield* check("list", expecting(["n"], null)), 1)
      assert.strictEqual(yield* check("list", expecting(["m"], null)), 0)
      assert.strictEqual(yield* check("list", expecting(["m"], 1, "ne")), 0)
      assert.strictEqual(yield* check("list", { unexpect: [{ key: ["m"], method: "eq", ref: 1 }] }), 1)
      assert.strictEqual(yield* check("list", { unexpect: [{ key: ["m"], method: "eq", ref: null }] }), 0)
      assert.strictEqual(yield* check("list", { unexpect: [{ key: ["a", 0], method: "eq", ref: 1 }] }), 0)
      assert.include(yield* check("list", expecting(["m"], 1, "near")), "not supported")

      const yaml = { is_yaml: true }
      assert.strictEqual(yield* check("yaml", expecting(["a", 1, "b"], 2), yaml), 1)
      assert.strictEqual(yield* check("yaml", expecting(["more", "x"], 1), yaml), 1)
      // YAML 1.1, which PyYAML reads: `yes` is true, and `on` as a key as well.
      assert.strictEqual(yield* check("yaml", expecting(["true"], true), yaml), 1)
      assert.strictEqual(yield* check("yaml", expecting(["a"], 2), yaml), 0)
      assert.strictEqual(yield* check("yaml", expecting(["a", 1, "b"], 2)), 0)
      assert.strictEqual(yield* check("open", expecting(["a", 0], 1), yaml), 0)
      assert.strictEqual(yield* check("bomb", expecting(["a", 0], "x"), yaml), 0)
      // As PyYAML has it, the last one counts.
      assert.strictEqual(yield* check("twice", expecting(["a"], 2), yaml), 1)
    }).pipe(Effect.scoped)
  )
})
