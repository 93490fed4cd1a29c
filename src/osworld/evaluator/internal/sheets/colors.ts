/** Colours of a workbook: RGB, one of the theme's with a tint, or one of the palette's. */
import * as Tree from "./tree.js"

export interface Color {
  readonly argb: string
  /** The file says it in RGB; otherwise theme or palette do. */
  readonly direct: boolean
}

/** ECMA-376 part 1, 18.8.27: the palette that a file has when it brings none; 0 to 7 occur again as 8 to 15. */
const palette = (
  "000000 FFFFFF FF0000 00FF00 0000FF FFFF00 FF00FF 00FFFF 000000 FFFFFF FF0000 00FF00 0000FF FFFF00 FF00FF 00FFFF " +
  "800000 008000 000080 808000 800080 008080 C0C0C0 808080 9999FF 993366 FFFFCC CCFFFF 660066 FF8080 0066CC CCCCFF " +
  "000080 FF00FF FFFF00 00FFFF 800080 800000 008080 0000FF 00CCFF CCFFFF CCFFCC FFFF99 99CCFF FF99CC CC99FF FFCC99 " +
  "3366FF 33CCCC 99CC00 FFCC00 FF9900 FF6600 666699 969696 003366 339966 003300 333300 993300 993366 333399 333333"
)
  .split(" ")
  .map((rgb) => `FF${rgb}`)

/** The places of a theme's colours in the order of their indices (18.8.3), and the Office 2007 theme's. */
const themePlaces: ReadonlyArray<readonly [string, string]> = [
  ["lt1", "FFFFFF"],
  ["dk1", "000000"],
  ["lt2", "EEECE1"],
  ["dk2", "1F497D"],
  ["accent1", "4F81BD"],
  ["accent2", "C0504D"],
  ["accent3", "9BBB59"],
  ["accent4", "8064A2"],
  ["accent5", "4BACC6"],
  ["accent6", "F79646"],
  ["hlink", "0000FF"],
  ["folHlink", "800080"]
]

const black = "FF000000"
const white = "FFFFFFFF"

const rgbOf = (place: Tree.Node | undefined): string | undefined =>
  Tree.value(place, "srgbClr") ?? Tree.attribute(Tree.child(place, "sysClr"), "lastClr")

/** 18.8.19: the tint moves the lightness of the colour in HLS, towards black below 0 and towards white above it. */
const tinted = (rgb: string, tint: number): string => {
  const [r = 0, g = 0, b = 0] = [0, 2, 4].map((i) => Number.parseInt(rgb.slice(i, i + 2), 16) / 255)
  const high = Math.max(r, g, b)
  const low = Math.min(r, g, b)
  const spread = high - low
  const light = (high + low) / 2
  const saturation = spread === 0 ? 0 : spread / (1 - Math.abs(2 * light - 1))
  const sector =
    spread === 0 ? 0 : high === r ? (g - b) / spread : high === g ? 2 + (b - r) / spread : 4 + (r - g) / spread
  const moved = tint < 0 ? light * (1 + tint) : light * (1 - tint) + tint
  const chroma = (1 - Math.abs(2 * moved - 1)) * saturation
  const channel = (shift: number): string => {
    const at = (((sector + shift) % 6) + 6) % 6
    const share = Math.min(Math.max(Math.abs(at - 3) - 1, 0), 1)
    const level = Math.round((moved - chroma / 2 + chroma * share) * 255)
    return Math.min(Math.max(level, 0), 255).toString(16).padStart(2, "0")
  }
  return [0, 4, 2].map(channel).join("").toUpperCase()
}

export interface Palette {
  readonly theme: ReadonlyArray<string>
  readonly indexed: ReadonlyArray<string>
}

const argb = (text: string): string => (text.length === 6 ? `00${text}` : text).toUpperCase()

export const readPalette = (theme: Tree.Node | undefined, styles: Tree.Node | undefined): Palette => {
  const scheme = Tree.child(theme, "themeElements", "clrScheme")
  const own = Tree.children(Tree.child(styles, "colors", "indexedColors"), "rgbColor").map((color) =>
    argb(Tree.attribute(color, "rgb") ?? "000000").replace(/^../, "FF")
  )
  return {
    theme: themePlaces.map(([place, otherwise]) => (rgbOf(Tree.child(scheme, place)) ?? otherwise).toUpperCase()),
    indexed: palette.map((color, i) => own[i] ?? color)
  }
}

/** `null`: no colour is said. */
export const readColor = (node: Tree.Node | undefined, { indexed, theme }: Palette): Color | null => {
  if (node === undefined) return null
  const rgb = Tree.attribute(node, "rgb")
  const tint = Tree.number(Tree.attribute(node, "tint")) ?? 0
  const shade = (color: string, direct: boolean): Color =>
    tint === 0 || direct ? { argb: color, direct } : { argb: `FF${tinted(color.slice(2), tint)}`, direct }
  // A file may say several; openpyxl, which upstream reads with, takes them in this order.
  const index = Tree.number(Tree.attribute(node, "indexed"))
  if (index !== null) return shade(indexed[index] ?? (index === 65 ? white : black), false)
  const place = Tree.number(Tree.attribute(node, "theme"))
  if (place !== null) return shade(`FF${theme[place] ?? "000000"}`, false)
  if (Tree.flag(node, "auto")) return shade(black, false)
  return rgb === undefined ? null : shade(argb(rgb), true)
}
