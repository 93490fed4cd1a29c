/** Spreadsheet references (`B3`, `$A$1:C4`, `D:D`) as rectangles, and sets of cells as lists of rectangles. */

/** One-based and inclusive. */
export interface Rectangle {
  readonly top: number
  readonly left: number
  readonly bottom: number
  readonly right: number
}

/** Excel's own limits. */
export const maxRows = 1_048_576
export const maxColumns = 16_384

export const columnNumber = (letters: string): number =>
  [...letters.toUpperCase()].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0)

const corner = /^\$?([A-Za-z]{1,3})?\$?([1-9]\d{0,6})?$/

/** `undefined` for what is no reference, or lies outside a sheet. */
export const parse = (reference: string): Rectangle | undefined => {
  const [from = "", to = from, ...more] = reference.split(":")
  const first = corner.exec(from)
  const last = corner.exec(to)
  if (from === "" || to === "" || more.length > 0 || first === null || last === null) return undefined
  const [left, top] = [first[1], first[2]]
  const [right, bottom] = [last[1], last[2]]
  // Half a reference (`B`, `3`) only makes sense as a pair, and then on both sides.
  if ((left === undefined) !== (right === undefined) || (top === undefined) !== (bottom === undefined)) return undefined
  if ((left === undefined || top === undefined) && !reference.includes(":")) return undefined
  const columns = [columnNumber(left ?? "A"), right === undefined ? maxColumns : columnNumber(right)] as const
  const rows = [Number(top ?? 1), bottom === undefined ? maxRows : Number(bottom)] as const
  const rectangle = {
    top: Math.min(...rows),
    left: Math.min(...columns),
    bottom: Math.max(...rows),
    right: Math.max(...columns)
  }
  return rectangle.bottom > maxRows || rectangle.right > maxColumns ? undefined : rectangle
}

export const parseList = (references: ReadonlyArray<string>): ReadonlyArray<Rectangle> | undefined => {
  const rectangles: Array<Rectangle> = []
  for (const reference of references) {
    const rectangle = parse(reference)
    if (rectangle === undefined) return undefined
    rectangles.push(rectangle)
  }
  return rectangles
}

export const contains = (rectangle: Rectangle, row: number, column: number): boolean =>
  row >= rectangle.top && row <= rectangle.bottom && column >= rectangle.left && column <= rectangle.right

/** What is left of `from` without `cut`: at most four rectangles. */
const subtract = (from: Rectangle, cut: Rectangle): ReadonlyArray<Rectangle> => {
  const top = Math.max(from.top, cut.top)
  const bottom = Math.min(from.bottom, cut.bottom)
  const left = Math.max(from.left, cut.left)
  const right = Math.min(from.right, cut.right)
  if (top > bottom || left > right) return [from]
  return [
    { ...from, bottom: top - 1 },
    { ...from, top: bottom + 1 },
    { top, bottom, left: from.left, right: left - 1 },
    { top, bottom, left: right + 1, right: from.right }
  ].filter((part) => part.top <= part.bottom && part.left <= part.right)
}

/** Every cell of `inner` is in `outer`. */
export const covers = (outer: ReadonlyArray<Rectangle>, inner: ReadonlyArray<Rectangle>): boolean => {
  let rest: ReadonlyArray<Rectangle> = inner
  for (const cut of outer) rest = rest.flatMap((part) => subtract(part, cut))
  return rest.length === 0
}
