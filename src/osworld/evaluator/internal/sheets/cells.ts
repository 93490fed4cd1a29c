/** The cells of a sheet, from the scanner's events: a sheet may hold a million of them. */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"
import { type FormatKind, formatKind, type Style } from "../spreadsheetStyles.js"
import * as RowProperties from "./rowProperties.js"
import { type Handlers, Malformed } from "./scan.js"
import { stringItem } from "./strings.js"

/** Date and time without a zone, in milliseconds since 1970. */
export interface DateValue {
  readonly _tag: "Date"
  readonly millis: number
}

/** A time of day. */
export interface TimeValue {
  readonly _tag: "Time"
  readonly millis: number
}

/** An elapsed time, from formats such as `[h]:mm`. */
export interface DurationValue {
  readonly _tag: "Duration"
  readonly millis: number
}

/** `#DIV/0!` and the like. */
export interface ErrorValue {
  readonly _tag: "Error"
  readonly code: string
}

export type CellValue = string | number | boolean | DateValue | TimeValue | DurationValue | ErrorValue | null

export interface Cell {
  /** As an application shows it: numbers with a date format are dates. */
  readonly value: CellValue
  /** As it is stored: a date is its serial number, an error its code. */
  readonly stored: string | number | boolean | null
  readonly style: Style
  readonly formula: boolean
}

export type Rows = ReadonlyMap<number, ReadonlyMap<number, Cell>>

/** More in one workbook are refused: some 300 MB. */
export const maxCells = 2_000_000

const dayMillis = 86_400_000
const epoch1900 = Date.UTC(1899, 11, 30)
const epoch1904 = Date.UTC(1904, 0, 1)

/** Serial numbers below 60 are one day late: Excel's calendar has a 29 February 1900. */
const fromSerial = (serial: number, kind: "date" | "duration", date1904: boolean): CellValue => {
  if (kind === "duration") return { _tag: "Duration", millis: Math.round(serial * dayMillis) }
  if (serial >= 0 && serial < 1) return { _tag: "Time", millis: Math.round(serial * dayMillis) }
  const days = !date1904 && serial > 0 && serial < 60 ? serial + 1 : serial
  return { _tag: "Date", millis: (date1904 ? epoch1904 : epoch1900) + Math.round(days * dayMillis) }
}

export interface Context {
  readonly strings: ReadonlyArray<string>
  readonly styles: ReadonlyArray<Style>
  readonly plain: Style
  readonly date1904: boolean
  /** Counted down over all sheets of the workbook. */
  readonly budget: { cells: number }
}

type Content = Pick<Cell, "value" | "stored">

const same = (value: string | boolean | number | null): Content => ({ value, stored: value })

const readDate = (content: string): Content => {
  const millis = Date.parse(/T.*(Z|[+-]\d\d:?\d\d)$/.test(content) || !content.includes("T") ? content : `${content}Z`)
  return { value: Number.isNaN(millis) ? content : { _tag: "Date", millis }, stored: content }
}

const readContent = (
  type: string,
  content: string | undefined,
  kind: FormatKind,
  { date1904, strings }: Context
): Content => {
  if (content === undefined) return same(null)
  switch (type) {
    case "s":
      return same(content.trim() === "" ? null : (strings[Number(content)] ?? null))
    case "str":
    case "inlineStr":
      return same(content)
    case "b":
      return same(content.trim() === "1" || content.trim() === "true")
    case "e":
      return { value: { _tag: "Error", code: content }, stored: content }
    case "d":
      return readDate(content)
    default: {
      if (content === "") return same(null)
      const number = Number(content)
      // White space alone is 0 as well.
      if (Number.isNaN(number) || (number === 0 && content.trim() === "")) return same(content)
      return kind === "number" ? same(number) : { value: fromSerial(number, kind, date1904), stored: number }
    }
  }
}

/** `B3` as row and column; many are read, so no pattern is matched. */
const placeOf = (reference: string): { readonly row: number; readonly column: number } | undefined => {
  let column = 0
  let i = 0
  for (; i < reference.length && i < 3; i++) {
    const code = reference.charCodeAt(i)
    const letter = code >= 97 ? code - 96 : code - 64
    if (letter < 1 || letter > 26) break
    column = column * 26 + letter
  }
  const row = i === 0 || i === reference.length ? 0 : Number(reference.slice(i))
  return Number.isInteger(row) && row > 0 && row <= CellRange.maxRows && column <= CellRange.maxColumns
    ? { row, column }
    : undefined
}

/**
 * A whole cell as programs write it, without anything to resolve in it: reference, style, type, formula, value. One
 * native match takes a cell in a fraction of the time that its tags and texts take one by one, above all in a process
 * that has not read a sheet before.
 */
const usualCell =
  /<c r="([A-Z]{1,3}[1-9]\d{0,6})"(?: s="(\d{1,6})")?(?: t="([a-z]{1,3})")?(?:\/>|>(<f(?: aca="[a-z]*")?>[^<&]*<\/f>)?(?:<v>([^<&\r]*)<\/v>)?<\/c>)/y

/** From the end of a row to the start of the next one: what the tag says behind its number. */
const usualNextRow = /<\/row><row r="([1-9]\d{0,6})"((?: [A-Za-z]+="[^"<&]*"){0,16})>/y

/** Handlers for what is inside `sheetData`. */
export const collector = (
  context: Context
): {
  readonly handlers: Required<Handlers>
  readonly rows: Rows
  readonly properties: ReadonlyMap<number, RowProperties.RowProperties>
} => {
  const rows = new Map<number, Map<number, Cell>>()
  const properties = new Map<number, RowProperties.RowProperties>()
  const { read, readWritten } = RowProperties.reader()
  const item = stringItem()
  const kinds = new Map<Style, FormatKind>()
  const kindOf = (style: Style): FormatKind => {
    const known = kinds.get(style)
    if (known !== undefined) return known
    const kind = formatKind(style.numberFormat)
    kinds.set(style, kind)
    return kind
  }

  let row = 0
  let cells: Map<number, Cell> | undefined
  // Of the cell that is open, and not an object of its own: there are as many as cells.
  let inCell = false
  let cellRow = 0
  let column = 0
  let type = "n"
  let style = context.plain
  let formula = false
  let content: string | undefined
  let inValue = false
  let inItem = false

  const openRow = (number: number, said: RowProperties.RowProperties | undefined) => {
    if (!Number.isInteger(number) || number < 1 || number > CellRange.maxRows) throw new Malformed("a row is no row")
    row = number
    column = 0
    cells = rows.get(row)
    if (said !== undefined) properties.set(row, said)
  }

  const openCell = (reference: string, styleIndex: string, cellType: string) => {
    if (--context.budget.cells < 0) throw new Malformed(`it has more than ${maxCells} cells`, "Undecidable")
    const place = placeOf(reference)
    column = place?.column ?? column + 1
    cellRow = place?.row ?? row
    type = cellType
    style = context.styles[Number(styleIndex)] ?? context.plain
    inCell = true
    formula = false
    content = undefined
  }

  const closeCell = () => {
    if (!inCell) return
    const { value, stored } = readContent(type, content, kindOf(style), context)
    if (cells === undefined || cellRow !== row) {
      cells = rows.get(cellRow) ?? new Map()
      rows.set(cellRow, cells)
      row = cellRow
    }
    cells.set(column, { value, stored, style, formula })
    inCell = false
  }

  const readCell = (text: string, start: number): number => {
    usualCell.lastIndex = start
    const found = usualCell.exec(text)
    if (found === null) return start
    const [, reference = "", styleIndex = "0", cellType = "n", calculated, value] = found
    openCell(reference, styleIndex, cellType)
    formula = calculated !== undefined
    content = value
    closeCell()
    return usualCell.lastIndex
  }

  const readNextRow = (text: string, start: number): number => {
    usualNextRow.lastIndex = start
    const found = usualNextRow.exec(text)
    if (found === null) return start
    const [, number = "", written = ""] = found
    const said = readWritten(written)
    if (Either.isLeft(said)) return start
    openRow(Number(number), said.right)
    return usualNextRow.lastIndex
  }

  return {
    rows,
    properties,
    handlers: {
      open: (name, attributes) => {
        if (inItem) {
          item.open(name)
        } else if (name === "c") {
          openCell(attributes.get("r") ?? "", attributes.get("s") ?? "0", attributes.get("t") ?? "n")
        } else if (name === "row") {
          openRow(Number(attributes.get("r") ?? row + 1), read(attributes))
        } else if (inCell && name === "v") {
          inValue = true
          content = ""
        } else if (inCell && name === "f") {
          formula = true
        } else if (inCell && name === "is") {
          inItem = true
        }
      },
      close: (name) => {
        if (inItem) {
          if (name !== "is") return item.close(name)
          inItem = false
          content = item.take()
        } else if (name === "c") {
          closeCell()
        } else if (name === "v") {
          inValue = false
        }
      },
      text: (text) => {
        if (inValue) content = content === "" ? text : (content ?? "") + text
        else if (inItem) item.text(text)
      },
      ahead: (text, start, within) => {
        // Only between the cells of a row: what is inside a cell is for the handlers above.
        if (within !== "row" || inCell || inValue || inItem) return start
        let at = start
        for (;;) {
          let after = readCell(text, at)
          if (after === at) after = readNextRow(text, at)
          if (after === at) return at
          at = after
        }
      }
    }
  }
}
