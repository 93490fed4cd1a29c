/** Pivot tables of a sheet (ECMA-376 part 1, 18.10). */
import * as CellRange from "../cellRange.js"
import * as Tree from "./tree.js"

export interface PivotItem {
  readonly hidden: boolean
  readonly index: number
}

export interface PivotDataField {
  readonly field: number
  readonly name: string
  readonly subtotal: string
  readonly showDataAs: string
}

export interface Pivot {
  /** Kind, range and sheet of the data, without the outer columns that no field of the table uses. */
  readonly source: string
  /** How many unused columns were left out in front; the indices of fields below count from there. */
  readonly bias: number
  readonly name: string
  readonly location: string
  readonly showTotal: boolean
  readonly showEmptyRow: boolean
  readonly showEmptyCol: boolean
  readonly showHeaders: boolean
  readonly selection: ReadonlyArray<ReadonlyArray<PivotItem>>
  readonly pageFields: ReadonlyArray<number>
  readonly columnFields: ReadonlyArray<number>
  readonly rowFields: ReadonlyArray<number>
  readonly dataFields: ReadonlyArray<PivotDataField>
}

const integer = (node: Tree.Node, name: string): number => Math.trunc(Tree.number(Tree.attribute(node, name)) ?? 0)

const itemsOf = (field: Tree.Node): ReadonlyArray<PivotItem> =>
  Tree.children(Tree.child(field, "items"), "item").flatMap((item) => {
    const index = Tree.number(Tree.attribute(item, "x"))
    return index === null ? [] : [{ hidden: Tree.flag(item, "h"), index }]
  })

/** The table's own part, and the part of its cache, where the data come from. */
export const readPivot = (table: Tree.Node, cache: Tree.Node | undefined): Pivot => {
  const all = Tree.children(Tree.child(table, "pivotFields"), "pivotField").map(itemsOf)
  const isUsed = (items: ReadonlyArray<PivotItem>) => items.length > 0
  const first = all.findIndex(isUsed)
  const bias = first < 0 ? all.length : first
  const last = all.length - 1 - [...all].reverse().findIndex(isUsed)
  const selection = first < 0 ? [] : all.slice(first, last + 1)
  const rightBias = all.length - bias - selection.length

  const cacheSource = Tree.child(cache, "cacheSource")
  const sheetSource = Tree.child(cacheSource, "worksheetSource")
  const reference = Tree.attribute(sheetSource, "ref")
  const range = reference === undefined ? undefined : CellRange.parse(reference)
  const place =
    range === undefined
      ? (reference ?? Tree.attribute(sheetSource, "name") ?? "")
      : `${range.top},${range.left + bias}:${range.bottom},${range.right - rightBias}`
  const location = Tree.child(table, "location")

  const fields = (list: string, of: string, attribute: string) =>
    Tree.children(Tree.child(table, list), of).map((field) => integer(field, attribute))
  return {
    source: [Tree.attribute(cacheSource, "type") ?? "", place, Tree.attribute(sheetSource, "sheet") ?? ""].join(";"),
    bias,
    name: Tree.attribute(table, "name") ?? "",
    location: JSON.stringify(Array.from(location?.attributes ?? []).sort(([a], [b]) => (a < b ? -1 : 1))),
    showTotal: Tree.flag(table, "visualTotals", true),
    showEmptyRow: Tree.flag(table, "showEmptyRow"),
    showEmptyCol: Tree.flag(table, "showEmptyCol"),
    showHeaders: Tree.flag(table, "showHeaders", true),
    selection,
    pageFields: fields("pageFields", "pageField", "fld"),
    columnFields: fields("colFields", "field", "x").map((x) => x - bias),
    rowFields: fields("rowFields", "field", "x").map((x) => x - bias),
    dataFields: Tree.children(Tree.child(table, "dataFields"), "dataField").map((field) => ({
      field: integer(field, "fld") - bias,
      name: Tree.attribute(field, "name") ?? "",
      subtotal: Tree.attribute(field, "subtotal") ?? "sum",
      showDataAs: Tree.attribute(field, "showDataAs") ?? "normal"
    }))
  }
}
