import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as Text from "../../../src/osworld/evaluator/text.js"
import { file, fixture, json, judge, missing, text, written } from "./support.js"

const utf16 = (content: string) => new Uint8Array(Buffer.from(`\ufeff${content}`, "utf16le"))
const latin1 = (content: string) => new Uint8Array(Buffer.from(content, "latin1"))

describe("metrics over text", () => {
  it.effect("check_include_exclude: the rules of task 94d95f96", () =>
    Effect.gen(function* () {
      const rules = json({ include: ["spotify"], exclude: ["not found"] })
      assert.strictEqual(yield* judge(Text.checkIncludeExclude, text("/snap/bin/spotify\n"), rules), 1)
      assert.strictEqual(yield* judge(Text.checkIncludeExclude, text("spotify not found"), rules), 0)
      assert.strictEqual(yield* judge(Text.checkIncludeExclude, text(""), rules), 0)
      assert.strictEqual(yield* judge(Text.checkIncludeExclude, missing, rules), 0)
      assert.strictEqual(yield* judge(Text.checkIncludeExclude, text("x"), json({ exclude: ["y"] })), 1)
    })
  )

  it.effect("exact_match: text with its line end, and JSON", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* judge(Text.exactMatch, text("100\n"), json({ expected: "100\n" })), 1)
      assert.strictEqual(yield* judge(Text.exactMatch, text("100"), json({ expected: "100\n" })), 0)
      assert.strictEqual(yield* judge(Text.exactMatch, json({ a: [1], b: 2 }), json({ expected: { b: 2, a: [1] } })), 1)
      assert.strictEqual(yield* judge(Text.exactMatch, json(null), json({ expected: "" })), 0)
    })
  )

  it.effect("gold that cannot be used is an error, also when the result is missing", () =>
    Effect.gen(function* () {
      assert.include(
        yield* judge(Text.exactMatch, missing),
        "exact_match cannot decide: expected value: the task gives none"
      )
      assert.include(yield* judge(Text.exactMatch, missing, missing), "nobody wrote it")
      assert.include(yield* judge(Text.exactMatch, text("a"), json({})), "expected: is missing")
      assert.include(yield* judge(Text.checkIncludeExclude, text("a"), json({ include: [1] })), "include.0")
      assert.include(
        yield* judge(Text.compareTextFile, missing, file("/nowhere/gold.txt")),
        "/nowhere/gold.txt cannot be read"
      )
      assert.include(yield* judge(Text.compareTextFile, missing, file("/tmp")), "/tmp is not a file")
    })
  )

  it.effect("a result of the wrong kind is an error, and so is one that vanished", () =>
    Effect.gen(function* () {
      assert.include(yield* judge(Text.checkIncludeExclude, json({}), json({})), "result: a file is needed, not Json")
      assert.include(yield* judge(Text.compareCsv, text("a"), file(fixture("book.fods"))), "a file is needed, not Text")
      assert.include(
        yield* judge(Text.compareCsv, file("/nowhere/r.csv"), file(fixture("book.fods"))),
        "cannot be read"
      )
    })
  )

  it.effect("options: junk keys are ignored, bad values are errors before anything is read", () =>
    Effect.gen(function* () {
      const options = { _note: "why", examine_shape_lenient_height: 1, ignore_case: true }
      assert.strictEqual(yield* judge(Text.compareTextFile, text("A"), text("a"), options), 1)
      assert.include(
        yield* judge(Text.compareTextFile, missing, missing, { ignore_case: "yes" }),
        "bad options: ignore_case"
      )
    })
  )

  it.effect("fuzzy_match: 2 * LCS / (|a| + |b|)", () =>
    Effect.gen(function* () {
      // LCS("kitten", "sitting") is "ittn": 8/13.
      assert.strictEqual(yield* judge(Text.fuzzyMatch, text("kitten"), json({ expected: "sitting" })), 8 / 13)
    })
  )

  it.effect("lists: match_in_list, is_in_list, literal_match", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* judge(Text.matchInList, text("b"), json({ expected: ["a", "b"] })), 1)
      assert.strictEqual(yield* judge(Text.matchInList, text("ab"), json({ expected: ["a", "b"] })), 0)
      assert.strictEqual(yield* judge(Text.isInList, json(["x", "y"]), json({ expected: "y" })), 1)
      assert.strictEqual(yield* judge(Text.isInList, text("x: y"), json({ expected: "y" })), 1)
      assert.strictEqual(yield* judge(Text.isInList, json(["xy"]), json({ expected: "y" })), 0)
      // Task 5990457f, whose options these are.
      const options = { type: "list", ignore_case: true }
      const gold = json(["Yann LeCun", "345074"])
      assert.strictEqual(yield* judge(Text.literalMatch, json(["yann lecun", "345074"]), gold, options), 1)
      assert.strictEqual(yield* judge(Text.literalMatch, json(["345074", "yann lecun"]), gold, options), 0)
      assert.strictEqual(yield* judge(Text.literalMatch, json(["yann lecun"]), gold, options), 0)
      assert.strictEqual(yield* judge(Text.literalMatch, text("A"), json("a")), 0)
      assert.strictEqual(yield* judge(Text.literalMatch, text("A"), json("a"), { ignore_case: true }), 1)
    })
  )

  it.effect("check_list: the rules of task 9bc3cc16", () =>
    Effect.gen(function* () {
      const rules = json({ expect: ["歡迎使用新的 Outlook.com 帳戶.*\\.eml", "A Test E-mail.*\\.eml"] })
      const listing = "emails.bak:\nA Test E-mail - x.eml\n歡迎使用新的 Outlook.com 帳戶 - y.eml\n"
      const at = yield* written({ ls: listing, half: "A Test E-mail.eml", split: "A Test E-mail\n.eml" })
      assert.strictEqual(yield* judge(Text.checkList, file(at("ls")), rules), 1)
      assert.strictEqual(yield* judge(Text.checkList, file(at("half")), rules), 0)
      assert.strictEqual(yield* judge(Text.checkList, file(at("split")), json({ expect: ["Test.*eml"] })), 0)
      assert.strictEqual(yield* judge(Text.checkList, file(at("ls")), json({ unexpect: ["bak:$"] })), 0)
      assert.include(yield* judge(Text.checkList, missing, json({ expect: ["("] })), "is not supported")
    }).pipe(Effect.scoped)
  )

  it.effect("file_contains", () =>
    Effect.gen(function* () {
      const at = yield* written({ a: "one\ntwo" })
      assert.strictEqual(yield* judge(Text.fileContains, file(at("a")), json({ expected: ["one", "two"] })), 1)
      assert.strictEqual(yield* judge(Text.fileContains, file(at("a")), json({ expected: ["one", "three"] })), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("compare_text_file: blanks, case and line ends", () =>
    Effect.gen(function* () {
      const at = yield* written({ gold: "A b\nc\n", dos: "A b\r\nc\r\n", loose: "  A\t b c", shout: "A B\nC\n" })
      const compare = (name: string, options = {}) =>
        judge(Text.compareTextFile, file(at(name)), file(at("gold")), options)
      assert.strictEqual(yield* compare("dos"), 1)
      assert.strictEqual(yield* compare("loose"), 0)
      assert.strictEqual(yield* compare("loose", { ignore_blanks: true }), 1)
      assert.strictEqual(yield* compare("shout"), 0)
      assert.strictEqual(yield* compare("shout", { ignore_case: true }), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("compare_csv: encodings, strictness, any of several", () =>
    Effect.gen(function* () {
      const content = "name,städte\nÄ,1\n"
      const at = yield* written({
        gold: content,
        bom: `\ufeff${content}`,
        utf16: utf16(content),
        latin1: latin1(content),
        spaced: " name,städte \nÄ,1",
        unended: content.trimEnd(),
        dos: content.replaceAll("\n", "\r\n"),
        other: "x\n",
        empty: ""
      })
      const gold = file(at("gold"))
      // Lines are compared, and how the last one ends is no part of it: Python's `splitlines`.
      for (const name of ["gold", "bom", "utf16", "latin1", "unended", "dos"]) {
        assert.strictEqual(yield* judge(Text.compareCsv, file(at(name)), gold), 1, name)
      }
      assert.strictEqual(yield* judge(Text.compareCsv, file(at("spaced")), gold), 0)
      assert.strictEqual(yield* judge(Text.compareCsv, file(at("spaced")), gold, { strict: false }), 1)
      assert.strictEqual(yield* judge(Text.compareCsv, file(at("empty")), gold), 0)
      const either = Value.Files({ files: ["other", "gold"].map((name) => ({ name, path: at(name) })) })
      assert.strictEqual(yield* judge(Text.compareCsv, file(at("gold")), either), 1)
      assert.strictEqual(yield* judge(Text.compareCsv, file(at("empty")), either), 0)
    }).pipe(Effect.scoped)
  )
})
