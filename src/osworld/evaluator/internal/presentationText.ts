/** Text of slides: paragraphs and runs with what is written at them. Nothing is inherited but a run's colour. */
import { type Color, explicitRgb, fillOf, type Scheme, solidFill } from "./presentationColors.js"
import * as Xml from "./xmlTree.js"

export interface Run {
  readonly text: string
  readonly fontName: string | null
  /** In hundredths of a point. */
  readonly size: number | null
  readonly bold: boolean | null
  readonly italic: boolean | null
  /** The kind of line (`sng`, `dbl`, `none`). */
  readonly underline: string | null
  /** `noStrike`, `sngStrike` or `dblStrike`; `null` where nothing is written. */
  readonly strike: string | null
  /** The RGB value written at the run. */
  readonly rgb: string | undefined
  /** What it is shown in; `undefined` where that cannot be told. */
  readonly color: () => Color | undefined
}

export interface Paragraph {
  readonly text: string
  /** `l` where none is written. */
  readonly alignment: string
  readonly level: number
  readonly runs: ReadonlyArray<Run>
}

export interface TextBody {
  readonly paragraphs: ReadonlyArray<Paragraph>
  /** Paragraphs joined by `\n`; a line break is a vertical tab. */
  readonly text: string
}

/** What a run without a colour of its own takes, by the paragraph's level from 0. */
export type Inherit = (level: number) => Color | undefined

const flag = (value: string | undefined): boolean | null =>
  value === undefined ? null : value === "1" || value === "true" || value === "on"

const number = (value: string | undefined): number | null => {
  const parsed = value === undefined || value.trim() === "" ? Number.NaN : Number(value)
  return Number.isFinite(parsed) ? parsed : null
}

const readRun = (run: Xml.Tree, level: number, scheme: Scheme, inherit: Inherit): Run => {
  const properties = Xml.child(run, "rPr")
  return {
    text: Xml.text(Xml.child(run, "t")),
    fontName: Xml.attribute(Xml.child(properties, "latin"), "typeface") ?? null,
    size: number(Xml.attribute(properties, "sz")),
    bold: flag(Xml.attribute(properties, "b")),
    italic: flag(Xml.attribute(properties, "i")),
    underline: Xml.attribute(properties, "u") ?? null,
    strike: Xml.attribute(properties, "strike") ?? null,
    rgb: explicitRgb(properties),
    color: () => {
      if (fillOf(properties) !== undefined) return solidFill(properties, scheme)
      // A link takes its colour from the theme, whatever its text would have.
      return Xml.child(properties, "hlinkClick") === undefined ? inherit(level) : undefined
    }
  }
}

const contentText = (part: Xml.Tree): string => {
  if (part.name === "br") return "\v"
  return part.name === "r" || part.name === "fld" ? Xml.text(Xml.child(part, "t")) : ""
}

const readParagraph = (paragraph: Xml.Tree, scheme: Scheme, inherit: Inherit): Paragraph => {
  const properties = Xml.child(paragraph, "pPr")
  const level = number(Xml.attribute(properties, "lvl")) ?? 0
  return {
    text: Xml.children(paragraph).map(contentText).join(""),
    alignment: Xml.attribute(properties, "algn") ?? "l",
    level,
    runs: Xml.children(paragraph, "r").map((run) => readRun(run, level, scheme, inherit))
  }
}

/** Of a `txBody`. One that is missing has a single empty paragraph, as an empty text box has. */
export const readText = (body: Xml.Tree | undefined, scheme: Scheme, inherit: Inherit): TextBody => {
  const paragraphs =
    body === undefined
      ? [{ text: "", alignment: "l", level: 0, runs: [] }]
      : Xml.children(body, "p").map((paragraph) => readParagraph(paragraph, scheme, inherit))
  return { paragraphs, text: paragraphs.map(({ text }) => text).join("\n") }
}

/** What a list of level styles (`lstStyle`, `bodyStyle`) says of the text colour at a level from 0. */
export const levelColor = (styles: Xml.Tree | undefined, level: number, scheme: Scheme): Color | undefined =>
  solidFill(Xml.child(Xml.child(styles, `lvl${level + 1}pPr`), "defRPr"), scheme)

/** A paragraph's mark, wherever on a slide it is. */
export interface Bullet {
  readonly text: string
  readonly level: number
  /** Its character; `undefined` for none, or one that is inherited. */
  readonly mark: string | undefined
  readonly numbered: boolean
  /** Some of its text elements are empty. */
  readonly hasEmptyText: boolean
}

/** Every element of that name inside, in the file's order. */
export const descendants = (of: Xml.Tree, name: string): ReadonlyArray<Xml.Tree> => {
  const found: Array<Xml.Tree> = []
  Xml.visit(of, (node) => {
    if (node.name === name) found.push(node)
  })
  return found
}

/** The marks of all paragraphs with text, those in tables and groups too. */
export const readBullets = (slide: Xml.Tree): ReadonlyArray<Bullet> => {
  const bullets: Array<Bullet> = []
  for (const paragraph of descendants(slide, "p")) {
    const properties = Xml.child(paragraph, "pPr")
    let text = ""
    let hasEmptyText = false
    for (const part of descendants(paragraph, "t")) {
      const content = Xml.text(part)
      text += content
      hasEmptyText ||= content === ""
    }
    if (text.trim() === "" && !hasEmptyText) continue
    bullets.push({
      text,
      level: number(Xml.attribute(properties, "lvl")) ?? 0,
      mark: Xml.attribute(Xml.child(properties, "buChar"), "char"),
      numbered: Xml.child(properties, "buAutoNum") !== undefined,
      hasEmptyText
    })
  }
  return bullets
}
