/**
 * Reads .pptx: slides in the deck's order with their shapes, text, notes and backgrounds, as python-pptx reports them. A
 * placeholder without a place of its own has its layout's or master's; text attributes are those written at the runs.
 *
 * Format: ECMA-376 part 1, chapters 19 (PresentationML) and 20 to 21 (DrawingML).
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import * as Ooxml from "./ooxml.js"
import { backgroundColor, type Color, explicitRgb, fillOf, readScheme, type Scheme } from "./presentationColors.js"
import {
  type Bullet,
  type Looks,
  levelColor,
  readBullets,
  readLooks,
  readText,
  type Styles,
  type TextBody
} from "./presentationText.js"
import * as Xml from "./xmlTree.js"

/** In EMU (914 400 an inch, 360 000 a centimetre); `null` where nothing says. */
export interface Box {
  readonly left: number | null
  readonly top: number | null
  readonly width: number | null
  readonly height: number | null
}

export interface Table {
  readonly columns: number
  readonly rows: ReadonlyArray<ReadonlyArray<TextBody>>
}

export interface Shape {
  readonly kind:
    | "placeholder"
    | "freeform"
    | "autoShape"
    | "textBox"
    | "picture"
    | "media"
    | "table"
    | "frame"
    | "group"
    | "line"
    | "other"
  readonly box: Box
  /** Of what has a text box at all. */
  readonly text: TextBody | undefined
  readonly table: Table | undefined
  /** The part that holds a picture's bytes. */
  readonly image: string | undefined
  /** The type of a placeholder: `title`, `body`, `sldNum`, `obj`. */
  readonly placeholder: string | undefined
  /** The text boxes of a group, those of groups inside it too, in the file's order. */
  readonly grouped: ReadonlyArray<TextBody>
}

/** What a background is made of. python-pptx sees slide and master only; what is shown may come from the layout too. */
export interface Background {
  /** `null`: no single colour, or nobody can say which. */
  readonly shown: Color | null
  /** The RGB value written at the slide, or at the master of a slide that has none. */
  readonly written: string | undefined
}

export interface Slide {
  readonly part: string
  readonly layout: Sheet | undefined
  readonly master: Sheet | undefined
  readonly shapes: ReadonlyArray<Shape>
  readonly background: Background
  /** Empty when it has none. */
  readonly notes: string
  readonly bullets: ReadonlyArray<Bullet>
  /** How it comes in: the element, and its alternatives for older programs. */
  readonly transitions: ReadonlyArray<Xml.Tree>
}

export interface Deck {
  readonly width: number | null
  readonly height: number | null
  readonly slides: ReadonlyArray<Slide>
  /** The first master: all of most decks. */
  readonly master: Sheet | undefined
  readonly package: Ooxml.Package
}

/** A placeholder of a layout or a master: what those of the slides inherit. */
export interface Placeholder {
  readonly type: string
  readonly index: string
  readonly box: Box
  readonly shape: Xml.Tree
}

/** A layout or a master. */
export interface Sheet {
  readonly part: string
  readonly root: Xml.Tree
  /** The first of each index, and of each type. */
  readonly byIndex: ReadonlyMap<string, Placeholder>
  readonly byType: ReadonlyMap<string, Placeholder>
  readonly scheme: Scheme
  readonly theme: Xml.Tree | undefined
}

const unparsable = (reason: string): Refusal => ({ kind: "Unparsable", reason })

const maxSlides = 2_000

const integer = (value: string | undefined): number | null =>
  value !== undefined && /^\s*[+-]?\d+\s*$/.test(value) ? Number(value) : null

const shapeNames = new Set(["sp", "grpSp", "graphicFrame", "cxnSp", "pic", "contentPart"])

const shapesOf = (tree: Xml.Tree | undefined): ReadonlyArray<Xml.Tree> =>
  Xml.children(tree).filter(({ name }) => shapeNames.has(name))

/** What holds a shape's place and looks. */
const propertiesOf = (shape: Xml.Tree): Xml.Tree | undefined => {
  if (shape.name === "graphicFrame") return shape
  return Xml.child(shape, shape.name === "grpSp" ? "grpSpPr" : "spPr")
}

const readBox = (properties: Xml.Tree | undefined): Box => {
  const transform = Xml.child(properties, "xfrm")
  const place = Xml.child(transform, "off")
  const size = Xml.child(transform, "ext")
  return {
    left: integer(Xml.attribute(place, "x")),
    top: integer(Xml.attribute(place, "y")),
    width: integer(Xml.attribute(size, "cx")),
    height: integer(Xml.attribute(size, "cy"))
  }
}

const inheritBox = (own: Box, base: Box | undefined): Box =>
  base === undefined
    ? own
    : {
        left: own.left ?? base.left,
        top: own.top ?? base.top,
        width: own.width ?? base.width,
        height: own.height ?? base.height
      }

/** The non-visual properties, which every kind of shape calls differently: `nvSpPr`, `nvPicPr`. */
const nonVisual = (shape: Xml.Tree): Xml.Tree | undefined => Xml.childWhere(shape, ({ name }) => name.startsWith("nv"))

const placeholderOf = (shape: Xml.Tree): Xml.Tree | undefined => Xml.child(Xml.child(nonVisual(shape), "nvPr"), "ph")

const placeholderType = (placeholder: Xml.Tree): string => Xml.attribute(placeholder, "type") ?? "obj"

const readPlaceholders = (root: Xml.Tree): ReadonlyArray<Placeholder> =>
  shapesOf(Xml.child(Xml.child(root, "cSld"), "spTree")).flatMap((shape) => {
    const placeholder = placeholderOf(shape)
    if (placeholder === undefined) return []
    const index = Xml.attribute(placeholder, "idx") ?? "0"
    return [{ type: placeholderType(placeholder), index, box: readBox(propertiesOf(shape)), shape }]
  })

/** The master's placeholder for one of a layout; a master has no more types than these. */
const masterType = (type: string): string => {
  if (type === "ctrTitle") return "title"
  return ["title", "dt", "ftr", "sldNum"].includes(type) ? type : "body"
}

const masterPlaceholder = (master: Sheet | undefined, type: string): Placeholder | undefined =>
  master?.byType.get(masterType(type))

/** What the shapes of one slide refer to. */
interface Context {
  readonly layout: Sheet | undefined
  readonly master: Sheet | undefined
  readonly scheme: Scheme
  /** `presentation.xml`'s own text styles. */
  readonly defaults: Xml.Tree | undefined
  readonly targets: ReadonlyMap<string, string>
  readonly looks: (properties: Xml.Tree | undefined) => Looks
}

/** Remembers the last answer: elements that are written alike one after the other are one and the same. */
const latest = <A, B>(answer: (question: A) => B): ((question: A) => B) => {
  let last: readonly [A, B] | undefined
  return (question) => {
    if (last === undefined || last[0] !== question) last = [question, answer(question)]
    return last[1]
  }
}

const textBody = (shape: Xml.Tree | undefined): Xml.Tree | undefined => Xml.child(shape, "txBody")

const listStyle = (body: Xml.Tree | undefined): Xml.Tree | undefined => Xml.child(body, "lstStyle")

/** The colour of a shape's text where its runs have none: the first that the chain of styles names. */
const inheritedColor = (
  own: Xml.Tree | undefined,
  placeholder: Xml.Tree | undefined,
  level: number,
  { defaults, layout, master, scheme }: Context
): Color | undefined => {
  const type = placeholder === undefined ? undefined : placeholderType(placeholder)
  const index = Xml.attribute(placeholder, "idx") ?? "0"
  const inLayout = type === undefined ? undefined : layout?.byIndex.get(index)
  const inMaster = type === undefined ? undefined : masterPlaceholder(master, inLayout?.type ?? type)
  const textStyles = Xml.child(master?.root, "txStyles")
  const kind = masterType(type ?? "other")
  const style =
    type === undefined || kind === "dt" || kind === "ftr" || kind === "sldNum" ? "otherStyle" : `${kind}Style`
  const chain = [
    own,
    listStyle(textBody(inLayout?.shape)),
    listStyle(textBody(inMaster?.shape)),
    Xml.child(textStyles, style),
    defaults
  ]
  for (const styles of chain) {
    const color = levelColor(styles, level, scheme)
    if (color !== undefined) return color
  }
  const hex = scheme.slots.get(scheme.names.get("tx1") ?? "dk1")
  return hex === undefined ? undefined : { hex, transforms: "" }
}

const readShapeText = (shape: Xml.Tree, placeholder: Xml.Tree | undefined, context: Context): TextBody => {
  const body = textBody(shape)
  // Not the shape: colours are asked for later, and the slide's tree goes when it has been read.
  const own = listStyle(body)
  return readText(body, {
    scheme: context.scheme,
    looks: context.looks,
    inherit: (level) => inheritedColor(own, placeholder, level, context)
  })
}

/** A table's style, which is in a part of its own, may colour its cells: nobody can say without it. */
const unknownColor = () => undefined

const readTable = (shape: Xml.Tree, { looks, scheme }: Context): Table | undefined => {
  const data = Xml.child(Xml.child(shape, "graphic"), "graphicData")
  const table = Xml.child(data, "tbl")
  if (table === undefined) return undefined
  const grid = Xml.child(table, "tblGrid")
  return {
    columns: Xml.children(grid, "gridCol").length,
    rows: Xml.children(table, "tr").map((row) =>
      Xml.children(row, "tc").map((cell) => readText(textBody(cell), { scheme, looks, inherit: unknownColor }))
    )
  }
}

const kindOf = (
  shape: Xml.Tree,
  properties: Xml.Tree | undefined,
  isPlaceholder: boolean,
  table: Table | undefined
): Shape["kind"] => {
  if (isPlaceholder) return "placeholder"
  switch (shape.name) {
    case "pic":
      return Xml.child(Xml.child(nonVisual(shape), "nvPr"), "videoFile") === undefined ? "picture" : "media"
    case "grpSp":
      return "group"
    case "cxnSp":
      return "line"
    case "graphicFrame":
      return table === undefined ? "frame" : "table"
    case "sp": {
      if (Xml.child(properties, "custGeom") !== undefined) return "freeform"
      const box = Xml.attribute(Xml.child(nonVisual(shape), "cNvSpPr"), "txBox")
      if (box === "1" || box === "true") return "textBox"
      return Xml.child(properties, "prstGeom") === undefined ? "other" : "autoShape"
    }
    default:
      return "other"
  }
}

const readGrouped = (group: Xml.Tree, context: Context): ReadonlyArray<TextBody> => {
  const bodies: Array<TextBody> = []
  // The next shape is the last of the list.
  const waiting = [...shapesOf(group)].reverse()
  for (let shape = waiting.pop(); shape !== undefined; shape = waiting.pop()) {
    if (shape.name === "grpSp") waiting.push(...[...shapesOf(shape)].reverse())
    if (shape.name === "sp") bodies.push(readShapeText(shape, placeholderOf(shape), context))
  }
  return bodies
}

const noBodies: ReadonlyArray<TextBody> = []

const imageOf = (picture: Xml.Tree, { targets }: Context): string | undefined =>
  targets.get(Ooxml.prefixed(Xml.child(Xml.child(picture, "blipFill"), "blip"), "embed") ?? "")

const readShape = (shape: Xml.Tree, context: Context): Shape => {
  const placeholder = placeholderOf(shape)
  const type = placeholder === undefined ? undefined : placeholderType(placeholder)
  const table = shape.name === "graphicFrame" ? readTable(shape, context) : undefined
  const index = Xml.attribute(placeholder, "idx") ?? "0"
  const base = type === undefined ? undefined : context.layout?.byIndex.get(index)
  const properties = propertiesOf(shape)
  const own = readBox(properties)
  return {
    kind: kindOf(shape, properties, type !== undefined, table),
    box:
      base === undefined
        ? own
        : inheritBox(own, inheritBox(base.box, masterPlaceholder(context.master, base.type)?.box)),
    text: shape.name === "sp" ? readShapeText(shape, placeholder, context) : undefined,
    table,
    image: shape.name === "pic" ? imageOf(shape, context) : undefined,
    placeholder: type,
    grouped: shape.name === "grpSp" ? readGrouped(shape, context) : noBodies
  }
}

const readBackground = (slide: Xml.Tree, { layout, master, scheme }: Context): Background => {
  const shown = (): Color | null => {
    for (const sheet of [slide, layout?.root, master?.root]) {
      const color = backgroundColor(Xml.child(sheet, "cSld"), scheme, master?.theme)
      if (color !== "inherit") return color
    }
    return null
  }
  const properties = (sheet: Xml.Tree | undefined) => Xml.child(Xml.child(Xml.child(sheet, "cSld"), "bg"), "bgPr")
  const own = properties(slide)
  const inherits = own === undefined || fillOf(own)?.name === "noFill"
  return { shown: shown(), written: explicitRgb(inherits ? properties(master?.root) : own) }
}

const noScheme: Scheme = { slots: new Map(), names: new Map() }

const uncolored: Styles = { scheme: noScheme, looks: readLooks, inherit: () => undefined }

/** The text of a notes page's own placeholder, beside which it may have a header, a date and a number. */
const readNotes = (notes: Xml.Tree | undefined): string => {
  const body = notes === undefined ? undefined : readPlaceholders(notes).find(({ type }) => type === "body")
  return body === undefined ? "" : readText(textBody(body.shape), uncolored).text
}

/** The parts that a part refers to, by the relationship's id. */
const targetsOf = (relations: ReadonlyArray<Ooxml.Relationship>): ReadonlyMap<string, string> =>
  new Map(relations.filter(({ external }) => !external).map(({ id, target }) => [id, target]))

/** A whole deck from its bytes. */
export const parse = (bytes: Uint8Array): Either.Either<Deck, Refusal> =>
  Either.gen(function* () {
    const container = yield* Ooxml.open(bytes)
    const start = (yield* container.relationships("")).find(({ kind }) => kind === "officeDocument")
    const name = start?.target ?? "ppt/presentation.xml"
    const presentation = yield* container.xml(name)
    if (presentation?.name !== "presentation") {
      return yield* Either.left(unparsable("the archive holds no presentation"))
    }
    const parts = yield* container.relationships(name)

    const sheets = new Map<string, Sheet>()
    const readSheet = function* (part: string, master: Sheet | undefined) {
      const known = sheets.get(part)
      if (known !== undefined) return known
      const root = yield* container.xml(part)
      if (root === undefined) return undefined
      const theme =
        master === undefined
          ? (yield* container.relationships(part)).find(({ kind }) => kind === "theme")?.target
          : undefined
      const themeRoot = theme === undefined ? master?.theme : yield* container.xml(theme)
      const scheme = master?.scheme ?? readScheme(themeRoot, root)
      // Later entries of a map win, and here the first has to.
      const placeholders = [...readPlaceholders(root)].reverse()
      const sheet: Sheet = {
        part,
        root,
        byIndex: new Map(placeholders.map((each) => [each.index, each])),
        byType: new Map(placeholders.map((each) => [each.type, each])),
        scheme,
        theme: themeRoot
      }
      sheets.set(part, sheet)
      return sheet
    }
    const related = function* (part: string | undefined, wanted: string) {
      return part === undefined
        ? undefined
        : (yield* container.relationships(part)).find(({ external, kind }) => kind === wanted && !external)?.target
    }

    const ids = (list: string, item: string) =>
      Xml.children(Xml.child(presentation, list), item).map((each) => Ooxml.prefixed(each, "id"))
    const targets = targetsOf(parts)
    const target = (id: string | undefined) => (id === undefined ? undefined : targets.get(id))

    const slideIds = ids("sldIdLst", "sldId")
    if (slideIds.length > maxSlides) {
      return yield* Either.left<Refusal>({ kind: "Undecidable", reason: `more than ${maxSlides} slides` })
    }
    const looks = latest(readLooks)
    const slides: Array<Slide> = []
    for (const id of slideIds) {
      const part = target(id)
      const root = part === undefined ? undefined : yield* container.xml(part)
      if (part === undefined || root === undefined) {
        return yield* Either.left(unparsable(`the slide ${slides.length + 1} has no content`))
      }
      const layoutPart = yield* related(part, "slideLayout")
      const masterPart = yield* related(layoutPart, "slideMaster")
      const master = masterPart === undefined ? undefined : yield* readSheet(masterPart, undefined)
      const layout = layoutPart === undefined ? undefined : yield* readSheet(layoutPart, master)
      const context: Context = {
        layout,
        master,
        scheme: master?.scheme ?? noScheme,
        defaults: Xml.child(presentation, "defaultTextStyle"),
        targets: targetsOf(yield* container.relationships(part)),
        looks
      }
      const content = Xml.child(root, "cSld")
      const notesPart = yield* related(part, "notesSlide")
      slides.push({
        part,
        layout,
        master,
        shapes: shapesOf(Xml.child(content, "spTree")).map((shape) => readShape(shape, context)),
        background: readBackground(root, context),
        notes: readNotes(notesPart === undefined ? undefined : yield* container.xml(notesPart)),
        bullets: readBullets(root),
        transitions: Xml.descendants(root, "transition", "cSld")
      })
    }

    const size = Xml.child(presentation, "sldSz")
    const firstMaster = target(ids("sldMasterIdLst", "sldMasterId")[0])
    return {
      width: integer(Xml.attribute(size, "cx")),
      height: integer(Xml.attribute(size, "cy")),
      slides,
      master: firstMaster === undefined ? undefined : yield* readSheet(firstMaster, undefined),
      package: container
    }
  })
