import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { strFromU8, strToU8, unzipSync, zipSync } from "fflate"
import { lastRow } from "../../../src/osworld/evaluator/internal/sheets/lastRow.js"
import type { Value } from "../../../src/osworld/evaluator/Metric.js"
import { compareConferenceCityInOrder, compareTable, metrics } from "../../../src/osworld/evaluator/sheets.js"
import { file, fixture, json, judge, missing, rightOf, written } from "./support.js"

// The workbooks are LibreOffice's own (fixtures/sheets/make.py); each has a twin that differs in what is asked.
const bytes = (name: string) => readFileSync(fixture(`sheets/${name}.xlsx`))
const book = (name: string): Value => file(fixture(`sheets/${name}.xlsx`))
const compat = { compat: true }

const eq = (ref: unknown) => ({ method: "eq", ref })
const two = (type: string, more: Record<string, unknown> = {}, sheet: string | number = 0) => ({
  type,
  sheet_idx0: sheet,
  sheet_idx1: typeof sheet === "number" ? `EI${sheet}` : sheet.replace(/^R/, "E"),
  ...more
})
const cell = (coordinate: string, props: Record<string, unknown>, sheet_idx: unknown = 0) => ({
  type: "check_cell",
  sheet_idx,
  coordinate,
  props
})

const compare = (result: Value, expected: Value | undefined, rules: ReadonlyArray<unknown>, context = {}) =>
  judge(compareTable, result, expected, { rules }, context)

/** The rule holds between a book and itself, and not between it and its twin. */
const tells = (name: string, rule: Record<string, unknown>, context = {}) =>
  Effect.gen(function* () {
    assert.strictEqual(yield* compare(book(name), book(name), [rule], context), 1, JSON.stringify(rule))
    assert.strictEqual(yield* compare(book(`${name}-other`), book(name), [rule], context), 0, JSON.stringify(rule))
    assert.strictEqual(yield* compare(missing, book(name), [rule], context), 0)
  })

/** A book of LibreOffice's with one part changed. */
const edited = (name: string, part: string, edit: (xml: string) => string): Uint8Array => {
  const members = unzipSync(bytes(name))
  const before = strFromU8(members[part] ?? new Uint8Array())
  const after = edit(before)
  assert.notStrictEqual(after, before, `${part} stays as it was`)
  return zipSync({ ...members, [part]: strToU8(after) })
}

/** Members of a workbook with these sheets: what is in the worksheet element, and styles. */
const workbook = (sheets: Record<string, string>, styles = "", more: Record<string, Uint8Array> = {}): Uint8Array => {
  const names = Object.keys(sheets)
  const list = names.map((name, i) => `<sheet name="${name}" sheetId="${i + 1}" r:id="s${i + 1}"/>`)
  const relations = names.map(
    (_, i) => `<Relationship Id="s${i + 1}" Type="x/worksheet" Target="worksheets/sheet${i + 1}.xml"/>`
  )
  return zipSync({
    "xl/workbook.xml": strToU8(`<workbook xmlns:r="x"><sheets>${list.join("")}</sheets></workbook>`),
    "xl/_rels/workbook.xml.rels": strToU8(
      `<Relationships>${relations.join("")}<Relationship Id="t" Type="x/styles" Target="styles.xml"/><Relationship Id="h" Type="x/theme" Target="theme.xml"/></Relationships>`
    ),
    "xl/styles.xml": strToU8(`<styleSheet>${styles}</styleSheet>`),
    ...Object.fromEntries(
      names.map((name, i) => [
        `xl/worksheets/sheet${i + 1}.xml`,
        strToU8(`<worksheet xmlns:r="x">${sheets[name]}</worksheet>`)
      ])
    ),
    ...more
  })
}

const data = (...cells: ReadonlyArray<string>) => `<sheetData>${cells.join("")}</sheetData>`

describe("compare_table", () => {
  it.effect("sheet_print: lines of the CSV files beside the workbooks", () =>
    Effect.gen(function* () {
      yield* tells("looks", two("sheet_print"))
      yield* tells("looks", two("sheet_print", {}, "RNLooks"))
      const at = yield* written({
        "r.xlsx": bytes("looks"),
        "r-Looks.csv": "\uFEFF  Report,,,Site, \r\nRegion\n\n \n",
        "e.xlsx": bytes("looks"),
        "e-Looks.csv": "report,,,site,\nREGION",
        "latin.xlsx": bytes("looks"),
        "latin-Looks.csv": new Uint8Array([0xe9]),
        "utf8.xlsx": bytes("looks"),
        "utf8-Looks.csv": "é",
        "bare.xlsx": bytes("looks")
      })
      const [r, e, bare] = [file(at("r.xlsx")), file(at("e.xlsx")), file(at("bare.xlsx"))]
      assert.strictEqual(yield* compare(r, e, [two("sheet_print", { ignore_case: true })]), 1)
      assert.strictEqual(yield* compare(r, e, [two("sheet_print")]), 0)
      assert.strictEqual(yield* compare(file(at("latin.xlsx")), file(at("utf8.xlsx")), [two("sheet_print")]), 1)
      // Not printed by the agent's workbook: 0. Not there in the gold: nobody can say.
      assert.strictEqual(yield* compare(bare, e, [two("sheet_print")]), 0)
      assert.include(yield* compare(r, bare, [two("sheet_print")]), "no printed sheet")
      // A sheet's name leads nowhere else.
      const outside = { sheet_idx0: "RN/../e-Looks", sheet_idx1: "ENLooks", type: "sheet_print" }
      assert.strictEqual(yield* compare(r, e, [outside]), 0)
      assert.include(yield* compare(r, undefined, [two("sheet_print")]), "the task gives none")
    }).pipe(Effect.scoped)
  )

  it.effect("sheet_fuzzy: texts of ranges, cell by cell", () =>
    Effect.gen(function* () {
      const rows = (road: string, count: string) =>
        data(`<row r="1"><c r="A1" t="inlineStr"><is><t>${road}</t></is></c><c r="B1"><v>${count}</v></c></row>`)
      const at = yield* written({
        "r.xlsx": workbook({ S: rows("+ 12 (Main) Rd", "10") }),
        "e.xlsx": workbook({ S: rows("12 main Road", "10") })
      })
      const fuzzy = (part: Record<string, unknown>) =>
        compare(file(at("r.xlsx")), file(at("e.xlsx")), [two("sheet_fuzzy", { rules: [part] })])
      const clean = {
        range: ["A1:A1", "B1 C9"],
        normalization: [["Rd", "Road"]],
        trim_leadings: "+ ",
        ignore_chars: " ()",
        ignore_case: true
      }
      for (const type of ["exact_match", "includes", "included_by", "fuzzy_match"]) {
        assert.strictEqual(yield* fuzzy({ ...clean, type }), 1, type)
      }
      assert.strictEqual(yield* fuzzy({ ...clean, type: "exact_match", ignore_case: false }), 0)
      assert.strictEqual(yield* fuzzy({ ...clean, type: "exact_match", normalization: [] }), 0)
      // 2 * 10 / (14 + 12): "12 ain Rd" and the space and letters between; 85 of 100 is more than that.
      assert.strictEqual(yield* fuzzy({ range: "A1", type: "fuzzy_match" }), 0)
      assert.strictEqual(yield* fuzzy({ range: "A1", type: "fuzzy_match", threshold: 60 }), 1)
      // "10.0" as Python says it, and an empty cell is "None".
      assert.strictEqual(yield* fuzzy({ range: "B1:C1", type: "includes" }), 1)
      assert.include(yield* fuzzy({ range: "B", type: "includes" }), "no ranges")
      assert.include(yield* fuzzy({ range: "A1", type: "sounds_like" }), "bad options")
      assert.include(yield* fuzzy({ range: "A:Z", type: "exact_match" }), "more than 200000 cells")
      yield* tells("cities", two("sheet_fuzzy", { rules: [{ range: ["A1:C22"], type: "exact_match" }] }))
    }).pipe(Effect.scoped)
  )

  it.effect("check_cell: looks as they are seen, conditional formats included", () =>
    Effect.gen(function* () {
      const check = (coordinate: string, props: Record<string, unknown>, context = {}) =>
        compare(book("looks"), undefined, [cell(coordinate, props)], context)
      const head = { bgcolor: eq("FF0000FF"), fgcolor: eq("FF0000FF"), font_bold: eq(true), font_color: eq("FFFFFFFF") }
      assert.strictEqual(yield* check("A1", { ...head, value: eq("Report"), font_size: eq(14), merge: eq(false) }), 1)
      assert.strictEqual(yield* check("A2", head), 0)
      // What a merged range has swallowed has no fill of its own.
      assert.strictEqual(yield* check("B1", { merge: eq(true), bgcolor: eq("00000000"), font_bold: eq(null) }), 1)
      assert.strictEqual(yield* check("C5", { font_underline: eq("double"), font_italic: eq(true) }), 1)
      assert.strictEqual(yield* check("D2", { hyperlink: eq("https://example.org/a") }), 1)
      assert.strictEqual(yield* check("D2", { hyperlink: { method: "re", ref: "example" } }), 1)
      assert.strictEqual(yield* check("A2", { hyperlink: eq("") }), 1)
      // A font that names no colour is black.
      assert.strictEqual(yield* check("A2", { font_color: eq("FF000000") }), 1)
      assert.strictEqual(yield* check("A2", { font_color: eq(null) }, compat), 1)
      // Dates and results of formulas are numbers; upstream's are not.
      assert.strictEqual(yield* check("C7", { number_format: eq("yyyy\\-mm\\-dd") }), 1)
      assert.strictEqual(yield* check("B7", { number_format: eq("0.00"), value: eq(140) }), 1)
      assert.strictEqual(yield* check("B7", { number_format: eq(null) }, compat), 1)
      // 70 > 50 is red, and the largest makes its region bold; upstream looks at the cell's own style.
      assert.strictEqual(yield* check("B4", { bgcolor: eq("FFFF0000") }), 1)
      assert.strictEqual(yield* check("B3", { bgcolor: eq("00000000") }), 1)
      assert.strictEqual(yield* check("A4", { font_bold: eq(true), font_color: eq("FF800080") }), 1)
      assert.strictEqual(yield* check("A5", { font_bold: eq(false) }), 1)
      assert.strictEqual(yield* check("D5", { font_bold: eq(true) }), 1)
      assert.strictEqual(yield* check("D3", { font_bold: eq(false) }), 1)
      assert.strictEqual(yield* check("B4", { bgcolor: eq("00000000") }, compat), 1)
    })
  )

  it.effect("check_cell: colours of theme and palette, values of all kinds", () =>
    Effect.gen(function* () {
      const fonts = [
        'theme="1"',
        'theme="4" tint="-0.25"',
        'indexed="10"',
        'indexed="64"',
        'rgb="FF00B050"',
        'theme="0"'
      ]
      const styles =
        `<fonts><font/>${fonts.map((color) => `<font><color ${color}/></font>`).join("")}</fonts>` +
        '<fills><fill/><fill/><fill><patternFill patternType="solid"><fgColor theme="5"/></patternFill></fill>' +
        '<fill><patternFill patternType="none"><fgColor rgb="FF123456"/></patternFill></fill><fill><gradientFill/></fill></fills>' +
        `<cellXfs><xf/>${fonts.map((_, i) => `<xf fontId="${i + 1}" fillId="${i < 3 ? i + 2 : 0}"/>`).join("")}</cellXfs>`
      const theme =
        '<a:theme xmlns:a="x"><a:themeElements><a:clrScheme><a:dk1><a:sysClr lastClr="101010"/></a:dk1><a:lt1><a:srgbClr val="fefefe"/></a:lt1><a:accent2><a:srgbClr val="ed7d31"/></a:accent2></a:clrScheme></a:themeElements></a:theme>'
      const cells = fonts.map((_, i) => `<c s="${i + 1}"><v>1</v></c>`).join("")
      const values = '<row r="2"><c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c><c t="str"><f>A1</f><v>x</v></c></row>'
      const at = yield* written({
        "b.xlsx": workbook({ S: data(`<row r="1">${cells}</row>`, values) }, styles, { "xl/theme.xml": strToU8(theme) })
      })
      const check = (coordinate: string, props: Record<string, unknown>, context = {}) =>
        compare(file(at("b.xlsx")), undefined, [cell(coordinate, props)], context)
      assert.strictEqual(yield* check("A1", { font_color: eq("FF101010") }), 1)
      // Office's accent 1, a quarter darker: 4F81BD becomes 366092 in Excel.
      assert.strictEqual(yield* check("B1", { font_color: { method: "re", ref: "^FF3[67]609[123]$" } }), 1)
      assert.strictEqual(yield* check("C1", { font_color: eq("FFFF0000") }), 1)
      assert.strictEqual(yield* check("D1", { font_color: eq("FF000000") }), 1)
      assert.strictEqual(yield* check("E1", { font_color: eq("FF00B050") }), 1)
      assert.strictEqual(yield* check("F1", { font_color: eq("FFFEFEFE") }), 1)
      assert.strictEqual(yield* check("A1", { font_color: eq("FF101010") }, compat), 0)
      assert.strictEqual(yield* check("A1", { bgcolor: eq("FFED7D31"), fill_type: eq("patternFill") }), 1)
      assert.strictEqual(yield* check("B1", { bgcolor: eq("00000000") }), 1)
      assert.strictEqual(yield* check("B1", { bgcolor: eq("FF123456") }, compat), 1)
      assert.strictEqual(yield* check("C1", { bgcolor: eq(null), fill_type: eq("gradientFill") }), 1)
      assert.strictEqual(yield* check("A2", { value: eq(true) }), 1)
      assert.strictEqual(yield* check("A2", { value: eq(null) }, compat), 1)
      assert.strictEqual(yield* check("B2", { value: eq("#N/A") }), 1)
      assert.strictEqual(yield* check("C2", { value: eq("x") }), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("style: each property, all cells", () =>
    Effect.gen(function* () {
      for (const name of ["font_color", "font_bold", "bgcolor", "fgcolor", "hyperlink", "number_format"]) {
        yield* tells("looks", two("style", { props: [name] }))
      }
      const compared = (props: ReadonlyArray<string>, context = {}) =>
        compare(book("looks-other"), book("looks"), [two("style", { props })], context)
      assert.strictEqual(yield* compared(["font_name", "font_family", "font_underline", "fill_type", "merge"]), 1)
      // Upstream compares a link's number in the file, not where it leads.
      assert.strictEqual(yield* compared(["hyperlink"], compat), 1)
      assert.include(yield* compared(["border"]), "not supported: the cell properties border")
      const unmerged = edited("looks", "xl/worksheets/sheet1.xml", (xml) =>
        xml.replace(/<mergeCells.*<\/mergeCells>/, "")
      )
      const longer = edited("looks", "xl/worksheets/sheet1.xml", (xml) =>
        xml.replace("</sheetData>", '<row r="99"><c r="Z99" s="0"/></row></sheetData>')
      )
      const at = yield* written({ "unmerged.xlsx": unmerged, "longer.xlsx": longer })
      const against = (name: string, props: ReadonlyArray<string>, context = {}) =>
        compare(file(at(name)), book("looks"), [two("style", { props })], context)
      assert.strictEqual(yield* against("unmerged.xlsx", ["merge"]), 0)
      // The blue fill of the swallowed cells comes to light.
      assert.strictEqual(yield* against("unmerged.xlsx", ["bgcolor"]), 0)
      // An empty cell of no look of its own is no difference; to upstream it is one.
      assert.strictEqual(yield* against("longer.xlsx", ["bgcolor", "font_bold"]), 1)
      assert.strictEqual(yield* against("longer.xlsx", ["bgcolor", "font_bold"], compat), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("style: a look by hand equals the same look by a conditional format", () =>
    Effect.gen(function* () {
      const styles =
        '<fills><fill/><fill/><fill><patternFill patternType="solid"><fgColor rgb="FFFF0000"/></patternFill></fill></fills>' +
        '<cellXfs><xf/><xf fillId="2"/></cellXfs><dxfs><dxf><fill><patternFill><bgColor rgb="FFFF0000"/></patternFill></fill></dxf></dxfs>'
      const values: ReadonlyArray<number | string> = [3, 8, "late", 8, -1]
      const rows = (red: ReadonlyArray<number>) =>
        data(
          ...values.map((value, i) => {
            const style = red.includes(i) ? ' s="1"' : ""
            const content =
              typeof value === "number"
                ? `<c r="A${i + 1}"${style}><v>${value}</v></c>`
                : `<c r="A${i + 1}"${style} t="inlineStr"><is><t>${value}</t></is></c>`
            return `<row r="${i + 1}">${content}</row>`
          })
        )
      const rule = (attributes: string, ...formulas: ReadonlyArray<string>) =>
        `<conditionalFormatting sqref="A1:A5"><cfRule priority="1" dxfId="0" ${attributes}>${formulas
          .map((formula) => `<formula>${formula}</formula>`)
          .join("")}</cfRule></conditionalFormatting>`
      // Rows that are red, worked by hand; text and a number are unequal and nothing else.
      const cases: ReadonlyArray<readonly [string, ReadonlyArray<number>]> = [
        [rule('type="cellIs" operator="greaterThan"', "3"), [1, 3]],
        [rule('type="cellIs" operator="between"', "8", "3"), [0, 1, 3]],
        [rule('type="cellIs" operator="notBetween"', "0", "5"), [1, 3, 4]],
        [rule('type="cellIs" operator="equal"', "&quot;LATE&quot;"), [2]],
        [rule('type="cellIs" operator="equal"', "A3"), [1]],
        [rule('type="cellIs" operator="notEqual"', "$A$2"), [0, 2, 4]],
        [rule('type="expression"', "MOD(ROW(),2)=0"), [1, 3]],
        [rule('type="expression"', "AND(ISNUMBER(A1),A1&lt;5)"), [0, 4]],
        [rule('type="expression"', "COUNTIF($A$1:$A$5,A1)&gt;1"), [1, 3]],
        [rule('type="expression"', "$A1=LARGE($A$1:$A$5,1)"), [1, 3]],
        [rule('type="expression"', "OR(A1={3,-1})"), [0, 4]],
        [rule('type="expression"', "IFERROR(A1/1,0)&gt;MEDIAN(A$1:A$5)"), [1, 3]],
        [rule('type="expression"', "LEN(A1)&amp;&quot;&quot;=&quot;4&quot;"), [2]],
        [rule('type="expression"', "A1^2=-3^2"), [0]],
        [rule('type="expression"', "this is no formula("), []],
        [rule('type="containsText"', "NOT(ISERROR(SEARCH(&quot;AT&quot;,A1)))"), [2]],
        [rule('type="beginsWith"', "LEFT(A1,1)=&quot;l&quot;"), [2]],
        [rule('type="top10" rank="2"'), [1, 3]],
        [rule('type="top10" rank="1" bottom="1"'), [4]],
        [rule('type="aboveAverage"'), [1, 3]],
        [rule('type="duplicateValues"'), [1, 3]],
        [rule('type="uniqueValues"'), [0, 2, 4]],
        [rule('type="colorScale"'), []],
        [
          rule('type="cellIs" operator="greaterThan" stopIfTrue="1"', "3").replace('dxfId="0"', "") +
            rule('type="expression"', "TRUE").replace('"1" dxf', '"2" dxf'),
          [0, 2, 4]
        ]
      ]
      const files = Object.fromEntries(
        cases.flatMap(([format, red], i) => [
          [`cf${i}.xlsx`, workbook({ S: rows([]) + format }, styles)],
          [`hand${i}.xlsx`, workbook({ S: rows(red) }, styles)]
        ])
      )
      const odd = (formula: string, type = "expression") =>
        workbook({ S: rows([]) + rule(`type="${type}"`, formula) }, styles)
      const at = yield* written({
        ...files,
        "now.xlsx": odd("A1&lt;TODAY()"),
        "web.xlsx": odd("WEBSERVICE(&quot;http://localhost&quot;)=1"),
        "period.xlsx": odd("A1", "timePeriod"),
        "busy.xlsx": workbook(
          {
            S:
              data(
                ...Array.from({ length: 4000 }, (_, i) => `<row r="${i + 1}"><c r="A${i + 1}"><v>${i}</v></c></row>`)
              ) + rule('type="expression"', "COUNTIF($A:$XFD,A1)&gt;1").replace("A1:A5", "A1:A4000")
          },
          styles
        )
      })
      const style = [two("style", { props: ["bgcolor"] })]
      for (const [i, [format]] of cases.entries()) {
        assert.strictEqual(yield* compare(file(at(`cf${i}.xlsx`)), file(at(`hand${i}.xlsx`)), style), 1, format)
        const other = file(at(`hand${(i + 1) % cases.length}.xlsx`))
        const same = JSON.stringify(cases[i]?.[1]) === JSON.stringify(cases[(i + 1) % cases.length]?.[1])
        assert.strictEqual(yield* compare(file(at(`cf${i}.xlsx`)), other, style), same ? 1 : 0, format)
      }
      const own = (name: string) => compare(file(at(name)), file(at(name)), style)
      assert.include(yield* own("now.xlsx"), "not supported in a conditional format: TODAY")
      assert.include(yield* own("web.xlsx"), "WEBSERVICE")
      assert.include(yield* own("period.xlsx"), "type timePeriod")
      assert.include(yield* own("busy.xlsx"), "it takes more than 10000000 steps")
    }).pipe(Effect.scoped)
  )

  it.effect("chart: what is shown, and how", () =>
    Effect.gen(function* () {
      for (const name of ["type", "title", "direction", "xtitle", "anchor"]) {
        yield* tells("charts", two("chart", { chart_props: [name] }))
      }
      yield* tells("charts", two("chart"))
      const title = edited("charts", "xl/charts/chart1.xml", (xml) => xml.replace("COGS</a:t>", "Loss</a:t>"))
      const split = edited("charts", "xl/charts/chart1.xml", (xml) =>
        xml.replace("<a:t>Sales &amp; COGS</a:t></a:r>", "<a:t>Sales &amp; </a:t></a:r><a:r><a:t>COGS</a:t></a:r>")
      )
      const cloud = edited("charts", "xl/charts/chart2.xml", (xml) => xml.replace("$B$2:$B$4", "$B$2:$B$3"))
      const at = yield* written({ "title.xlsx": title, "split.xlsx": split, "cloud.xlsx": cloud })
      const against = (name: string, props: ReadonlyArray<string>, context = {}) =>
        compare(file(at(name)), book("charts"), [two("chart", { chart_props: props })], context)
      assert.strictEqual(yield* against("title.xlsx", ["title"]), 0)
      assert.strictEqual(
        yield* against("title.xlsx", ["type", "direction", "legend", "width", "height", "ytitle", "ztitle"]),
        1
      )
      assert.strictEqual(yield* against("split.xlsx", ["title"]), 1)
      assert.strictEqual(yield* against("split.xlsx", ["title"], compat), 0)
      // Upstream does not see where the points of a scatter chart are from.
      assert.strictEqual(yield* against("cloud.xlsx", ["type"]), 0)
      assert.strictEqual(yield* against("cloud.xlsx", ["type"], compat), 1)
      assert.include(yield* against("split.xlsx", ["colour"]), "chart properties colour")
      // A sheet without charts, and one that is not there.
      const empty = [two("chart", { chart_props: ["type"] }, 1)]
      assert.strictEqual(yield* compare(book("charts"), book("charts"), empty), 1)
      const nowhere = [{ type: "chart", sheet_idx0: "RNNowhere", sheet_idx1: "EI1" }]
      assert.strictEqual(yield* compare(book("charts"), book("charts"), nowhere), 0)
      assert.strictEqual(yield* compare(book("charts"), book("charts"), nowhere, compat), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("pivot_table: source, fields, items", () =>
    Effect.gen(function* () {
      const sheet = "RNSheet2"
      const props = ["col_fields", "filter", "row_fields", "data_fields"]
      yield* tells("pivots", two("pivot_table", { pivot_props: props }, sheet))
      yield* tells("pivots", two("pivot_table", { pivot_props: props }, sheet), compat)
      const table = (edit: (xml: string) => string) => edited("pivots", "xl/pivotTables/pivotTable1.xml", edit)
      const at = yield* written({
        "count.xlsx": table((xml) => xml.replace('subtotal="sum"', 'subtotal="count"')),
        "hidden.xlsx": table((xml) => xml.replace('<item x="1"/>', '<item h="1" x="1"/>')),
        "moved.xlsx": table((xml) => xml.replace('<item x="0"/><item x="1"/>', '<item x="1"/><item x="0"/>')),
        "named.xlsx": table((xml) => xml.replace('name="One"', 'name="Uno"')),
        "paged.xlsx": table((xml) =>
          xml.replace("<dataFields", '<pageFields><pageField fld="1"/></pageFields><dataFields')
        ),
        "wide.xlsx": edited("pivots", "xl/pivotCache/pivotCacheDefinition1.xml", (xml) => xml.replace("A1:D5", "A1:D9"))
      })
      const against = (name: string, pivot_props: ReadonlyArray<string>) =>
        compare(file(at(`${name}.xlsx`)), book("pivots"), [two("pivot_table", { pivot_props }, sheet)])
      assert.strictEqual(yield* against("count", ["data_fields"]), 0)
      assert.strictEqual(yield* against("count", ["row_fields", "filter"]), 1)
      assert.strictEqual(yield* against("hidden", ["selection"]), 0)
      assert.strictEqual(yield* against("moved", ["selection"]), 1)
      assert.strictEqual(yield* against("moved", ["selection", "ordered"]), 0)
      assert.strictEqual(yield* against("named", props), 1)
      assert.strictEqual(yield* against("named", ["name"]), 0)
      assert.strictEqual(yield* against("paged", ["filter"]), 0)
      assert.strictEqual(yield* against("wide", []), 0)
      assert.strictEqual(
        yield* against("named", [
          "location",
          "show_total",
          "show_headers",
          "show_empty_row",
          "show_empty_col",
          "data_fields_name",
          "ignore_special_fields"
        ]),
        1
      )
      assert.include(yield* against("named", ["colour"]), "pivot table properties colour")
    }).pipe(Effect.scoped)
  )

  it.effect("row_props and col_props", () =>
    Effect.gen(function* () {
      yield* tells("looks", two("row_props", { props: ["hidden"] }))
      yield* tells("looks", two("row_props", { props: ["hidden", "height", "collapsed", "outline_level"] }))
      yield* tells("looks", two("col_props", { props: ["width"] }))
      const hidden = [two("col_props", { props: ["hidden", "auto_size", "collapsed"] })]
      assert.strictEqual(yield* compare(book("looks-other"), book("looks"), hidden), 1)
      // One run of columns or two, and rows that say nothing but what they would be.
      const split = edited("looks", "xl/worksheets/sheet1.xml", (xml) =>
        xml
          .replace(/<col ([^>]*)max="3" min="2"([^>]*)\/>/, '<col $1max="2" min="2"$2/><col $1max="3" min="3"$2/>')
          .replace(/<row r="2" [^>]*>/, '<row r="2">')
      )
      const at = yield* written({ "split.xlsx": split })
      const against = (rule: Record<string, unknown>, context = {}) =>
        compare(file(at("split.xlsx")), book("looks"), [rule], context)
      const width = two("col_props", { props: ["width"] })
      const rows = two("row_props", { props: ["hidden"] })
      assert.strictEqual(yield* against(width), 1)
      assert.strictEqual(yield* against(width, compat), 0)
      assert.strictEqual(yield* against(two("col_props", { props: ["width", "min", "max"] })), 0)
      assert.strictEqual(yield* against(rows), 1)
      assert.strictEqual(yield* against(rows, compat), 0)
      assert.include(yield* against(two("row_props", { props: ["colour"] })), "row properties colour")
      assert.include(yield* against(two("col_props", { props: ["height"] })), "column properties height")
    }).pipe(Effect.scoped)
  )

  it.effect("data_validation: each is asked for, and each that is asked for is there", () =>
    Effect.gen(function* () {
      const valid = (dv_props: ReadonlyArray<unknown>, name = "looks", context = {}) =>
        compare(book(name), undefined, [{ type: "data_validation", sheet_idx: 0, dv_props }], context)
      const choice = {
        ranges: { method: "spreadsheet_range", ref: [["D7"], ["D2:D29"]] },
        type: eq("list"),
        formula1: { method: "str_set_eq", ref: ["high", "low"] },
        allowBlank: eq(true),
        errorStyle: eq("stop"),
        errorTitle: eq("No")
      }
      assert.strictEqual(yield* valid([choice]), 1)
      assert.strictEqual(yield* valid([{ ranges: eq("D7"), prompt: eq(null) }]), 1)
      assert.strictEqual(yield* valid([choice], "looks-other"), 0)
      assert.strictEqual(yield* valid([choice], "charts"), 0)
      assert.strictEqual(yield* valid([]), 0)
      assert.strictEqual(yield* valid([choice, choice]), 0)
      assert.include(yield* valid([{ colour: eq(1) }]), "properties of a validation colour")

      const validations = (...types: ReadonlyArray<string>) =>
        workbook({
          S: `<sheetData/><dataValidations>${types
            .map((type) => `<dataValidation type="${type}" sqref="B2:B3 A1"/>`)
            .join("")}</dataValidations>`
        })
      const at = yield* written({ "same.xlsx": validations("list", "list"), "both.xlsx": validations("whole", "list") })
      const rule = { type: "data_validation", sheet_idx: 0, dv_props: [{ type: eq("list") }, { type: eq("whole") }] }
      assert.strictEqual(yield* compare(file(at("both.xlsx")), undefined, [rule]), 1)
      // Two lists and no whole number: upstream only asks that nothing is there that was not asked for.
      assert.strictEqual(yield* compare(file(at("same.xlsx")), undefined, [rule]), 0)
      assert.strictEqual(yield* compare(file(at("same.xlsx")), undefined, [rule], compat), 1)
      const ranges = { ...rule, dv_props: [{ ranges: eq("A1 B2:B3") }, { type: eq("whole") }] }
      assert.strictEqual(yield* compare(file(at("both.xlsx")), undefined, [ranges]), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("freeze and zoom", () =>
    Effect.gen(function* () {
      yield* tells("view", two("freeze", {}, 1))
      const scrolled = edited("view", "xl/worksheets/sheet2.xml", (xml) =>
        xml.replace('topLeftCell="B3"', 'topLeftCell="D9"')
      )
      const split = edited("view", "xl/worksheets/sheet2.xml", (xml) => xml.replace('state="frozen"', ""))
      const at = yield* written({ "scrolled.xlsx": scrolled, "split.xlsx": split })
      assert.strictEqual(yield* compare(file(at("scrolled.xlsx")), book("view"), [two("freeze", {}, 1)]), 1)
      assert.strictEqual(yield* compare(file(at("split.xlsx")), book("view"), [two("freeze", {}, 1)]), 0)
      assert.strictEqual(
        yield* compare(book("view"), book("view"), [two("freeze", {}, "RNNowhere")]),
        'compare_table cannot decide: the expected workbook has no sheet "Nowhere"'
      )

      const zoom = (name: string, method: string, ref: unknown, sheet_idx: unknown = 1) =>
        compare(book(name), undefined, [{ type: "zoom", sheet_idx, method, ref }])
      assert.strictEqual(yield* zoom("view", "lt", 260), 1)
      assert.strictEqual(yield* zoom("view", "eq", 150), 1)
      assert.strictEqual(yield* zoom("view-other", "range.te", [100, 200]), 0)
      assert.strictEqual(yield* zoom("looks", "eq", 100, 0), 1)
      assert.strictEqual(yield* zoom("view", "lt", 260, "RI7"), 0)
      assert.include(yield* zoom("view", "near", 1), "is not supported")
    }).pipe(Effect.scoped)
  )

  it.effect("filter and sparkline", () =>
    Effect.gen(function* () {
      yield* tells("looks", two("filter"))
      yield* tells("looks", two("sparkline"))
      const sheet = (filter: string) => workbook({ S: `<sheetData/>${filter}` })
      const column = (content: string) =>
        sheet(`<autoFilter ref="A1:B9"><filterColumn colId="0">${content}</filterColumn></autoFilter>`)
      const at = yield* written({
        "ab.xlsx": column('<filters><filter val="a"/><filter val="b"/></filters>'),
        "ba.xlsx": column('<filters blank="0"><filter val="b"/><filter val="a"/></filters>'),
        "more.xlsx": column('<customFilters><customFilter operator="greaterThan" val="5"/></customFilters>'),
        "less.xlsx": column('<customFilters and="0"><customFilter operator="lessThan" val="5"/></customFilters>'),
        "top.xlsx": column('<top10 val="3"/>'),
        "top5.xlsx": column('<top10 val="5"/>'),
        "up.xlsx": sheet(
          '<autoFilter ref="A1:B9"><sortState ref="A2:B9"><sortCondition ref="A2:A9"/></sortState></autoFilter>'
        ),
        "down.xlsx": sheet(
          '<autoFilter ref="A1:B9"><sortState ref="A2:B9"><sortCondition descending="1" ref="A2:A9"/></sortState></autoFilter>'
        ),
        "none.xlsx": sheet("")
      })
      const filter = (a: string, b: string, context = {}) =>
        compare(file(at(`${a}.xlsx`)), file(at(`${b}.xlsx`)), [two("filter")], context)
      assert.strictEqual(yield* filter("ab", "ba"), 1)
      assert.strictEqual(yield* filter("more", "less"), 0)
      assert.strictEqual(yield* filter("up", "down"), 0)
      assert.strictEqual(yield* filter("up", "none"), 0)
      assert.strictEqual(yield* filter("none", "none"), 1)
      assert.strictEqual(yield* filter("top", "top5"), 0)
      assert.strictEqual(yield* filter("top", "top5", compat), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("a number that names another sheet's part misleads upstream only", () =>
    Effect.gen(function* () {
      const rows = (text: string) => data(`<row r="1"><c r="A1" t="str"><v>${text}</v></c></row>`)
      const swapped = unzipSync(workbook({ One: rows("one"), Two: rows("two") }))
      const list = strFromU8(swapped["xl/workbook.xml"] ?? new Uint8Array())
      swapped["xl/workbook.xml"] = strToU8(
        list.replace('sheetId="1"', 'sheetId="9"').replace('sheetId="2"', 'sheetId="1"')
      )
      const at = yield* written({ "b.xlsx": zipSync(swapped) })
      const rules = [cell("A1", { value: eq("two") }, "RNTwo")]
      assert.strictEqual(yield* compare(file(at("b.xlsx")), undefined, rules), 1)
      assert.strictEqual(yield* compare(file(at("b.xlsx")), undefined, rules, compat), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("a broken part of the result is 0, of the gold file an error", () =>
    Effect.gen(function* () {
      const broken = (xml: string) => workbook({ S: xml })
      const at = yield* written({
        "tag.xlsx": broken("<sheetData><row></sheetData>"),
        "attribute.xlsx": broken("<sheetData><row r=1/></sheetData>"),
        "twice.xlsx": broken('<sheetData><row r="1" r="2"/></sheetData>'),
        "entity.xlsx": broken("<sheetData>&a;</sheetData>"),
        "declared.xlsx": workbook({ S: "<sheetData/>" }, "", {
          "xl/worksheets/sheet1.xml": strToU8('<!DOCTYPE w [<!ENTITY a "aaaa">]><worksheet>&a;</worksheet>')
        }),
        "row.xlsx": broken('<sheetData><row r="0"/></sheetData>')
      })
      for (const name of ["tag", "attribute", "twice", "entity", "declared", "row"]) {
        const bad = file(at(`${name}.xlsx`))
        assert.strictEqual(yield* compare(bad, book("looks"), [two("sheet_data")]), 0, name)
        assert.include(yield* compare(book("looks"), bad, [two("sheet_data")]), "expected value", name)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("hostile workbooks are refused, or cost little", () =>
    Effect.gen(function* () {
      const attributes = Array.from({ length: 300 }, (_, i) => `a${i}=""`).join(" ")
      const corner = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
      const merge = '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'
      const links = '<hyperlink ref="A1:XFD1048576" location="x"/>'.repeat(200)
      const at = yield* written({
        "deep.xlsx": workbook({ S: `${"<a>".repeat(1000)}${"</a>".repeat(1000)}` }),
        "wide.xlsx": workbook({ S: `<cols><col ${attributes}/></cols>` }),
        "nodes.xlsx": workbook({ S: `<sheetData/><hyperlinks>${"<hyperlink/>".repeat(400_001)}</hyperlinks>` }),
        "cells.xlsx": workbook({ S: data(`<row>${"<c/>".repeat(2_000_001)}</row>`) }),
        "corner.xlsx": workbook({
          S: `${data('<row r="1"><c r="A1"><v>1</v></c></row>', corner)}${merge}<hyperlinks>${links}</hyperlinks>`
        }),
        "one.xlsx": workbook({ S: "<sheetData/>" }, "", {
          "xl/workbook.xml": strToU8(
            `<workbook xmlns:r="x"><sheets>${'<sheet name="S" sheetId="1" r:id="s1"/>'.repeat(1000)}</sheets></workbook>`
          )
        })
      })
      const judged = (name: string, ...rules: ReadonlyArray<unknown>) =>
        compare(file(at(`${name}.xlsx`)), undefined, rules)
      const own = { type: "sheet_data", sheet_idx0: 0, sheet_idx1: "RI0" }
      assert.include(yield* judged("deep", own), "nested deeper than 256")
      assert.include(yield* judged("wide", own), "more than 256 attributes")
      assert.include(yield* judged("nodes", own), "more than 400000 elements")
      assert.include(yield* judged("cells", own), "more than 2000000 cells")
      assert.include(yield* judged("corner", own), "a table of 1048576 rows and 16384 columns")
      const style = { ...own, type: "style", props: ["bgcolor", "merge", "hyperlink", "font_bold"] }
      assert.strictEqual(yield* judged("corner", style, cell("B2", { merge: eq(true) })), 1)
      // One part cannot be a thousand sheets.
      assert.strictEqual(yield* judged("one", own), 0)
    }).pipe(Effect.scoped)
  )

  const names = ["Item", "Price", "a&b", "x", "1"]
  const value = FastCheck.oneof(
    FastCheck.constantFrom("", "NA", "late", "10", ...names),
    FastCheck.integer({ min: -5, max: 100 }),
    FastCheck.double({ noNaN: true, noDefaultInfinity: true }),
    FastCheck.boolean(),
    FastCheck.constant(null)
  )
  const sheets = FastCheck.array(FastCheck.array(value, { minLength: 1, maxLength: 4 }), { maxLength: 6 })
  type Sheet = ReadonlyArray<ReadonlyArray<string | number | boolean | null>>
  const escape = (text: string) => text.replaceAll("&", "&amp;")
  const generated = (rows: Sheet) =>
    workbook(
      {
        S: `<cols><col min="1" max="2" width="${rows.length + 5}"/></cols>${data(
          ...rows.map((row, i) => {
            const cells = row.map((each, j) => {
              const style = ` s="${(i + j) % 3}"`
              if (each === null) return `<c${style}/>`
              if (typeof each === "number") return `<c${style}><v>${each}</v></c>`
              if (typeof each === "boolean") return `<c${style} t="b"><v>${Number(each)}</v></c>`
              return `<c${style} t="inlineStr"><is><t>${escape(each)}</t></is></c>`
            })
            return `<row r="${i + 1}" hidden="${i % 2}">${cells.join("")}</row>`
          })
        )}<conditionalFormatting sqref="A1:C9"><cfRule type="cellIs" operator="greaterThan" priority="1" dxfId="0"><formula>A$1</formula></cfRule></conditionalFormatting>`
      },
      '<fonts><font/><font><b/></font><font><color theme="4"/></font></fonts><cellXfs><xf/><xf fontId="1"/><xf fontId="2"/></cellXfs><dxfs><dxf><font><i/></font></dxf></dxfs>'
    )
  const all = [
    { type: "sheet_name" },
    two("sheet_data"),
    two("sheet_fuzzy", {
      rules: [
        { range: "A1:D6", type: "exact_match" },
        { range: "A1:D6", type: "fuzzy_match" }
      ]
    }),
    two("style", {
      props: ["number_format", "font_name", "font_bold", "font_italic", "font_color", "bgcolor", "hyperlink", "merge"]
    }),
    two("chart", { chart_props: ["type", "title"] }),
    two("pivot_table", { pivot_props: ["row_fields"] }),
    two("row_props", { props: ["hidden", "height"] }),
    two("col_props", { props: ["width", "min"] }),
    two("sparkline"),
    two("filter"),
    two("freeze")
  ]

  it.effect("every rule holds between a sheet and itself; sheet_data and style don't mind which is which", () =>
    Effect.gen(function* () {
      const cases = FastCheck.sample(FastCheck.tuple(sheets, sheets), 40)
      for (const [a, b] of cases) {
        const at = yield* written({ "a.xlsx": generated(a), "b.xlsx": generated(b) })
        const [one, other] = [file(at("a.xlsx")), file(at("b.xlsx"))]
        const shown = JSON.stringify([a, b])
        assert.strictEqual(yield* compare(one, one, all), 1, shown)
        assert.strictEqual(yield* compare(one, one, all, compat), 1, shown)
        for (const rule of [
          two("sheet_data"),
          two("style", { props: ["font_bold", "font_color"] }),
          two("row_props", { props: ["hidden"] })
        ]) {
          assert.strictEqual(yield* compare(one, other, [rule]), yield* compare(other, one, [rule]), shown)
        }
      }
      for (const name of ["looks", "charts", "pivots", "view"]) {
        assert.strictEqual(yield* compare(book(name), book(name), all), 1, name)
        assert.strictEqual(yield* compare(book(name), book(name), all, compat), 1, name)
      }
    }).pipe(Effect.scoped)
  )
})

describe("compare_conference_city_in_order", () => {
  const cities =
    "Dallas,Zurich,New York,sao paulo,Paris,Rome,Kyoto,Lima,Oslo,Cairo,Delhi,Seoul,Quito,Bern,Graz,Bonn,Nice,Perth,Turin,Porto,Split".split(
      ","
    )
  const check = (name: string, expected: unknown) => judge(compareConferenceCityInOrder, book(name), json({ expected }))

  it.effect("C2 to C22 of the sheet in front hold the cities, without regard to accents, case and punctuation", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* check("cities", cities), 1)
      assert.strictEqual(yield* check("cities", [["Fort Worth", "dallas"], ...cities.slice(1)]), 1)
      assert.strictEqual(yield* check("cities-other", cities), 0)
      assert.strictEqual(yield* check("cities", ["", ...cities.slice(1)]), 0)
      assert.strictEqual(yield* check("looks", cities), 0)
      // In front is the second sheet here, which has no cities.
      assert.strictEqual(yield* check("view", cities), 0)
      assert.include(yield* check("cities", cities.slice(1)), "C2 to C22")
      assert.strictEqual(yield* judge(compareConferenceCityInOrder, missing, json({ expected: cities })), 0)
      const at = yield* written({ "broken.xlsx": "PK" })
      assert.strictEqual(
        yield* judge(compareConferenceCityInOrder, file(at("broken.xlsx")), json({ expected: cities })),
        0
      )
      assert.deepStrictEqual(
        metrics.map(({ name }) => name),
        ["compare_table", "compare_conference_city_in_order"]
      )
    }).pipe(Effect.scoped)
  )
})

describe("lastRow", () => {
  // Expected values: pandas 2.2.3, `read_excel(path).iloc[-1].astype(str).tolist()`.
  it("is the last row as pandas writes it", () => {
    assert.deepStrictEqual(rightOf(lastRow(bytes("people"))), ["B", "345074", "147.0", "3.0"])
    assert.deepStrictEqual(rightOf(lastRow(bytes("cities"))), ["2020", "c", "Split"])
    assert.deepStrictEqual(rightOf(lastRow(bytes("pivots"))), ["bread", "web", "2024", "5"])
    assert.deepStrictEqual(rightOf(lastRow(bytes("looks"))), ["Sum", "140", "2024-02-29 00:00:00", "nan", "nan"])
  })

  it("refuses what has none", () => {
    const kind = (content: Uint8Array) =>
      Either.match(lastRow(content), { onLeft: ({ kind }) => kind, onRight: String })
    assert.strictEqual(kind(strToU8("no workbook")), "Unparsable")
    assert.strictEqual(kind(workbook({})), "Unparsable")
    assert.strictEqual(kind(workbook({ S: data('<row r="1"><c t="str"><v>header</v></c></row>') })), "Unparsable")
    assert.strictEqual(
      kind(
        workbook({ S: data('<row r="1"><c><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>') })
      ),
      "Undecidable"
    )
  })
})
