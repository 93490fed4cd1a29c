/**
 * Reads .xlsx: sheet names in order, cells with the values that were last calculated, and what of their looks the rules
 * can ask for. Nothing is recalculated: a formula cell without a cached value is empty.
 *
 * Format: ECMA-376 part 1, chapter 18 (SpreadsheetML).
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import * as CellRange from "./cellRange.js"
import { formatKind, readStyles, type Style } from "./spreadsheetStyles.js"
import * as Xml from "./xml.js"
import { unzip } from "./zip.js"

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
}

export interface Sheet {
  readonly name: string
  /** By row, then by column, both from 1. */
  readonly rows: ReadonlyMap<number, ReadonlyMap<number, Cell>>
  readonly merged: ReadonlyArray<CellRange.Rectangle>
  /** Where conditional formats may change what a style says. */
  readonly conditional: ReadonlyArray<CellRange.Rectangle>
}

export interface Workbook {
  readonly sheets: ReadonlyArray<Sheet>
}

const unparsable = (reason: string): Refusal => ({ kind: "Unparsable", reason })

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

/** Plain text of a string item: its own `t` and those of its runs, without phonetic hints. */
const stringItem = (item: Xml.Element): string =>
  Xml.elements(item)
    .map((part) => {
      if (part.localName === "t") return Xml.text(part)
      return part.localName === "r" ? Xml.text(Xml.element(part, "t")) : ""
    })
    .join("")

interface Context {
  readonly strings: ReadonlyArray<string>
  readonly styles: ReadonlyArray<Style>
  readonly plain: Style
  readonly date1904: boolean
}

const readNumber = (content: string, style: Style, context: Context): Pick<Cell, "value" | "stored"> => {
  const number = Number(content)
  if (content.trim() === "" || Number.isNaN(number)) return { value: content, stored: content }
  const kind = formatKind(style.numberFormat)
  return { value: kind === "number" ? number : fromSerial(number, kind, context.date1904), stored: number }
}

const readContent = (cell: Xml.Element, style: Style, context: Context): Pick<Cell, "value" | "stored"> => {
  const same = (value: string | boolean | null) => ({ value, stored: value })
  const type = Xml.attribute(cell, "t") ?? "n"
  if (type === "inlineStr") {
    const item = Xml.element(cell, "is")
    return same(item === undefined ? null : stringItem(item))
  }
  const stored = Xml.element(cell, "v")
  if (stored === undefined) return same(null)
  const content = Xml.text(stored)
  switch (type) {
    case "s":
      return same(context.strings[Number(content)] ?? null)
    case "str":
      return same(content)
    case "b":
      return same(content.trim() === "1" || content.trim() === "true")
    case "e":
      return { value: { _tag: "Error", code: content }, stored: content }
    case "d": {
      const millis = Date.parse(
        /T.*(Z|[+-]\d\d:?\d\d)$/.test(content) || !content.includes("T") ? content : `${content}Z`
      )
      return { value: Number.isNaN(millis) ? content : { _tag: "Date", millis }, stored: content }
    }
    default:
      return content === "" ? same(null) : readNumber(content, style, context)
  }
}

const readRows = (sheetData: Xml.Element | undefined, context: Context): Sheet["rows"] => {
  const rows = new Map<number, Map<number, Cell>>()
  let row = 0
  for (const rowElement of sheetData === undefined ? [] : Xml.elements(sheetData, "row")) {
    row = Number(Xml.attribute(rowElement, "r") ?? row + 1)
    let column = 0
    for (const cell of Xml.elements(rowElement, "c")) {
      const place = CellRange.parse(Xml.attribute(cell, "r") ?? "")
      column = place?.left ?? column + 1
      const style = context.styles[Number(Xml.attribute(cell, "s") ?? 0)] ?? context.plain
      const cells = rows.get(row) ?? new Map<number, Cell>()
      rows.set(row, cells)
      cells.set(column, { ...readContent(cell, style, context), style })
    }
  }
  return rows
}

const references = (found: ReadonlyArray<Xml.Element>, attribute: string): ReadonlyArray<CellRange.Rectangle> =>
  found.flatMap((each) =>
    (Xml.attribute(each, attribute) ?? "").split(/\s+/).flatMap((reference) => CellRange.parse(reference) ?? [])
  )

const readSheet = (name: string, root: Xml.Element, context: Context): Sheet => {
  const merges = Xml.element(root, "mergeCells")
  return {
    name,
    rows: readRows(Xml.element(root, "sheetData"), context),
    merged: merges === undefined ? [] : references(Xml.elements(merges, "mergeCell"), "ref"),
    conditional: references(Xml.elements(root, "conditionalFormatting"), "sqref")
  }
}

/** Where a relationship of a part in `folder` leads, as a member's name. */
const resolve = (folder: string, target: string): string => {
  if (target.startsWith("/")) return target.slice(1)
  const path: Array<string> = folder === "" ? [] : folder.split("/")
  for (const part of target.split("/")) {
    if (part === "..") path.pop()
    else if (part !== ".") path.push(part)
  }
  return path.join("/")
}

const isWanted = (name: string): boolean => /\.(xml|rels)$/i.test(name)

/** A whole workbook from its bytes. */
export const parse = (bytes: Uint8Array): Either.Either<Workbook, Refusal> =>
  Either.gen(function* () {
    const members = yield* unzip(bytes, isWanted)
    const read = (name: string): Either.Either<Xml.Element | undefined, Refusal> => {
      const member = members.get(name)
      if (member === undefined) return Either.right(undefined)
      return Either.mapLeft(Xml.parse(new TextDecoder().decode(member)), (reason) => unparsable(`${name}: ${reason}`))
    }
    const relations = function* (part: string) {
      const folder = part.slice(0, Math.max(0, part.lastIndexOf("/")))
      const file = part.slice(part.lastIndexOf("/") + 1)
      const root = yield* read(`${folder === "" ? "" : `${folder}/`}_rels/${file}.rels`)
      return (root === undefined ? [] : Xml.elements(root, "Relationship")).map((relation) => ({
        id: Xml.attribute(relation, "Id") ?? "",
        type: (Xml.attribute(relation, "Type") ?? "").replace(/^.*\//, ""),
        target: resolve(folder, Xml.attribute(relation, "Target") ?? "")
      }))
    }

    const start = (yield* relations("")).find(({ type }) => type === "officeDocument")
    const workbookName = start?.target ?? "xl/workbook.xml"
    const workbook = yield* read(workbookName)
    if (workbook === undefined) return yield* Either.left(unparsable("the archive holds no workbook"))

    const parts = yield* relations(workbookName)
    const related = (type: string) => parts.find((part) => part.type === type)?.target ?? ""
    const strings = yield* read(related("sharedStrings"))
    const { plain, styles } = readStyles(yield* read(related("styles")))
    const date1904 = /^(1|true)$/.test(Xml.attribute(Xml.element(workbook, "workbookPr"), "date1904") ?? "")
    const context: Context = {
      strings: strings === undefined ? [] : Xml.elements(strings, "si").map(stringItem),
      styles,
      plain,
      date1904
    }

    const sheets: Array<Sheet> = []
    const list = Xml.element(workbook, "sheets")
    for (const sheet of list === undefined ? [] : Xml.elements(list, "sheet")) {
      const name = Xml.attribute(sheet, "name") ?? ""
      const id = Array.from(sheet.attributes).find(
        (attribute) => attribute.localName === "id" && attribute.prefix
      )?.value
      const part = parts.find((each) => each.id === id)
      const root = part === undefined ? undefined : yield* read(part.target)
      if (root === undefined) return yield* Either.left(unparsable(`the sheet ${JSON.stringify(name)} has no content`))
      sheets.push(readSheet(name, root, context))
    }
    return { sheets }
  })

/** The cell at `B3`, or `undefined` where nothing was ever written. */
export const cellAt = (sheet: Sheet, place: CellRange.Rectangle): Cell | undefined =>
  sheet.rows.get(place.top)?.get(place.left)
