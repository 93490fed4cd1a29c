/**
 * Numbered marks on a screenshot, so that a model says a number where it would have to say pixels.
 *
 * @since 0.1.0
 */
import * as AccessibilityTree from "./AccessibilityTree.js"
import { isPlain, type Picture } from "./internal/picture.js"

/**
 * An element with a mark; the first has number 1.
 *
 * @since 0.1.0
 * @category models
 */
export type Mark = AccessibilityTree.Node

const pictures = new Set(["icon", "image", "canvas"])

/**
 * The elements that get a mark: those that are named, say something or are pictures, lie on the screen, and show something there.
 *
 * @since 0.1.0
 * @category queries
 */
export const marks = (nodes: ReadonlyArray<AccessibilityTree.Node>, picture: Picture): ReadonlyArray<Mark> =>
  nodes.filter(
    (node) =>
      (node.name !== "" || node.text !== "" || pictures.has(node.tag)) &&
      node.x + node.width <= picture.width &&
      node.y + node.height <= picture.height &&
      !isPlain(picture, node)
  )

/**
 * Where a click on the mark goes, in pixels of the screen.
 *
 * @since 0.1.0
 * @category queries
 */
export const centre = ({ height, width, x, y }: Mark): { readonly x: number; readonly y: number } => ({
  x: x + Math.floor(width / 2),
  y: y + Math.floor(height / 2)
})

/**
 * What the marks are, for the prompt.
 *
 * @since 0.1.0
 * @category encoding
 */
export const table = (found: ReadonlyArray<Mark>): string => AccessibilityTree.numberedTable(found)

// Digits of our own, five rows of three: no font that a machine may lack, and the same picture everywhere.
const digits: ReadonlyArray<string> = [
  "111101101101111",
  "010110010010111",
  "111001111100111",
  "111001111001111",
  "101101111001001",
  "111100111001111",
  "111100111101111",
  "111001001001001",
  "111101111101111",
  "111101111001111"
]
const dot = 2

const number = (value: number, left: number, top: number): string =>
  Array.from(String(value), (digit, place) =>
    Array.from(digits[Number(digit)] ?? "", (bit, at) =>
      bit === "1"
        ? `M${left + (place * 4 + (at % 3)) * dot} ${top + Math.floor(at / 3) * dot}h${dot}v${dot}h-${dot}z`
        : ""
    ).join("")
  ).join("")

/**
 * The marks as an SVG picture of the screen's size: a red box around each element and its number on black at the lower left of it.
 *
 * @since 0.1.0
 * @category encoding
 */
export const svg = (
  { height, width }: { readonly width: number; readonly height: number },
  found: ReadonlyArray<Mark>
): string => {
  const drawn = found.map((mark, at) => {
    const value = at + 1
    const labelWidth = (String(value).length * 4 + 1) * dot
    const labelHeight = 7 * dot
    const left = Math.max(0, Math.min(mark.x, width - labelWidth))
    const top = Math.max(0, Math.min(mark.y + mark.height - labelHeight, height - labelHeight))
    return (
      `<rect x="${mark.x + 0.5}" y="${mark.y + 0.5}" width="${Math.max(1, mark.width - 1)}" height="${Math.max(1, mark.height - 1)}" fill="none" stroke="#f00"/>` +
      `<rect x="${left}" y="${top}" width="${labelWidth}" height="${labelHeight}" fill="#000"/>` +
      `<path d="${number(value, left + dot, top + dot)}" fill="#fff"/>`
    )
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" shape-rendering="crispEdges">${drawn.join("")}</svg>`
}
