/** The cells of a sheet, from the scanner's events: a sheet may hold a million of them. */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"
import { type FormatKind, formatKind, type Style } from "../spreadsheetStyles.js"
import type { CellValue, Look, Stored } from "./cell.js"
import { Row, type Rows } from "./row.js"
import * as RowProperties from "./rowProperties.js"
import { type Handlers, Malformed } from "./scan.js"
import { stringItem } from "./strings.js"
import { UsualCells } from "./usualCells.js"

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

const readDate = (content: string): CellValue => {
  const millis = Date.parse(/T.*(Z|[+-]\d\d:?\d\d)$/.test(content) || !content.includes("T") ? content : `${content}Z`)
  return Number.isNaN(millis) ? content : { _tag: "Date", millis }
}

/** What a cell stores that has a content of that type. */
const storedOf = (type: string, content: string | undefined, strings: ReadonlyArray<string>): Stored => {
  if (content === undefined) return null
  switch (type) {
    case "s": {
      const index = Number(content)
      // White space alone is 0 as well, and no index.
      return index === 0 && content.trim() === "" ? null : (strings[index] ?? null)
    }
    case "str":
    case "inlineStr":
    case "e":
    case "d":
      return content
    case "b":
      return content.trim() === "1" || content.trim() === "true"
    default: {
      if (content === "") return null
      const number = Number(content)
      return Number.isNaN(number) || (number === 0 && content.trim() === "") ? content : number
    }
  }
}

/** What is shown of it. */
const shownOf = (type: string, stored: Stored, kind: FormatKind, date1904: boolean): CellValue => {
  if (typeof stored === "number") return kind === "number" ? stored : fromSerial(stored, kind, date1904)
  if (typeof stored !== "string") return stored
  if (type === "e") return { _tag: "Error", code: stored }
  return type === "d" ? readDate(stored) : stored
}

/** `B3` in any case, and nothing else. */
const reference = /^([A-Za-z]{1,3})(\d{1,7})$/

/** The column that these letters name. */
const columnOf = (letters: string): number => {
  let column = 0
  for (let i = 0; i < letters.length; i++) column = column * 26 + (letters.charCodeAt(i) | 32) - 96
  return column
}

/** A cell as programs write it that has a formula or no value: reference, style, type, formula, value. */
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
  const { date1904, plain, strings, styles } = context
  const rows = new Map<number, Row>()
  const properties = new Map<number, RowProperties.RowProperties>()
  const { read, readWritten } = RowProperties.reader()
  const item = stringItem()
  const looks = { plain: new Map<Style, Look>(), formula: new Map<Style, Look>() }
  let look: Look = { style: plain, formula: false, kind: formatKind(plain.numberFormat) }
  /** Neighbours look alike, mostly. */
  const lookOf = (style: Style, formula: boolean): Look => {
    if (look.style === style && look.formula === formula) return look
    const known = formula ? looks.formula : looks.plain
    look = known.get(style) ?? { style, formula, kind: formatKind(style.numberFormat) }
    known.set(style, look)
    return look
  }
  const styleOf = (written: number): Style => styles[written] ?? plain

  let row = 0
  let cells: Row | undefined
  // Of the cell that is open, and not an object of its own: there are as many as cells.
  let inCell = false
  let cellRow = 0
  let column = 0
  let type = "n"
  let style = plain
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

  /** Where the next cell is: there, or behind the last one where that is no place. */
  const locate = (ownColumn: number, ownRow: number) => {
    if (--context.budget.cells < 0) throw new Malformed(`it has more than ${maxCells} cells`, "Undecidable")
    const isPlace = ownColumn > 0 && ownColumn <= CellRange.maxColumns && ownRow > 0 && ownRow <= CellRange.maxRows
    column = isPlace ? ownColumn : column + 1
    cellRow = isPlace ? ownRow : row
  }

  const locateAt = (written: string) => {
    const place = reference.exec(written)
    locate(columnOf(place?.[1] ?? ""), Number(place?.[2] ?? 0))
  }

  const add = (stored: Stored, cellType: string, cellLook: Look) => {
    if (cells === undefined || cellRow !== row) {
      cells = rows.get(cellRow) ?? new Row()
      rows.set(cellRow, cells)
      row = cellRow
    }
    cells.set(column, shownOf(cellType, stored, cellLook.kind, date1904), stored, cellLook)
  }

  const openCell = (written: string, styleIndex: string, cellType: string) => {
    locateAt(written)
    type = cellType
    style = styleOf(Number(styleIndex))
    inCell = true
    formula = false
    content = undefined
  }

  const closeCell = () => {
    if (!inCell) return
    add(storedOf(type, content, strings), type, lookOf(style, formula))
    inCell = false
  }

  const usual = new UsualCells()
  const readCells = (text: string, start: number): number => {
    if (!usual.open(text, start)) return start
    while (usual.next()) {
      const { number, type } = usual
      locate(usual.column, usual.row)
      const isNumber = !Number.isNaN(number)
      const stored =
        isNumber && type === "n"
          ? number
          : isNumber && type === "s"
            ? (strings[number] ?? null)
            : storedOf(type, usual.content(), strings)
      add(stored, type, lookOf(styleOf(usual.style), false))
    }
    return usual.at
  }

  const readCell = (text: string, start: number): number => {
    usualCell.lastIndex = start
    const found = usualCell.exec(text)
    if (found === null) return start
    // By index: taking it apart as a list asks an iterator for each.
    locateAt(found[1] ?? "")
    const cellType = found[3] ?? "n"
    add(storedOf(cellType, found[5], strings), cellType, lookOf(styleOf(Number(found[2] ?? 0)), found[4] !== undefined))
    return usualCell.lastIndex
  }

  const readNextRow = (text: string, start: number): number => {
    usualNextRow.lastIndex = start
    const found = usualNextRow.exec(text)
    if (found === null) return start
    const said = readWritten(found[2] ?? "")
    if (Either.isLeft(said)) return start
    openRow(Number(found[1]), said.right)
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
          let after = readCells(text, at)
          if (after === at) after = readCell(text, at)
          if (after === at) after = readNextRow(text, at)
          if (after === at) return at
          at = after
        }
      }
    }
  }
}
