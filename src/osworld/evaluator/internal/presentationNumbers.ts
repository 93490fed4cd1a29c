/** The colour that a master gives to the slides' numbers. */
import type { Sheet } from "./presentation.js"
import { explicitRgb, solidFill } from "./presentationColors.js"
import { levelColor } from "./presentationText.js"
import * as Xml from "./xmlTree.js"

export type Rgb = readonly [red: number, green: number, blue: number]

/** Of six hexadecimal digits. */
export const rgbOf = (hex: string | undefined): Rgb | undefined => {
  if (hex === undefined) return undefined
  const channel = (at: number) => Number.parseInt(hex.slice(at, at + 2), 16)
  return [channel(0), channel(2), channel(4)]
}

/**
 * The master's slide number: a placeholder, or in older files of LibreOffice a text box with the field. Its colour is
 * that of the field, else of the box's own style, else of the master's and the theme's text.
 */
export const numberColor = ({ byType, root, scheme }: Sheet): Rgb | undefined => {
  const placeholder = byType.get("sldNum")?.shape
  const fields = Xml.descendants(placeholder ?? root, "fld").filter(
    (field) => Xml.attribute(field, "type") === "slidenum"
  )
  if (placeholder === undefined && fields.length === 0) return undefined
  for (const field of fields) {
    const color = solidFill(Xml.child(field, "rPr"), scheme)
    if (color !== undefined) return rgbOf(color.hex)
  }
  const own = levelColor(Xml.child(Xml.child(placeholder, "txBody"), "lstStyle"), 0, scheme)
  const style = levelColor(Xml.child(Xml.child(root, "txStyles"), "otherStyle"), 0, scheme)
  return rgbOf((own ?? style)?.hex ?? scheme.slots.get(scheme.names.get("tx1") ?? "dk1"))
}

/**
 * As upstream guesses: the last colour but black of any text of the master, else the last of any fill, black where that
 * is the only one. Its look at the number itself never finds anything.
 */
export const compatNumberColor = ({ root }: Sheet): Rgb | undefined => {
  const ofText: Array<string> = []
  const ofFills: Array<string> = []
  Xml.visit(root, (element) => {
    const hex = explicitRgb(element)
    if (hex === undefined) return
    ofFills.push(hex)
    if (element.name === "rPr") ofText.push(hex)
  })
  const lastColored = (list: ReadonlyArray<string>) => list.filter((hex) => hex !== "000000").at(-1)
  return rgbOf(lastColored(ofText) ?? lastColored(ofFills) ?? ofFills.at(-1))
}
