import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import * as Difflib from "../../../src/osworld/evaluator/internal/difflib.js"
import { expandTabs, splitLines } from "../../../src/osworld/evaluator/internal/lines.js"
import * as TextFiles from "../../../src/osworld/evaluator/textFiles.js"
import { file, fixture, json, judge, missing, rightOf, text, written } from "./support.js"

const Vectors = Schema.parseJson(Schema.Array(Schema.Tuple(Schema.String, Schema.String, Schema.Number)))

describe("difflib", () => {
  it("says what Python's difflib says (editors/vectors.py wrote the values)", () => {
    const vectors = Schema.decodeSync(Vectors)(readFileSync(fixture("editors/difflib.json"), "utf8"))
    assert.isAbove(vectors.length, 50)
    for (const [a, b, ratio] of vectors) {
      const ours = rightOf(Difflib.ratio(Array.from(a), Array.from(b)))
      assert.closeTo(ours, ratio, 1e-12, JSON.stringify([a, b]))
    }
  })

  it("gives up on sequences that would take the cube of their length", () => {
    const unlike = Either.isLeft(Difflib.ratio(Array(199).fill("a"), Array(199).fill("a"), 1000))
    assert.isTrue(unlike)
    // Every line of the second file occurs as often as it may without being popular.
    const lines = Array.from({ length: 40_000 }, (_, i) => String(i % 110))
    assert.isTrue(Either.isLeft(Difflib.ratio(lines.toReversed(), lines, 5_000_000)))
  })

  const sequences = FastCheck.array(FastCheck.constantFrom("a", "b", "c", "d"), { maxLength: 300 })

  it("is 1 for what is equal, and within [0, 1]", () =>
    FastCheck.assert(
      FastCheck.property(sequences, sequences, (a, b) => {
        assert.strictEqual(rightOf(Difflib.ratio(a, [...a])), 1)
        const ratio = rightOf(Difflib.ratio(a, b))
        assert.isTrue(ratio >= 0 && ratio <= 1)
      }),
      { numRuns: 50 }
    ))
})

describe("lines", () => {
  it("are Python's", () => {
    // Python 3.11: "a\r\nb\x0cc\n\n".splitlines(), "".splitlines(), "a\tb\tccccc\td".expandtabs(4)
    assert.deepStrictEqual(splitLines("a\r\nb\fc\n\n"), ["a", "b", "c", ""])
    assert.deepStrictEqual(splitLines(""), [])
    assert.strictEqual(expandTabs("a\tb\tccccc\td", 4), "a   b   ccccc   d")
  })
})

describe("metrics over what programs have written", () => {
  it.effect("check_line_number: lines with a time", () =>
    Effect.gen(function* () {
      const at = yield* written({
        log: "00:00:01 start\nnothing\nat 23:59:59 and 12:00:00\n24:00:00\n9:30:00\n",
        leap: "23:59:60\n",
        empty: ""
      })
      const check = (name: string, expected: unknown) =>
        judge(TextFiles.checkLineNumber, file(at(name)), json({ expected }))
      // 24:00:00 is no time of day, nor is an hour of one digit.
      assert.strictEqual(yield* check("log", 2), 1)
      assert.strictEqual(yield* check("log", "2"), 1)
      assert.strictEqual(yield* check("log", 3), 0)
      // A leap second.
      assert.strictEqual(yield* check("leap", 1), 1)
      assert.strictEqual(yield* check("empty", 2), 0)
      assert.strictEqual(yield* judge(TextFiles.checkLineNumber, missing, json({ expected: 2 })), 0)
      assert.include(yield* check("log", "two"), "cannot decide")
    }).pipe(Effect.scoped)
  )

  it.effect("diff_text_file: two of three lines match, 4/6", () =>
    Effect.gen(function* () {
      const at = yield* written({ gold: "a\nb\nc\n", near: "a\r\nx\r\nc", empty: "" })
      const diff = (result: string, gold: string) => judge(TextFiles.diffTextFile, file(at(result)), file(at(gold)))
      assert.strictEqual(yield* diff("gold", "gold"), 1)
      assert.strictEqual(yield* diff("near", "gold"), 4 / 6)
      assert.strictEqual(yield* diff("empty", "gold"), 0)
      assert.strictEqual(yield* diff("empty", "empty"), 1)
      assert.strictEqual(yield* judge(TextFiles.diffTextFile, missing, file(at("gold"))), 0)
      assert.include(yield* judge(TextFiles.diffTextFile, file(at("gold")), missing), "cannot decide")
    }).pipe(Effect.scoped)
  )

  it.effect("compare_result_files: texts, and numbers among words", () =>
    Effect.gen(function* () {
      const compare = (found: string, gold: string, compat = false) =>
        judge(TextFiles.compareResultFiles, text(found), text(gold), {}, { compat })
      for (const [found, gold, score, upstream = score] of [
        [" Yes\n", "Yes", 1],
        ["yes", "Yes", 0],
        ["3.14159", "3.1416", 1],
        ["3.1418", "3.1416", 0],
        ["The median is 22.5 dollars.", "22.5\n", 1],
        ["x=22.512", "22.5", 1],
        ["22", "22.5", 0],
        ["about 22.0", "22", 1],
        // Another number has this one in it.
        ["22.5", "22", 0, 1],
        ["15", "5", 0, 1],
        ["-5", "5", 0, 1],
        ["1.5", "5", 0, 1],
        ["5,000", "5", 0, 1],
        ["3, 5, 7", "5", 1],
        ["rows: 12-5", "5", 1],
        ["1e-5", "0", 1],
        ["none", "5", 0]
      ] as const) {
        assert.strictEqual(yield* compare(found, gold), score, `${found} for ${gold}`)
        assert.strictEqual(yield* compare(found, gold, true), upstream, `${found} for ${gold}, as upstream`)
      }
      assert.strictEqual(yield* judge(TextFiles.compareResultFiles, missing, text("5")), 0)
      assert.include(yield* judge(TextFiles.compareResultFiles, text("5"), missing), "cannot decide")
    })
  )

  it.effect("compare_python_pure_text: blank lines, tabs, ends and the first lines", () =>
    Effect.gen(function* () {
      const gold = "import os\n\ndef f():\n    return os.name\n"
      const compare = (found: string) => judge(TextFiles.comparePythonPureText, text(found), text(gold))
      assert.strictEqual(yield* compare(gold), 1)
      assert.strictEqual(
        yield* compare("#!/usr/bin/python3\n# -*- coding: utf-8 -*-\nimport os  \r\ndef f():\n\treturn os.name"),
        1
      )
      assert.strictEqual(yield* compare("```python\nimport os\ndef f():\n    return os.name\n```"), 0)
      assert.strictEqual(yield* compare("import os\ndef f():\n  return os.name"), 0)
      assert.strictEqual(yield* compare(""), 0)
      assert.strictEqual(yield* judge(TextFiles.comparePythonPureText, missing, text(gold)), 0)
    })
  )

  it.effect("compare_terminal_and_txt", () =>
    Effect.gen(function* () {
      const compare = (found: string, terminal: Parameters<typeof judge>[2]) =>
        judge(TextFiles.compareTerminalAndTxt, text(found), terminal)
      assert.strictEqual(yield* compare("$ ls\na", text("$ ls\na")), 1)
      assert.strictEqual(yield* compare("$ ls", text("$ ls\na")), 0)
      assert.strictEqual(yield* compare("", text("")), 0)
      // A terminal that the agent closed is the agent's doing.
      assert.strictEqual(yield* compare("$ ls", missing), 0)
      assert.strictEqual(yield* judge(TextFiles.compareTerminalAndTxt, missing, text("$ ls")), 0)
      assert.include(yield* compare("$ ls", undefined), "cannot decide")
    })
  )

  it.effect("compare_answer", () =>
    Effect.gen(function* () {
      const compare = (found: string, rules: unknown) => judge(TextFiles.compareAnswer, text(found), json(rules))
      assert.strictEqual(yield* compare("42", { expected: "42" }), 1)
      assert.strictEqual(yield* compare("42 ", { expected: "42" }), 0)
      assert.strictEqual(yield* compare("", { expected: "" }), 0)
      assert.include(yield* compare("42", {}), "cannot decide")
    })
  )

  it.effect("check_html_background_image: in the page's style sheets, quoted as one likes", () =>
    Effect.gen(function* () {
      const check = (html: string, compat = false) =>
        judge(TextFiles.checkHtmlBackgroundImage, text(html), json({ value: "a(1).png" }), {}, { compat })
      const sheet = (rule: string) =>
        `<html><head><style>body { color: red; ${rule} }</style></head><body></body></html>`
      const single = sheet("background-image: url('a(1).png');")
      assert.strictEqual(yield* check(single), 1)
      assert.strictEqual(yield* check(single, true), 1)
      for (const rule of ['background-image:url("a(1).png")', "background: #fff url( a(1).png ) no-repeat"]) {
        assert.strictEqual(yield* check(sheet(rule)), 1, rule)
        assert.strictEqual(yield* check(sheet(rule), true), 0, rule)
      }
      assert.strictEqual(yield* check(sheet("background-image: url('a1.png')")), 0)
      assert.strictEqual(yield* check("<body>background-image: url('a(1).png')</body>"), 0)
      assert.strictEqual(yield* check("<style"), 0)
      assert.include(yield* judge(TextFiles.checkHtmlBackgroundImage, text(single), json({})), "cannot decide")
    })
  )

  it.effect("compare_time_in_speedtest_results: less than so many minutes ago, also about midnight", () =>
    Effect.gen(function* () {
      const check = (result: string, limit: unknown, compat = false) =>
        judge(TextFiles.compareTimeInSpeedtestResults, text(result), json(limit), {}, { compat })
      const at = (time: string) => `Server,TEST_DATE,Mbit\nx,2024-01-02 ${time},93\n`
      yield* TestClock.setTime(new Date(2024, 0, 3, 0, 1).getTime())
      assert.strictEqual(yield* check(at("00:00"), 2), 1)
      assert.strictEqual(yield* check(at("00:00"), "1"), 0)
      assert.strictEqual(yield* check(at("23:58"), 4), 1)
      assert.strictEqual(yield* check(at("23:58"), 4, true), 0)
      assert.strictEqual(yield* check("Server,TEST_DATE\n", 60), 0)
      assert.strictEqual(yield* check(at("25h"), 60), 0)
      assert.include(yield* check(at("00:00"), "soon"), "cannot decide")
    })
  )

  it.effect("what is compared with itself is the same", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(FastCheck.string({ minLength: 1, unit: "binary" }), (content) =>
          Effect.runPromise(
            Effect.gen(function* () {
              for (const metric of [
                TextFiles.diffTextFile,
                TextFiles.compareResultFiles,
                TextFiles.comparePythonPureText,
                TextFiles.compareTerminalAndTxt
              ]) {
                assert.strictEqual(yield* judge(metric, text(content), text(content)), 1, metric.name)
              }
            })
          )
        ),
        { numRuns: 30 }
      )
    )
  )
})
