/** Text of slides: paragraphs and runs with what is written at them. Nothing is inherited but a run's colour. */
import { type Color, explicitRgb, fillOf, type Scheme, solidFill } from "./presentationColors.js"
import * as Xml from "./xmlTree.js"

/** What is written at a run about its looks. */
export interface Looks {
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
}

export interface Run {
  readonly text: string
  readonly looks: Looks
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

/** What the text of a shape is read with. */
export interface Styles {
  readonly scheme: Scheme
  /** Of a run's properties. */
  readonly looks: (properties: Xml.Tree | undefined) => Looks
  /** What a run without a colour of its own takes, by the paragraph's level from 0. */
  readonly inherit: (level: number) => Color | undefined
}

const flag = (value: string | undefined): boolean | null =>
  value === undefined ? null : value === "1" || value === "true" || value === "on"

const number = (value: string | undefined): number | null => {
  const parsed = value === undefined || value.trim() === "" ? Number.NaN : Number(value)
  return Number.isFinite(parsed) ? parsed : null
}

export const readLooks = (properties: Xml.Tree | undefined): Looks => ({
  fontName: Xml.attribute(Xml.child(properties, "latin"), "typeface") ?? null,
  size: number(Xml.attribute(properties, "sz")),
  bold: flag(Xml.attribute(properties, "b")),
  italic: flag(Xml.attribute(properties, "i")),
  underline: Xml.attribute(properties, "u") ?? null,
  strike: Xml.attribute(properties, "strike") ?? null,
  rgb: explicitRgb(properties)
})

const readRun = (run: Xml.Tree, level: number, styles: Styles): Run => {
  const properties = Xml.child(run, "rPr")
  return {
    text: Xml.text(Xml.child(run, "t")),
    looks: styles.looks(properties),
    color: () => {
      if (fillOf(properties) !== undefined) return solidFill(properties, styles.scheme)
      // A link takes its colour from the theme, whatever its text would have.
      return Xml.child(properties, "hlinkClick") === undefined ? styles.inherit(level) : undefined
    }
  }
}

const readParagraph = (paragraph: Xml.Tree, styles: Styles): Paragraph => {
  const properties = Xml.child(paragraph, "pPr")
  const level = number(Xml.attribute(properties, "lvl")) ?? 0
  // A list that grew would have room for sixteen more.
  const runs = Xml.children(paragraph, "r").map((run) => readRun(run, level, styles))
  let next = 0
  let text = ""
  for (const part of Xml.children(paragraph)) {
    if (part.name === "r") {
      text += runs[next++]?.text ?? ""
    } else if (part.name === "fld") {
      text += Xml.text(Xml.child(part, "t"))
    } else if (part.name === "br") {
      text += "\v"
    }
  }
  return { text, alignment: Xml.attribute(properties, "algn") ?? "l", level, runs }
}

const emptyText: TextBody = { paragraphs: [{ text: "", alignment: "l", level: 0, runs: [] }], text: "" }

/** Of a `txBody`. One that is missing has a single empty paragraph, as an empty text box has. */
export const readText = (body: Xml.Tree | undefined, styles: Styles): TextBody => {
  if (body === undefined) return emptyText
  const paragraphs = Xml.children(body, "p").map((paragraph) => readParagraph(paragraph, styles))
  const [only] = paragraphs
  const text = paragraphs.length === 1 && only !== undefined ? only.text : paragraphs.map(({ text }) => text).join("\n")
  return { paragraphs, text }
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

const readBullet = (paragraph: Xml.Tree): Bullet | undefined => {
  const properties = Xml.child(paragraph, "pPr")
  let text = ""
  let hasEmptyText = false
  for (const part of Xml.descendants(paragraph, "t", "rPr")) {
    const content = Xml.text(part)
    text += content
    hasEmptyText ||= content === ""
  }
  if (text.trim() === "" && !hasEmptyText) return undefined
  return {
    text,
    level: number(Xml.attribute(properties, "lvl")) ?? 0,
    mark: Xml.attribute(Xml.child(properties, "buChar"), "char"),
    numbered: Xml.child(properties, "buAutoNum") !== undefined,
    hasEmptyText
  }
}

/** The marks of all paragraphs with text, those in tables and groups too. */
export const readBullets = (slide: Xml.Tree): ReadonlyArray<Bullet> =>
  // A shape's outline and fill, which are most of a slide's elements, hold none.
  Xml.descendants(slide, "p", "spPr").flatMap((paragraph) => readBullet(paragraph) ?? [])
