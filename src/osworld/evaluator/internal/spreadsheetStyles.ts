/** Number formats, fonts and fills of a workbook, as far as rules ask for them. */
import * as Xml from "./xml.js"

/** `system`: an index into a palette that stands for "automatic". `theme`: a colour that only the theme knows. */
export type Color =
  | { readonly _tag: "Rgb"; readonly argb: string }
  | { readonly _tag: "System" }
  | { readonly _tag: "Theme" }

export interface Style {
  readonly numberFormat: string
  readonly fontName: string | null
  readonly fontFamily: number | null
  readonly fontSize: number | null
  readonly bold: boolean
  readonly italic: boolean
  readonly underline: string | null
  readonly fontColor: Color | null
  readonly fillType: string | null
  readonly foreground: Color | null
  readonly background: Color | null
}

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

/** What a number in this format is: text in quotes, colours, locales and fillers say nothing, `[h]` counts hours up. */
export const formatKind = (format: string): "number" | "date" | "duration" => {
  const [positive = ""] = format.replace(/"[^"]*"|\\.|_.|\*./g, "").split(";")
  if (/^\s*\[(h+|m+|s+)\]/i.test(positive)) return "duration"
  const bare = positive.replace(/\[[^\]]*\]/g, "")
  return !/^general$/i.test(bare) && /[dmhys]/i.test(bare) ? "date" : "number"
}

const color = (element: Xml.Element | undefined): Color | null => {
  if (element === undefined) return null
  const argb = Xml.attribute(element, "rgb")
  if (argb !== undefined) return { _tag: "Rgb", argb: (argb.length === 6 ? `00${argb}` : argb).toUpperCase() }
  const indexed = Xml.attribute(element, "indexed")
  return indexed === undefined || (indexed !== "64" && indexed !== "65") ? { _tag: "Theme" } : { _tag: "System" }
}

const value = (parent: Xml.Element | undefined, name: string): string | undefined =>
  Xml.attribute(Xml.element(parent, name), "val")

const number = (parent: Xml.Element | undefined, name: string): number | null => {
  const text = value(parent, name)
  return text === undefined ? null : Number(text)
}

/** A flag is set by being there, unless it says no. */
const flag = (parent: Xml.Element | undefined, name: string): boolean =>
  Xml.element(parent, name) !== undefined && !/^(0|false)$/.test(value(parent, name) ?? "1")

const readStyle = (format: string, font: Xml.Element | undefined, fill: Xml.Element | undefined): Style => {
  const pattern = Xml.element(fill, "patternFill")
  const fillType = Xml.attribute(pattern, "patternType") ?? "none"
  const underline = Xml.element(font, "u") === undefined ? "none" : (value(font, "u") ?? "single")
  return {
    numberFormat: format,
    fontName: value(font, "name") ?? null,
    fontFamily: number(font, "family"),
    fontSize: number(font, "sz"),
    bold: flag(font, "b"),
    italic: flag(font, "i"),
    underline: underline === "none" ? null : underline,
    fontColor: color(Xml.element(font, "color")),
    fillType: fillType === "none" ? null : fillType,
    foreground: color(Xml.element(pattern, "fgColor")),
    background: color(Xml.element(pattern, "bgColor"))
  }
}

/** One style for each index that a cell can name, and the one of a cell that names none. */
export const readStyles = (
  root: Xml.Element | undefined
): { readonly styles: ReadonlyArray<Style>; readonly plain: Style } => {
  const children = (name: string, of: string): Array<Xml.Element> => {
    const parent = Xml.element(root, name)
    return parent === undefined ? [] : Xml.elements(parent, of)
  }
  const own = new Map(
    children("numFmts", "numFmt").map((each) => [
      Number(Xml.attribute(each, "numFmtId")),
      Xml.attribute(each, "formatCode") ?? "General"
    ])
  )
  const fonts = children("fonts", "font")
  const fills = children("fills", "fill")
  const styles = children("cellXfs", "xf").map((xf) => {
    const index = (name: string) => Number(Xml.attribute(xf, name) ?? 0)
    const id = index("numFmtId")
    const format = own.get(id) ?? builtinFormats[id] ?? (isLocalDate(id) ? "yyyy-mm-dd" : "General")
    return readStyle(format, fonts[index("fontId")], fills[index("fillId")])
  })
  return { styles, plain: styles[0] ?? readStyle("General", undefined, undefined) }
}
