import { readFileSync } from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { strToU8, zipSync } from "fflate"
import * as Frame from "../../../src/osworld/evaluator/internal/frame.js"
import * as Spreadsheet from "../../../src/osworld/evaluator/internal/Spreadsheet.js"
import { readPalette } from "../../../src/osworld/evaluator/internal/sheets/colors.js"
import { Row } from "../../../src/osworld/evaluator/internal/sheets/row.js"
import { formatKind, readStyles } from "../../../src/osworld/evaluator/internal/spreadsheetStyles.js"
import * as Zip from "../../../src/osworld/evaluator/internal/zip.js"
import { compareTable } from "../../../src/osworld/evaluator/sheets.js"
import { file, fixture, judge, missing, rightOf, soffice, toXlsx, written } from "./support.js"

const book = rightOf(Spreadsheet.parse(readFileSync(fixture("book.xlsx"))))

/** A sheet as a program would write it that has no looks. */
const sheetOf = (rows: ReadonlyArray<ReadonlyArray<Spreadsheet.CellValue>>): Spreadsheet.Sheet => {
  const { plain: style } = readStyles(undefined, readPalette(undefined, undefined))
  const rowOf = (values: ReadonlyArray<Spreadsheet.CellValue>): Row => {
    const row = new Row()
    for (const [i, value] of values.entries()) row.set(i + 1, value, null, { style, kind: "number", formula: false })
    return row
  }
  return {
    ...Spreadsheet.emptySheet,
    name: "Sheet1",
    rows: new Map(rows.map((row, i) => [i + 1, rowOf(row)]))
  }
}

/** The smallest workbook: one row of cells, and what follows the rows; style 1 is a date, style 2 has a theme colour. */
const small = (cells: string, after = "", more: Record<string, Uint8Array> = {}): Uint8Array =>
  zipSync({
    "xl/workbook.xml": strToU8('<workbook xmlns:r="x"><sheets><sheet name="S" r:id="a"/></sheets></workbook>'),
    "xl/_rels/workbook.xml.rels": strToU8(
      '<Relationships><Relationship Id="a" Type="x/worksheet" Target="s.xml"/><Relationship Id="t" Type="x/styles" Target="t.xml"/></Relationships>'
    ),
    "xl/t.xml": strToU8(
      '<styleSheet><fonts><font/><font><color theme="1"/></font></fonts><cellXfs><xf/><xf numFmtId="14"/><xf fontId="1"/></cellXfs></styleSheet>'
    ),
    "xl/s.xml": strToU8(`<worksheet><sheetData><row r="1">${cells}</row></sheetData>${after}</worksheet>`),
    ...more
  })

describe("Spreadsheet", () => {
  const values = (sheet: Spreadsheet.Sheet | undefined) =>
    Array.from(sheet?.rows.values() ?? [], (row) => row.columns().map((column) => row.get(column)?.value))

  it("reads what LibreOffice wrote: text, numbers, dates, calculated values, errors", () => {
    assert.deepStrictEqual(
      book.sheets.map(({ name }) => name),
      ["Sales", "Notes"]
    )
    assert.deepStrictEqual(values(book.sheets[0]), [
      ["Item", "Price", "Count", "Day", "Sum", "Sold"],
      ["Tea & milk", 2.5, 4, { _tag: "Date", millis: Date.UTC(2024, 1, 29) }, 10, 1],
      ["Bread", 3, { _tag: "Date", millis: Date.UTC(2025, 10, 3) }, { _tag: "Error", code: "#DIV/0!" }, 0]
    ])
    // Text stays text, and a merged range keeps its extent.
    assert.deepStrictEqual(values(book.sheets[1])[1], ["42", "x", "y"])
    assert.deepStrictEqual(book.sheets[1]?.merged, [{ top: 1, left: 2, bottom: 1, right: 3 }])
  })

  it("reads what others write: runs, inline text, booleans, cells without an address, a 1904 calendar", () => {
    const xml = (content: string) => strToU8(`<?xml version="1.0"?>${content}`)
    const bytes = zipSync({
      "_rels/.rels": xml(
        '<Relationships><Relationship Id="r" Type="x/officeDocument" Target="/xl/workbook.xml"/></Relationships>'
      ),
      "xl/workbook.xml": xml(
        '<workbook xmlns:r="x"><workbookPr date1904="1"/><sheets><sheet name="Two" r:id="b"/><sheet name="One" r:id="a"/></sheets></workbook>'
      ),
      "xl/_rels/workbook.xml.rels": xml(
        '<Relationships><Relationship Id="a" Type="x/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="b" Type="x/worksheet" Target="./worksheets/../worksheets/sheet2.xml"/><Relationship Id="s" Type="x/sharedStrings" Target="sharedStrings.xml"/><Relationship Id="t" Type="x/styles" Target="styles.xml"/></Relationships>'
      ),
      "xl/sharedStrings.xml": xml("<sst><si><r><t>a</t></r><rPh><t>no</t></rPh><r><t> b</t></r></si></sst>"),
      "xl/styles.xml": xml(
        '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="46"/></cellXfs></styleSheet>'
      ),
      "xl/worksheets/sheet1.xml": xml("<worksheet/>"),
      "xl/worksheets/sheet2.xml": xml(
        '<worksheet><sheetData><row r="2"><c t="s"><v>0</v></c><c t="inlineStr"><is><t>in</t></is></c><c t="b"><v>1</v></c>' +
          '<c t="str"><f>A1</f><v>f</v></c><c><f>1+1</f></c><c s="1"><v>1</v></c><c s="1"><v>0.5</v></c><c s="2"><v>1.25</v></c>' +
          '<c t="d"><v>2024-02-29T12:00:00</v></c></row></sheetData></worksheet>'
      )
    })
    const { sheets } = rightOf(Spreadsheet.parse(bytes))
    assert.deepStrictEqual(
      sheets.map(({ name }) => name),
      ["Two", "One"]
    )
    assert.deepStrictEqual(values(sheets[0]), [
      [
        "a b",
        "in",
        true,
        "f",
        null,
        { _tag: "Date", millis: Date.UTC(1904, 0, 2) },
        { _tag: "Time", millis: 43_200_000 },
        { _tag: "Duration", millis: 108_000_000 },
        { _tag: "Date", millis: Date.UTC(2024, 1, 29, 12) }
      ]
    ])
  })

  it("follows Excel's calendar, which has a 29 February 1900", () => {
    const days = [1, 59, 61].map((serial) => {
      const { sheets } = rightOf(Spreadsheet.parse(small(`<c s="1"><v>${serial}</v></c>`)))
      return values(sheets[0])[0]?.[0]
    })
    assert.deepStrictEqual(
      days,
      [Date.UTC(1900, 0, 1), Date.UTC(1900, 1, 28), Date.UTC(1900, 2, 1)].map((millis) => ({ _tag: "Date", millis }))
    )
  })

  it("knows a date format from a number format", () => {
    const kinds = [
      "General",
      "0.00",
      '0 "days"',
      "[Red]0",
      "#,##0_);(#,##0)",
      "yyyy\\-mm\\-dd",
      "[$-409]d-mmm",
      "[h]:mm",
      "@"
    ]
    assert.deepStrictEqual(kinds.map(formatKind), [
      ...["number", "number", "number", "number", "number"],
      ...["date", "date", "duration", "number"]
    ])
  })

  it("refuses what is no workbook, and what would fill the memory", () => {
    const kind = (bytes: Uint8Array) =>
      Either.match(Spreadsheet.parse(bytes), { onLeft: (left) => left.kind, onRight: () => "" })
    assert.strictEqual(kind(strToU8("a,b\n")), "Unparsable")
    assert.strictEqual(kind(new Uint8Array()), "Unparsable")
    assert.strictEqual(kind(zipSync({ "a.xml": strToU8("<a/>") })), "Unparsable")
    assert.strictEqual(kind(readFileSync(fixture("book.xlsx")).subarray(0, 3000)), "Unparsable")
    assert.strictEqual(kind(small("<c><v>1</v></c>")), "")
    for (const [other, expected] of [
      ["s.xml", "Unparsable"],
      // Part names are compared without regard to case.
      ["S.xml", "Unparsable"],
      ["t.xml", ""]
    ] as const) {
      const two = small("<c><v>1</v></c>", "", {
        "xl/workbook.xml": strToU8(
          '<workbook xmlns:r="x"><sheets><sheet name="S" r:id="a"/><sheet name="T" r:id="b"/></sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": strToU8(
          `<Relationships><Relationship Id="a" Type="x/worksheet" Target="s.xml"/><Relationship Id="b" Type="x/worksheet" Target="${other}"/></Relationships>`
        )
      })
      assert.strictEqual(kind(two), expected, other)
    }
    for (const name of ["../../etc/passwd", "/etc/passwd", "a\\b", "C:/a", "xl/../../a"]) {
      assert.strictEqual(kind(small("<c><v>1</v></c>", "", { [name]: strToU8("x") })), "Unparsable", name)
    }

    const bomb = zipSync({ "a.xml": new Uint8Array(1_000_000), "b.xml": new Uint8Array(1_000_000) })
    assert.isBelow(bomb.length, 10_000)
    const unzip = (limits: Partial<typeof Zip.limits>) => Zip.unzip(bomb, () => true, { ...Zip.limits, ...limits })._tag
    assert.strictEqual(unzip({}), "Right")
    assert.strictEqual(unzip({ entryBytes: 999_999 }), "Left")
    assert.strictEqual(unzip({ totalBytes: 1_999_999 }), "Left")
    assert.strictEqual(unzip({ entries: 1 }), "Left")
  })
})

describe("frames", () => {
  const types = {
    int: "int64",
    float: "float64",
    bool: "bool",
    date: "datetime64[ns]",
    duration: "timedelta64[ns]",
    object: "object"
  }

  type Rows = ReadonlyArray<ReadonlyArray<Spreadsheet.CellValue>>
  const cases = readFileSync(fixture("pandas.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line): { a: Rows; b: Rows; types: Array<string>; equal: boolean } => JSON.parse(line))

  it("have the types, and are equal where, pandas 2.2.3 says (fixtures/pandas.jsonl)", () => {
    assert.isAbove(cases.length, 40)
    for (const { a, b, equal, types: expected } of cases) {
      const [left, right] = [Frame.fromSheet(sheetOf(a)), Frame.fromSheet(sheetOf(b))]
      const shown = JSON.stringify([a, b])
      assert.deepStrictEqual(
        left.map(({ type }) => types[type]),
        expected,
        shown
      )
      assert.strictEqual(Frame.equals(left, right, 4), equal, shown)
      assert.isTrue(Frame.equals(left, left, 4))
    }
  })

  it("round to the precision, and mind types and gaps", () => {
    const equal = (a: Rows, b: Rows, precision = 4) =>
      Frame.equals(Frame.fromSheet(sheetOf(a)), Frame.fromSheet(sheetOf(b)), precision)
    assert.isTrue(equal([["x"], [1.00001], [0.5]], [["x"], [1.00002], [0.5]]))
    assert.isFalse(equal([["x"], [1.0001], [0.5]], [["x"], [1.0002], [0.5]]))
    assert.isTrue(equal([["x"], [1.04], [0.5]], [["x"], [1.0], [0.5]], 1))
    // 0.5 and 1.5 are halfway: to even, as numpy does.
    assert.isTrue(equal([["x"], [0.5], [1.5]], [["x"], [0.2], [2.2]], 0))
    // All integers make an integer column, and that is another type.
    assert.isFalse(equal([["x"], [1.00001]], [["x"], [1]]))
    assert.isTrue(equal([["x"], ["12"]], [["x"], [12]]))
    assert.isFalse(equal([["x"], [1], [null]], [["x"], [null], [1]]))
    assert.isFalse(equal([["x"]], [["y"]]))
    assert.isTrue(
      equal(
        [
          ["x", null],
          [1, 2]
        ],
        [
          ["x", "Unnamed: 1"],
          [1, 2]
        ]
      )
    )
    assert.isTrue(equal([], []))
  })
})

const sheetData = (sheet_idx0: unknown, sheet_idx1: unknown, more = {}) => ({
  rules: [{ type: "sheet_data", sheet_idx0, sheet_idx1, ...more }]
})

const cell = (coordinate: string, props: unknown, sheet_idx: unknown = "RNSales") => ({
  rules: [{ type: "check_cell", sheet_idx, coordinate, props }]
})

const eq = (ref: unknown) => ({ method: "eq", ref })

describe("compare_table", () => {
  const own = file(fixture("book.xlsx"))

  it.effect("check_cell: values, merged cells, looks", () =>
    Effect.gen(function* () {
      const check = (coordinate: string, props: unknown, sheet?: unknown) =>
        judge(compareTable, own, undefined, cell(coordinate, props, sheet))
      assert.strictEqual(yield* check("A2", { value: eq("Tea & milk") }), 1)
      assert.strictEqual(yield* check("A2", { value: eq("Tea") }), 0)
      assert.strictEqual(yield* check("B2", { value: eq(2.5) }, 0), 1)
      assert.strictEqual(yield* check("E2", { value: { method: "approx:0.1", ref: 10.05 } }), 1)
      // A number is no text, as in the file.
      assert.strictEqual(yield* check("E2", { value: eq(10) }), 1)
      assert.strictEqual(yield* check("E2", { value: eq("10") }), 0)
      assert.strictEqual(yield* check("C3", { value: eq(null) }), 1)
      assert.strictEqual(yield* check("A2", { value: { method: "re", ref: "^Tea\\b" } }), 1)
      assert.strictEqual(yield* check("A2", { value: eq("x") }, "RI7"), 0)
      assert.strictEqual(yield* check("B1", { merge: eq(false) }, "RNNotes"), 1)
      assert.strictEqual(yield* check("C1", { merge: eq(true) }, "RI1"), 1)
      assert.strictEqual(yield* check("D1", { merge: eq(false) }, 1), 1)
      const loud = {
        font_bold: eq(true),
        font_color: eq("FFFF0000"),
        fgcolor: eq("FFFFFF00"),
        fill_type: eq("patternFill")
      }
      assert.strictEqual(yield* check("A1", loud), 1)
      assert.strictEqual(yield* check("B1", loud), 0)
      assert.strictEqual(yield* check("D2", { number_format: eq("yyyy\\-mm\\-dd") }), 1)
    })
  )

  it.effect("sheet_data and sheet_name against itself, and indexes", () =>
    Effect.gen(function* () {
      const compare = (options: Record<string, unknown>) => judge(compareTable, own, own, options)
      assert.strictEqual(yield* compare(sheetData(0, "EI0")), 1)
      assert.strictEqual(yield* compare(sheetData("RNSales", "ENSales", { precision: 2, _note: "junk" })), 1)
      assert.strictEqual(yield* compare(sheetData("RI0", "RI1")), 0)
      assert.strictEqual(yield* compare(sheetData("RNSheet2", "ENSales")), 0)
      assert.strictEqual(yield* compare({ rules: [{ type: "sheet_name" }], _note: "junk" }), 1)
    })
  )

  it.effect("a missing or broken result is 0; what we cannot judge is an error, whatever the result", () =>
    Effect.gen(function* () {
      const at = yield* written({ "broken.xlsx": "no workbook" })
      const options = sheetData(0, "EI0")
      assert.strictEqual(yield* judge(compareTable, missing, own, options), 0)
      assert.strictEqual(yield* judge(compareTable, file(at("broken.xlsx")), own, options), 0)
      assert.include(
        yield* judge(compareTable, own, file(at("broken.xlsx")), options),
        "expected value: broken.xlsx: no ZIP"
      )
      assert.include(yield* judge(compareTable, own, missing, options), "cannot decide")
      assert.include(yield* judge(compareTable, own, undefined, options), "the task gives none")
      assert.include(yield* judge(compareTable, own, own, sheetData(0, "ENNowhere")), 'no sheet "Nowhere"')

      const rules = [...options.rules, { type: "borders", sheet_idx0: 0 }]
      assert.include(yield* judge(compareTable, missing, own, { rules }), "not supported: the rule borders")
      assert.include(yield* judge(compareTable, missing, own, {}), "bad options: rules: is missing")
      assert.include(yield* judge(compareTable, missing, own, sheetData("Sheet1", "EI0")), "a sheet index is")
      assert.include(yield* judge(compareTable, missing, own, cell("A1", { blink: eq("x") })), "cell properties blink")
      assert.include(yield* judge(compareTable, missing, own, cell("A", { value: eq("x") })), "no cell such as B3")
      assert.include(
        yield* judge(compareTable, missing, own, cell("A1", { value: { method: "is", ref: 1 } })),
        "is not supported"
      )
      assert.strictEqual(compareTable.validate({ rules })._tag, "Left")
      assert.strictEqual(compareTable.validate(options)._tag, "Right")
    }).pipe(Effect.scoped)
  )

  // Real files need LibreOffice; the name says so where it is not installed.
  const title = "files that LibreOffice makes now"
  it.effect.skipIf(soffice === undefined)(
    soffice === undefined ? `${title} (skipped: no soffice on PATH)` : title,
    () =>
      Effect.gen(function* () {
        const fods = readFileSync(fixture("book.fods"), "utf8")
        const at = yield* written({
          "gold.csv": "Item,Revenue\na,1.5\nb,2.25\nc,\n",
          "same.csv": "Item,Revenue\na,1.500004\nb,2.25\nc,\n",
          "less.csv": "Item,Revenue\na,1.5\nb,2.25\n",
          "typed.csv": "Item,Revenue\na,1\nb,2\nc,3\n",
          "swapped.fods": fods
            .replace('table:name="Sales"', 'table:name="_"')
            .replace("Notes", "Sales")
            .replace('"_"', '"Notes"'),
          "recalculated.fods": fods.replace("[.B2]*[.C2]", "[.B2]*8-[.C2]*2.5"),
          "wrong.fods": fods.replace("[.B2]*[.C2]", "[.B2]+[.C2]")
        })
        const stems = ["gold", "same", "less", "typed"].map((stem) => at(`${stem}.csv`))
        const books = ["swapped", "recalculated", "wrong"].map((stem) => at(`${stem}.fods`))
        yield* toXlsx(path.join(at("."), "profile"), [...stems, ...books])

        const compare = (name: string, options: Record<string, unknown>, gold = file(at("gold.xlsx"))) =>
          judge(compareTable, file(at(`${name}.xlsx`)), gold, options)
        const first = sheetData(0, "EI0")
        assert.strictEqual(yield* compare("gold", first), 1)
        assert.strictEqual(yield* compare("same", first), 1)
        assert.strictEqual(yield* compare("same", sheetData(0, "EI0", { precision: 6 })), 0)
        assert.strictEqual(yield* compare("less", first), 0)
        assert.strictEqual(yield* compare("typed", first), 0)
        // LibreOffice names a CSV's sheet after the file.
        assert.strictEqual(yield* compare("same", { rules: [{ type: "sheet_name" }] }), 0)
        assert.strictEqual(yield* compare("same", sheetData("RNsame", "ENgold")), 1)

        // Formulas count by what they came to: 2.5 * 8 - 4 * 2.5 is 2.5 * 4, 2.5 + 4 is not.
        assert.strictEqual(yield* compare("recalculated", sheetData("RNSales", "ENSales"), own), 1)
        assert.strictEqual(yield* compare("wrong", sheetData("RNSales", "ENSales"), own), 0)
        assert.strictEqual(yield* compare("recalculated", { rules: [{ type: "sheet_name" }] }, own), 1)
        assert.strictEqual(yield* compare("swapped", { rules: [{ type: "sheet_name" }] }, own), 0)
        assert.strictEqual(yield* compare("swapped", sheetData("RNNotes", "ENSales"), own), 1)
      }).pipe(Effect.scoped)
  )
})
