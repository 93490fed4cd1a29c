/** The cells of a sheet, from the scanner's events: a sheet may hold a million of them. */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"
import { type FormatKind, formatKind, type Style } from "../spreadsheetStyles.js"
import type { CellValue, Look, Stored } from "./cell.js"
import { Row } from "./row.js"
import * as RowProperties from "./rowProperties.js"
import { type Attributes, type Handlers, Malformed } from "./scan.js"
import { StringItem } from "./strings.js"
import { UsualCells } from "./usualCells.js"

/** More in one workbook are refused: some 150 MB. */
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

/** Reads what is inside `sheetData`. A class, as V8 compiles the functions of each closure anew. */
export class SheetData implements Handlers {
  readonly rows = new Map<number, Row>()
  readonly properties = new Map<number, RowProperties.RowProperties>()
  private readonly rowReader = RowProperties.reader()
  private readonly item = new StringItem()
  private readonly usual = new UsualCells()
  private readonly looks = { plain: new Map<Style, Look>(), formula: new Map<Style, Look>() }
  private look: Look

  private row = 0
  private cells: Row | undefined
  /** The last one that was written to. */
  private above: Row | undefined
  // Of the cell that is open, and not an object of its own: there are as many as cells.
  private inCell = false
  private cellRow = 0
  private column = 0
  private type = "n"
  private style: Style
  private formula = false
  private content: string | undefined
  private inValue = false
  private inItem = false

  constructor(private readonly context: Context) {
    this.style = context.plain
    this.look = { style: context.plain, formula: false, kind: formatKind(context.plain.numberFormat) }
  }

  open(name: string, attributes: Attributes): void {
    if (this.inItem) {
      this.item.open(name)
    } else if (name === "c") {
      this.openCell(attributes.get("r") ?? "", attributes.get("s") ?? "0", attributes.get("t") ?? "n")
    } else if (name === "row") {
      this.openRow(Number(attributes.get("r") ?? this.row + 1), this.rowReader.read(attributes))
    } else if (this.inCell && name === "v") {
      this.inValue = true
      this.content = ""
    } else if (this.inCell && name === "f") {
      this.formula = true
    } else if (this.inCell && name === "is") {
      this.inItem = true
    }
  }

  close(name: string): void {
    if (this.inItem) {
      if (name !== "is") {
        this.item.close(name)
      } else {
        this.inItem = false
        this.content = this.item.take()
      }
    } else if (name === "c") {
      this.closeCell()
    } else if (name === "v") {
      this.inValue = false
    }
  }

  text(text: string): void {
    if (this.inValue) this.content = this.content === "" ? text : (this.content ?? "") + text
    else if (this.inItem) this.item.text(text)
  }

  ahead(text: string, start: number, within: string): number {
    // Only between the cells of a row: what is inside a cell is for the handlers above.
    if (within !== "row" || this.inCell || this.inValue || this.inItem) return start
    let at = start
    for (;;) {
      let after = this.readCells(text, at)
      if (after === at) after = this.readCell(text, at)
      if (after === at) after = this.readNextRow(text, at)
      if (after === at) return at
      at = after
    }
  }

  private openRow(number: number, said: RowProperties.RowProperties | undefined): void {
    if (!Number.isInteger(number) || number < 1 || number > CellRange.maxRows) throw new Malformed("a row is no row")
    this.row = number
    this.column = 0
    this.cells = this.rows.get(number)
    if (said !== undefined) this.properties.set(number, said)
  }

  private openCell(written: string, styleIndex: string, cellType: string): void {
    this.locateAt(written)
    this.type = cellType
    this.style = this.styleOf(Number(styleIndex))
    this.inCell = true
    this.formula = false
    this.content = undefined
  }

  private closeCell(): void {
    if (!this.inCell) return
    const { content, formula, style, type } = this
    this.add(storedOf(type, content, this.context.strings), type, this.lookOf(style, formula))
    this.inCell = false
  }

  private readCells(text: string, start: number): number {
    const { usual } = this
    if (!usual.open(text, start)) return start
    const { strings } = this.context
    while (usual.next()) {
      const { number, type } = usual
      this.locate(usual.column, usual.row)
      const isNumber = !Number.isNaN(number)
      const stored =
        isNumber && type === "n"
          ? number
          : isNumber && type === "s"
            ? (strings[number] ?? null)
            : storedOf(type, usual.content(), strings)
      this.add(stored, type, this.lookOf(this.styleOf(usual.style), false))
    }
    return usual.at
  }

  private readCell(text: string, start: number): number {
    usualCell.lastIndex = start
    const found = usualCell.exec(text)
    if (found === null) return start
    // By index: taking it apart as a list asks an iterator for each.
    this.locateAt(found[1] ?? "")
    const type = found[3] ?? "n"
    const look = this.lookOf(this.styleOf(Number(found[2] ?? 0)), found[4] !== undefined)
    this.add(storedOf(type, found[5], this.context.strings), type, look)
    return usualCell.lastIndex
  }

  private readNextRow(text: string, start: number): number {
    usualNextRow.lastIndex = start
    const found = usualNextRow.exec(text)
    if (found === null) return start
    const said = this.rowReader.readWritten(found[2] ?? "")
    if (Either.isLeft(said)) return start
    this.openRow(Number(found[1]), said.right)
    return usualNextRow.lastIndex
  }

  /** Where the next cell is: there, or behind the last one where that is no place. */
  private locate(column: number, row: number): void {
    if (--this.context.budget.cells < 0) throw new Malformed(`it has more than ${maxCells} cells`, "Undecidable")
    const isPlace = column > 0 && column <= CellRange.maxColumns && row > 0 && row <= CellRange.maxRows
    this.column = isPlace ? column : this.column + 1
    this.cellRow = isPlace ? row : this.row
  }

  private locateAt(written: string): void {
    const place = reference.exec(written)
    this.locate(columnOf(place?.[1] ?? ""), Number(place?.[2] ?? 0))
  }

  private add(stored: Stored, type: string, look: Look): void {
    if (this.cells === undefined || this.cellRow !== this.row) {
      this.cells = this.rows.get(this.cellRow) ?? new Row(this.above)
      this.above = this.cells
      this.rows.set(this.cellRow, this.cells)
      this.row = this.cellRow
    }
    this.cells.set(this.column, shownOf(type, stored, look.kind, this.context.date1904), stored, look)
  }

  private styleOf(index: number): Style {
    return this.context.styles[index] ?? this.context.plain
  }

  /** Neighbours look alike, mostly. */
  private lookOf(style: Style, formula: boolean): Look {
    if (this.look.style === style && this.look.formula === formula) return this.look
    const known = formula ? this.looks.formula : this.looks.plain
    this.look = known.get(style) ?? { style, formula, kind: formatKind(style.numberFormat) }
    known.set(style, this.look)
    return this.look
  }
}
