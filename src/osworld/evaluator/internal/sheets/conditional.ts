/**
 * Which conditional formats are in force at a cell, from the values that the file holds (ECMA-376 part 1, 18.3.1.10).
 *
 * Cells without a value are left alone, as upstream leaves them. Scales, bars and icons paint by amount and have no
 * style that a rule could ask for.
 */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"
import type { Sheet, Workbook } from "../Spreadsheet.js"
import type { Difference, Style } from "../spreadsheetStyles.js"
import { evaluate } from "./evaluate.js"
import * as Formula from "./formula.js"
import type { ConditionalFormat, ConditionalRule } from "./parts.js"
import type { Row } from "./row.js"
import { cellValue, isFixed, maxSteps, type Scope, spend, Undecidable, within } from "./scope.js"
import * as V from "./values.js"

type Test = (row: number, column: number, value: V.Scalar) => boolean

interface Setting {
  readonly sheet: Sheet
  readonly sheets: ReadonlyArray<Sheet>
  readonly steps: { left: number }
  readonly ranges: Map<string, V.Value>
  /** As upstream: a formula's first reference is the cell, whatever it says, and the fixed ones follow. */
  readonly compat: boolean
}

const never: Test = () => false

const scopeAt = (setting: Setting, base: CellRange.Rectangle, row: number, column: number): Scope => ({
  ...setting,
  row,
  column,
  moved: { rows: row - base.top, columns: column - base.left }
})

const bind = (expression: Formula.Expression, scope: Scope, value: V.Scalar): Scope => {
  const references = Formula.referencesOf(expression)
  const fixed = references.filter(isFixed).map((each) => evaluate(each, scope))
  return {
    ...scope,
    bound: new Map(references.map((each, i) => [each.text, i === 0 ? value : (fixed[i - 1] ?? null)]))
  }
}

/** A formula as a condition. One that an application would not take is never met. */
const formulaTest = (formula: string | undefined, setting: Setting, base: CellRange.Rectangle): Test => {
  const parsed = Formula.parse(formula ?? "")
  if (Either.isLeft(parsed)) return never
  return (row, column, value) => {
    const scope = scopeAt(setting, base, row, column)
    const found = V.first(evaluate(parsed.right, setting.compat ? bind(parsed.right, scope, value) : scope))
    return V.toTruth(found) === true
  }
}

/** Text and a number are unequal and nothing else, as LibreOffice has it. */
const cellIs = (rule: ConditionalRule, setting: Setting, base: CellRange.Rectangle): Test => {
  const formulas: Array<Formula.Expression> = []
  for (const formula of rule.formulas) {
    const parsed = Formula.parse(formula)
    if (Either.isLeft(parsed)) return never
    formulas.push(parsed.right)
  }
  return (row, column, value) => {
    const scope = scopeAt(setting, base, row, column)
    const [one = null, two = null] = formulas.map((formula) => V.first(evaluate(formula, scope)))
    if (V.isError(value) || V.isError(one) || V.isError(two)) return false
    const comparable = (other: V.Scalar) => other === null || typeof value === typeof other
    if (!comparable(one) || (formulas.length > 1 && !comparable(two))) {
      return rule.operator === "notEqual"
    }
    const first = V.order(value, one)
    const [low, high] = V.order(one, two) <= 0 ? [first, V.order(value, two)] : [V.order(value, two), first]
    switch (rule.operator) {
      case "equal":
        return first === 0
      case "notEqual":
        return first !== 0
      case "lessThan":
        return first < 0
      case "lessThanOrEqual":
        return first <= 0
      case "greaterThan":
        return first > 0
      case "greaterThanOrEqual":
        return first >= 0
      case "between":
        return low >= 0 && high <= 0
      case "notBetween":
        return low < 0 || high > 0
      default:
        return false
    }
  }
}

/** All values of the ranges, for rules that ask how a cell stands among the others. */
const valuesOf = ({ sheet, steps }: Setting, ranges: ReadonlyArray<CellRange.Rectangle>): ReadonlyArray<V.Scalar> => {
  const values: Array<V.Scalar> = []
  eachCell(sheet, ranges, steps, (row, column) => values.push(cellValue(sheet, row, column)))
  return values
}

const keyOf = (value: V.Scalar): string => `${typeof value}:${String(V.toText(value)).toLowerCase()}`

const standing = (rule: ConditionalRule, setting: Setting, ranges: ReadonlyArray<CellRange.Rectangle>): Test => {
  const values = valuesOf(setting, ranges)
  const numbers = values.filter((value): value is number => typeof value === "number").sort((a, b) => a - b)
  if (rule.type === "duplicateValues" || rule.type === "uniqueValues") {
    const counts = new Map<string, number>()
    for (const value of values) counts.set(keyOf(value), (counts.get(keyOf(value)) ?? 0) + 1)
    return (_row, _column, value) => (counts.get(keyOf(value)) ?? 0) > 1 === (rule.type === "duplicateValues")
  }
  if (numbers.length === 0) return never
  if (rule.type === "aboveAverage") {
    const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length
    return (_row, _column, value) =>
      typeof value === "number" &&
      ((rule.equalAverage && value === mean) || (rule.aboveAverage ? value > mean : value < mean))
  }
  const share = rule.percent ? Math.floor((numbers.length * rule.rank) / 100) : rule.rank
  const count = Math.min(Math.max(share, 1), numbers.length)
  const limit = numbers[rule.bottom ? count - 1 : numbers.length - count] ?? 0
  return (_row, _column, value) => typeof value === "number" && (rule.bottom ? value <= limit : value >= limit)
}

const painters = new Set(["colorScale", "dataBar", "iconSet"])
const formulaTypes = new Set([
  "expression",
  "containsText",
  "notContainsText",
  "beginsWith",
  "endsWith",
  "containsErrors",
  "notContainsErrors",
  "containsBlanks",
  "notContainsBlanks"
])
const standingTypes = new Set(["top10", "aboveAverage", "duplicateValues", "uniqueValues"])

const testOf = (rule: ConditionalRule, format: ConditionalFormat, setting: Setting): Test => {
  const [start] = format.ranges
  const isSilent = rule.difference === null && !rule.stopIfTrue
  if (start === undefined || isSilent || painters.has(rule.type)) return never
  // Formulas are written for the first cell of all ranges together.
  const base = {
    ...start,
    top: format.ranges.reduce((top, each) => Math.min(top, each.top), start.top),
    left: format.ranges.reduce((left, each) => Math.min(left, each.left), start.left)
  }
  if (rule.type === "cellIs") return cellIs(rule, setting, base)
  if (formulaTypes.has(rule.type)) return formulaTest(rule.formulas[0], setting, base)
  if (standingTypes.has(rule.type)) return standing(rule, setting, format.ranges)
  return () => {
    throw new Undecidable(`not supported: a conditional format of type ${rule.type}`)
  }
}

/** The cells of ranges that hold something, each once, in the cheaper of two ways. */
export const eachCell = (
  sheet: Sheet,
  ranges: ReadonlyArray<CellRange.Rectangle>,
  steps: { left: number },
  visit: (row: number, column: number) => void
): void => {
  const isVisited = (row: number, column: number, count: number) =>
    ranges.slice(0, count).some((range) => CellRange.contains(range, row, column))
  for (const [i, range] of ranges.entries()) {
    const rows = range.bottom - range.top + 1
    spend({ steps }, Math.min(rows, sheet.rows.size))
    const visitRow = (row: number, cells: Row) => {
      const width = range.right - range.left + 1
      spend({ steps }, Math.min(width, cells.size) * (i + 1))
      if (width < cells.size) {
        for (let column = range.left; column <= range.right; column++) {
          if (cells.has(column) && !isVisited(row, column, i)) visit(row, column)
        }
      } else {
        for (const column of cells.columns()) {
          if (column >= range.left && column <= range.right && !isVisited(row, column, i)) visit(row, column)
        }
      }
    }
    if (rows < sheet.rows.size) {
      for (let row = range.top; row <= range.bottom; row++) {
        const cells = sheet.rows.get(row)
        if (cells !== undefined) visitRow(row, cells)
      }
    } else {
      for (const [row, cells] of sheet.rows) if (row >= range.top && row <= range.bottom) visitRow(row, cells)
    }
  }
}

export const keyAt = (row: number, column: number): number => row * (CellRange.maxColumns + 1) + column

export type Differences = ReadonlyMap<number, Difference>

/**
 * What conditional formats change, cell by cell; only of the cells in `area` where one is given. The rule that comes
 * first says a property; under `compat` the last one in force says everything.
 */
export const differences = (
  workbook: Workbook,
  sheet: Sheet,
  compat: boolean,
  area?: CellRange.Rectangle
): Either.Either<Differences, string> => {
  const setting: Setting = {
    sheet,
    sheets: workbook.sheets,
    steps: { left: maxSteps },
    ranges: new Map(),
    compat
  }
  const found = new Map<number, Difference>()
  const stopped = new Set<number>()
  const rules = sheet.conditional.flatMap((format) => format.rules.map((rule) => ({ rule, format })))
  if (!compat) rules.sort((a, b) => a.rule.priority - b.rule.priority)
  const judge = ({ format, rule }: (typeof rules)[number]): void => {
    spend(setting, 1 + format.ranges.length)
    const covers = area === undefined || format.ranges.some((range) => CellRange.contains(range, area.top, area.left))
    if (!covers) return
    let test: Test | undefined
    eachCell(sheet, area === undefined ? format.ranges : [area], setting.steps, (row, column) => {
      const value = cellValue(sheet, row, column)
      const key = keyAt(row, column)
      if (value === null || stopped.has(key)) return
      test ??= testOf(rule, format, setting)
      spend(setting, V.weight(value))
      if (!test(row, column, value)) return
      const before = found.get(key)
      found.set(key, compat ? (rule.difference ?? {}) : { ...rule.difference, ...before })
      if (rule.stopIfTrue && !compat) stopped.add(key)
    })
  }
  return Either.map(
    within(() => rules.forEach(judge)),
    () => found
  )
}

export const applied = (style: Style, difference: Difference | undefined): Style =>
  difference === undefined ? style : { ...style, ...difference }
