/**
 * `compare_table`: rules over spreadsheets.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as CellRange from "./internal/cellRange.js"
import * as Frame from "./internal/frame.js"
import * as Spreadsheet from "./internal/Spreadsheet.js"
import type { Color } from "./internal/spreadsheetStyles.js"
import { type Metric, make, type Reader as ReaderType, type Score } from "./Metric.js"
import * as Reader from "./Reader.js"
import * as Rule from "./Rule.js"

/** A sheet of the result or of the gold file, by place (from 0) or by name. */
interface SheetIndex {
  readonly side: "result" | "expected"
  readonly sheet: number | string
}

const indexText = /^(R|E)(?:I(\d+)|N([\s\S]+))$/

const SheetIndex = Schema.transform(
  Schema.Union(
    Schema.NonNegativeInt,
    Schema.String.pipe(Schema.pattern(indexText, { message: () => "a sheet index is 0, RI0, RNname, EI0 or ENname" }))
  ),
  Schema.Struct({ side: Schema.Literal("result", "expected"), sheet: Schema.Union(Schema.Number, Schema.String) }),
  {
    strict: true,
    decode: (index): SheetIndex => {
      if (typeof index === "number") return { side: "result", sheet: index }
      const [, side, place, name = ""] = indexText.exec(index) ?? []
      return { side: side === "E" ? "expected" : "result", sheet: place === undefined ? name : Number(place) }
    },
    encode: ({ sheet, side }) => `${side === "result" ? "R" : "E"}${typeof sheet === "number" ? "I" : "N"}${sheet}`
  }
)

const SheetData = Schema.Struct({
  type: Schema.Literal("sheet_data"),
  sheet_idx0: SheetIndex,
  sheet_idx1: SheetIndex,
  /** Digits after the point that count in columns of floats. */
  precision: Schema.optionalWith(Schema.Int, { default: () => 4, nullable: true })
})

const SheetName = Schema.Struct({ type: Schema.Literal("sheet_name") })

const ValidRule = Rule.Rule.pipe(
  // Asked of no value, a rule answers only whether it makes sense.
  Schema.filter((rule) => Either.match(Rule.matches(null, rule), { onLeft: (reason) => reason, onRight: () => true }))
)

const propertyNames = [
  "value",
  "merge",
  "number_format",
  "font_name",
  "font_family",
  "font_size",
  "font_bold",
  "font_italic",
  "font_underline",
  "font_color",
  "fill_type",
  "fgcolor",
  "bgcolor"
] as const

const isPropertyName = Schema.is(Schema.Literal(...propertyNames))

const Properties = Schema.Record({ key: Schema.String, value: ValidRule }).pipe(
  Schema.filter((props) => {
    const unknown = Object.keys(props).filter((name) => !isPropertyName(name))
    return unknown.length === 0 || `not yet supported: the cell properties ${unknown.join(", ")}`
  })
)

const CheckCell = Schema.Struct({
  type: Schema.Literal("check_cell"),
  sheet_idx: SheetIndex,
  coordinate: Schema.String.pipe(
    Schema.filter(
      (text) => (/^[A-Za-z]{1,3}\d+$/.test(text) && CellRange.parse(text) !== undefined) || "no cell such as B3"
    )
  ),
  props: Properties
})

const TableRule = Schema.Union(SheetData, SheetName, CheckCell)

const supported = new Set(["sheet_data", "sheet_name", "check_cell"])

const Supported = Schema.Struct(
  {
    type: Schema.String.pipe(Schema.filter((type) => supported.has(type) || `not yet supported: ${type}`))
  },
  { key: Schema.String, value: Schema.Unknown }
)

const Options = Schema.Struct({
  rules: Schema.NonEmptyArray(Schema.compose(Supported, TableRule, { strict: false }))
})

interface Workbooks {
  readonly result: Spreadsheet.Workbook
  readonly expected: Spreadsheet.Workbook | undefined
}

/** `undefined`: the result has no such sheet, and no rule about it holds. */
const findSheet = (
  { expected, result }: Workbooks,
  { sheet, side }: SheetIndex
): Either.Either<Spreadsheet.Sheet | undefined, string> => {
  const workbook = side === "result" ? result : expected
  if (workbook === undefined) return Either.left("a rule asks for the expected workbook and the task gives none")
  const found = typeof sheet === "number" ? workbook.sheets[sheet] : workbook.sheets.find(({ name }) => name === sheet)
  if (found === undefined && side === "expected") {
    return Either.left(`the expected workbook has no sheet ${JSON.stringify(sheet)}`)
  }
  return Either.right(found)
}

const sheetData = (workbooks: Workbooks, rule: typeof SheetData.Type): Either.Either<boolean, string> =>
  Either.gen(function* () {
    const left = yield* findSheet(workbooks, rule.sheet_idx0)
    const right = yield* findSheet(workbooks, rule.sheet_idx1)
    if (left === undefined || right === undefined) return false
    // Cheap, and it keeps a stray cell in the last corner of a sheet from becoming a table of that size.
    const [a, b] = [Frame.extent(left), Frame.extent(right)]
    if (a.columns !== b.columns || a.rows !== b.rows) return false
    return Frame.equals(Frame.fromSheet(left), Frame.fromSheet(right), rule.precision)
  })

const sheetNames = ({ expected, result }: Workbooks): Either.Either<boolean, string> => {
  if (expected === undefined) return Either.left("sheet_name needs an expected workbook")
  const names = (workbook: Spreadsheet.Workbook) => JSON.stringify(workbook.sheets.map(({ name }) => name))
  return Either.right(names(result) === names(expected))
}

/** A fill without a colour is transparent black, as openpyxl has it. */
const colorProperty = (color: Color | null, none: string | null): Either.Either<string | null, string> => {
  if (color === null) return Either.right(none)
  if (color._tag === "Theme") return Either.left("not yet supported: colours from the theme or the palette")
  return Either.right(color._tag === "Rgb" ? color.argb : none)
}

type Property = string | number | boolean | null

const styleProperty = (
  cell: Spreadsheet.Cell | undefined,
  name: Exclude<(typeof propertyNames)[number], "value" | "merge">
): Either.Either<Property, string> => {
  const style = cell?.style
  switch (name) {
    case "number_format":
      return Either.right(style?.numberFormat ?? "General")
    case "font_name":
      return Either.right(style?.fontName ?? null)
    case "font_family":
      return Either.right(style?.fontFamily ?? null)
    case "font_size":
      return Either.right(style?.fontSize ?? null)
    case "font_bold":
      return Either.right(style?.bold ?? false)
    case "font_italic":
      return Either.right(style?.italic ?? false)
    case "font_underline":
      return Either.right(style?.underline ?? null)
    case "fill_type":
      return Either.right(style?.fillType ?? null)
    case "font_color":
      return colorProperty(style?.fontColor ?? null, null)
    case "fgcolor":
      return colorProperty(style?.foreground ?? null, "00000000")
    case "bgcolor":
      return colorProperty(style?.background ?? null, "00000000")
  }
}

/** Numbers and text that says a number are one: upstream reads the file's characters, tasks write either. */
const valueMatches = (stored: Property, rule: Rule.Rule): Either.Either<boolean, string> => {
  const text = typeof rule.ref === "string" && rule.ref.trim() !== "" ? Number(rule.ref) : Number.NaN
  if (typeof stored === "number" && !Number.isNaN(text)) return Rule.matches(stored, { ...rule, ref: text })
  return Rule.matches(stored, rule)
}

const checkCell = (workbooks: Workbooks, rule: typeof CheckCell.Type): Either.Either<boolean, string> =>
  Either.gen(function* () {
    const sheet = yield* findSheet(workbooks, rule.sheet_idx)
    const place = CellRange.parse(rule.coordinate)
    if (sheet === undefined || place === undefined) return false
    const cell = Spreadsheet.cellAt(sheet, place)
    const within = (range: CellRange.Rectangle) => CellRange.contains(range, place.top, place.left)
    for (const name of propertyNames) {
      const wanted = rule.props[name]
      if (wanted === undefined) continue
      if (name === "value") {
        if (!(yield* valueMatches(cell?.stored ?? null, wanted))) return false
      } else if (name === "merge") {
        // Swallowed by a merged range: its first cell is a cell like others.
        const merged = sheet.merged.some(
          (range) => within(range) && (range.top !== place.top || range.left !== place.left)
        )
        if (!(yield* Rule.matches(merged, wanted))) return false
      } else {
        if (name !== "number_format" && sheet.conditional.some(within)) {
          return yield* Either.left(`not yet supported: ${name} of a cell with a conditional format`)
        }
        if (!(yield* Rule.matches(yield* styleProperty(cell, name), wanted))) return false
      }
    }
    return true
  })

const judge = (workbooks: Workbooks, rule: typeof TableRule.Type): Either.Either<boolean, string> => {
  switch (rule.type) {
    case "sheet_data":
      return sheetData(workbooks, rule)
    case "sheet_name":
      return sheetNames(workbooks)
    case "check_cell":
      return checkCell(workbooks, rule)
  }
}

const workbook: ReaderType<Spreadsheet.Workbook> = Reader.file((bytes) => Spreadsheet.parse(bytes))
const optionalWorkbook = Reader.optional(workbook)

/**
 * All rules hold: 1, otherwise 0.
 *
 * - `sheet_data`: two sheets are equal tables of cached values (`internal/frame`).
 * - `sheet_name`: the same names in the same order.
 * - `check_cell`: properties of one cell against `{ method, ref }` rules.
 *
 * A task with any other rule type is an error whatever the result is, or else only the failures of such tasks would
 * count.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareTable: Metric = make({
  name: "compare_table",
  result: workbook,
  expected: optionalWorkbook,
  options: Options,
  score: (result, expected, { rules }): Score =>
    Either.gen(function* () {
      for (const rule of rules) {
        if (!(yield* judge({ result, expected }, rule))) return 0
      }
      return 1
    })
})
