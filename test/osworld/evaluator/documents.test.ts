import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { strToU8, zipSync } from "fflate"
import { metrics } from "../../../src/osworld/evaluator/documents.js"
import { ciede2000, fromHex, toLab } from "../../../src/osworld/evaluator/internal/colors.js"
import { collapse, strip } from "../../../src/osworld/evaluator/internal/documents.js"
import * as OpenDocument from "../../../src/osworld/evaluator/internal/openDocument.js"
import * as WordDocument from "../../../src/osworld/evaluator/internal/wordDocument.js"
import * as Xml from "../../../src/osworld/evaluator/internal/xmlTree.js"
import { docx, malformed, odt, paragraph, report, reportOdt, run } from "./documentSupport.js"
import { fixture, rightOf } from "./support.js"

/** What python-docx and odfpy say of the documents: `fixtures/documents/peers.py`. */
const peers: Record<string, unknown> = JSON.parse(readFileSync(fixture("documents/peers.json"), "utf8"))

const kind = <A>(parsed: Either.Either<A, { readonly kind: string }>) =>
  Either.isLeft(parsed) ? parsed.left.kind : "parsed"

describe("WordDocument", () => {
  const document = rightOf(WordDocument.parse(report))

  it("sees in a document of LibreOffice what python-docx sees", () => {
    const seen = {
      paragraphs: document.paragraphs.map((each) => ({
        text: each.text,
        runs: each.runs.map((one) => ({
          text: one.text,
          italic: one.italic,
          strike: one.strike,
          subscript: one.subscript,
          font: one.fontName ?? null,
          size: one.size ?? null,
          color: one.color ?? null
        })),
        centered: each.alignment === "center",
        spacing: each.lineSpacing === undefined ? null : [each.lineSpacing.amount, each.lineSpacing.unit],
        tabs: each.tabStops.map(({ alignment, position }) => [alignment, position])
      })),
      tables: document.tables.map(({ columns, grid, rows }) => ({
        rows,
        columns,
        cells: grid.map(({ paragraphs }) => paragraphs.map(({ text }) => text).join("\n"))
      })),
      sections: document.sections.map(({ leftMargin, pageWidth, rightMargin }) => [pageWidth, leftMargin, rightMargin]),
      footers: rightOf(document.footers()).map((footer) => footer?.paragraphs.map(({ text }) => text)),
      pictures: document.pictures.map(({ bytes }) => createHash("sha256").update(rightOf(bytes())).digest("hex"))
    }
    assert.deepStrictEqual(seen, peers["report.docx"])
  })

  // The forms of ECMA-376 that LibreOffice does not write, with python-docx 1.2.0's answers.
  it("reads units, switches and special characters", () => {
    const body = paragraph(
      '<w:r><w:rPr><w:i w:val="false"/><w:strike w:val="1"/><w:sz w:val="14pt"/><w:color w:val="auto"/></w:rPr><w:t>a</w:t><w:noBreakHyphen/><w:tab/><w:br/><w:br w:type="page"/><w:cr/><w:t>&#x1F600;&amp;</w:t></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins>',
      '<w:spacing w:line="12pt" w:lineRule="atLeast"/><w:tabs><w:tab w:val="start" w:pos="720"/></w:tabs>'
    )
    const [first] = rightOf(WordDocument.parse(docx(body))).paragraphs
    assert.strictEqual(first?.text, "a-\t\n\n\u{1F600}&")
    const [{ color, italic, pageBreaks, size, strike } = {}] = first?.runs ?? []
    assert.deepStrictEqual(
      { color, italic, pageBreaks, size, strike },
      {
        color: undefined,
        italic: false,
        pageBreaks: 1,
        size: 14,
        strike: true
      }
    )
    assert.deepStrictEqual(first?.lineSpacing, { unit: "twips", amount: 240 })
    assert.deepStrictEqual(first?.tabStops, [{ alignment: "start", position: 720 }])
  })

  it("refuses what is no document, and what is too much of one", () => {
    for (const bytes of malformed) assert.strictEqual(kind(WordDocument.parse(bytes)), "Unparsable")
    const cell = (span: string) =>
      docx(`<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="${span}"/></w:tcPr></w:tc></w:tr></w:tbl>`)
    assert.strictEqual(kind(WordDocument.parse(cell("1000000000"))), "Unparsable")
    assert.strictEqual(kind(WordDocument.parse(cell("two"))), "Unparsable")
    const wide = '<w:tc><w:tcPr><w:gridSpan w:val="1024"/></w:tcPr></w:tc>'.repeat(500)
    assert.strictEqual(kind(WordDocument.parse(docx(`<w:tbl><w:tr>${wide}</w:tr></w:tbl>`))), "Undecidable")
    // Twenty million spaces are twenty kilobytes of an archive.
    assert.strictEqual(kind(WordDocument.parse(docx(" ".repeat(20_000_000)))), "Undecidable")
    assert.strictEqual(kind(WordDocument.parse(docx("<w:p>".repeat(5000)))), "Undecidable")
    const traversal = zipSync({ "../word/document.xml": strToU8("<a/>") })
    assert.strictEqual(kind(WordDocument.parse(traversal)), "Unparsable")
    const entity = zipSync({
      "_rels/.rels": strToU8('<Relationships><Relationship Type="x/officeDocument" Target="d.xml"/></Relationships>'),
      "d.xml": strToU8('<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><document><body>&b;</body></document>')
    })
    assert.strictEqual(kind(WordDocument.parse(entity)), "Unparsable")
  })

  it("continues a merged cell from above, or starts one where nothing is above", () => {
    const cell = (text: string, properties = "") => `<w:tc><w:tcPr>${properties}</w:tcPr>${paragraph(run(text))}</w:tc>`
    const body = `<w:tbl><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid><w:tr>${cell("a", '<w:vMerge w:val="continue"/>')}${cell("b")}</w:tr><w:tr>${cell("hidden", "<w:vMerge/>")}${cell("c")}</w:tr></w:tbl>`
    const [table] = rightOf(WordDocument.parse(docx(body))).tables
    const texts = (cells: ReadonlyArray<WordDocument.Cell> = []) => cells.map(({ paragraphs }) => paragraphs[0]?.text)
    assert.deepStrictEqual(texts(table?.grid), ["a", "b", "a", "c"])
    assert.deepStrictEqual(texts(table?.cells), ["a", "b", "c"])
  })

  it("reads a megabyte of text within the time of a blink", () => {
    const text = run("Some text of a paragraph that has a few words", '<w:rFonts w:ascii="Arial"/><w:sz w:val="28"/>')
    const bytes = docx(paragraph(text, '<w:spacing w:line="360" w:lineRule="auto"/>').repeat(5000))
    let best = Number.POSITIVE_INFINITY
    for (let i = 0; i < 5; i++) {
      const start = performance.now()
      assert.strictEqual(rightOf(WordDocument.parse(bytes)).paragraphs.length, 5000)
      best = Math.min(best, performance.now() - start)
    }
    assert.isBelow(best, 300)
  })
})

describe("OpenDocument", () => {
  it("sees in a document of LibreOffice what odfpy sees, and what it passes over", () => {
    const document = rightOf(OpenDocument.parse(reportOdt))
    assert.deepStrictEqual(document.plainParagraphs, peers["report.odt"])
    assert.deepStrictEqual(document.paragraphs.slice(0, 6), [
      "Water & tea",
      "Water is H2O.",
      "It boils, slowly, at   100 degrees; see the table.",
      "Code is water(100) and this is marked.",
      "First line\nand second line.",
      "Left part\tmiddle\tright"
    ])
    assert.deepStrictEqual(Array.from(document.spanBackgrounds), ["#ffff00"])
    assert.strictEqual(document.paragraphBackgrounds.size, 0)
  })

  it("leaves out what was deleted under tracked changes, and fields", () => {
    const body =
      "<text:tracked-changes><text:deletion><text:p>gone</text:p></text:deletion></text:tracked-changes><text:p>a<text:date>today</text:date>b</text:p>"
    assert.deepStrictEqual(rightOf(OpenDocument.parse(odt(body))).paragraphs, ["ab"])
  })

  it("refuses what is no document", () => {
    for (const bytes of malformed) assert.strictEqual(kind(OpenDocument.parse(bytes)), "Unparsable")
    const spaces = rightOf(OpenDocument.parse(odt('<text:p><text:s text:c="2000000000"/></text:p>')))
    assert.isBelow(spaces.paragraphs[0]?.length ?? 0, 100_000)
  })
})

describe("xmlTree", () => {
  it("reads text, sections of characters, comments, attributes in either quotes", () => {
    const root = rightOf(
      Xml.parse(`\uFEFF<?xml version="1.0"?><!-- < --><x:a b='"' c:d = "1 > 0 &lt;"><![CDATA[<&]]>e&#65;\r\n<f/></x:a>`)
    )
    assert.deepStrictEqual([root.name, Xml.text(root), Xml.children(root).length], ["a", "<&eA\n", 1])
    assert.deepStrictEqual(
      ["b", "d", "c", "xmlns"].map((name) => Xml.attribute(root, name)),
      ['"', "1 > 0 <", undefined, undefined]
    )
  })

  it("refuses what is not well-formed", () => {
    const broken = [
      "",
      "a",
      "<a>",
      "<a></b>",
      "</a>",
      "<a/><b/>",
      "<a>&b;</a>",
      "<a>&</a>",
      '<a b="',
      "<a",
      "<!-- ",
      "< />"
    ]
    for (const text of [...broken, "<!DOCTYPE a><a/>", "<a><![CDATA[", "<a/>b", "<?a"]) {
      assert.strictEqual(kind(Xml.parse(text)), "Unparsable", text)
    }
    assert.strictEqual(kind(Xml.parse("<a/>", { nodes: 0, depth: 9 })), "parsed")
    assert.strictEqual(kind(Xml.parse("<a>b<c/></a>", { nodes: 2, depth: 9 })), "Undecidable")
  })

  it("gives back any text that was escaped", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ unit: "grapheme" }), (text) => {
        const escaped = text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/\r/g, "&#13;")
        assert.strictEqual(Xml.text(rightOf(Xml.parse(`<a>${escaped}</a>`))), text)
      })
    )
  })
})

describe("white space", () => {
  it("is Python's", () => {
    assert.strictEqual(strip("\u00a0\u001c\u0085 a\u200bb\ufeff \n"), "a\u200bb\ufeff")
    assert.strictEqual(collapse(" a \t\r\n\u3000b "), "a b")
    assert.strictEqual(strip(" ".repeat(300_000)), "")
  })
})

describe("CIEDE2000", () => {
  // Pairs 1, 7, 9, 13, 17, 19 and 25 of the test data of Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula" (2005).
  it("has the values of its authors", () => {
    const pairs = [
      [[50, 2.6772, -79.7751], [50, 0, -82.7485], 2.0425],
      [[50, 0, 0], [50, -1, 2], 2.3669],
      [[50, 2.49, -0.001], [50, -2.49, 0.0009], 7.1792],
      [[50, -0.001, 2.49], [50, 0.0009, -2.49], 4.8045],
      [[50, 2.5, 0], [73, 25, -18], 27.1492],
      [[50, 2.5, 0], [56, -27, -3], 31.903],
      [[60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644]
    ] as const
    for (const [a, b, difference] of pairs) assert.closeTo(ciede2000(a, b), difference, 0.00005)
  })

  // scikit-image's rgb2lab and deltaE_ciede2000.
  it("has the values of upstream's library", () => {
    const rows = [
      ["FF0000", "FE0000", 0.2078520486698718],
      ["FF0000", "C00000", 13.46234173431625],
      ["0000FF", "0000C0", 8.046414842835045],
      ["FF0000", "FF0A0A", 0.7889942752190198]
    ] as const
    for (const [a, b, difference] of rows) {
      assert.closeTo(ciede2000(toLab(fromHex(a) ?? [0, 0, 0]), toLab(fromHex(b) ?? [0, 0, 0])), difference, 1e-9)
    }
  })

  it("is symmetric and 0 for one colour", () => {
    const channel = FastCheck.integer({ min: 0, max: 255 })
    const lab = FastCheck.tuple(channel, channel, channel).map(toLab)
    FastCheck.assert(
      FastCheck.property(lab, lab, (a, b) => {
        assert.strictEqual(ciede2000(a, a), 0)
        assert.closeTo(ciede2000(a, b), ciede2000(b, a), 1e-9)
      })
    )
  })

  it("reads colours", () => {
    assert.deepStrictEqual(fromHex("#FF8000"), [255, 128, 0])
    assert.strictEqual(fromHex("auto"), undefined)
    // CIE L*a*b* of sRGB's white and red under D65.
    const [white, red] = [toLab([255, 255, 255]), toLab([255, 0, 0])]
    for (const [i, value] of [100, 0, 0].entries()) assert.closeTo(white[i] ?? Number.NaN, value, 0.01)
    for (const [i, value] of [53.24, 80.09, 67.2].entries()) assert.closeTo(red[i] ?? Number.NaN, value, 0.02)
  })
})

it("names each metric once", () => {
  assert.strictEqual(new Set(metrics.map(({ name }) => name)).size, metrics.length)
  assert.strictEqual(metrics.length, 30)
})
