import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { strFromU8, unzipSync } from "fflate"
import * as Spreadsheet from "../../../src/osworld/evaluator/internal/Spreadsheet.js"
import { evaluate } from "../../../src/osworld/evaluator/internal/sheets/evaluate.js"
import * as Formula from "../../../src/osworld/evaluator/internal/sheets/formula.js"
import { maxSteps, within } from "../../../src/osworld/evaluator/internal/sheets/scope.js"
import * as Values from "../../../src/osworld/evaluator/internal/sheets/values.js"
import { fixture, rightOf } from "./support.js"

const bytes = readFileSync(fixture("sheets/formulas.xlsx"))
const workbook = rightOf(Spreadsheet.parse(bytes))
const [sheet = Spreadsheet.emptySheet] = workbook.sheets

const calculate = (formula: string, row = 1, moved = { rows: 0, columns: 0 }): Values.Scalar =>
  Either.merge(
    Either.flatMap(Formula.parse(formula), (expression) =>
      within(() => {
        const steps = { left: maxSteps }
        const { sheets } = workbook
        return Values.first(evaluate(expression, { sheet, sheets, row, column: 6, moved, steps, ranges: new Map() }))
      })
    )
  )

describe("formulas", () => {
  it("come to what LibreOffice calculated", () => {
    const xml = strFromU8(unzipSync(bytes)["xl/worksheets/sheet1.xml"] ?? new Uint8Array())
    const cells = Array.from(xml.matchAll(/<c r="F(\d+)"[^>]*><f[^>]*>([^<]*)<\/f>/g))
    assert.isAbove(cells.length, 120)
    const decode = (text: string) =>
      text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&")
    for (const [, place = "", text = ""] of cells) {
      const cell = sheet.rows.get(Number(place))?.get(6)
      const expected = cell?.value ?? null
      const found = calculate(decode(text), Number(place))
      if (typeof expected === "object" && expected !== null) {
        // LibreOffice has errors of its own, and writes many of them as #VALUE!.
        const isSame = expected._tag === "Error" ? Values.isError(found) : found === cell?.stored
        assert.isTrue(isSame, `${text}: ${JSON.stringify(found)} and not ${JSON.stringify(expected)}`)
      } else if (typeof found === "number" && typeof expected === "number") {
        assert.approximately(found, expected, 1e-9, text)
      } else {
        // LibreOffice writes truth values of formulas as numbers or as what they are.
        const plain = (value: unknown) => (typeof value === "boolean" ? Number(value) : value)
        assert.strictEqual(plain(found), plain(expected), text)
      }
    }
  })

  it("move with the cell, but for what is fixed", () => {
    // B2:B6 holds 4, 9, 2, 7, 4.
    const down = { rows: 1, columns: 0 }
    assert.strictEqual(calculate("B2", 1, down), 9)
    assert.strictEqual(calculate("B$2", 1, down), 4)
    assert.strictEqual(calculate("A$2", 1, { rows: 3, columns: 1 }), 4)
    assert.strictEqual(calculate("SUM($B$2:B2)", 1, down), 13)
    assert.strictEqual(calculate("Formulas!$B3+'Formulas'!B$2", 1, down), 6)
    assert.deepStrictEqual(calculate("A1", 1, { rows: -1, columns: 0 }), Values.error("#REF!"))
    assert.deepStrictEqual(calculate("Elsewhere!A1"), Values.error("#REF!"))
  })

  it("that make no sense, or that we don't know, have a reason and no value", () => {
    for (const text of ["", "1+", "(1", "SUM(1", "1 2", "{1,", "'A", "A1:", "#", "A9999999", `${"-".repeat(100)}1`]) {
      assert.include(String(calculate(text)), "makes no sense", text)
    }
    assert.include(String(calculate("1+".repeat(5000))), "longer than 8192")
    assert.include(String(calculate("NOW()")), "not supported")
    assert.include(String(calculate("total*2")), "the name TOTAL")
    assert.deepStrictEqual(
      calculate(`SUBSTITUTE(${'"aaaaaaaaaa"&'.repeat(400)}"","a","aaaaaaaaaa")`),
      Values.error("#VALUE!")
    )
  })

  it("never fail otherwise, whatever they say", () => {
    const piece = FastCheck.constantFrom(
      ...'A1 $B$2 B2:B6 A:A 1:1 1 2.5 "x" TRUE #N/A + - * / ^ & = <> < > <= >= % ( ) , ; { } SUM( IF( COUNTIF( MATCH( INDEX( LEFT( ROW( OR('.split(
        " "
      )
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(piece, { maxLength: 12 }), (pieces) => {
        calculate(pieces.join(""))
        return true
      }),
      { numRuns: 2000 }
    )
  })

  it("compare text with patterns as a whole", () => {
    const cases: ReadonlyArray<readonly [string, string, boolean]> = [
      ["banana", "b*a", true],
      ["banana", "b*n", false],
      ["banana", "?anan?", true],
      ["Banana", "BANANA", true],
      ["a*b", "a~*b", true],
      ["axb", "a~*b", false],
      ["", "*", true],
      ["", "?", false]
    ]
    for (const [text, pattern, expected] of cases) assert.strictEqual(Values.like(text, pattern), expected, pattern)
    const started = performance.now()
    assert.isFalse(Values.like("a".repeat(2000), `${"*a".repeat(500)}b`))
    assert.isBelow(performance.now() - started, 2000)
  })
})
