/**
 * Metrics over spreadsheets.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Spreadsheet from "./internal/Spreadsheet.js"
import { judge, type Workbooks } from "./internal/sheets/judge.js"
import { printsEqual } from "./internal/sheets/print.js"
import { Options } from "./internal/sheets/rules.js"
import { type FileRef, type Metric, make, makeEffect, type Reader as ReaderType, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

interface Book {
  readonly file: FileRef
  readonly workbook: Spreadsheet.Workbook
}

const book: ReaderType<Book> = Reader.file((bytes, file) =>
  Either.map(Spreadsheet.parse(bytes), (workbook) => ({ file, workbook }))
)
const optionalBook = Reader.optional(book)

/**
 * All rules hold: 1, otherwise 0.
 *
 * - `sheet_name`: the same names in the same order.
 * - `sheet_data`: two sheets are equal tables of cached values, read as pandas reads them.
 * - `sheet_print`: the CSV files beside the workbooks, `<stem>-<sheet>.csv`, have the same lines.
 * - `sheet_fuzzy`: texts of ranges, cell by cell: equal, similar, or one in the other, after normalization.
 * - `check_cell`: value and looks of one cell against `{ method, ref }` rules.
 * - `style`: all cells look the same, conditional formats included.
 * - `chart`, `pivot_table`, `sparkline`, `filter`, `freeze`, `row_props`, `col_props`: two sheets have the same ones.
 * - `zoom`, `data_validation`: `{ method, ref }` rules over one sheet.
 *
 * A sheet is `0`, `RI0` or `RNname` in the result and `EI0` or `ENname` in the gold file. A sheet that the result lacks
 * fails its rule. Colours are ARGB, those of theme and palette resolved. A task with any other rule type is an error
 * whatever the result is, or else only the failures of such tasks would count.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareTable: Metric = makeEffect({
  name: "compare_table",
  result: book,
  expected: optionalBook,
  options: Options,
  score: (result, expected, { rules }, { compat }) =>
    Effect.gen(function* () {
      const workbooks: Workbooks = { result: result.workbook, expected: expected?.workbook }
      const files = { result: result.file, expected: expected?.file }
      for (const rule of rules) {
        const holds =
          rule.type === "sheet_print"
            ? yield* printsEqual(workbooks, files, rule)
            : yield* judge(workbooks, rule, compat)
        if (!holds) return 0
      }
      return 1
    })
})

/** Lower case, without accents, anything but letters of ASCII and digits as one space. */
const normalizeCity = (text: string): string =>
  text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, " ")
    .trim()

const firstCityRow = 2
const cityColumn = 3

const cityRows = 21

const cities = Reader.json(
  Schema.Struct({ expected: Schema.Array(Schema.Union(Schema.String, Schema.Array(Schema.String))) })
)

/**
 * C2 to C22 of the sheet that was in front name the expected cities in order: each holds the city, or one of several
 * spellings, without regard to case, accents and punctuation.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareConferenceCityInOrder: Metric = make({
  name: "compare_conference_city_in_order",
  result: book,
  expected: cities,
  options: Schema.Struct({}),
  score: ({ workbook }, { expected }) => {
    if (expected.length < cityRows) return Either.left("a city is needed for each of C2 to C22")
    const sheet = workbook.sheets[workbook.active]
    const holds = (row: number, city: string | ReadonlyArray<string>) => {
      const stored = sheet?.rows.get(row)?.get(cityColumn)?.stored ?? ""
      const actual = normalizeCity(String(stored))
      const spellings = typeof city === "string" ? [city] : city
      return spellings.map(normalizeCity).some((spelling) => spelling !== "" && actual.includes(spelling))
    }
    return verdict(expected.slice(0, cityRows).every((city, i) => holds(firstCityRow + i, city)))
  }
})

/**
 * The metrics of this module.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [compareTable, compareConferenceCityInOrder]
