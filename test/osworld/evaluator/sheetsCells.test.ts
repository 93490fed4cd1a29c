/** Cells as most programs write them are read at one stroke: to the same effect as when their tags are read one by one. */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { strToU8, zipSync } from "fflate"
import * as Spreadsheet from "../../../src/osworld/evaluator/internal/Spreadsheet.js"
import { rightOf } from "./support.js"

const workbook = (rows: string, strings = ""): Uint8Array =>
  zipSync({
    "xl/workbook.xml": strToU8('<workbook xmlns:r="x"><sheets><sheet name="S" r:id="a"/></sheets></workbook>'),
    "xl/_rels/workbook.xml.rels": strToU8(
      '<Relationships><Relationship Id="a" Type="x/worksheet" Target="s.xml"/><Relationship Id="t" Type="x/styles" Target="t.xml"/><Relationship Id="s" Type="x/sharedStrings" Target="n.xml"/></Relationships>'
    ),
    "xl/t.xml": strToU8('<styleSheet><cellXfs><xf/><xf numFmtId="14"/></cellXfs></styleSheet>'),
    "xl/n.xml": strToU8(`<sst>${strings}</sst>`),
    "xl/s.xml": strToU8(`<worksheet><sheetData>${rows}</sheetData></worksheet>`)
  })

const read = (rows: string, strings?: string) => Spreadsheet.parse(workbook(rows, strings))

const kind = (rows: string, strings?: string) =>
  Either.match(read(rows, strings), { onLeft: (refusal) => refusal.kind, onRight: () => "read" })

/** The same XML with a second space in tags, as no program writes it: those are read one by one. */
const spread = (text: string): string => text.replace(/<(c|row|si|t)(?=[ >])/g, "<$1 ")

const attribute = (name: string, values: ReadonlyArray<string>) =>
  FastCheck.constantFrom("", ...values.map((value) => ` ${name}="${value}"`))

const content = FastCheck.constantFrom(
  "",
  "<v>1</v>",
  "<v>45000.5</v>",
  "<v> 2 </v>",
  "<v></v>",
  "<v>a &lt; b</v>",
  "<v>x\ry</v>",
  "<v/>",
  '<f aca="false">A1&gt;1</f><v>1</v>',
  "<f>SUM(B1:B2)</f><v>3</v>",
  "<f>A1</f>",
  "<is><t>in</t></is>",
  "<!-- c --><v>4</v>",
  '<c r="D9"><v>5</v></c>'
)

const cell = FastCheck.tuple(
  attribute("r", ["A1", "B1", "c2", "XFD3", "ZZZ9", "A0", "1", "A 5"]),
  attribute("s", ["0", "1", "9"]),
  attribute("t", ["s", "n", "str", "b", "e", "d", "inlineStr"]),
  content
).map(([reference, style, type, inside]) =>
  inside === "" ? `<c${reference}${style}${type}/>` : `<c${reference}${style}${type}>${inside}</c>`
)

const row = FastCheck.tuple(
  attribute("r", ["1", "2", "7", "1048576"]),
  FastCheck.constantFrom("", ' spans="1:3"', ' ht="12.8" hidden="true"', ' ht="12.8"  hidden="1"', ' outlineLevel="2"'),
  FastCheck.array(cell, { maxLength: 6 })
).map(([number, says, cells]) => `<row${number}${says}>${cells.join("")}</row>`)

const strings = FastCheck.array(
  FastCheck.constantFrom(
    "<si><t>one</t></si>",
    '<si><t xml:space="preserve"> two </t></si>',
    "<si><t>a &amp; b\r\nc</t></si>",
    "<si><r><t>x</t></r><r><t>y</t></r></si>",
    "<si><t>z</t><rPh><t>hint</t></rPh></si>",
    "<si/>"
  ),
  { maxLength: 5 }
).map((items) => items.join(""))

describe("cells at one stroke", () => {
  it("are those that are read tag by tag", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(row, { maxLength: 5 }), strings, (rows, texts) => {
        const [usual, other] = [read(rows.join(""), texts), read(spread(rows.join("")), spread(texts))]
        assert.deepStrictEqual(usual, other)
      }),
      { numRuns: 500 }
    )
  })

  it("are as ECMA-376 has them", () => {
    const rows =
      '<row r="1" hidden="true"><c r="A1" t="s"><v>1</v></c><c r="B1" s="1"><v>45000</v></c><c r="C1" t="str"><f>A1</f><v>x</v></c></row>' +
      '<row r="3"><c r="B3"/><c r="C3" t="b"><v>1</v></c></row>'
    const [sheet] = rightOf(read(rows, "<si><t>a</t></si><si><t>b &amp; c</t></si>")).sheets
    const seen = Array.from(sheet?.rows ?? [], ([number, cells]) => [
      number,
      cells.columns().map((column) => [column, cells.get(column)?.value, cells.get(column)?.formula])
    ])
    assert.deepStrictEqual(seen, [
      [
        1,
        [
          [1, "b & c", false],
          [2, { _tag: "Date", millis: Date.UTC(2023, 2, 15) }, false],
          [3, "x", true]
        ]
      ],
      [
        3,
        [
          [2, null, false],
          [3, true, false]
        ]
      ]
    ])
    assert.deepStrictEqual(Array.from(sheet?.rowProperties.keys() ?? []), [1])
  })

  it("are refused where they are not well-formed, or too many", () => {
    const cells = '<c r="A1"><v>1</v></c>'
    assert.strictEqual(kind(`<row r="1">${cells}</row><row r="2" ht="1">${cells}</row>`), "read")
    assert.strictEqual(kind(`<x:row r="1">${cells}</row><row r="2">${cells}</row>`), "Unparsable")
    assert.strictEqual(kind(`<row r="1">${cells}</row><row r="2" ht="1" ht="2">${cells}</row>`), "Unparsable")
    assert.strictEqual(kind(`<row r="1">${cells}</row><row r="2" r="2">${cells}</row>`), "Unparsable")
    assert.strictEqual(kind(`<row r="1">${cells}</row><row r="2000000">${cells}</row>`), "Unparsable")
    assert.strictEqual(kind(`<row r="1">${cells}</row><row r="2">${cells}`), "Unparsable")
    assert.strictEqual(kind(`<row r="1">${cells}</row></row>`), "Unparsable")
    assert.strictEqual(kind(`<row r="1">${cells.replace("</c>", "</d>")}</row>`), "Unparsable")
    assert.strictEqual(kind("", "<si><t>a</si>"), "Unparsable")
    assert.strictEqual(kind("", "<si><t>a & b</t></si>"), "Unparsable")
    const attributes = Array.from({ length: 300 }, (_, i) => ` ${"a".repeat(i + 1)}="1"`).join("")
    assert.strictEqual(kind(`<row r="1"></row><row r="2"${attributes}></row>`), "Undecidable")
    const million = `<row r="1">${'<c r="A1"/>'.repeat(2_000_001)}</row>`
    assert.strictEqual(kind(million), "Undecidable")
  })

  it("may be long", () => {
    const long = "x".repeat(5_000_000)
    const [sheet] = rightOf(read(`<row r="1"><c r="A1" t="str"><v>${long}</v></c></row>`)).sheets
    assert.strictEqual(sheet?.rows.get(1)?.get(1)?.value, long)
    assert.strictEqual(kind(`<row r="1"><c r="A1" t="str"><f>${long}</f><v>${long}</w></c></row>`), "Unparsable")
  })
})
