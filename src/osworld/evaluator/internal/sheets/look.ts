/** How cells look, and whether two sheets look alike. */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"
import type { Cell, Sheet, Workbook } from "../Spreadsheet.js"
import type { Style } from "../spreadsheetStyles.js"
import type { Color } from "./colors.js"
import * as Conditional from "./conditional.js"
import type { Hyperlink, Plain } from "./parts.js"
import { maxSteps, within } from "./scope.js"

export const propertyNames = [
  "number_format",
  "font_name",
  "font_family",
  "font_size",
  "font_bold",
  "font_italic",
  "font_underline",
  "font_color",
  "fill_type",
  "fgcolor",
  "bgcolor",
  "hyperlink",
  "merge"
] as const

export type PropertyName = (typeof propertyNames)[number]

export const isPropertyName = (name: string): name is PropertyName => propertyNames.some((known) => known === name)

/** What a rule can see of one cell. */
export interface Seen {
  /** Undefined where nothing is, or where a merged range has swallowed it. */
  readonly cell: Cell | undefined
  /** The cell's own, changed by what conditional formats are in force. */
  readonly style: Style | undefined
  readonly link: Hyperlink | undefined
  /** In a merged range and not its first cell. */
  readonly swallowed: boolean
}

/** Excel's window text: what automatic text looks like. */
const automatic = "FF000000"
/** openpyxl's colour of no fill. */
const transparent = "00000000"

/** Upstream cannot tell the colours of theme and palette from each other; no RGB colour equals them. */
const upstreamColor = (color: Color): string => (color.direct ? color.argb : "from the theme")

const fontColor = (color: Color | null, compat: boolean): string | null => {
  if (compat) return color === null ? null : upstreamColor(color)
  return color?.argb ?? automatic
}

const fillColor = (style: Style | undefined, compat: boolean): string | null => {
  if (style === undefined) return transparent
  if (style.fillType === "gradientFill") return null
  if (compat) return style.fill === null ? transparent : upstreamColor(style.fill)
  return style.unfilled ? transparent : (style.fill?.argb ?? transparent)
}

const numberFormat = ({ cell, style }: Seen, compat: boolean): string | null => {
  if (cell === undefined || style === undefined || typeof cell.stored !== "number") return null
  // Upstream takes formulas and dates for no numbers.
  if (compat && (cell.formula || typeof cell.value !== "number")) return null
  return style.numberFormat
}

/** Of an empty cell what is written in it looks like nothing, its fill and its place do not. */
export const property = (name: PropertyName, seen: Seen, compat: boolean): Plain => {
  const { cell, link, style, swallowed } = seen
  if (name === "merge") return swallowed
  if (name === "fill_type") return style?.fillType ?? "patternFill"
  if (name === "fgcolor" || name === "bgcolor") return fillColor(style, compat)
  if (name === "number_format") return numberFormat(seen, compat)
  if (cell === undefined || style === undefined || (cell.value === null && !cell.formula)) return null
  switch (name) {
    case "font_name":
      return style.fontName
    case "font_family":
      return style.fontFamily
    case "font_size":
      return style.fontSize
    case "font_bold":
      return style.bold
    case "font_italic":
      return style.italic
    case "font_underline":
      return style.underline
    case "font_color":
      return fontColor(style.fontColor, compat)
    case "hyperlink":
      return link === undefined ? "" : compat ? link.attributes : link.link
  }
}

const isFirst = (range: CellRange.Rectangle, row: number, column: number): boolean =>
  range.top === row && range.left === column

/** One cell. */
export const look = (
  workbook: Workbook,
  sheet: Sheet,
  place: CellRange.Rectangle,
  compat: boolean
): Either.Either<Seen, string> => {
  const { left, top } = place
  const contains = (range: CellRange.Rectangle) => CellRange.contains(range, top, left)
  const swallowed = sheet.merged.some((range) => contains(range) && !isFirst(range, top, left))
  const cell = swallowed ? undefined : sheet.rows.get(top)?.get(left)
  const link = sheet.hyperlinks.find(({ range }) => contains(range))
  // Upstream's check of one cell does not know of conditional formats.
  const differences =
    compat || cell === undefined ? Either.right(new Map()) : Conditional.differences(workbook, sheet, compat, place)
  return Either.map(differences, (found) => ({
    cell,
    style: cell === undefined ? undefined : Conditional.applied(cell.style, found.get(Conditional.keyAt(top, left))),
    link,
    swallowed
  }))
}

/** All cells that are there, each asked for its properties: a key that is equal where they are. */
interface Looks {
  readonly at: (row: number, column: number) => string
}

const looks = (
  workbook: Workbook,
  sheet: Sheet,
  names: ReadonlyArray<PropertyName>,
  compat: boolean
): Either.Either<Looks, string> =>
  Either.gen(function* () {
    const differences = yield* Conditional.differences(workbook, sheet, compat)
    const steps = { left: maxSteps }
    const swallowed = new Set<number>()
    const links = new Map<number, Hyperlink>()
    yield* within(() => {
      for (const range of sheet.merged) {
        Conditional.eachCell(sheet, [range], steps, (row, column) => {
          if (!isFirst(range, row, column)) swallowed.add(Conditional.keyAt(row, column))
        })
      }
      if (!names.includes("hyperlink")) return
      for (const link of sheet.hyperlinks) {
        Conditional.eachCell(sheet, [link.range], steps, (row, column) =>
          links.set(Conditional.keyAt(row, column), link)
        )
      }
    })
    // Whole merged ranges are compared apart, for most of their cells are in no file.
    const asked = names.filter((name) => name !== "merge")
    const describe = (seen: Seen) => JSON.stringify(asked.map((name) => property(name, seen, compat)))
    const blank = describe({ cell: undefined, style: undefined, link: undefined, swallowed: false })
    const known = new Map<Style, Array<string | undefined>>()
    return {
      at: (row, column) => {
        const key = Conditional.keyAt(row, column)
        const cell = sheet.rows.get(row)?.get(column)
        if (cell === undefined || swallowed.has(key)) return blank
        const difference = differences.get(key)
        const link = links.get(key)
        const seen: Seen = { cell, style: Conditional.applied(cell.style, difference), link, swallowed: false }
        if (difference !== undefined || link !== undefined) return describe(seen)
        // Cells of one style and one kind of value look alike, and there are few of those.
        const kind =
          (cell.formula ? 8 : 0) +
          (cell.value === null ? 4 : 0) +
          (typeof cell.value === "number" ? 2 : 0) +
          (typeof cell.stored === "number" ? 1 : 0)
        const ofStyle = known.get(cell.style) ?? []
        const before = ofStyle[kind]
        if (before !== undefined) return before
        ofStyle[kind] = describe(seen)
        known.set(cell.style, ofStyle)
        return ofStyle[kind] ?? blank
      }
    }
  })

const mergedKey = (sheet: Sheet): string =>
  JSON.stringify(
    Array.from(
      new Set(
        sheet.merged.flatMap(({ bottom, left, right, top }) =>
          top === bottom && left === right ? [] : `${top},${left},${bottom},${right}`
        )
      )
    ).sort()
  )

const extent = (sheet: Sheet): string => {
  let bottom = 0
  let right = 0
  for (const [row, cells] of sheet.rows) {
    bottom = Math.max(bottom, row)
    for (const column of cells.columns()) right = Math.max(right, column)
  }
  for (const range of sheet.merged) {
    bottom = Math.max(bottom, range.bottom)
    right = Math.max(right, range.right)
  }
  return `${bottom},${right}`
}

/** A sheet in its workbook. */
export interface Placed {
  readonly workbook: Workbook
  readonly sheet: Sheet
}

/**
 * Every cell has the same properties in both sheets. A cell that is in one file only looks like an empty one; under
 * `compat` the cells of both have to span the same, whatever they look like.
 */
export const alike = (
  a: Placed,
  b: Placed,
  names: ReadonlyArray<PropertyName>,
  compat: boolean
): Either.Either<boolean, string> =>
  Either.gen(function* () {
    if (compat && extent(a.sheet) !== extent(b.sheet)) return false
    if (names.includes("merge") && mergedKey(a.sheet) !== mergedKey(b.sheet)) return false
    const left = yield* looks(a.workbook, a.sheet, names, compat)
    const right = yield* looks(b.workbook, b.sheet, names, compat)
    const agree = (sheet: Sheet, done?: Sheet) => {
      for (const [row, cells] of sheet.rows) {
        const before = done?.rows.get(row)
        for (const column of cells.columns()) {
          if (before?.has(column) !== true && left.at(row, column) !== right.at(row, column)) return false
        }
      }
      return true
    }
    return agree(a.sheet) && agree(b.sheet, a.sheet)
  })
