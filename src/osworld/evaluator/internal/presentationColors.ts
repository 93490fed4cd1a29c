/**
 * Colours of DrawingML (ECMA-376 part 1, chapter 20): what a file says in place, and what it means once the theme and
 * the chain from a run to its master are followed.
 */
import * as Xml from "./xmlTree.js"

/** A colour as it is shown, but for its transforms (`lumMod` and the like), which are kept as they are written. */
export interface Color {
  /** Six upper-case hexadecimal digits. */
  readonly hex: string
  readonly transforms: string
}

/** The colours of a theme by slot (`dk1`, `accent1`), and which slot each name of a slide (`tx1`, `bg1`) stands for. */
export interface Scheme {
  readonly slots: ReadonlyMap<string, string>
  readonly names: ReadonlyMap<string, string>
}

const hexOf = (value: string | undefined): string | undefined =>
  value !== undefined && /^[0-9A-Fa-f]{6}$/.test(value) ? value.toUpperCase() : undefined

/** What a master calls colours; the names of the accents and of links could be given to other slots too. */
const mapped = [
  "bg1",
  "tx1",
  "bg2",
  "tx2",
  "accent1",
  "accent2",
  "accent3",
  "accent4",
  "accent5",
  "accent6",
  "hlink",
  "folHlink"
]

export const readScheme = (theme: Xml.Tree | undefined, master: Xml.Tree | undefined): Scheme => {
  const slots = new Map<string, string>()
  const scheme = Xml.child(Xml.child(theme, "themeElements"), "clrScheme")
  for (const slot of Xml.children(scheme)) {
    const color = Xml.children(slot)[0]
    const hex = hexOf(Xml.attribute(color, color?.name === "sysClr" ? "lastClr" : "val"))
    if (hex !== undefined) slots.set(slot.name, hex)
  }
  const map = Xml.child(master, "clrMap")
  const names = new Map<string, string>()
  for (const name of mapped) {
    const slot = Xml.attribute(map, name)
    if (slot !== undefined) names.set(name, slot)
  }
  return { slots, names }
}

const presets: ReadonlyMap<string, string> = new Map([
  ["black", "000000"],
  ["white", "FFFFFF"],
  ["red", "FF0000"],
  ["lime", "00FF00"],
  ["green", "008000"],
  ["blue", "0000FF"],
  ["yellow", "FFFF00"],
  ["gray", "808080"],
  ["orange", "FFA500"]
])

/** `inherited` is what `phClr` stands for. */
const resolveColor = (color: Xml.Tree | undefined, scheme: Scheme, inherited?: Color): Color | undefined => {
  if (color === undefined) return undefined
  const value = Xml.attribute(color, "val") ?? ""
  const base = (): string | undefined => {
    switch (color.name) {
      case "srgbClr":
        return hexOf(value)
      case "sysClr":
        return hexOf(Xml.attribute(color, "lastClr"))
      case "prstClr":
        return presets.get(value)
      case "schemeClr":
        return value === "phClr" ? inherited?.hex : scheme.slots.get(scheme.names.get(value) ?? value)
      default:
        return undefined
    }
  }
  const hex = base()
  const transforms = Xml.children(color).map((each) => `${each.name}=${Xml.attribute(each, "val") ?? ""}`)
  return hex === undefined ? undefined : { hex, transforms: transforms.join() }
}

/** The colour of a `solidFill` directly inside; `undefined` where there is none or nobody can say which. */
export const solidFill = (properties: Xml.Tree | undefined, scheme: Scheme): Color | undefined => {
  const fill = Xml.child(properties, "solidFill")
  return fill === undefined ? undefined : resolveColor(Xml.children(fill)[0], scheme)
}

/** The RGB value that is written in place: what python-pptx reports, where a theme's colour has none. */
export const explicitRgb = (properties: Xml.Tree | undefined): string | undefined =>
  hexOf(Xml.attribute(Xml.child(Xml.child(properties, "solidFill"), "srgbClr"), "val"))

const fills = new Set(["noFill", "solidFill", "gradFill", "blipFill", "pattFill", "grpFill"])

/** The fill element directly inside. */
export const fillOf = (properties: Xml.Tree | undefined): Xml.Tree | undefined =>
  Xml.children(properties).find(({ name }) => fills.has(name))

/** `undefined` when one of them is unknown or when their transforms are not those of each other. */
export const sameColor = (a: Color | undefined, b: Color | undefined): boolean | undefined =>
  a === undefined || b === undefined || a.transforms !== b.transforms ? undefined : a.hex === b.hex

/**
 * The colour of a sheet's background (`p:cSld`). "inherit": it has none of its own; `null`: it has one that is no single
 * colour.
 */
export const backgroundColor = (
  sheet: Xml.Tree | undefined,
  scheme: Scheme,
  theme: Xml.Tree | undefined
): Color | "inherit" | null => {
  const background = Xml.child(sheet, "bg")
  const reference = Xml.child(background, "bgRef")
  if (reference !== undefined) {
    const list = Xml.child(Xml.child(Xml.child(theme, "themeElements"), "fmtScheme"), "bgFillStyleLst")
    // Indices into the list of background fills start at 1001.
    const fill = Xml.children(list)[Number(Xml.attribute(reference, "idx")) - 1001]
    if (fill?.name !== "solidFill") return null
    const own = resolveColor(Xml.children(reference)[0], scheme)
    return resolveColor(Xml.children(fill)[0], scheme, own) ?? null
  }
  const properties = Xml.child(background, "bgPr")
  const fill = fillOf(properties)
  if (fill === undefined) return properties === undefined ? "inherit" : null
  if (fill.name === "noFill") return "inherit"
  return solidFill(properties, scheme) ?? null
}
