/** What a task may ask of a workbook: the rules of `compare_table`. */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Rule from "../../Rule.js"
import * as CellRange from "../cellRange.js"
import { isPropertyName, type PropertyName } from "./look.js"
import { validationNames } from "./parts.js"
import { chartProperties, columnProperties, pivotProperties, rowProperties } from "./readings.js"

/** A sheet of the result or of the gold file, by place (from 0) or by name. */
export interface SheetIndex {
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

const two = { sheet_idx0: SheetIndex, sheet_idx1: SheetIndex }
const off = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })

const ValidRule = Rule.Rule.pipe(
  // Asked of no value, a rule answers only whether it makes sense.
  Schema.filter((rule) => Either.match(Rule.matches(null, rule), { onLeft: (reason) => reason, onRight: () => true }))
)

/** A list of names out of those that we know. */
const Names = (what: string, known: (name: string) => boolean) =>
  Schema.optionalWith(
    Schema.Array(Schema.String).pipe(
      Schema.filter((names) => {
        const unknown = names.filter((name) => !known(name))
        return unknown.length === 0 || `not supported: the ${what} ${unknown.join(", ")}`
      })
    ),
    { default: () => [], nullable: true }
  )

const within = (names: ReadonlyArray<string>) => (name: string) => names.includes(name)

/** Rules by the name of what they ask about. */
const Asked = (what: string, known: (name: string) => boolean) =>
  Schema.Record({ key: Schema.String, value: ValidRule }).pipe(
    Schema.filter((props) => {
      const unknown = Object.keys(props).filter((name) => !known(name))
      return unknown.length === 0 || `not supported: the ${what} ${unknown.join(", ")}`
    })
  )

export const SheetName = Schema.Struct({ type: Schema.Literal("sheet_name") })

export const SheetData = Schema.Struct({
  type: Schema.Literal("sheet_data"),
  ...two,
  /** Digits after the point that count in columns of floats. */
  precision: Schema.optionalWith(Schema.Int, { default: () => 4, nullable: true })
})

export const SheetPrint = Schema.Struct({ type: Schema.Literal("sheet_print"), ...two, ignore_case: off })

const Coordinate = Schema.String.pipe(
  Schema.filter(
    (text) => (/^[A-Za-z]{1,3}\d+$/.test(text) && CellRange.parse(text) !== undefined) || "no cell such as B3"
  )
)

/** `"A1:B6 C2"` or a list of such. */
const Ranges = Schema.transform(
  Schema.Union(Schema.String, Schema.Array(Schema.String)).pipe(
    Schema.filter((ranges) => {
      const parsed = CellRange.parseList(split(ranges))
      return (parsed !== undefined && parsed.length > 0) || "no ranges such as A1:B6"
    })
  ),
  Schema.Array(Schema.String),
  { strict: true, decode: (ranges) => split(ranges), encode: (ranges) => [...ranges] }
)

const split = (ranges: string | ReadonlyArray<string>): ReadonlyArray<string> =>
  (typeof ranges === "string" ? [ranges] : ranges).flatMap((each) => each.split(/\s+/)).filter((each) => each !== "")

const optionalText = Schema.optionalWith(Schema.String, { default: () => "", nullable: true })

export const FuzzyPart = Schema.Struct({
  range: Ranges,
  /** `includes`: the first sheet's text includes the second's. */
  type: Schema.Literal("includes", "included_by", "fuzzy_match", "exact_match"),
  /** Of 100. */
  threshold: Schema.optionalWith(Schema.Number, { default: () => 85, nullable: true }),
  ignore_case: off,
  ignore_chars: optionalText,
  trim_leadings: optionalText,
  trim_trailings: optionalText,
  normalization: Schema.optionalWith(Schema.Array(Schema.Tuple(Schema.String, Schema.String)), {
    default: () => [],
    nullable: true
  })
})

export const SheetFuzzy = Schema.Struct({ type: Schema.Literal("sheet_fuzzy"), ...two, rules: Schema.Array(FuzzyPart) })

export const CheckCell = Schema.Struct({
  type: Schema.Literal("check_cell"),
  sheet_idx: SheetIndex,
  coordinate: Coordinate,
  props: Asked("cell properties", (name) => name === "value" || isPropertyName(name))
})

const PropertyNames = Schema.Array(Schema.String).pipe(
  Schema.filter((names): names is ReadonlyArray<PropertyName> => names.every(isPropertyName), {
    message: ({ actual }) => `not supported: the cell properties ${String(actual)}`
  })
)

export const Style = Schema.Struct({
  type: Schema.Literal("style"),
  ...two,
  props: Schema.optionalWith(PropertyNames, { default: () => [], nullable: true })
})

export const Chart = Schema.Struct({
  type: Schema.Literal("chart"),
  ...two,
  chart_props: Names("chart properties", within(chartProperties))
})

export const PivotTable = Schema.Struct({
  type: Schema.Literal("pivot_table"),
  ...two,
  pivot_props: Names("pivot table properties", within(pivotProperties))
})

export const RowProps = Schema.Struct({
  type: Schema.Literal("row_props"),
  ...two,
  props: Names("row properties", within(rowProperties))
})

export const ColProps = Schema.Struct({
  type: Schema.Literal("col_props"),
  ...two,
  props: Names("column properties", within(columnProperties))
})

export const Sparkline = Schema.Struct({ type: Schema.Literal("sparkline"), ...two })
export const Filter = Schema.Struct({ type: Schema.Literal("filter"), ...two })
export const Freeze = Schema.Struct({ type: Schema.Literal("freeze"), ...two })

export const Zoom = Schema.Struct({
  type: Schema.Literal("zoom"),
  sheet_idx: SheetIndex,
  method: Schema.String,
  ref: Schema.Unknown
}).pipe(
  Schema.filter((rule) => Either.match(Rule.matches(null, rule), { onLeft: (reason) => reason, onRight: () => true }))
)

export const DataValidation = Schema.Struct({
  type: Schema.Literal("data_validation"),
  sheet_idx: SheetIndex,
  dv_props: Schema.Array(Asked("properties of a validation", (name) => validationNames.has(name)))
})

export const TableRule = Schema.Union(
  SheetName,
  SheetData,
  SheetPrint,
  SheetFuzzy,
  CheckCell,
  Style,
  Chart,
  PivotTable,
  RowProps,
  ColProps,
  Sparkline,
  Filter,
  Freeze,
  Zoom,
  DataValidation
)
export type TableRule = typeof TableRule.Type

const supported: ReadonlySet<string> = new Set([
  "sheet_name",
  "sheet_data",
  "sheet_print",
  "sheet_fuzzy",
  "check_cell",
  "style",
  "chart",
  "pivot_table",
  "row_props",
  "col_props",
  "sparkline",
  "filter",
  "freeze",
  "zoom",
  "data_validation"
])

const Supported = Schema.Struct(
  { type: Schema.String.pipe(Schema.filter((type) => supported.has(type) || `not supported: the rule ${type}`)) },
  { key: Schema.String, value: Schema.Unknown }
)

export const Options = Schema.Struct({
  rules: Schema.NonEmptyArray(Schema.compose(Supported, TableRule, { strict: false }))
})
