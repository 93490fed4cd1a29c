/**
 * A sheet as the table that pandas' `read_excel` makes of it, because published gold files were checked against that:
 * first row as header, a type for each column, and equality that minds types and the places of missing values.
 *
 * Facts from pandas' documentation and behaviour (2.x): strings that mean "missing", text that looks like a number
 * becomes one when the whole column does, an integer column with a gap is a float column.
 */
import * as Either from "effect/Either"
import type { CellValue, Sheet } from "./Spreadsheet.js"

/** `missing` is pandas' NaN. */
export type ColumnType = "int" | "float" | "bool" | "date" | "duration" | "object"

export interface Column {
  readonly label: CellValue
  readonly type: ColumnType
  readonly values: ReadonlyArray<CellValue>
}

const missingWords = new Set([
  "",
  "#N/A",
  "#N/A N/A",
  "#NA",
  "-1.#IND",
  "-1.#QNAN",
  "-NaN",
  "-nan",
  "1.#IND",
  "1.#QNAN",
  "<NA>",
  "N/A",
  "NA",
  "NULL",
  "NaN",
  "None",
  "n/a",
  "nan",
  "null"
])

const integerText = /^\s*[+-]?\d+\s*$/
const numberText = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i
const infinityText = /^\s*([+-]?)inf(inity)?\s*$/i

/** Integers beyond 2^53 stay text: as numbers they would equal their neighbours. */
const textToNumber = (text: string): { readonly value: number; readonly integer: boolean } | undefined => {
  const infinity = infinityText.exec(text)
  if (infinity !== null) return { value: infinity[1] === "-" ? -Infinity : Infinity, integer: false }
  if (!numberText.test(text)) return undefined
  const value = Number(text)
  const integer = integerText.test(text)
  return integer && !Number.isSafeInteger(value) ? undefined : { value, integer }
}

const isBlank = (value: CellValue): boolean => value === null || value === ""

const isTagged = (value: CellValue, tag: "Date" | "Duration" | "Error"): boolean =>
  typeof value === "object" && value !== null && value._tag === tag

const inferNumbers = (values: ReadonlyArray<CellValue>): Pick<Column, "type" | "values"> | undefined => {
  let float = false
  let integer = false
  const numbers: Array<number | null> = []
  for (const value of values) {
    if (typeof value === "number") {
      if (Number.isInteger(value)) integer = true
      else float = true
      numbers.push(value)
    } else if (value === null) {
      float = true
      numbers.push(null)
    } else if (typeof value === "boolean") {
      numbers.push(value ? 1 : 0)
    } else {
      const number = typeof value === "string" ? textToNumber(value) : undefined
      if (number === undefined) return undefined
      if (number.integer) integer = true
      else float = true
      numbers.push(number.value)
    }
  }
  if (float) return { type: "float", values: numbers }
  return integer ? { type: "int", values: numbers } : { type: "bool", values }
}

const inferTruth = (values: ReadonlyArray<CellValue>): Pick<Column, "type" | "values"> | undefined => {
  const truths: Array<boolean | null> = []
  for (const value of values) {
    if (value === null || typeof value === "boolean") truths.push(value)
    else if (value === "True" || value === "TRUE" || value === "true") truths.push(true)
    else if (value === "False" || value === "FALSE" || value === "false") truths.push(false)
    else return undefined
  }
  return { type: truths.includes(null) ? "object" : "bool", values: truths }
}

const longestMissing = Math.max(...Array.from(missingWords, ({ length }) => length))

const isMissing = (value: CellValue): boolean =>
  typeof value === "string" ? value.length <= longestMissing && missingWords.has(value) : isTagged(value, "Error")

/** In place: `values` are the caller's own. */
const infer = (values: Array<CellValue>): Pick<Column, "type" | "values"> => {
  let onlyNumbers = true
  let float = false
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? null
    if (typeof value === "number") {
      float ||= !Number.isInteger(value)
    } else if (value === null || isMissing(value)) {
      values[i] = null
      float = true
    } else {
      onlyNumbers = false
    }
  }
  if (values.length === 0) return { type: "object", values }
  if (onlyNumbers) return { type: float ? "float" : "int", values }
  const typed = inferNumbers(values) ?? inferTruth(values)
  if (typed !== undefined) return typed
  const all = (tag: "Date" | "Duration") => values.every((value) => value === null || isTagged(value, tag))
  return { type: all("Date") ? "date" : all("Duration") ? "duration" : "object", values }
}

/** Blank header cells are `Unnamed: i`; a name that occurs again gets `.1`, `.2` and so on. */
const labels = (header: ReadonlyArray<CellValue>): ReadonlyArray<CellValue> => {
  const named = header.map((value, i) => (isBlank(value) ? `Unnamed: ${i}` : value))
  const key = (value: CellValue) => (typeof value === "object" ? JSON.stringify(value) : value)
  const taken = new Set(named.map(key))
  const seen = new Set<CellValue | string>()
  return named.map((label) => {
    if (!seen.has(key(label))) {
      seen.add(key(label))
      return label
    }
    const text = typeof label === "object" ? JSON.stringify(label) : String(label)
    let n = 1
    while (taken.has(`${text}.${n}`)) n++
    taken.add(`${text}.${n}`)
    return `${text}.${n}`
  })
}

export interface Extent {
  readonly rows: number
  readonly columns: number
}

/** Last row and column that hold something. */
export const extent = (sheet: Sheet): Extent => {
  let rows = 0
  let columns = 0
  sheet.rows.forEach((cells, row) => {
    const last = cells.last((value) => !isBlank(value))
    if (last === 0) return
    rows = Math.max(rows, row)
    columns = Math.max(columns, last)
  })
  return { rows, columns }
}

/** A table holds its gaps too, so two cells in the corners of a sheet make a table of the whole sheet. */
export const maxTableCells = 8_000_000

/** `fromSheet` of a table that fits into memory. */
export const read = (
  sheet: Sheet,
  { columns, rows }: Extent = extent(sheet)
): Either.Either<ReadonlyArray<Column>, string> =>
  rows * columns > maxTableCells
    ? Either.left(`the sheet ${JSON.stringify(sheet.name)} is a table of ${rows} rows and ${columns} columns`)
    : Either.right(fromSheet(sheet, { columns, rows }))

/** The first row with a header's names, the others as columns. Rows above the first cell count; an empty sheet is []. */
export const fromSheet = (sheet: Sheet, { columns, rows }: Extent = extent(sheet)): ReadonlyArray<Column> => {
  const header = Array.from({ length: columns }, (_, i) => sheet.rows.get(1)?.value(i + 1) ?? null)
  const body = header.map(() => new Array<CellValue>(rows - 1).fill(null))
  sheet.rows.forEach((cells, row) => {
    if (row === 1 || row > rows) return
    for (let i = 0; i < body.length; i++) {
      const values = body[i]
      const value = cells.value(i + 1)
      if (values !== undefined && value !== undefined) values[row - 2] = value
    }
  })
  return labels(header).map((label, i) => ({ label, ...infer(body[i] ?? []) }))
}

/** Half to even, as numpy rounds. */
const round = (value: number, digits: number): number => {
  const factor = 10 ** digits
  const scaled = value * factor
  if (!Number.isFinite(scaled)) return value
  const floor = Math.floor(scaled)
  const rest = scaled - floor
  const up = rest > 0.5 || (rest === 0.5 && floor % 2 !== 0)
  return (up ? floor + 1 : floor) / factor
}

const truth = (value: CellValue) => (typeof value === "boolean" ? Number(value) : value)

/** Python's equality, in which a truth value is 0 or 1. */
const sameValue = (a: CellValue, b: CellValue): boolean => {
  if (typeof a === "boolean" || typeof b === "boolean") return a !== null && b !== null && truth(a) === truth(b)
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b
  if (a._tag === "Error" || b._tag === "Error") return a._tag === b._tag
  return a._tag === b._tag && a.millis === b.millis
}

/** Labels, types, values and gaps agree; float columns are rounded to `precision` digits first. */
export const equals = (a: ReadonlyArray<Column>, b: ReadonlyArray<Column>, precision: number): boolean =>
  a.length === b.length &&
  a.every((left, i) => {
    const right = b[i]
    if (right === undefined || left.type !== right.type || left.values.length !== right.values.length) return false
    if (!sameValue(left.label, right.label)) return false
    const rounded = (value: CellValue) =>
      left.type === "float" && typeof value === "number" ? round(value, precision) : value
    for (let row = 0; row < left.values.length; row++) {
      const value = left.values[row] ?? null
      const other = right.values[row] ?? null
      // Most are the same already, and rounding does not part them.
      if (value !== other && !sameValue(rounded(value), rounded(other))) return false
    }
    return true
  })
