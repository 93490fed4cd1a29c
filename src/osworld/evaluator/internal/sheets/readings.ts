/**
 * What rules compare of a sheet beside its cells, as text that is equal where the sheets agree: charts, pivot tables,
 * rows, columns, filters, frozen panes and sparklines.
 */
import type { Sheet } from "../Spreadsheet.js"
import type { Chart } from "./charts.js"
import { type Columns, defaultWidth } from "./parts.js"
import type { Pivot } from "./pivots.js"
import { none as noRowProperties } from "./rowProperties.js"
import * as Tree from "./tree.js"

export const chartProperties = [
  "title",
  "legend",
  "anchor",
  "width",
  "height",
  "type",
  "direction",
  "xtitle",
  "ytitle",
  "ztitle"
] as const

const isOneOf = <const Name extends string>(names: ReadonlyArray<Name>, name: string): name is Name =>
  names.some((known) => known === name)

/**
 * Things by what they are about, each with what is asked of it. One that is there twice is there; under `compat` of two
 * about the same the last one counts, as upstream has it.
 */
const collected = (entries: ReadonlyArray<readonly [string, unknown]>, compat: boolean): string => {
  if (compat) return JSON.stringify(Array.from(new Map(entries)).sort(([a], [b]) => (a < b ? -1 : 1)))
  return JSON.stringify(Array.from(new Set(entries.map((entry) => JSON.stringify(entry)))).sort())
}

const chartProperty = (chart: Chart, name: string, compat: boolean): unknown => {
  if (!isOneOf(chartProperties, name)) return null
  if (!compat) return chart[name]
  switch (name) {
    case "title":
    case "xtitle":
    case "ytitle":
    case "ztitle":
      return chart.firstRuns[name]
    case "width":
    case "height":
      // Upstream compares a constant.
      return null
    case "anchor": {
      const [edit, left, , right, bottom] = chart.anchor
      return [edit, left, bottom, right, bottom]
    }
    default:
      return chart[name]
  }
}

export const charts = (sheet: Sheet, names: ReadonlyArray<string>, compat: boolean): string =>
  collected(
    sheet.charts.map((chart) => [
      compat ? chart.upstreamSeries : chart.series,
      [...names].sort().map((name) => [name, chartProperty(chart, name, compat)])
    ]),
    compat
  )

export const pivotProperties = [
  "name",
  "show_total",
  "show_empty_row",
  "show_empty_col",
  "show_headers",
  "location",
  "selection",
  "ordered",
  "filter",
  "col_fields",
  "row_fields",
  "data_fields",
  "data_fields_name",
  "ignore_special_fields"
] as const

const pivotEntry = (pivot: Pivot, names: ReadonlyArray<string>, compat: boolean): readonly [string, unknown] => {
  const asked = (name: (typeof pivotProperties)[number]) => names.includes(name)
  const items = pivot.selection.map((field) => {
    const marks = field.map(({ hidden, index }) => `${index}${hidden ? " hidden" : ""}`)
    return asked("ordered") ? marks : Array.from(new Set(marks)).sort()
  })
  // Special fields, such as the one for several values, have negative indices.
  const fields = (indices: ReadonlyArray<number>) =>
    asked("ignore_special_fields") ? indices.filter((index) => index >= 0) : indices
  const data = pivot.dataFields.map(({ field, name, showDataAs, subtotal }) =>
    [field, asked("data_fields_name") ? name : "", subtotal, showDataAs].join(";")
  )
  const pages = pivot.pageFields.map((index) => (compat ? index : index - pivot.bias))
  return [
    pivot.source,
    [
      asked("name") && pivot.name,
      asked("show_total") && pivot.showTotal,
      asked("show_empty_row") && pivot.showEmptyRow,
      asked("show_empty_col") && pivot.showEmptyCol,
      asked("show_headers") && pivot.showHeaders,
      asked("location") && pivot.location,
      (asked("selection") || asked("filter")) && items,
      asked("filter") && Array.from(new Set(pages)).sort((a, b) => a - b),
      asked("col_fields") && fields(pivot.columnFields),
      asked("row_fields") && fields(pivot.rowFields),
      asked("data_fields") && data
    ]
  ]
}

export const pivots = (sheet: Sheet, names: ReadonlyArray<string>, compat: boolean): string =>
  collected(
    sheet.pivots.map((pivot) => pivotEntry(pivot, names, compat)),
    compat
  )

export const rowProperties = ["hidden", "collapsed", "height", "outline_level"] as const

/** Rows that say nothing and rows that say what they would be anyway are the same, but not under `compat`. */
export const rows = (sheet: Sheet, names: ReadonlyArray<string>, compat: boolean): string => {
  const asked = rowProperties.filter((name) => names.includes(name))
  const entries: Array<readonly [number, ReadonlyArray<unknown>]> = []
  for (const [row, properties] of sheet.rowProperties) {
    const says = asked.some((name) => properties[name] !== noRowProperties[name])
    if (compat || says) entries.push([row, asked.map((name) => properties[name])])
  }
  return JSON.stringify(entries.sort(([a], [b]) => a - b))
}

export const columnProperties = ["width", "auto_size", "hidden", "collapsed", "outline_level", "min", "max"] as const

const usualColumn: Omit<Columns, "min" | "max"> = {
  width: defaultWidth,
  auto_size: false,
  hidden: false,
  collapsed: false,
  outline_level: 0
}
const ownColumnProperties = ["width", "auto_size", "hidden", "collapsed", "outline_level"] as const

/** Neighbours that say the same are one run however a program wrote them, but not under `compat`. */
export const columns = (sheet: Sheet, names: ReadonlyArray<string>, compat: boolean): string => {
  const asked = columnProperties.filter((name) => names.includes(name))
  if (compat || names.includes("min") || names.includes("max")) {
    const byFirst = new Map(sheet.columns.map((run) => [run.min, asked.map((name) => run[name])] as const))
    return JSON.stringify(Array.from(byFirst).sort(([a], [b]) => a - b))
  }
  const own = ownColumnProperties.filter((name) => names.includes(name))
  const runs: Array<{ readonly min: number; max: number; readonly says: string }> = []
  for (const run of [...sheet.columns].sort((a, b) => a.min - b.min)) {
    if (own.every((name) => run[name] === usualColumn[name])) continue
    const says = JSON.stringify(own.map((name) => run[name]))
    const before = runs[runs.length - 1]
    if (before?.says === says && before.max === run.min - 1) before.max = run.max
    else runs.push({ min: run.min, max: run.max, says })
  }
  return JSON.stringify(runs)
}

const canonical = (node: Tree.Node): unknown => [
  node.name,
  Array.from(node.attributes).sort(([a], [b]) => (a < b ? -1 : 1)),
  node.children.map((child) => JSON.stringify(canonical(child))).sort()
]

const filterColumn = (column: Tree.Node, compat: boolean): unknown => {
  const filters = Tree.child(column, "filters")
  const custom = Tree.child(column, "customFilters")
  const known = new Set(["filters", "customFilters"])
  return {
    column: Tree.number(Tree.attribute(column, "colId")) ?? 0,
    hiddenButton: Tree.flag(column, "hiddenButton"),
    showButton: Tree.flag(column, "showButton", true),
    values: filters && {
      blank: Tree.flag(filters, "blank"),
      shown: Array.from(
        new Set(Tree.children(filters, "filter").map((filter) => Tree.attribute(filter, "val") ?? ""))
      ).sort(),
      // Upstream does not see dates, nor any other kind of filter.
      dates: compat
        ? []
        : Tree.children(filters, "dateGroupItem")
            .map((date) => JSON.stringify(canonical(date)))
            .sort()
    },
    custom: custom && {
      and: Tree.flag(custom, "and"),
      filters: Array.from(
        new Set(
          Tree.children(custom, "customFilter").map((filter) =>
            JSON.stringify([Tree.attribute(filter, "operator") ?? "equal", Tree.attribute(filter, "val") ?? ""])
          )
        )
      ).sort()
    },
    others: compat ? [] : column.children.flatMap((child) => (known.has(child.name) ? [] : [canonical(child)]))
  }
}

const sortCondition = (condition: Tree.Node) => ({
  descending: Tree.flag(condition, "descending"),
  by: Tree.attribute(condition, "sortBy") ?? "value",
  ...Object.fromEntries(
    ["ref", "customList", "dxfId", "iconSet", "iconId"].map((name) => [name, Tree.attribute(condition, name) ?? null])
  )
})

export const filter = ({ filter: found }: Sheet, compat: boolean): string => {
  const sort = Tree.child(found, "sortState")
  const columns = Tree.children(found, "filterColumn")
  const place = (column: Tree.Node) => Tree.number(Tree.attribute(column, "colId")) ?? 0
  return JSON.stringify({
    ref: Tree.attribute(found, "ref") ?? null,
    columns: [...columns].sort((a, b) => place(a) - place(b)).map((column) => filterColumn(column, compat)),
    sort: sort && {
      byColumn: Tree.flag(sort, "columnSort"),
      caseSensitive: Tree.flag(sort, "caseSensitive"),
      method: Tree.attribute(sort, "sortMethod") ?? "none",
      ref: Tree.attribute(sort, "ref") ?? null,
      conditions: Tree.children(sort, "sortCondition").map(sortCondition)
    }
  })
}

/** Frozen rows and columns; where nothing is frozen but the window is split, also what is seen. */
export const freeze = ({ pane }: Sheet): string => {
  if (pane === null) return "none"
  const split = [pane.columns, pane.rows]
  return JSON.stringify(
    /^frozen(split)?$/.test(pane.state) ? ["frozen", ...split] : ["other", ...split, pane.topLeftCell]
  )
}

export const sparklines = ({ sparklines: found }: Sheet): string =>
  JSON.stringify(Array.from(found).sort(([a], [b]) => (a < b ? -1 : 1)))
