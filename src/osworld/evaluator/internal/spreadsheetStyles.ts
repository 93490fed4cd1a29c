/** Number formats, fonts and fills of a workbook, as far as rules ask for them. */
import { type Color, type Palette, readColor } from "./sheets/colors.js"
import * as Tree from "./sheets/tree.js"

export interface Style {
  readonly numberFormat: string
  readonly fontName: string | null
  readonly fontFamily: number | null
  readonly fontSize: number | null
  readonly bold: boolean
  readonly italic: boolean
  readonly underline: string | null
  readonly fontColor: Color | null
  readonly fillType: "patternFill" | "gradientFill"
  /** The colour that a fill is seen in: for a solid one its foreground. */
  readonly fill: Color | null
  /** `patternType="none"`: whatever colours it has are not seen. */
  readonly unfilled: boolean
}

/** What a conditional format changes of a style. */
export type Difference = Partial<Style>

/** ECMA-376, 18.8.30. */
const builtinFormats: Record<number, string> = {
  0: "General",
  1: "0",
  2: "0.00",
  3: "#,##0",
  4: "#,##0.00",
  9: "0%",
  10: "0.00%",
  11: "0.00E+00",
  12: "# ?/?",
  13: "# ??/??",
  14: "mm-dd-yy",
  15: "d-mmm-yy",
  16: "d-mmm",
  17: "mmm-yy",
  18: "h:mm AM/PM",
  19: "h:mm:ss AM/PM",
  20: "h:mm",
  21: "h:mm:ss",
  22: "m/d/yy h:mm",
  37: "#,##0_);(#,##0)",
  38: "#,##0_);[Red](#,##0)",
  39: "#,##0.00_);(#,##0.00)",
  40: "#,##0.00_);[Red](#,##0.00)",
  45: "mm:ss",
  46: "[h]:mm:ss",
  47: "mmss.0",
  48: "##0.0E+0",
  49: "@"
}

/** Ids that East Asian locales use for dates. */
const isLocalDate = (id: number): boolean => (id >= 27 && id <= 36) || (id >= 50 && id <= 58)

export type FormatKind = "number" | "date" | "duration"

/** What a number in this format is: text in quotes, colours, locales and fillers say nothing, `[h]` counts hours up. */
export const formatKind = (format: string): FormatKind => {
  const [positive = ""] = format.replace(/"[^"]*"|\\.|_.|\*./g, "").split(";")
  if (/^\s*\[(h+|m+|s+)\]/i.test(positive)) return "duration"
  const bare = positive.replace(/\[[^\]]*\]/g, "")
  return !/^general$/i.test(bare) && /[dmhys]/i.test(bare) ? "date" : "number"
}

/** A flag is set by being there, unless it says no. */
const flag = (parent: Tree.Node | undefined, name: string): boolean =>
  Tree.child(parent, name) !== undefined && !/^(0|false)$/.test(Tree.value(parent, name) ?? "1")

const underlineOf = (font: Tree.Node | undefined): string | null => {
  const kind = Tree.child(font, "u") === undefined ? "none" : (Tree.value(font, "u") ?? "single")
  return kind === "none" ? null : kind
}

const readStyle = (
  numberFormat: string,
  font: Tree.Node | undefined,
  fill: Tree.Node | undefined,
  palette: Palette
): Style => {
  const pattern = Tree.child(fill, "patternFill")
  const isGradient = Tree.child(fill, "gradientFill") !== undefined
  return {
    numberFormat,
    fontName: Tree.value(font, "name") ?? null,
    fontFamily: Tree.number(Tree.value(font, "family")),
    fontSize: Tree.number(Tree.value(font, "sz")),
    bold: flag(font, "b"),
    italic: flag(font, "i"),
    underline: underlineOf(font),
    fontColor: readColor(Tree.child(font, "color"), palette),
    fillType: isGradient ? "gradientFill" : "patternFill",
    fill: readColor(Tree.child(pattern, "fgColor"), palette),
    unfilled: !isGradient && (Tree.attribute(pattern, "patternType") ?? "none") === "none"
  }
}

/** Only what it says: a difference that is silent about something leaves it as it is. */
const readDifference = (dxf: Tree.Node, palette: Palette): Difference => {
  const font = Tree.child(dxf, "font")
  const pattern = Tree.child(dxf, "fill", "patternFill")
  const format = Tree.attribute(Tree.child(dxf, "numFmt"), "formatCode")
  const has = (name: string) => Tree.child(font, name) !== undefined
  // In a difference, other than in a cell's style, the background is the colour of a solid fill.
  const fill = readColor(Tree.child(pattern, "bgColor") ?? Tree.child(pattern, "fgColor"), palette)
  return {
    ...(format === undefined ? {} : { numberFormat: format }),
    ...(has("name") ? { fontName: Tree.value(font, "name") ?? null } : {}),
    ...(has("family") ? { fontFamily: Tree.number(Tree.value(font, "family")) } : {}),
    ...(has("sz") ? { fontSize: Tree.number(Tree.value(font, "sz")) } : {}),
    ...(has("b") ? { bold: flag(font, "b") } : {}),
    ...(has("i") ? { italic: flag(font, "i") } : {}),
    ...(has("u") ? { underline: underlineOf(font) } : {}),
    ...(has("color") ? { fontColor: readColor(Tree.child(font, "color"), palette) } : {}),
    ...(fill === null ? {} : { fillType: "patternFill" as const, fill, unfilled: false })
  }
}

export interface Styles {
  /** One for each index that a cell can name. */
  readonly styles: ReadonlyArray<Style>
  /** Of a cell that names none. */
  readonly plain: Style
  readonly differences: ReadonlyArray<Difference>
}

export const readStyles = (root: Tree.Node | undefined, palette: Palette): Styles => {
  const parts = (name: string, of: string) => Tree.children(Tree.child(root, name), of)
  const own = new Map(
    parts("numFmts", "numFmt").map((each) => [
      Number(Tree.attribute(each, "numFmtId")),
      Tree.attribute(each, "formatCode") ?? "General"
    ])
  )
  const fonts = parts("fonts", "font")
  const fills = parts("fills", "fill")
  const styles = parts("cellXfs", "xf").map((xf) => {
    const index = (name: string) => Number(Tree.attribute(xf, name) ?? 0)
    const id = index("numFmtId")
    const format = own.get(id) ?? builtinFormats[id] ?? (isLocalDate(id) ? "yyyy-mm-dd" : "General")
    return readStyle(format, fonts[index("fontId")], fills[index("fillId")], palette)
  })
  return {
    styles,
    plain: styles[0] ?? readStyle("General", undefined, undefined, palette),
    differences: parts("dxfs", "dxf").map((dxf) => readDifference(dxf, palette))
  }
}
