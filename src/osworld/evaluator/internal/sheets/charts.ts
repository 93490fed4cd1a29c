/** Charts of a sheet: DrawingML (ECMA-376 part 1, 20.5 and 21.2). */
import * as Tree from "./tree.js"

export interface Chart {
  /** The references of values and categories, series by series: what tells one chart of a sheet from another. */
  readonly series: string
  /** As `series`, with what upstream does not see: it knows no x and y of scatter charts. */
  readonly upstreamSeries: string
  readonly type: string
  /** `col` is vertical; null for what has no bars. */
  readonly direction: string | null
  readonly title: string | null
  readonly xtitle: string | null
  readonly ytitle: string | null
  readonly ztitle: string | null
  /** The same as upstream reads them: the first run of the first paragraph. */
  readonly firstRuns: {
    readonly title: string | null
    readonly xtitle: string | null
    readonly ytitle: string | null
    readonly ztitle: string | null
  }
  readonly legend: string | null
  /** `[editAs, left, top, right, bottom]`, zero-based columns and rows. */
  readonly anchor: ReadonlyArray<string | number | null>
  /** In cells and the rest in EMU: equal when anchors span the same. */
  readonly width: string
  readonly height: string
}

const reference = (source: Tree.Node | undefined): string =>
  Tree.child(source, "numRef", "f")?.text ??
  Tree.child(source, "strRef", "f")?.text ??
  Tree.child(source, "multiLvlStrRef", "f")?.text ??
  ""

const upstreamReference = (source: Tree.Node | undefined): string =>
  Tree.child(source, "numRef", "f")?.text ?? Tree.child(source, "strRef", "f")?.text ?? ""

/** All text of a title: what was typed, or what the cell held that it refers to. */
const titleText = (owner: Tree.Node | undefined): string | null => {
  const tx = Tree.child(owner, "title", "tx")
  const rich = Tree.child(tx, "rich")
  if (rich !== undefined) {
    return Tree.children(rich, "p")
      .map((paragraph) =>
        paragraph.children
          .map((run) => (run.name === "r" || run.name === "fld" ? (Tree.child(run, "t")?.text ?? "") : ""))
          .join("")
      )
      .join("\n")
  }
  return Tree.child(tx, "strRef", "strCache", "pt", "v")?.text ?? null
}

const firstRun = (owner: Tree.Node | undefined): string | null =>
  Tree.child(owner, "title", "tx", "rich", "p", "r", "t")?.text ?? null

const isChart = (node: Tree.Node): boolean => /^[a-zA-Z0-9]+Chart$/.test(node.name)

interface Axes {
  readonly x: Tree.Node | undefined
  readonly y: Tree.Node | undefined
  readonly z: Tree.Node | undefined
}

const axesOf = (plot: Tree.Node | undefined, chart: Tree.Node): Axes => {
  const known = new Map(
    plot?.children.flatMap((axis) => {
      const id = Tree.value(axis, "axId")
      return /Ax$/.test(axis.name) && id !== undefined ? [[id, axis] as const] : []
    })
  )
  const own = Tree.children(chart, "axId").map((id) => known.get(Tree.attribute(id, "val") ?? ""))
  if (chart.name === "scatterChart" || chart.name === "bubbleChart") return { x: own[0], y: own[1], z: undefined }
  const find = (...names: ReadonlyArray<string>) => own.find((axis) => axis !== undefined && names.includes(axis.name))
  return { x: find("catAx", "dateAx"), y: find("valAx"), z: find("serAx") }
}

const corner = (node: Tree.Node | undefined) => {
  const number = (name: string) => Tree.number(Tree.child(node, name)?.text) ?? 0
  return { col: number("col"), colOff: number("colOff"), row: number("row"), rowOff: number("rowOff") }
}

const placed = (anchor: Tree.Node): Pick<Chart, "anchor" | "width" | "height"> => {
  const from = corner(Tree.child(anchor, "from"))
  const size = Tree.child(anchor, "ext")
  if (anchor.name !== "twoCellAnchor") {
    const place =
      anchor.name === "absoluteAnchor"
        ? ["x", "y"].map((name) => Tree.number(Tree.attribute(Tree.child(anchor, "pos"), name)))
        : [from.col, from.row]
    return {
      anchor: [anchor.name.replace("Anchor", ""), ...place],
      width: Tree.attribute(size, "cx") ?? "",
      height: Tree.attribute(size, "cy") ?? ""
    }
  }
  const to = corner(Tree.child(anchor, "to"))
  return {
    anchor: [Tree.attribute(anchor, "editAs") ?? null, from.col, from.row, to.col, to.row],
    width: `${to.col - from.col}+${to.colOff - from.colOff}`,
    height: `${to.row - from.row}+${to.rowOff - from.rowOff}`
  }
}

/** The part of a chart that an anchor of a drawing shows, by its relationship. */
export const anchors = (
  drawing: Tree.Node | undefined
): ReadonlyArray<{ readonly id: string; readonly anchor: Tree.Node }> =>
  (drawing?.children ?? []).flatMap((anchor) => {
    const chart = Tree.child(anchor, "graphicFrame", "graphic", "graphicData", "chart")
    const id = chart === undefined ? undefined : Tree.relationId(chart)
    return id === undefined ? [] : [{ id, anchor }]
  })

/** Of a combined chart the first kind counts, as upstream has it. */
export const readChart = (space: Tree.Node, anchor: Tree.Node): Chart | undefined => {
  const whole = Tree.child(space, "chart")
  const plot = Tree.child(whole, "plotArea")
  const chart = plot?.children.find(isChart)
  if (chart === undefined) return undefined
  const series = Tree.children(chart, "ser")
  const axes = axesOf(plot, chart)
  const legend = Tree.child(whole, "legend")
  const hasBars = chart.name === "barChart" || chart.name === "bar3DChart"
  return {
    series: series
      .map((each) => {
        const values = Tree.child(each, "val") ?? Tree.child(each, "yVal")
        const categories = Tree.child(each, "cat") ?? Tree.child(each, "xVal")
        return `${reference(values)},${reference(categories)}`
      })
      .join(";"),
    upstreamSeries: series
      .map((each) => `${upstreamReference(Tree.child(each, "val"))},${upstreamReference(Tree.child(each, "cat"))}`)
      .join(";"),
    type: chart.name,
    direction: hasBars ? (Tree.value(chart, "barDir") ?? "col") : null,
    title: titleText(whole),
    xtitle: titleText(axes.x),
    ytitle: titleText(axes.y),
    ztitle: titleText(axes.z),
    firstRuns: {
      title: firstRun(whole),
      xtitle: firstRun(axes.x),
      ytitle: firstRun(axes.y),
      ztitle: firstRun(axes.z)
    },
    legend: legend === undefined ? null : (Tree.value(legend, "legendPos") ?? "r"),
    ...placed(anchor)
  }
}
