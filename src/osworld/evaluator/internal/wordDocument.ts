/**
 * Reads .docx as python-docx shows it, because the benchmark's gold files were made to be read that way: paragraphs are
 * those directly in the body, runs those directly in a paragraph, and formatting is what stands at the paragraph or the
 * run itself, never what a style brings in.
 *
 * Format: ECMA-376 part 1, chapter 17 (WordprocessingML).
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import * as Ooxml from "./ooxml.js"
import * as Xml from "./xmlTree.js"

export interface Run {
  readonly text: string
  readonly italic: boolean
  readonly strike: boolean
  readonly subscript: boolean
  readonly fontName: string | undefined
  /** Font size in points. */
  readonly size: number | undefined
  /** `RRGGBB`; undefined where it is automatic. */
  readonly color: string | undefined
  /** The marker's colour by name (`yellow`), or that of the shading that LibreOffice writes instead, as `RRGGBB`. */
  readonly highlight: string | undefined
  readonly shading: string | undefined
  readonly pageBreaks: number
  /** An embedded object: how an equation editor's formula is kept. */
  readonly object: boolean
  readonly picture: boolean
}

/** In lines, or, of an exact or least height, in twips. */
export interface LineSpacing {
  readonly unit: "lines" | "twips"
  readonly amount: number
}

export interface TabStop {
  readonly alignment: string
  /** In twips from the margin. */
  readonly position: number
}

export interface Paragraph {
  /** With that of hyperlinks, which are no runs. */
  readonly text: string
  readonly runs: ReadonlyArray<Run>
  readonly alignment: string | undefined
  readonly lineSpacing: LineSpacing | undefined
  readonly tabStops: ReadonlyArray<TabStop>
  /** Office's own mathematics. */
  readonly formula: boolean
}

export interface Cell {
  readonly paragraphs: ReadonlyArray<Paragraph>
}

export interface Table {
  readonly rows: number
  readonly columns: number
  /** Row by row in the layout grid: a merged cell stands at each place that it covers. */
  readonly grid: ReadonlyArray<Cell>
  /** Each once. */
  readonly cells: ReadonlyArray<Cell>
}

/** Lengths in twips; undefined where the document leaves them to the application. */
export interface Section {
  readonly pageWidth: number | undefined
  readonly leftMargin: number | undefined
  readonly rightMargin: number | undefined
}

export interface Footer {
  readonly paragraphs: ReadonlyArray<Paragraph>
  /** Whether a field somewhere in it shows the page's number. */
  readonly pageField: boolean
}

export interface Picture {
  readonly name: string
  /** A linked picture is not in the file. */
  readonly linked: boolean
  readonly bytes: () => Either.Either<Uint8Array, Refusal>
}

export interface WordDocument {
  readonly _tag: "Word"
  readonly paragraphs: ReadonlyArray<Paragraph>
  readonly tables: ReadonlyArray<Table>
  readonly sections: ReadonlyArray<Section>
  /** Marked text anywhere, a piece for each stretch of it. */
  readonly highlighted: () => ReadonlyArray<{ readonly text: string; readonly marker: boolean }>
  /** For each section the one that it shows on ordinary pages, its own or the one before's. */
  readonly footers: () => Either.Either<ReadonlyArray<Footer | undefined>, Refusal>
  /** In the order of the relationships. */
  readonly pictures: ReadonlyArray<Picture>
}

/** Word itself allows 63 columns. */
const limits = { span: 1024, cells: 500_000 }

const unparsable = (reason: string): Refusal => ({ kind: "Unparsable", reason })

const twipsIn: Record<string, number> = { mm: 1440 / 25.4, cm: 1440 / 2.54, in: 1440, pt: 20, pc: 240, pi: 240 }

/** A plain number counts in twentieths of a point. */
const twips = (value: string | undefined): number | undefined => {
  const [, number, unit] = /^\s*([+-]?\d+(?:\.\d+)?)(mm|cm|in|pt|pc|pi)?\s*$/.exec(value ?? "") ?? []
  if (number === undefined) return undefined
  return unit === undefined ? Math.round(Number(number)) : Number(number) * (twipsIn[unit] ?? 1)
}

const value = (of: Xml.Tree | undefined, name: string): string | undefined => Xml.attribute(Xml.child(of, name), "val")

/** A property that is there without a value is on. */
const isOn = (properties: Xml.Tree | undefined, name: string): boolean => {
  const property = Xml.child(properties, name)
  return property !== undefined && !["0", "false", "off"].includes(Xml.attribute(property, "val") ?? "")
}

const isPageBreak = (node: Xml.Tree): boolean => node.name === "br" && Xml.attribute(node, "type") === "page"

const runText = (run: Xml.Tree): string => {
  let text = ""
  for (const node of run.children) {
    if (typeof node === "string") continue
    switch (node.name) {
      case "t":
        text += Xml.text(node)
        break
      case "tab":
      case "ptab":
        text += "\t"
        break
      case "cr":
        text += "\n"
        break
      case "br":
        if ((Xml.attribute(node, "type") ?? "textWrapping") === "textWrapping") text += "\n"
        break
      case "noBreakHyphen":
        text += "-"
    }
  }
  return text
}

const hexColor = (color: string | undefined): string | undefined =>
  color !== undefined && /^[0-9a-f]{6}$/i.test(color) ? color.toUpperCase() : undefined

const size = (properties: Xml.Tree | undefined): number | undefined => {
  const written = value(properties, "sz")
  if (written === undefined) return undefined
  // A plain number counts half points.
  const length = /^\s*\d+\s*$/.test(written) ? Number(written) * 10 : twips(written)
  return length === undefined ? undefined : length / 20
}

const marker = (properties: Xml.Tree | undefined): string | undefined => {
  const color = value(properties, "highlight")
  return color === "none" ? undefined : color
}

const readRun = (run: Xml.Tree): Run => {
  const properties = Xml.child(run, "rPr")
  let pageBreaks = 0
  let object = false
  let picture = false
  Xml.visit(run, (node) => {
    if (isPageBreak(node)) pageBreaks++
    else if (node.name === "object") object = true
    else if (node.name === "graphicData") picture = true
  })
  return {
    text: runText(run),
    italic: isOn(properties, "i"),
    strike: isOn(properties, "strike"),
    subscript: value(properties, "vertAlign") === "subscript",
    fontName: Xml.attribute(Xml.child(properties, "rFonts"), "ascii"),
    size: size(properties),
    color: hexColor(value(properties, "color")),
    highlight: marker(properties),
    shading: hexColor(Xml.attribute(Xml.child(properties, "shd"), "fill")),
    pageBreaks,
    object,
    picture
  }
}

const lineSpacing = (properties: Xml.Tree | undefined): LineSpacing | undefined => {
  const spacing = Xml.child(properties, "spacing")
  const line = twips(Xml.attribute(spacing, "line"))
  if (line === undefined) return undefined
  return (Xml.attribute(spacing, "lineRule") ?? "auto") === "auto"
    ? { unit: "lines", amount: line / 240 }
    : { unit: "twips", amount: line }
}

const readParagraph = (paragraph: Xml.Tree): Paragraph => {
  const properties = Xml.child(paragraph, "pPr")
  const runs: Array<Run> = []
  let text = ""
  let formula = false
  for (const node of paragraph.children) {
    if (typeof node === "string") continue
    if (node.name === "r") {
      const run = readRun(node)
      runs.push(run)
      text += run.text
    } else if (node.name === "hyperlink") {
      for (const run of Xml.children(node, "r")) text += runText(run)
    } else if (node.name === "oMath" || node.name === "oMathPara") formula = true
  }
  return {
    text,
    runs,
    formula,
    alignment: value(properties, "jc"),
    lineSpacing: lineSpacing(properties),
    tabStops: Xml.children(Xml.child(properties, "tabs"), "tab").map((tab) => ({
      alignment: Xml.attribute(tab, "val") ?? "",
      position: twips(Xml.attribute(tab, "pos")) ?? 0
    }))
  }
}

const readTable = (table: Xml.Tree): Either.Either<Table, Refusal> => {
  const columns = Xml.children(Xml.child(table, "tblGrid"), "gridCol").length
  const rows = Xml.children(table, "tr")
  const grid: Array<Cell> = []
  const cells: Array<Cell> = []
  for (const place of rows.flatMap((row) => Xml.children(row, "tc"))) {
    const properties = Xml.child(place, "tcPr")
    const merge = Xml.child(properties, "vMerge")
    const span = Number(value(properties, "gridSpan") ?? 1)
    if (!(span >= 1 && span <= limits.span)) return Either.left(unparsable(`a table cell that spans ${span} columns`))
    if (grid.length + span > limits.cells)
      return Either.left({ kind: "Undecidable", reason: `a table with more than ${limits.cells} cells` })
    const continues = merge !== undefined && (Xml.attribute(merge, "val") ?? "continue") === "continue"
    let cell: Cell | undefined
    for (let i = 0; i < span; i++) {
      // In the first row there is nothing above to continue.
      const above = continues ? grid[grid.length - columns] : undefined
      if (above === undefined && cell === undefined) {
        cell = { paragraphs: Xml.children(place, "p").map(readParagraph) }
        cells.push(cell)
      }
      const here = above ?? cell
      if (here !== undefined) grid.push(here)
    }
  }
  return Either.right({ rows: rows.length, columns, grid, cells })
}

const readSection = (section: Xml.Tree): Section => {
  const margins = Xml.child(section, "pgMar")
  return {
    pageWidth: twips(Xml.attribute(Xml.child(section, "pgSz"), "w")),
    leftMargin: twips(Xml.attribute(margins, "left")),
    rightMargin: twips(Xml.attribute(margins, "right"))
  }
}

const readFooter = (root: Xml.Tree): Footer => {
  let pageField = false
  const isPage = (instruction: string | undefined) => /^\s*PAGE\b/i.test(instruction ?? "")
  Xml.visit(root, (node) => {
    if (node.name === "fldSimple") pageField ||= isPage(Xml.attribute(node, "instr"))
    else if (node.name === "instrText") pageField ||= isPage(Xml.text(node))
  })
  return { paragraphs: Xml.children(root, "p").map(readParagraph), pageField }
}

const readHighlighted = (root: Xml.Tree): Array<{ text: string; marker: boolean }> => {
  const pieces: Array<{ text: string; marker: boolean }> = []
  Xml.visit(root, (node) => {
    let joins = false
    for (const run of node.name === "p" || node.name === "hyperlink" ? Xml.children(node, "r") : []) {
      const properties = Xml.child(run, "rPr")
      const marked = marker(properties) !== undefined
      const text = runText(run)
      if (!marked && hexColor(Xml.attribute(Xml.child(properties, "shd"), "fill")) === undefined) {
        joins &&= text === ""
        continue
      }
      const last = pieces[pieces.length - 1]
      if (joins && last?.marker === marked) last.text += text
      else pieces.push({ text, marker: marked })
      joins = true
    }
  })
  return pieces
}

export const parse = (bytes: Uint8Array): Either.Either<WordDocument, Refusal> =>
  Either.gen(function* () {
    const archive = yield* Ooxml.open(bytes)
    const read = (name: string): Either.Either<Xml.Tree, Refusal> =>
      Either.flatMap(
        archive.xml(name),
        Either.fromNullable(() => unparsable(`no part ${name}`))
      )
    const main = (yield* archive.relationships("")).find(({ kind }) => kind === "officeDocument")?.target
    if (main === undefined) return yield* Either.left(unparsable("an archive that names no document"))
    const root = yield* read(main)
    const body = Xml.child(root, "body")
    if (root.name !== "document" || body === undefined) return yield* Either.left(unparsable("no text document"))
    const related = yield* archive.relationships(main)

    const blocks = Xml.children(body)
    const tables: Array<Table> = []
    for (const block of blocks) if (block.name === "tbl") tables.push(yield* readTable(block))
    const sections = blocks.flatMap((block) =>
      block.name === "sectPr" ? [block] : block.name === "p" ? Xml.children(Xml.child(block, "pPr"), "sectPr") : []
    )

    return {
      _tag: "Word" as const,
      paragraphs: blocks.filter(({ name }) => name === "p").map(readParagraph),
      tables,
      sections: sections.map(readSection),
      highlighted: () => readHighlighted(root),
      footers: () =>
        Either.gen(function* () {
          const footers: Array<Footer | undefined> = []
          for (const section of sections) {
            const reference = Xml.children(section, "footerReference").find(
              (each) => (Xml.attribute(each, "type") ?? "default") === "default"
            )
            const id = Xml.attribute(reference, "id")
            const part = related.find((each) => each.id === id && !each.external)
            if (reference === undefined) footers.push(footers[footers.length - 1])
            else footers.push(part === undefined ? undefined : readFooter(yield* read(part.target)))
          }
          return footers
        }),
      pictures: related
        .filter(({ kind }) => kind === "image")
        .map(({ external, target }) => ({
          name: target,
          linked: external,
          bytes: () =>
            Either.flatMap(
              external ? Either.right(undefined) : archive.media(target),
              Either.fromNullable(() => unparsable(`the picture ${target} is not in the file`))
            )
        }))
    }
  })
