/** Where a formula is evaluated, and how much work is left. */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"
import type { Sheet } from "../Spreadsheet.js"
import type { Corner, Reference } from "./formula.js"
import * as V from "./values.js"

/** One evaluation of one cell, of one value of a range, of one comparison in a list: a step. */
export const maxSteps = 10_000_000

/** Why a formula has no value: what we don't know, or too much work. Thrown within this folder only. */
export class Undecidable {
  constructor(readonly reason: string) {}
}

/** Work that may turn out undecidable, with the reason as a value. */
export const within = <A>(work: () => A): Either.Either<A, string> =>
  Either.try({
    try: work,
    catch: (error) => {
      if (error instanceof Undecidable) return error.reason
      throw error
    }
  })

export interface Scope {
  /** The sheet that a reference without a sheet's name means. */
  readonly sheet: Sheet
  readonly sheets: ReadonlyArray<Sheet>
  /** The cell that the formula is for. */
  readonly row: number
  readonly column: number
  /** How far the formula has moved from the cell for which it was written. */
  readonly moved: { readonly rows: number; readonly columns: number }
  /** References by their text that stand for something else. */
  readonly bound?: ReadonlyMap<string, V.Value>
  readonly steps: { left: number }
  /** Ranges that were read before, by place. */
  readonly ranges: Map<string, V.Value>
}

export const spend = (scope: Pick<Scope, "steps">, steps: number): void => {
  scope.steps.left -= steps
  if (scope.steps.left < 0) throw new Undecidable(`it takes more than ${maxSteps} steps`)
}

export const cellValue = (sheet: Sheet, row: number, column: number): V.Scalar => {
  const cell = sheet.rows.get(row)?.get(column)
  if (cell === undefined) return null
  const { stored, value } = cell
  return typeof value === "object" && value !== null && value._tag === "Error" ? V.error(value.code) : stored
}

const extents = new WeakMap<Sheet, { readonly rows: number; readonly columns: number }>()

/** The last row and column of a sheet: beyond, whole columns are empty. */
const extentOf = (sheet: Sheet) => {
  const known = extents.get(sheet)
  if (known !== undefined) return known
  let rows = 0
  let columns = 0
  for (const [row, cells] of sheet.rows) {
    rows = Math.max(rows, row)
    for (const column of cells.columns()) columns = Math.max(columns, column)
  }
  const extent = { rows, columns }
  extents.set(sheet, extent)
  return extent
}

const rectangleOf = (from: Corner, to: Corner, { moved }: Scope): CellRange.Rectangle | undefined => {
  const row = (corner: Corner) => (corner.rowFixed ? corner.row : corner.row + moved.rows)
  const column = (corner: Corner) => (corner.columnFixed ? corner.column : corner.column + moved.columns)
  const rectangle = {
    top: Math.min(row(from), row(to)),
    left: Math.min(column(from), column(to)),
    bottom: Math.max(row(from), row(to)),
    right: Math.max(column(from), column(to))
  }
  const inside =
    rectangle.top >= 1 &&
    rectangle.left >= 1 &&
    rectangle.bottom <= CellRange.maxRows &&
    rectangle.right <= CellRange.maxColumns
  return inside ? rectangle : undefined
}

export const readRange = (sheet: Sheet, range: CellRange.Rectangle, scope: Scope, keep: boolean): V.Value => {
  if (range.top === range.bottom && range.left === range.right) {
    const value = cellValue(sheet, range.top, range.left)
    spend(scope, V.weight(value))
    return value
  }
  const key = `${sheet.part}!${range.top},${range.left},${range.bottom},${range.right}`
  const known = scope.ranges.get(key)
  if (known !== undefined) return known
  const extent = extentOf(sheet)
  const bottom = Math.max(range.top, Math.min(range.bottom, extent.rows))
  const right = Math.max(range.left, Math.min(range.right, extent.columns))
  spend(scope, (bottom - range.top + 1) * (right - range.left + 1))
  const rows: Array<Array<V.Scalar>> = []
  for (let row = range.top; row <= bottom; row++) {
    const values: Array<V.Scalar> = []
    for (let column = range.left; column <= right; column++) values.push(cellValue(sheet, row, column))
    rows.push(values)
  }
  const value = V.matrix(rows)
  if (keep && scope.ranges.size < 64) scope.ranges.set(key, value)
  return value
}

const stays = (corner: Corner): boolean => corner.rowFixed && corner.columnFixed

/** A range that does not move with the cell: worth keeping, for every cell asks for it. */
export const isFixed = ({ from, to }: Reference): boolean => stays(from) && stays(to)

/** Where a reference leads, or `undefined`: out of the sheet, or to a sheet that is not there. */
export const target = (
  { from, sheet: name, to }: Reference,
  scope: Scope
): { readonly sheet: Sheet; readonly range: CellRange.Rectangle } | undefined => {
  const wanted = name?.toLowerCase()
  const sheet = wanted === undefined ? scope.sheet : scope.sheets.find((each) => each.name.toLowerCase() === wanted)
  const range = rectangleOf(from, to, scope)
  return sheet === undefined || range === undefined ? undefined : { sheet, range }
}
