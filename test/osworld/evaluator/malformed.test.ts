/** What an agent left in pieces scores 0, and gold in pieces is nobody's score. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as Metrics from "../../../src/osworld/evaluator/Metrics.js"
import { compare, malformed, report } from "./documentSupport.js"
import { file, json, judge, missing, text, written } from "./support.js"

const named = (name: string) => Either.getOrThrow(Metrics.get(name))

describe("documents", () => {
  // Files in pieces instead of what LibreOffice wrote.
  const two = [
    "compare_contains_image",
    "compare_highlighted_text",
    "compare_insert_equation",
    "compare_line_spacing",
    "compare_subscript_contains"
  ]
  for (const name of two) {
    it.scoped(`${name}: a malformed result is 0, malformed gold no score`, () =>
      Effect.gen(function* () {
        for (const broken of malformed) {
          assert.strictEqual(yield* compare(named(name), broken, report), 0)
          assert.isString(yield* compare(named(name), report, broken))
        }
        assert.isString(yield* compare(named(name), report))
      })
    )
  }

  const one = [
    "check_italic_font_size_14",
    "evaluate_colored_words_in_tables",
    "evaluate_spacing",
    "has_page_numbers_in_footers",
    "is_first_line_centered"
  ]
  for (const name of one) {
    it.scoped(`${name}: a malformed result is 0`, () =>
      Effect.gen(function* () {
        for (const broken of malformed) assert.strictEqual(yield* compare(named(name), broken, report), 0)
      })
    )
  }
})

describe("texts and JSON", () => {
  const strange: ReadonlyArray<Value> = [json(5), json({ a: 1 }), json([]), text("\u0000\uFFFD")]

  for (const name of ["match_in_list", "is_in_list", "literal_match", "check_direct_json_object"]) {
    it.effect(`${name}: malformed rules are no score, and a malformed result is 0`, () =>
      Effect.gen(function* () {
        assert.isString(yield* judge(named(name), text("a"), undefined))
        // Any text is a gold literal; rules are JSON.
        if (name !== "literal_match") assert.isString(yield* judge(named(name), text("a"), text("{")))
        const rules =
          name === "literal_match" ? json("a") : json({ expected: name === "is_in_list" ? "a" : { a: ["b"] } })
        for (const result of [...strange, missing]) {
          const score = yield* judge(named(name), result, name === "match_in_list" ? json({ expected: ["a"] }) : rules)
          assert.isTrue(score === 0 || typeof score === "string", `${name} of ${JSON.stringify(result)}: ${score}`)
        }
        assert.strictEqual(
          yield* judge(named(name), missing, name === "match_in_list" ? json({ expected: ["a"] }) : rules),
          0
        )
      })
    )
  }

  it.scoped("compare_csv, file_contains and check_text_enlarged: malformed results and gold", () =>
    Effect.gen(function* () {
      const at = yield* written({ "bytes.csv": new Uint8Array([0xff, 0xfe, 0, 1, 2, 0xc3]), "gold.csv": "a,b\n1,2\n" })
      assert.strictEqual(yield* judge(named("compare_csv"), file(at("bytes.csv")), file(at("gold.csv"))), 0)
      assert.isString(yield* judge(named("compare_csv"), file(at("gold.csv")), file(at("none.csv"))))
      const contains = named("file_contains")
      assert.strictEqual(yield* judge(contains, file(at("bytes.csv")), json({ expected: ["a"] })), 0)
      assert.isString(yield* judge(contains, file(at("gold.csv")), json({ expected: 5 })))
      assert.isString(yield* judge(contains, json({}), json({ expected: ["a"] })))
      const enlarged = named("check_text_enlarged")
      for (const result of [text("{"), text("[1, 2"), missing]) {
        const score = yield* judge(enlarged, result, json({ scale: 1.5 }))
        assert.isTrue(score === 0 || typeof score === "string", String(score))
      }
    })
  )

  it.effect("is_expected_active_tab_approximate: a tab without an address is 0, malformed rules no score", () =>
    Effect.gen(function* () {
      const metric = named("is_expected_active_tab_approximate")
      const rules = json({ type: "url", url: "https://example.com/" })
      for (const result of [missing, json({ url: "no address" }), json({ url: "https://example.org/" })]) {
        assert.strictEqual(yield* judge(metric, result, rules), 0)
      }
      assert.isString(yield* judge(metric, json({ url: "https://example.com/" }), json({ type: "no such type" })))
    })
  )
})
