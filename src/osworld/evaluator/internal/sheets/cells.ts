/** The cells of a sheet, from the scanner's events: a sheet may hold a million of them. */
import * as CellRange from "../cellRange.js"
import { type FormatKind, formatKind, type Style } from "../spreadsheetStyles.js"
import { type Attributes, type Handlers, Malformed } from "./scan.js"

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

export interface RowProperties {
  readonly hidden: boolean
  readonly collapsed: boolean
  readonly height: number | null
  readonly outline_level: number
}

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
      if (content.trim() === "" || Number.isNaN(number)) return same(content)
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

export const noRowProperties: RowProperties = { hidden: false, collapsed: false, height: null, outline_level: 0 }

const isTrue = (text: string | undefined): boolean => text === "1" || text === "true"

/** What a row says of itself beside its number; rows that say nothing have no entry. */
const rowProperties = (attributes: Attributes): RowProperties | undefined => {
  let says = false
  for (const name of attributes.names()) says ||= name !== "r" && name !== "spans" && !name.includes(":")
  if (!says) return undefined
  const height = Number(attributes.get("ht") ?? Number.NaN)
  return {
    hidden: isTrue(attributes.get("hidden")),
    collapsed: isTrue(attributes.get("collapsed")),
    height: Number.isNaN(height) ? null : height,
    outline_level: Number(attributes.get("outlineLevel") ?? 0)
  }
}

/** Rows are alike, mostly: one object for each kind. */
const interned = () => {
  const known = new Map<string, RowProperties>()
  return (properties: RowProperties): RowProperties => {
    const key = `${properties.hidden}${properties.collapsed}${properties.height}:${properties.outline_level}`
    const found = known.get(key)
    if (found !== undefined) return found
    known.set(key, properties)
    return properties
  }
}

/** Collects the plain text of a string item: its own `t` and those of its runs, without phonetic hints. */
export const stringItem = () => {
  let text: string | undefined
  let phonetic = 0
  let inText = 0
  return {
    open: (name: string) => {
      if (name === "rPh") phonetic++
      else if (name === "t") inText++
    },
    close: (name: string) => {
      if (name === "rPh") phonetic--
      else if (name === "t") inText--
    },
    text: (part: string) => {
      if (inText > 0 && phonetic === 0) text = text === undefined ? part : text + part
    },
    /** The text so far, and from here on another item's. */
    take: (): string => {
      const taken = text ?? ""
      text = undefined
      return taken
    }
  }
}

/** Handlers for what is inside `sheetData`. */
export const collector = (
  context: Context
): {
  readonly handlers: Handlers
  readonly rows: Rows
  readonly properties: ReadonlyMap<number, RowProperties>
} => {
  const rows = new Map<number, Map<number, Cell>>()
  const properties = new Map<number, RowProperties>()
  const intern = interned()
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
  let column = 0
  let cells: Map<number, Cell> | undefined
  let cell: { readonly row: number; readonly type: string; readonly style: Style } | undefined
  let formula = false
  let inValue = false
  let inItem = false
  let content: string | undefined

  const openCell = (attributes: Attributes) => {
    if (--context.budget.cells < 0) throw new Malformed(`it has more than ${maxCells} cells`, "Undecidable")
    const place = placeOf(attributes.get("r") ?? "")
    column = place?.column ?? column + 1
    const style = context.styles[Number(attributes.get("s") ?? 0)] ?? context.plain
    cell = { row: place?.row ?? row, type: attributes.get("t") ?? "n", style }
    formula = false
    content = undefined
  }

  const closeCell = () => {
    if (cell === undefined) return
    const { value, stored } = readContent(cell.type, content, kindOf(cell.style), context)
    if (cells === undefined || cell.row !== row) {
      cells = rows.get(cell.row) ?? new Map()
      rows.set(cell.row, cells)
      row = cell.row
    }
    cells.set(column, { value, stored, style: cell.style, formula })
    cell = undefined
  }

  return {
    rows,
    properties,
    handlers: {
      open: (name, attributes) => {
        if (inItem) {
          item.open(name)
        } else if (name === "c") {
          openCell(attributes)
        } else if (name === "row") {
          row = Number(attributes.get("r") ?? row + 1)
          if (!Number.isInteger(row) || row < 1 || row > CellRange.maxRows) throw new Malformed("a row is no row")
          column = 0
          cells = rows.get(row)
          const said = rowProperties(attributes)
          if (said !== undefined) properties.set(row, intern(said))
        } else if (cell !== undefined && name === "v") {
          inValue = true
          content = ""
        } else if (cell !== undefined && name === "f") {
          formula = true
        } else if (cell !== undefined && name === "is") {
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
      }
    }
  }
}
