import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as Text from "../../../src/osworld/evaluator/documentText.js"
import { compareTexts, TextOptions } from "../../../src/osworld/evaluator/internal/documents.js"
import type { Metric } from "../../../src/osworld/evaluator/Metric.js"
import {
  compare,
  docx,
  editedReport,
  lines,
  malformed,
  odt,
  paragraph,
  report,
  reportOdt,
  run
} from "./documentSupport.js"
import { file, fixture, judge, missing, rightOf } from "./support.js"

const expected = file(fixture("documents/report.docx"))

/** What holds of every metric that compares two .docx. */
const comparing: ReadonlyArray<Metric> = [
  Text.compareDocxFiles,
  Text.compareDocxFilesAndIgnoreNewLines,
  Text.compareDocxLines,
  Text.compareDocxTables,
  Text.compareInitLines,
  Text.compareReferences,
  Text.checkNoDuplicates
]

describe("metrics that compare two documents", () => {
  for (const metric of comparing) {
    it.scoped(metric.name, () =>
      Effect.gen(function* () {
        assert.strictEqual(yield* compare(metric, report, report), 1)
        assert.strictEqual(yield* judge(metric, missing, expected), 0)
        for (const bytes of malformed) {
          assert.strictEqual(yield* compare(metric, bytes, report), 0)
          assert.match(String(yield* compare(metric, report, bytes)), /cannot decide: expected value/)
        }
        assert.match(String(yield* judge(metric, expected)), /the task gives none/)
      })
    )
  }
})

describe("compare_docx_files", () => {
  const metric = Text.compareDocxFiles
  const cases = (
    rows: ReadonlyArray<readonly [Uint8Array, Uint8Array, Record<string, unknown>, number, compat?: number]>
  ) =>
    Effect.forEach(rows, ([a, b, options, score, compat = score], i) =>
      Effect.gen(function* () {
        const close = (found: number | string, wanted: number) =>
          assert.closeTo(Number(found), wanted, 1e-9, `row ${i}: ${found}`)
        close(yield* compare(metric, a, b, options), score)
        close(yield* compare(metric, a, b, options, { compat: true }), compat)
      })
    )

  it.scoped("takes white space and paragraph ends for one space", () =>
    cases([
      [lines("a", "b  c"), lines("a b", "", "c"), {}, 1],
      [lines("a", "b"), lines("a", "c"), {}, 0],
      [lines("A"), lines("a"), {}, 0],
      [lines("A"), lines("a"), { ignore_case: true }, 1],
      [report, editedReport(["Water is H", "Water was H"]), {}, 0]
    ])
  )

  it.scoped("compares paragraph by paragraph", () =>
    cases([
      [lines("a", "b"), lines("a b"), { ignore_blanks: false }, 0],
      [lines("a", "b"), lines("a", "b"), { ignore_blanks: false }, 1],
      [lines("a "), lines("a"), { ignore_blanks: false }, 0],
      [lines("a", " ", "b"), lines("a", "b", ""), { ignore_blanks: false, delete_empty_lines: true }, 1],
      [lines("B", "a"), lines("A", "b"), { ignore_blanks: false, ignore_case: true }, 0]
    ])
  )

  it.scoped("forgets the order, also that of lines which differ in what does not count", () =>
    cases([
      [lines("b", "a"), lines("a", "b"), { ignore_order: true }, 1],
      [lines("b", "a"), lines("a", "b"), { ignore_order: true, ignore_blanks: false }, 1],
      [lines("b", "a"), lines("a", "a"), { ignore_order: true }, 0],
      // Capitals come first by code point: upstream sorts before it folds.
      [lines("B", "a"), lines("A", "b"), { ignore_order: true, ignore_case: true }, 1, 0],
      [lines("b", "  c", "a"), lines("c", "b", "a"), { ignore_order: true }, 1, 0]
    ])
  )

  it.scoped("gives similarities", () =>
    cases([
      // "abcd" and "abxd": 2 * 3 / 8.
      [lines("abcd"), lines("abxd"), { fuzzy_match: true }, 0.75],
      [lines("abcd"), lines("abxd"), { content_only: true }, 0.75],
      [lines("ABcd"), lines("abxd"), { content_only: true, ignore_case: true }, 0.75],
      [lines("abcd"), lines("abxd"), { fuzzy_match: true, fuzzy_match_threshold: 0.75 }, 1],
      [lines("abcd"), lines("abxd"), { fuzzy_match: true, fuzzy_match_threshold: 0.76 }, 0],
      [lines("abcd", "x"), lines("abxd", "x"), { fuzzy_match: true, ignore_blanks: false }, 0.875],
      [
        lines("abcd", "x"),
        lines("abxd", "x"),
        { fuzzy_match: true, ignore_blanks: false, fuzzy_match_threshold: 0.9 },
        0.5
      ],
      [docx(""), docx(""), { fuzzy_match: true, ignore_blanks: false }, 1],
      [lines("a"), lines("a", "b"), { fuzzy_match: true, ignore_blanks: false }, 0]
    ])
  )

  it.scoped("reads .odt, with the text of headings and links that upstream leaves out", () =>
    Effect.gen(function* () {
      const extension = "odt"
      const other = (body: string) =>
        compare(metric, odt(body), odt("<text:h>a</text:h><text:p>b</text:p>"), {}, { extension })
      assert.strictEqual(yield* compare(metric, reportOdt, reportOdt, {}, { extension }), 1)
      assert.strictEqual(
        yield* other("<text:p>a</text:p><text:p><text:a><text:span>b</text:span></text:a></text:p>"),
        1
      )
      assert.strictEqual(yield* other("<text:p>b</text:p>"), 0)
      assert.strictEqual(
        yield* compare(
          metric,
          odt("<text:p>b</text:p>"),
          odt("<text:h>a</text:h><text:p>b</text:p>"),
          {},
          { extension, compat: true }
        ),
        1
      )
      for (const bytes of malformed) assert.strictEqual(yield* compare(metric, bytes, reportOdt, {}, { extension }), 0)
    })
  )

  it.scoped("cannot compare what the task does not call a pair", () =>
    Effect.gen(function* () {
      const odtFile = file(fixture("documents/report.odt"))
      const flat = file(fixture("documents/report.fodt"))
      for (const pair of [
        [expected, odtFile],
        [odtFile, expected],
        [flat, flat]
      ] as const) {
        assert.match(String(yield* judge(metric, ...pair)), /both .docx or both .odt/)
        assert.strictEqual(yield* judge(metric, ...pair, {}, { compat: true }), 0)
      }
      assert.match(String(yield* judge(metric, expected, expected, { ignore_case: "yes" })), /bad options/)
    })
  )

  it("is reflexive and symmetric, and forgets the order when told so", () => {
    const texts = FastCheck.array(FastCheck.stringMatching(/^[abAB \t]{0,6}$/), { maxLength: 6 })
    const flags = FastCheck.record({
      ignore_blanks: FastCheck.boolean(),
      ignore_case: FastCheck.boolean(),
      ignore_order: FastCheck.boolean(),
      content_only: FastCheck.boolean(),
      fuzzy_match: FastCheck.boolean(),
      delete_empty_lines: FastCheck.boolean()
    }).map((options) => Schema.decodeSync(TextOptions)(options))
    FastCheck.assert(
      FastCheck.property(texts, texts, flags, (a, b, options) => {
        assert.strictEqual(rightOf(compareTexts(a, a, options, false)), 1)
        assert.closeTo(rightOf(compareTexts(a, b, options, false)), rightOf(compareTexts(b, a, options, false)), 1e-9)
      })
    )
    FastCheck.assert(
      FastCheck.property(
        texts.chain((a) =>
          FastCheck.tuple(FastCheck.constant(a), FastCheck.shuffledSubarray(a, { minLength: a.length }))
        ),
        flags,
        ([a, b], options) =>
          assert.strictEqual(rightOf(compareTexts(a, b, { ...options, ignore_order: true }, false)), 1)
      )
    )
  })

  it.scoped("does not compare megabytes character by character", () =>
    Effect.gen(function* () {
      const long = (text: string) => lines(text.repeat(1_100_000))
      const options = { content_only: true }
      assert.match(String(yield* compare(metric, long("a"), long("b"), options)), /too long/)
    })
  )
})

describe("compare_docx_files_and_ignore_new_lines", () => {
  it.scoped("leaves out empty paragraphs", () =>
    Effect.gen(function* () {
      const metric = Text.compareDocxFilesAndIgnoreNewLines
      assert.strictEqual(yield* compare(metric, lines("a", "", "b c"), lines("a", "b", "c")), 1)
      assert.strictEqual(yield* compare(metric, lines("a"), lines("b")), 0)
      const strict = { ignore_blanks: false }
      assert.strictEqual(yield* compare(metric, lines("a", "", "b"), lines("", "a", "b"), strict), 1)
      assert.strictEqual(yield* compare(metric, lines("a", "b"), lines("a b"), strict), 0)
      assert.strictEqual(yield* compare(metric, lines("a", " "), lines("a"), strict), 0)
    })
  )
})

describe("compare_docx_lines, compare_init_lines", () => {
  it.scoped("compares sets of lines", () =>
    Effect.gen(function* () {
      const metric = Text.compareDocxLines
      assert.strictEqual(yield* compare(metric, lines("a", " b ", "", "a"), lines("b", "a")), 1)
      assert.strictEqual(yield* compare(metric, lines("a"), lines("a", "b")), 0)
      assert.strictEqual(yield* compare(metric, lines("a", "b"), lines("a")), 0)
    })
  )

  it.scoped("compares beginnings", () =>
    Effect.gen(function* () {
      const metric = Text.compareInitLines
      assert.strictEqual(yield* compare(metric, lines("a", "b", "c"), lines("a", "b")), 1)
      assert.strictEqual(yield* compare(metric, lines("a", "c"), lines("a", "b")), 0)
      assert.strictEqual(yield* compare(metric, lines("a"), lines("a", "b")), 0)
      assert.strictEqual(yield* compare(metric, docx(""), lines("a", "b"), {}, { compat: true }), 1)
    })
  )
})

describe("compare_docx_tables", () => {
  const cell = (text: string, properties = "") => `<w:tc><w:tcPr>${properties}</w:tcPr>${paragraph(run(text))}</w:tc>`
  const table = (columns: number, ...rows: ReadonlyArray<string>) =>
    docx(
      `<w:tbl><w:tblGrid>${"<w:gridCol/>".repeat(columns)}</w:tblGrid>${rows.map((row) => `<w:tr>${row}</w:tr>`).join("")}</w:tbl>`
    )
  const two = table(2, cell("a") + cell("b"))

  it.scoped("compares size and text", () =>
    Effect.gen(function* () {
      const rows: ReadonlyArray<readonly [Uint8Array, Uint8Array, number]> = [
        [two, table(2, cell(" a") + cell("b\n")), 1],
        [two, table(2, cell("a") + cell("c")), 0],
        [two, table(2, cell("a"), cell("b")), 0],
        [two, table(3, cell("a") + cell("b")), 0],
        [two, docx(""), 0],
        // A merged cell stands at each of its places.
        [table(2, cell("a", '<w:gridSpan w:val="2"/>')), table(2, cell("a") + cell("a")), 1],
        [two, table(2, cell("a", '<w:gridSpan w:val="2"/>')), 0],
        [table(2, cell("a")), table(2, cell("a")), 1],
        [report, editedReport([">orange<", ">lemon<"]), 0],
        [report, editedReport(["Water is", "Tea is"]), 1]
      ]
      for (const [a, b, score] of rows) {
        assert.strictEqual(yield* compare(Text.compareDocxTables, a, b), score)
        assert.strictEqual(yield* compare(Text.compareDocxTables, b, a), score)
      }
    })
  )
})

describe("compare_references", () => {
  const metric = Text.compareReferences
  const gold = lines("Text", "References", "abcd", "efgh")

  it.scoped("rescales what is above the base", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(metric, lines("Other", "References", "", "abcd", "efgh"), gold), 1)
      // (0.75 + 1) / 2 is 0.875; of 0.5 to 1 that is three quarters.
      assert.strictEqual(yield* compare(metric, lines("References", "abxd", "efgh"), gold), 0.75)
      const base = { reference_base_result: 0.875 }
      assert.strictEqual(yield* compare(metric, lines("References", "abxd", "efgh"), gold, base), 0)
      assert.strictEqual(yield* compare(metric, lines("References", "abcd"), gold), 0)
      assert.strictEqual(yield* compare(metric, lines("abcd", "efgh"), gold), 0)
      assert.strictEqual(yield* compare(metric, lines("References"), lines("References")), 1)
      const named = { reference_indicator: "Sources" }
      assert.strictEqual(yield* compare(metric, lines("a", "Sources", "b"), lines("c", "Sources", "b"), named), 1)
      assert.match(String(yield* compare(metric, gold, gold, { reference_base_result: 1 })), /bad options/)
    })
  )
})

describe("trains", () => {
  const [one, again, two] = ["08:00:00,T1,S1,1", "09:00:00, T1 ,S2,1", "10:00:00,T2,S1,2"]
  const initial = lines(one, again, two)
  const gold = lines(one, two)

  it.scoped("compare_unique_train_records", () =>
    Effect.gen(function* () {
      const metric = Text.compareUniqueTrainRecords
      const files = [gold, initial]
      const cases = [
        [lines(one, "", two), 1],
        [lines(two, again), 1],
        [initial, 0],
        [lines(one), 0],
        [lines(one, "11:00:00,T2,S1,2"), 0],
        [docx(""), 0],
        ...malformed.map((bytes) => [bytes, 0] as const)
      ] as const
      for (const [result, score] of cases) assert.strictEqual(yield* compare(metric, result, files), score)
      assert.strictEqual(
        yield* judge(metric, missing, {
          _tag: "Files",
          files: [expected, expected].flatMap((each) => (each._tag === "File" ? [each] : []))
        }),
        0
      )
      assert.match(String(yield* compare(metric, gold, gold)), /two expected files/)
    })
  )

  it.scoped("check_no_duplicates", () =>
    Effect.gen(function* () {
      const metric = Text.checkNoDuplicates
      assert.strictEqual(yield* compare(metric, gold, initial), 1)
      assert.strictEqual(yield* compare(metric, initial, initial), 0)
      assert.strictEqual(yield* compare(metric, lines(one), initial), 0)
      assert.strictEqual(yield* compare(metric, initial, gold, {}, { compat: true }), 1)
      assert.deepStrictEqual(Array.from(Text.uniqueTrainIds([one, again, two, "a,b"])), ["T1", "T2"])
    })
  )
})

describe("fuzzy_place_math", () => {
  it.scoped("is the mean of three words' best similarities", () =>
    Effect.gen(function* () {
      const metric = Text.fuzzyPlaceMath
      const places = { expected: ["深圳市福田区", "abcd"] }
      assert.strictEqual(yield* compare(metric, lines("深圳市福田区", "", "abcd abcd"), places), 1)
      // 3/4 of the last word: (1 + 1 + 0.75) / 3.
      assert.closeTo(Number(yield* compare(metric, lines("深圳市福田区 abcd", "abxd"), places)), 2.75 / 3, 1e-9)
      assert.strictEqual(yield* compare(metric, lines("x y z"), places), 0)
      assert.strictEqual(yield* compare(metric, lines("abcd abcd"), places), 0)
      for (const bytes of malformed) assert.strictEqual(yield* compare(metric, bytes, places), 0)
      assert.match(String(yield* compare(metric, lines("a b c"), { expected: "a" })), /expected value/)
    })
  )
})

describe("metrics of one document's text", () => {
  it.scoped("evaluate_conversion", () =>
    Effect.gen(function* () {
      const metric = Text.evaluateConversion
      const table = (text: string) => docx(`<w:tbl><w:tr><w:tc>${paragraph(run(text))}</w:tc></w:tr></w:tbl>`)
      const cases = [
        [lines("tea 1", "Tea", "123", ""), 1],
        [lines("tea", "TEA 1"), 0],
        [table("tea"), 1],
        [table("ÉTÉ"), 0],
        // The run after the subscript of "H2O." is "O.".
        [report, 0],
        ...malformed.map((bytes) => [bytes, 0] as const)
      ] as const
      for (const [result, score] of cases) assert.strictEqual(yield* compare(metric, result), score)
    })
  )

  it.scoped("evaluate_alignment", () =>
    Effect.gen(function* () {
      const metric = Text.evaluateAlignment
      const cases = [
        [lines("One two three\tfour five. Six seven."), 1, 1],
        [lines("One two three    four"), 1, 1],
        [lines("One two three"), 1, 0],
        [lines("One two three four"), 0, 1],
        [lines("One\ttwo three four"), 0, 0],
        ...malformed.map((bytes) => [bytes, 0, 0] as const)
      ] as const
      for (const [result, score, compat] of cases) {
        assert.strictEqual(yield* compare(metric, result), score)
        assert.strictEqual(yield* compare(metric, result, undefined, {}, { compat: true }), compat)
      }
    })
  )
})
