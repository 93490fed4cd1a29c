/**
 * Reads .xlsx: sheet names in order, cells with the values that were last calculated, their looks, and what else rules
 * ask for. Nothing is recalculated: a formula cell without a cached value is empty.
 *
 * Format: ECMA-376 part 1, chapter 18 (SpreadsheetML).
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import * as Ooxml from "./ooxml.js"
import * as Cells from "./sheets/cells.js"
import * as Charts from "./sheets/charts.js"
import { readPalette } from "./sheets/colors.js"
import * as Parts from "./sheets/parts.js"
import * as Pivots from "./sheets/pivots.js"
import type { Rows } from "./sheets/row.js"
import type { RowProperties } from "./sheets/rowProperties.js"
import { type Malformed, scan } from "./sheets/scan.js"
import { SharedStrings } from "./sheets/strings.js"
import * as Tree from "./sheets/tree.js"
import { readStyles, type Styles } from "./spreadsheetStyles.js"
import { limits } from "./zip.js"

export type { Cell, CellValue } from "./sheets/cell.js"

export interface Sheet extends Parts.Parts {
  readonly name: string
  /** The archive member that holds it, and the number that the workbook gives it. */
  readonly part: string
  readonly id: string
  /** By row, then by column, both from 1. */
  readonly rows: Rows
  /** Rows that say something of themselves. */
  readonly rowProperties: ReadonlyMap<number, RowProperties>
  readonly charts: ReadonlyArray<Charts.Chart>
  readonly pivots: ReadonlyArray<Pivots.Pivot>
}

export interface Workbook {
  readonly sheets: ReadonlyArray<Sheet>
  /** The place of the sheet that was in front. */
  readonly active: number
}

const unparsable = (reason: string): Refusal => ({ kind: "Unparsable", reason })

/** Without the records behind pivot tables, which are large and say nothing that a rule asks for. */
const isWanted = (name: string): boolean => /\.(xml|rels)$/i.test(name) && !/pivotCacheRecords|^docProps\//i.test(name)

/** What a cache's fields hold is as large as its records. */
const skippedInParts = new Set(["cacheFields", "cacheHierarchies"])

/** An archive's parts as trees, within one budget. */
const open = (archive: Ooxml.Package) => {
  const budget: Tree.Budget = { nodes: Tree.maxNodes }
  const refuse =
    (name: string) =>
    ({ kind, reason }: Malformed): Refusal => ({
      kind,
      reason: `${name}: ${kind === "Unparsable" ? "not well-formed XML: " : ""}${reason}`
    })
  // Kept, so that a thousand references to one part read it once.
  const tree = Ooxml.memoize((name): Either.Either<Tree.Node | undefined, Refusal> => {
    const content = archive.text(name)
    return content === undefined
      ? Either.right(undefined)
      : Either.mapLeft(Tree.parse(content, budget, skippedInParts), refuse(name))
  })
  return { budget, refuse, text: archive.text, tree, relations: archive.relationships }
}

type Opened = ReturnType<typeof open>

/** What reading one chart or pivot table once more costs, in elements: several sheets may name the same one. */
const partCost = 200

const charge = ({ budget }: Opened): Either.Either<void, Refusal> => {
  budget.nodes -= partCost
  return budget.nodes < 0
    ? Either.left({ kind: "Undecidable", reason: "the workbook has too many charts or pivot tables" })
    : Either.right(undefined)
}

/** Read as a stream: a workbook of a million texts is a workbook. */
const readStrings = (parts: Opened, name: string): Either.Either<ReadonlyArray<string>, Refusal> => {
  const content = parts.text(name)
  if (content === undefined) return Either.right([])
  const shared = new SharedStrings()
  return Either.mapBoth(scan(content, shared), { onLeft: parts.refuse(name), onRight: () => shared.strings })
}

const readCharts = (parts: Opened, drawings: ReadonlyArray<string>) =>
  Either.gen(function* () {
    const charts: Array<Charts.Chart> = []
    for (const name of drawings) {
      const targets = new Map((yield* parts.relations(name)).map(({ id, target }) => [id, target]))
      for (const { anchor, id } of Charts.anchors(yield* parts.tree(name))) {
        yield* charge(parts)
        const space = yield* parts.tree(targets.get(id) ?? "")
        const chart = space === undefined ? undefined : Charts.readChart(space, anchor)
        if (chart !== undefined) charts.push(chart)
      }
    }
    return charts
  })

const readPivots = (parts: Opened, tables: ReadonlyArray<string>) =>
  Either.gen(function* () {
    const pivots: Array<Pivots.Pivot> = []
    for (const name of tables) {
      yield* charge(parts)
      const table = yield* parts.tree(name)
      const relations = yield* parts.relations(name)
      const cache = relations.find(({ kind }) => kind === "pivotCacheDefinition")
      if (table !== undefined) pivots.push(Pivots.readPivot(table, yield* parts.tree(cache?.target ?? "")))
    }
    return pivots
  })

/** One pass: cells go to their reader, the rest of the sheet becomes a tree. */
const scanSheet = (
  parts: Opened,
  name: string,
  context: Cells.Context
): Either.Either<{ readonly root: Tree.Node; readonly cells: Cells.SheetData } | undefined, Refusal> => {
  const content = parts.text(name)
  if (content === undefined) return Either.right(undefined)
  const cells = new Cells.SheetData(context)
  const rest = Tree.builder(parts.budget)
  let depth = 0
  let inside = false
  const result = scan(content, {
    open: (tag, attributes) => {
      depth++
      if (inside) cells.open(tag, attributes)
      else if (depth === 2 && tag === "sheetData") inside = true
      else rest.handlers.open(tag, attributes)
    },
    close: (tag) => {
      depth--
      if (!inside) rest.handlers.close(tag)
      else if (depth === 1) inside = false
      else cells.close(tag)
    },
    text: (text) => {
      if (inside) cells.text(text)
      else rest.handlers.text(text)
    },
    ahead: (text, start, within) => (inside ? cells.ahead(text, start, within) : start)
  })
  const root = rest.root()
  return Either.mapBoth(result, {
    onLeft: parts.refuse(name),
    onRight: () => (root === undefined ? undefined : { root, cells })
  })
}

const readSheet = (
  parts: Opened,
  sheet: { readonly name: string; readonly part: string; readonly id: string },
  context: Cells.Context,
  { differences }: Styles
): Either.Either<Sheet, Refusal> =>
  Either.gen(function* () {
    const scanned = yield* scanSheet(parts, sheet.part, context)
    if (scanned === undefined) {
      return yield* Either.left(unparsable(`the sheet ${JSON.stringify(sheet.name)} has no content`))
    }
    const relations = yield* parts.relations(sheet.part)
    const related = (type: string) =>
      Array.from(new Set(relations.flatMap(({ kind, target }) => (kind === type ? [target] : []))))
    const targets = new Map(
      relations.flatMap(({ id, kind, written }) => (kind === "hyperlink" ? [[id, written] as const] : []))
    )
    return {
      ...sheet,
      ...Parts.readParts(scanned.root, differences, targets),
      rows: scanned.cells.rows,
      rowProperties: scanned.cells.properties,
      charts: yield* readCharts(parts, related("drawing")),
      pivots: yield* readPivots(parts, related("pivotTable"))
    }
  })

/** A whole workbook from its bytes. */
export const parse = (bytes: Uint8Array): Either.Either<Workbook, Refusal> =>
  Either.gen(function* () {
    const parts = open(yield* Ooxml.open(bytes, { isWanted, limits, maxNodes: Tree.maxNodes }))
    const start = (yield* parts.relations("")).find(({ kind }) => kind === "officeDocument")
    const workbookName = start?.target ?? "xl/workbook.xml"
    const workbook = yield* parts.tree(workbookName)
    if (workbook === undefined) return yield* Either.left(unparsable("the archive holds no workbook"))

    const relations = yield* parts.relations(workbookName)
    const related = (type: string) => relations.find(({ kind }) => kind === type)?.target ?? ""
    const stylesRoot = yield* parts.tree(related("styles"))
    const styles = readStyles(stylesRoot, readPalette(yield* parts.tree(related("theme")), stylesRoot))
    const context: Cells.Context = {
      ...styles,
      strings: yield* readStrings(parts, related("sharedStrings")),
      date1904: Tree.flag(Tree.child(workbook, "workbookPr"), "date1904"),
      budget: { cells: Cells.maxCells }
    }

    const sheets: Array<Sheet> = []
    const taken = new Set<string>()
    const targets = new Map(relations.map(({ id, target }) => [id, target]))
    for (const sheet of Tree.children(Tree.child(workbook, "sheets"), "sheet")) {
      const name = Tree.attribute(sheet, "name") ?? ""
      const part = targets.get(Tree.relationId(sheet) ?? "") ?? ""
      if (taken.has(Ooxml.key(part)))
        return yield* Either.left(unparsable(`two sheets are in the part ${JSON.stringify(part)}`))
      taken.add(Ooxml.key(part))
      const place = { name, id: Tree.attribute(sheet, "sheetId") ?? "", part }
      sheets.push(yield* readSheet(parts, place, context, styles))
    }
    const view = Tree.child(workbook, "bookViews", "workbookView")
    return { sheets, active: Tree.number(Tree.attribute(view, "activeTab")) ?? 0 }
  })

/** A sheet that holds nothing. */
export const emptySheet: Sheet = {
  name: "",
  part: "",
  id: "",
  rows: new Map(),
  rowProperties: new Map(),
  charts: [],
  pivots: [],
  merged: [],
  columns: [],
  conditional: [],
  hyperlinks: [],
  validations: [],
  pane: null,
  zoom: 100,
  filter: undefined,
  sparklines: new Map()
}
