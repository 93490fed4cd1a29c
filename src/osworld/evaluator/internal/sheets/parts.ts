/** What a sheet says beside its cells: merged ranges, columns, view, conditional formats, validations, filters, links. */
import * as CellRange from "../cellRange.js"
import type { Difference } from "../spreadsheetStyles.js"
import * as Tree from "./tree.js"

export interface Columns {
  /** One-based and inclusive. */
  readonly min: number
  readonly max: number
  readonly width: number
  readonly auto_size: boolean
  readonly hidden: boolean
  readonly collapsed: boolean
  readonly outline_level: number
}

export interface ConditionalRule {
  readonly type: string
  readonly priority: number
  readonly stopIfTrue: boolean
  readonly operator: string | null
  readonly formulas: ReadonlyArray<string>
  readonly difference: Difference | null
  /** Of `top10` and `aboveAverage`. */
  readonly rank: number
  readonly percent: boolean
  readonly bottom: boolean
  readonly aboveAverage: boolean
  readonly equalAverage: boolean
}

export interface ConditionalFormat {
  readonly ranges: ReadonlyArray<CellRange.Rectangle>
  readonly rules: ReadonlyArray<ConditionalRule>
}

export interface Hyperlink {
  readonly range: CellRange.Rectangle
  /** An address, `#place` within the workbook, or both. */
  readonly link: string
  /** What openpyxl, which upstream reads with, compares of two links. */
  readonly attributes: string
}

export type Plain = string | number | boolean | null

/** By the names that rules use. */
export type Validation = Readonly<Record<string, Plain>>

export interface Pane {
  readonly state: string
  readonly columns: number
  readonly rows: number
  readonly topLeftCell: string | null
}

export interface Parts {
  readonly merged: ReadonlyArray<CellRange.Rectangle>
  readonly columns: ReadonlyArray<Columns>
  readonly conditional: ReadonlyArray<ConditionalFormat>
  readonly hyperlinks: ReadonlyArray<Hyperlink>
  readonly validations: ReadonlyArray<Validation>
  readonly pane: Pane | null
  /** In per cent. */
  readonly zoom: number
  readonly filter: Tree.Node | undefined
  /** The cell that holds one, and the range that it shows. */
  readonly sparklines: ReadonlyMap<string, string>
}

const references = (text: string | undefined): ReadonlyArray<CellRange.Rectangle> =>
  (text ?? "").split(/\s+/).flatMap((reference) => CellRange.parse(reference) ?? [])

/** openpyxl's width of a column that has none. */
export const defaultWidth = 13

const readColumns = (col: Tree.Node): Columns => {
  const number = (name: string, otherwise: number) => Tree.number(Tree.attribute(col, name)) ?? otherwise
  const min = Math.min(Math.max(Math.trunc(number("min", 1)), 1), CellRange.maxColumns)
  return {
    min,
    max: Math.min(Math.max(Math.trunc(number("max", min)), min), CellRange.maxColumns),
    width: number("width", defaultWidth),
    auto_size: Tree.flag(col, "bestFit"),
    hidden: Tree.flag(col, "hidden"),
    collapsed: Tree.flag(col, "collapsed"),
    outline_level: number("outlineLevel", 0)
  }
}

const readConditionalRule = (rule: Tree.Node, differences: ReadonlyArray<Difference>): ConditionalRule => {
  const id = Tree.number(Tree.attribute(rule, "dxfId"))
  return {
    type: Tree.attribute(rule, "type") ?? "expression",
    priority: Tree.number(Tree.attribute(rule, "priority")) ?? Number.MAX_SAFE_INTEGER,
    stopIfTrue: Tree.flag(rule, "stopIfTrue"),
    operator: Tree.attribute(rule, "operator") ?? null,
    formulas: Tree.children(rule, "formula").map(({ text }) => text),
    difference: id === null ? null : (differences[id] ?? null),
    rank: Tree.number(Tree.attribute(rule, "rank")) ?? 10,
    percent: Tree.flag(rule, "percent"),
    bottom: Tree.flag(rule, "bottom"),
    aboveAverage: Tree.flag(rule, "aboveAverage", true),
    equalAverage: Tree.flag(rule, "equalAverage")
  }
}

const readHyperlink = (link: Tree.Node, targets: ReadonlyMap<string, string>): ReadonlyArray<Hyperlink> => {
  const [range] = references(Tree.attribute(link, "ref"))
  if (range === undefined) return []
  const target = targets.get(Tree.relationId(link) ?? "") ?? ""
  const location = Tree.attribute(link, "location")
  const compared = ["ref", "location", "tooltip", "display"].map((name) => Tree.attribute(link, name) ?? null)
  return [
    {
      range,
      link: location === undefined ? target : `${target}#${location}`,
      attributes: JSON.stringify([...compared, Tree.relationId(link) ?? null])
    }
  ]
}

const validationTexts = [
  "type",
  "operator",
  "error",
  "errorTitle",
  "errorStyle",
  "prompt",
  "promptTitle",
  "imeMode"
] as const
const validationFlags = ["allowBlank", "showDropDown", "showInputMessage", "showErrorMessage"] as const

export const validationNames: ReadonlySet<string> = new Set([
  "ranges",
  "formula1",
  "formula2",
  ...validationTexts,
  ...validationFlags
])

const readValidation = (validation: Tree.Node): Validation => ({
  ranges: Tree.attribute(validation, "sqref") ?? "",
  formula1: Tree.child(validation, "formula1")?.text ?? null,
  formula2: Tree.child(validation, "formula2")?.text ?? null,
  ...Object.fromEntries(validationTexts.map((name) => [name, Tree.attribute(validation, name) ?? null])),
  ...Object.fromEntries(validationFlags.map((name) => [name, Tree.flag(validation, name)]))
})

const readPane = (pane: Tree.Node | undefined): Pane | null =>
  pane === undefined
    ? null
    : {
        state: (Tree.attribute(pane, "state") ?? "split").toLowerCase(),
        columns: Math.trunc(Tree.number(Tree.attribute(pane, "xSplit")) ?? 0),
        rows: Math.trunc(Tree.number(Tree.attribute(pane, "ySplit")) ?? 0),
        topLeftCell: Tree.attribute(pane, "topLeftCell") ?? null
      }

export const readParts = (
  root: Tree.Node,
  differences: ReadonlyArray<Difference>,
  targets: ReadonlyMap<string, string>
): Parts => {
  const view = Tree.child(root, "sheetViews", "sheetView")
  return {
    merged: Tree.children(Tree.child(root, "mergeCells"), "mergeCell").flatMap((merge) =>
      references(Tree.attribute(merge, "ref"))
    ),
    columns: Tree.children(root, "cols").flatMap((cols) => Tree.children(cols, "col").map(readColumns)),
    conditional: Tree.children(root, "conditionalFormatting").map((format) => ({
      ranges: references(Tree.attribute(format, "sqref")),
      rules: Tree.children(format, "cfRule").map((rule) => readConditionalRule(rule, differences))
    })),
    hyperlinks: Tree.children(Tree.child(root, "hyperlinks"), "hyperlink").flatMap((link) =>
      readHyperlink(link, targets)
    ),
    validations: Tree.children(Tree.child(root, "dataValidations"), "dataValidation").map(readValidation),
    pane: readPane(Tree.child(view, "pane")),
    // A zoom of 0 means automatic.
    zoom: Tree.number(Tree.attribute(view, "zoomScale")) || 100,
    filter: Tree.child(root, "autoFilter"),
    sparklines: new Map(
      Tree.descendants(Tree.child(root, "extLst"), "sparkline").map((line) => [
        Tree.child(line, "sqref")?.text ?? "",
        Tree.child(line, "f")?.text ?? ""
      ])
    )
  }
}
