/** Whether one rule of `compare_table` holds. A reason on the left is one why nobody can say. */
import * as Either from "effect/Either"
import * as Rule from "../../Rule.js"
import { indelSimilarity } from "../../Similarity.js"
import * as CellRange from "../cellRange.js"
import * as Frame from "../frame.js"
import * as Spreadsheet from "../Spreadsheet.js"
import { alike, isPropertyName, look, type Placed, property } from "./look.js"
import type { Plain, Validation } from "./parts.js"
import * as PythonText from "./pythonText.js"
import * as Readings from "./readings.js"
import type * as Rules from "./rules.js"

type Decision = Either.Either<boolean, string>

export interface Workbooks {
  readonly result: Spreadsheet.Workbook
  readonly expected: Spreadsheet.Workbook | undefined
}

/** `undefined`: the result has no such sheet, and no rule about it holds. */
export const findSheet = (
  { expected, result }: Workbooks,
  { sheet, side }: Rules.SheetIndex
): Either.Either<Placed | undefined, string> => {
  const workbook = side === "result" ? result : expected
  if (workbook === undefined) return Either.left("a rule asks for the expected workbook and the task gives none")
  const found = typeof sheet === "number" ? workbook.sheets[sheet] : workbook.sheets.find(({ name }) => name === sheet)
  if (found === undefined && side === "expected") {
    return Either.left(`the expected workbook has no sheet ${JSON.stringify(sheet)}`)
  }
  return Either.right(found === undefined ? undefined : { workbook, sheet: found })
}

interface Two {
  readonly sheet_idx0: Rules.SheetIndex
  readonly sheet_idx1: Rules.SheetIndex
}

/** Both sheets of a rule. Where `standIn`, an empty one for a sheet that the result lacks, as upstream has it. */
const withBoth = (
  workbooks: Workbooks,
  rule: Two,
  standIn: boolean,
  holds: (a: Placed, b: Placed) => Decision
): Decision =>
  Either.gen(function* () {
    const none = standIn ? { workbook: workbooks.result, sheet: Spreadsheet.emptySheet } : undefined
    const left = (yield* findSheet(workbooks, rule.sheet_idx0)) ?? none
    const right = (yield* findSheet(workbooks, rule.sheet_idx1)) ?? none
    return left !== undefined && right !== undefined && (yield* holds(left, right))
  })

const sheetNames = ({ expected, result }: Workbooks): Decision => {
  if (expected === undefined) return Either.left("sheet_name needs an expected workbook")
  const names = (workbook: Spreadsheet.Workbook) => JSON.stringify(workbook.sheets.map(({ name }) => name))
  return Either.right(names(result) === names(expected))
}

const sameData = (a: Spreadsheet.Sheet, b: Spreadsheet.Sheet, precision: number): Decision =>
  Either.gen(function* () {
    // Cheap, and it keeps a stray cell in the last corner of a sheet from becoming a table of that size.
    const [one, other] = [Frame.extent(a), Frame.extent(b)]
    if (one.columns !== other.columns || one.rows !== other.rows) return false
    return Frame.equals(yield* Frame.read(a, one), yield* Frame.read(b, other), precision)
  })

/**
 * Where upstream looks for a cell's value: in the part that the sheet's number names, which is another sheet's part
 * once sheets were moved or deleted in some programs.
 */
const valueSheet = ({ sheet, workbook }: Placed, compat: boolean): Spreadsheet.Sheet | undefined =>
  compat ? workbook.sheets.find(({ part }) => part === `xl/worksheets/sheet${sheet.id}.xml`) : sheet

/** As the file stores it. Upstream has no truth values. */
const storedAt = (placed: Placed, row: number, column: number, compat: boolean): Plain => {
  const stored = valueSheet(placed, compat)?.rows.get(row)?.get(column)?.stored ?? null
  return compat && typeof stored === "boolean" ? null : stored
}

const fuzzyText = (value: Plain): string => {
  if (value === null) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  return typeof value === "number" ? PythonText.float(value) : value
}

const trimmed = (text: string, leading: string, trailing: string): string => {
  const chars = Array.from(text)
  const [atStart, atEnd] = [new Set(leading), new Set(trailing)]
  let start = 0
  let end = chars.length
  while (start < end && atStart.has(chars[start] ?? "")) start++
  while (end > start && atEnd.has(chars[end - 1] ?? "")) end--
  return chars.slice(start, end).join("")
}

const normalizeFuzzy = (text: string, part: typeof Rules.FuzzyPart.Type): string => {
  const replaced = part.normalization.reduce((sum, [from, to]) => sum.replaceAll(from, () => to), text)
  const ignored = new Set(part.ignore_chars)
  const kept = Array.from(trimmed(replaced, part.trim_leadings, part.trim_trailings))
    .filter((char) => !ignored.has(char))
    .join("")
  return part.ignore_case ? kept.toLowerCase() : kept
}

const fuzzyMatches = (a: string, b: string, { threshold, type }: typeof Rules.FuzzyPart.Type): boolean => {
  switch (type) {
    case "includes":
      return a.includes(b)
    case "included_by":
      return b.includes(a)
    case "fuzzy_match":
      return indelSimilarity(a, b) * 100 >= threshold
    case "exact_match":
      return a === b
  }
}

/** Ranges are the task's own, but a mistaken one must not run for hours. */
const maxFuzzyCells = 200_000
/** A similarity takes the product of the lengths; Excel's longest text is shorter. */
const maxFuzzyText = 40_000

const fuzzy = (a: Placed, b: Placed, parts: ReadonlyArray<typeof Rules.FuzzyPart.Type>, compat: boolean): Decision => {
  let cells = 0
  for (const part of parts) {
    for (const range of CellRange.parseList(part.range) ?? []) {
      cells += (range.bottom - range.top + 1) * (range.right - range.left + 1)
      if (cells > maxFuzzyCells) return Either.left(`sheet_fuzzy asks for more than ${maxFuzzyCells} cells`)
      for (let row = range.top; row <= range.bottom; row++) {
        for (let column = range.left; column <= range.right; column++) {
          const [one, other] = [a, b].map((placed) =>
            normalizeFuzzy(fuzzyText(storedAt(placed, row, column, compat)), part)
          )
          if (one === undefined || other === undefined) continue
          if (part.type === "fuzzy_match" && Math.max(one.length, other.length) > maxFuzzyText) {
            return Either.left("a cell holds more text than can be compared")
          }
          if (!fuzzyMatches(one, other, part)) return Either.right(false)
        }
      }
    }
  }
  return Either.right(true)
}

const checkCell = (workbooks: Workbooks, rule: typeof Rules.CheckCell.Type, compat: boolean): Decision =>
  Either.gen(function* () {
    const placed = yield* findSheet(workbooks, rule.sheet_idx)
    const place = CellRange.parse(rule.coordinate)
    if (placed === undefined || place === undefined) return false
    const names = Object.keys(rule.props)
    const wanted = rule.props.value
    const stored = storedAt(placed, place.top, place.left, compat)
    if (wanted !== undefined && !(yield* Rule.matches(stored, wanted))) return false
    if (!names.some(isPropertyName)) return true
    const seen = yield* look(placed.workbook, placed.sheet, place, compat)
    for (const name of names) {
      const asked = rule.props[name]
      if (!isPropertyName(name) || asked === undefined) continue
      if (!(yield* Rule.matches(property(name, seen, compat), asked))) return false
    }
    return true
  })

/** The same ranges in any order are the same. */
const sortedRanges = (value: unknown): unknown =>
  typeof value === "string"
    ? value
        .split(/\s+/)
        .filter((range) => range !== "")
        .sort()
        .join(" ")
    : value

/** Ranges are subtracted from each other, which takes the square of their number. */
const maxValidationRanges = 5000

const validationMatches = (validation: Validation, props: Readonly<Record<string, Rule.Rule>>): Decision =>
  Either.gen(function* () {
    if (String(validation.ranges).split(/\s+/).length > maxValidationRanges) {
      return yield* Either.left(`a validation has more than ${maxValidationRanges} ranges`)
    }
    for (const [name, rule] of Object.entries(props)) {
      const value = validation[name] ?? null
      const isSet = name === "ranges" && (rule.method === "eq" || rule.method === "ne")
      const holds = isSet
        ? Rule.matches(sortedRanges(value), { ...rule, ref: sortedRanges(rule.ref) })
        : Rule.matches(value, rule)
      if (!(yield* holds)) return false
    }
    return true
  })

/** Each validation is one that is asked for, and each that is asked for is there; upstream does not mind the latter. */
const validations = ({ sheet }: Placed, asked: typeof Rules.DataValidation.Type.dv_props, compat: boolean): Decision =>
  Either.gen(function* () {
    if (sheet.validations.length < asked.length) return false
    const found = new Set<number>()
    for (const validation of sheet.validations) {
      let known = false
      for (const [i, props] of asked.entries()) {
        if (!(yield* validationMatches(validation, props))) continue
        known = true
        found.add(i)
      }
      if (!known) return false
    }
    return compat || found.size === asked.length
  })

/** Rules over the files' text, `sheet_print`, are judged apart. */
export const judge = (
  workbooks: Workbooks,
  rule: Exclude<Rules.TableRule, { readonly type: "sheet_print" }>,
  compat: boolean
): Decision => {
  const reading = (two: Two, read: (sheet: Spreadsheet.Sheet) => string, standIn = compat) =>
    withBoth(workbooks, two, standIn, (a, b) => Either.right(read(a.sheet) === read(b.sheet)))
  switch (rule.type) {
    case "sheet_name":
      return sheetNames(workbooks)
    case "sheet_data":
      return withBoth(workbooks, rule, false, (a, b) => sameData(a.sheet, b.sheet, rule.precision))
    case "sheet_fuzzy":
      return withBoth(workbooks, rule, compat, (a, b) => fuzzy(a, b, rule.rules, compat))
    case "check_cell":
      return checkCell(workbooks, rule, compat)
    case "style":
      return withBoth(workbooks, rule, compat, (a, b) => alike(a, b, rule.props, compat))
    case "chart":
      return reading(rule, (sheet) => Readings.charts(sheet, rule.chart_props, compat))
    case "pivot_table":
      return reading(rule, (sheet) => Readings.pivots(sheet, rule.pivot_props, compat))
    case "row_props":
      return reading(rule, (sheet) => Readings.rows(sheet, rule.props, compat))
    case "col_props":
      return reading(rule, (sheet) => Readings.columns(sheet, rule.props, compat))
    case "sparkline":
      return reading(rule, Readings.sparklines)
    case "filter":
      return reading(rule, (sheet) => Readings.filter(sheet, compat))
    case "freeze":
      return reading(rule, Readings.freeze, false)
    case "zoom":
      return Either.flatMap(findSheet(workbooks, rule.sheet_idx), (placed) =>
        placed === undefined ? Either.right(false) : Rule.matches(placed.sheet.zoom, rule)
      )
    case "data_validation":
      return Either.flatMap(findSheet(workbooks, rule.sheet_idx), (placed) =>
        placed === undefined ? Either.right(false) : validations(placed, rule.dv_props, compat)
      )
  }
}
