import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layout from "../../../src/osworld/evaluator/documentLayout.js"
import * as Style from "../../../src/osworld/evaluator/documentStyle.js"
import type { Metric } from "../../../src/osworld/evaluator/Metric.js"
import {
  compare,
  docx,
  edited,
  editedReport,
  lines,
  malformed,
  odt,
  paragraph,
  report,
  reportOdt,
  run
} from "./documentSupport.js"
import { file, fixture, judge, missing, written } from "./support.js"

const expected = file(fixture("documents/report.docx"))

type Row = readonly [result: Uint8Array, score: number, compat?: number]

/** Scores of results against one expected file or rule, ours and upstream's. */
const scores = (
  metric: Metric,
  against: Uint8Array | Record<string, unknown> | undefined,
  rows: ReadonlyArray<Row>,
  options: Record<string, unknown> = {},
  extension = "docx"
) =>
  Effect.gen(function* () {
    for (const [i, [result, score, compat = score]] of rows.entries()) {
      assert.strictEqual(yield* compare(metric, result, against, options, { extension }), score, `row ${i}`)
      assert.strictEqual(
        yield* compare(metric, result, against, options, { extension, compat: true }),
        compat,
        `row ${i}, as upstream scores`
      )
    }
    for (const bytes of malformed) {
      assert.strictEqual(yield* compare(metric, bytes, against, options, { extension }), 0)
      if (against instanceof Uint8Array) {
        assert.match(
          String(yield* compare(metric, against, bytes, options, { extension })),
          /cannot decide: expected value/
        )
      }
    }
    const rule =
      against === undefined
        ? undefined
        : against instanceof Uint8Array
          ? expected
          : ({ _tag: "Json", json: against } as const)
    const gold = extension === "odt" ? file(fixture("documents/report.odt")) : rule
    assert.strictEqual(yield* judge(metric, missing, gold, options), 0)
  })

describe("fonts", () => {
  const arial = '<w:rFonts w:ascii="Arial"/>'
  const rule = { font_name: "Arial" }

  it.scoped("compare_font_names", () =>
    Effect.gen(function* () {
      yield* scores(Style.compareFontNames, rule, [
        [docx(paragraph(run("a", arial)) + paragraph(run("b", arial))), 1],
        [docx(paragraph(run("a", arial) + run("b"))), 0],
        [docx(paragraph(run("a", '<w:rFonts w:ascii="Courier"/>'))), 0],
        // An empty paragraph as LibreOffice writes it.
        [docx(paragraph(run("a", arial)) + paragraph("<w:r/>")), 1, 0],
        [docx(""), 0, 1],
        [report, 0]
      ])
      assert.match(String(yield* compare(Style.compareFontNames, report, { font: "Arial" })), /expected value/)
    })
  )

  it.scoped("check_italic_font_size_14", () =>
    scores(Style.checkItalicFontSize14, report, [
      [report, 1],
      [editedReport(['<w:sz w:val="28"/>', '<w:sz w:val="26"/>']), 0],
      [editedReport(['<w:sz w:val="28"/>', ""]), 0],
      [editedReport(["<w:i/>", ""]), 0, 1],
      // An empty run that is italic, as LibreOffice writes it into an empty paragraph.
      [editedReport([/<w:r><w:rPr><\/w:rPr><\/w:r>/, "<w:r><w:rPr><w:i/></w:rPr></w:r>"]), 1, 0],
      [editedReport(["slowly", "quickly"]), 0]
    ])
  )

  it.scoped("find_default_font", () =>
    Effect.gen(function* () {
      const item = (path: string, property: string, value: string) =>
        `<item oor:path="/org.openoffice.Office.${path}"><prop oor:name="${property}" oor:op="fuse"><value>${value}</value></prop></item>`
      const profile = (...items: ReadonlyArray<string>) =>
        `<?xml version="1.0"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">${items.join("")}</oor:items>`
      const at = yield* written({
        good: profile(
          item("Writer/DefaultFont", "Heading", "x"),
          item("Writer/DefaultFont", "Standard", "Times New Roman")
        ),
        other: profile(item("Writer/DefaultFont", "Standard", "Arial")),
        calc: profile(item("Calc/DefaultFont", "Standard", "Times New Roman")),
        broken: "<oor:items>"
      })
      const rules = { _tag: "Json", json: { font_name: "Times New Roman" } } as const
      const score = (name: string) => judge(Style.findDefaultFont, file(at(name)), rules)
      assert.strictEqual(yield* score("good"), 1)
      for (const name of ["other", "calc", "broken"]) assert.strictEqual(yield* score(name), 0)
      assert.strictEqual(yield* judge(Style.findDefaultFont, missing, rules), 0)
    })
  )
})

describe("marks", () => {
  it.scoped("compare_subscript_contains", () =>
    scores(Style.compareSubscriptContains, report, [
      [report, 1],
      [editedReport(['w:val="subscript"', 'w:val="superscript"']), 0],
      [docx(""), 0]
    ])
  )

  it.scoped("evaluate_strike_through_last_paragraph", () => {
    const last = (...content: ReadonlyArray<string>) =>
      docx(paragraph(run("first")) + content.map((each) => paragraph(each)).join(""))
    const struck = run("a b", "<w:strike/>")
    return Effect.gen(function* () {
      yield* scores(Style.evaluateStrikeThroughLastParagraph, report, [
        [report, 1],
        [editedReport([/<w:strike\/>(?=<\/w:rPr><w:t>The)/, ""]), 0],
        [editedReport(["<w:strike/>", '<w:strike w:val="0"/>']), 0],
        [editedReport(["The end", "An end"]), 0]
      ])
      yield* scores(Style.evaluateStrikeThroughLastParagraph, last(run("a b")), [
        [last(struck), 1],
        [last(run("a", "<w:strike/>") + run(" b")), 0],
        [last(`${struck}<w:r/>`), 1, 0],
        // An empty paragraph at the end says nothing about the text above it.
        [last(run("a b"), ""), 0, 1],
        [last(struck, ""), 1]
      ])
      assert.match(
        String(
          yield* compare(Style.evaluateStrikeThroughLastParagraph, reportOdt, reportOdt, {}, { extension: "odt" })
        ),
        /only .docx/
      )
    })
  })

  it.scoped("check_highlighted_words", () =>
    Effect.gen(function* () {
      const change = edited(reportOdt, "content.xml")
      const style = (name: string, family: string, color: string) =>
        `<style:style style:name="${name}" style:family="${family}"><style:text-properties fo:background-color="${color}"/></style:style>`
      yield* scores(
        Style.checkHighlightedWords,
        reportOdt,
        [
          [reportOdt, 0],
          [change(['fo:background-color="#ffff00"', 'fo:background-color="transparent"']), 1],
          [change(['fo:background-color="#ffff00"', ""], ["Code is", "Text is"]), 0]
        ],
        {},
        "odt"
      )
      const plain = odt("<text:p>a</text:p>")
      yield* scores(
        Style.checkHighlightedWords,
        plain,
        [
          [plain, 1],
          [
            odt(
              '<text:p text:style-name="P"><text:span text:style-name="T">a</text:span></text:p>',
              style("T", "text", "#FFFF00")
            ),
            0,
            0
          ],
          [odt('<text:p text:style-name="P">a</text:p>', style("P", "paragraph", "#ffff00")), 0, 1],
          [odt('<text:p text:style-name="P">a</text:p>', style("Q", "paragraph", "#ffff00")), 1]
        ],
        {},
        "odt"
      )
      assert.match(String(yield* compare(Style.checkHighlightedWords, report, report)), /only .odt/)
    })
  )

  it.scoped("compare_highlighted_text", () => {
    const marker = '<w:highlight w:val="yellow"/>'
    const gold = docx(paragraph(run("a", marker) + run("b")))
    return Effect.gen(function* () {
      yield* scores(Style.compareHighlightedText, gold, [
        [gold, 1],
        [docx(paragraph(run("a") + run("b", marker))), 0],
        [docx(paragraph(run("a", '<w:highlight w:val="none"/>') + run("b"))), 0],
        [docx(paragraph(run("a", '<w:shd w:fill="FFFF00"/>'))), 1, 0],
        [lines("ab"), 0]
      ])
      // One stretch, however it is cut into runs.
      yield* scores(Style.compareHighlightedText, docx(paragraph(run("ab", marker))), [
        [docx(paragraph(`${run("a", marker)}<w:r/>${run("b", marker)}`)), 1]
      ])
      yield* scores(Style.compareHighlightedText, report, [
        [report, 1],
        [editedReport(["marked", "Marked"]), 0, 1]
      ])
    })
  })

  it.scoped("evaluate_colored_words_in_tables", () => {
    const table = (...runs: ReadonlyArray<string>) =>
      docx(`<w:tbl><w:tr><w:tc>${paragraph(runs.join(""))}</w:tc></w:tr></w:tbl>`)
    const colored = (text: string, color: string) => run(text, `<w:color w:val="${color}"/>`)
    return Effect.gen(function* () {
      yield* scores(Style.evaluateColoredWordsInTables, report, [
        [report, 1, 0],
        [editedReport(["FF0000", "0000FF"]), 0],
        [editedReport(['<w:color w:val="0000FF"/>', ""]), 0],
        // CIEDE2000 of pure red and these, by scikit-image: 0.21 and 13.46.
        [editedReport(["FF0000", "FE0000"]), 1, 0],
        [editedReport(["FF0000", "C00000"]), 0],
        [editedReport(["Water is H", "Tea is H"]), 0],
        [editedReport([/<w:tbl>.*<\/w:tbl>/, ""]), 0, 1]
      ])
      yield* scores(Style.evaluateColoredWordsInTables, docx(""), [
        [table(colored("ap", "FF0000"), colored("ple", "FF0000"), run(" "), colored("Tea", "0000ff")), 1, 0],
        [table(colored("Egg", "FF0000")), 1],
        [table(colored("egg tea", "FF0000")), 0, 1],
        [table(colored("tea", "FF0000")), 0],
        [table(run("tea")), 0]
      ])
      const loose = { threshold: 20 }
      yield* scores(Style.evaluateColoredWordsInTables, docx(""), [[table(colored("egg", "C00000")), 1]], loose)
    })
  })
})

describe("objects", () => {
  it.scoped("compare_contains_image", () =>
    scores(Style.compareContainsImage, report, [
      [report, 1],
      [editedReport(["a:graphicData", "a:nothing"]), 0],
      [docx(""), 1]
    ])
  )

  it.scoped("compare_insert_equation", () =>
    Effect.gen(function* () {
      const object = docx(paragraph("<w:r><w:object/></w:r>"))
      const formula = docx(paragraph("<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>"))
      yield* scores(Style.compareInsertEquation, object, [
        [object, 1],
        [docx(paragraph("<w:r/>")), 0],
        [formula, 0]
      ])
      yield* scores(Style.compareInsertEquation, formula, [
        [formula, 1, 0],
        [docx(paragraph("")), 0]
      ])
    })
  )
})

describe("lines", () => {
  it.scoped("compare_line_spacing", () =>
    scores(Layout.compareLineSpacing, report, [
      [report, 1],
      [editedReport(['w:line="480"', 'w:line="360"']), 0],
      [editedReport(['w:lineRule="exact"', 'w:lineRule="auto"']), 0],
      [editedReport(["<w:br/>", "</w:r></w:p><w:p><w:r>"]), 0],
      [editedReport(["Water is", "Tea is"]), 0]
    ])
  )

  it.scoped("evaluate_spacing", () => {
    const spaced = (...spacings: ReadonlyArray<number>) =>
      docx(spacings.map((line) => paragraph(run("a"), `<w:spacing w:line="${line}"/>`)).join(""))
    return scores(Layout.evaluateSpacing, undefined, [
      [spaced(240, 480, 360), 1],
      [spaced(240, 480, 360, 100), 1],
      [spaced(240, 480, 240), 0],
      [spaced(240, 480), 0],
      // Its first paragraph is a heading.
      [report, 0],
      [editedReport([/<w:p><w:pPr><w:pStyle w:val="Heading1"\/>.*?<\/w:p>/, ""]), 1]
    ])
  })

  it.scoped("is_first_line_centered", () =>
    scores(Layout.isFirstLineCentered, undefined, [
      [report, 1],
      [editedReport(['w:val="center"', 'w:val="left"']), 0],
      [lines("a"), 0],
      [docx(""), 0]
    ])
  )
})

describe("check_tabstops", () => {
  // The line is 11906 - 2 * 1134 = 9638 twips wide, and nine paragraphs have text.
  const metric = Layout.checkTabstops
  const paragraphs = 9

  it.scoped("is 1 less the mean distance", () =>
    Effect.gen(function* () {
      yield* scores(metric, report, [
        [report, 1],
        [editedReport(['w:pos="709"', 'w:pos="700"']), 1],
        [editedReport([/<w:tab w:val="clear"[^>]*>/, '<w:tab w:val="left" w:pos="0"/>']), 1],
        [editedReport([/<w:tab w:val="center"[^>]*>/, ""]), 0],
        [editedReport(['<w:tab w:val="center"', '<w:tab w:val="decimal"']), 0],
        [editedReport(['<w:tab w:val="right"', '<w:tab w:val="end"']), 1, 0],
        [editedReport(["Left part", ""], ["middle", ""], ["<w:t>right</w:t>", ""]), 0]
      ])
      const moved = Number(yield* compare(metric, editedReport(['w:pos="2835"', 'w:pos="3835"']), report))
      assert.closeTo(moved, 1 - 1000 / 9638 / paragraphs, 1e-12)
      // A distance beyond all lines is no reason for a negative score.
      assert.strictEqual(yield* compare(metric, editedReport(['w:pos="2835"', 'w:pos="2000000"']), report), 0)
      assert.match(String(yield* compare(metric, lines("a"), lines("a"))), /how wide/)
    })
  )

  it.scoped("counts words between tabs", () =>
    Effect.gen(function* () {
      const section = '<w:sectPr><w:pgSz w:w="11906"/><w:pgMar w:left="1134" w:right="1134"/></w:sectPr>'
      const tabbed = (...texts: ReadonlyArray<string>) =>
        docx(
          texts
            .map((text) => paragraph(`<w:r><w:t>${text.replaceAll("\t", "</w:t><w:tab/><w:t>")}</w:t></w:r>`))
            .join("") + section
        )
      const gold = tabbed("x\ty", "z")
      const options = { word_number_split_by_tabstop: 3, index: 0 }
      yield* scores(
        metric,
        gold,
        [
          [tabbed("a b c\td", "e f g"), 1],
          [tabbed("a b\tc d", "e f g"), 0],
          [tabbed("a b c"), 0]
        ],
        options
      )
      yield* scores(
        metric,
        gold,
        [
          [tabbed("a\tb c d", "e\tf g h"), 1],
          [tabbed("a\tb c d", "e"), 0]
        ],
        { ...options, index: 1 }
      )
    })
  )
})

describe("pages", () => {
  it.scoped("contains_page_break", () =>
    Effect.gen(function* () {
      const metric = Layout.containsPageBreak
      const none = editedReport(['<w:br w:type="page"/>', ""])
      const two = editedReport(['<w:br w:type="page"/>', '<w:br w:type="page"/><w:br w:type="page"/>'])
      yield* scores(metric, undefined, [
        [report, 1],
        [two, 1],
        [none, 0]
      ])
      yield* scores(metric, { page_break_count: 1 }, [
        [report, 1],
        [two, 0],
        [none, 0]
      ])
      yield* scores(metric, { page_break_count: null }, [[report, 1]])
      assert.match(String(yield* compare(metric, report, { page_break_count: "1" })), /expected value/)
    })
  )

  it.scoped("has_page_numbers_in_footers", () => {
    const footer = edited(report, "word/footer1.xml")
    const field = '<w:fldSimple w:instr=" PAGE "><w:r><w:t>-</w:t></w:r></w:fldSimple>'
    const sections = (...references: ReadonlyArray<string>) =>
      docx(references.map((each) => paragraph("", `<w:sectPr>${each}</w:sectPr>`)).join(""), {
        "word/_rels/document.xml.rels":
          '<Relationships><Relationship Id="a" Type="x/footer" Target="a.xml"/><Relationship Id="b" Type="x/footer" Target="b.xml"/></Relationships>',
        "word/a.xml": `<w:ftr>${paragraph(run("Page 1"))}</w:ftr>`,
        "word/b.xml": `<w:ftr>${paragraph(run("no number"))}</w:ftr>`
      })
    const [a, b] = ["a", "b"].map((id) => `<w:footerReference w:type="default" r:id="${id}"/>`)
    return scores(Layout.hasPageNumbersInFooters, undefined, [
      [report, 1],
      [footer(["<w:t>2</w:t>", ""], [" PAGE ", " AUTHOR "]), 0],
      [footer(["<w:t>2</w:t>", "<w:t>i</w:t>"]), 1, 0],
      [footer([/<w:ftr [^>]*>/, "<w:ftr><w:p/>"], ["<w:t>2</w:t>", ""], [" PAGE ", " page \\* roman "]), 1, 0],
      [footer([/<w:p>.*<\/w:p>/s, `<w:p>${field}</w:p>`]), 1, 0],
      [editedReport([/<w:footerReference [^>]*>/, ""]), 0],
      // A section without a footer of its own shows the one before.
      [sections(a ?? "", ""), 1],
      [sections("", a ?? ""), 0],
      [sections(a ?? "", b ?? ""), 0],
      [sections('<w:footerReference w:type="first" r:id="a"/>'), 0],
      [lines("no section"), 0, 1]
    ])
  })
})
