/** Charts of a report's page as SVG: bars, intervals and a histogram. Each says in words, too, what it shows. */
import { escape, strokes, ticks } from "../../Plot.js"

const width = 760
const labelWidth = 190
const valueWidth = 150
const rowHeight = 26
const plotWidth = width - labelWidth - valueWidth

const [blue = "", vermilion = "", green = "", purple = "", orange = "", sky = ""] = strokes

/** What a colour stands for on all pages. */
export const colours = {
  success: green,
  noSuccess: "#b8b8b8",
  masked: orange,
  failed: vermilion,
  unresolved: purple,
  notStarted: "#ececec",
  a: blue,
  b: vermilion,
  mark: "#1a1a1a",
  bar: sky
} as const

const round = (value: number): string => String(Math.round(value * 10) / 10)

const svg = (height: number, title: string, parts: ReadonlyArray<string>): string =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${round(height)}" role="img" font-family="system-ui, sans-serif" font-size="13" fill="#222">`,
    `<title>${escape(title)}</title>`,
    ...parts,
    "</svg>"
  ].join("\n")

const text = (x: number, y: number, content: string, attributes = ""): string =>
  `<text x="${round(x)}" y="${round(y)}"${attributes === "" ? "" : ` ${attributes}`}>${escape(content)}</text>`

const rect = (x: number, y: number, w: number, h: number, fill: string, tip = ""): string =>
  `<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(w, 0))}" height="${round(h)}" fill="${fill}">${tip === "" ? "" : `<title>${escape(tip)}</title>`}</rect>`

const line = (x1: number, y1: number, x2: number, y2: number, stroke: string, attributes = ""): string =>
  `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${stroke}"${attributes === "" ? "" : ` ${attributes}`}/>`

const dot = (x: number, y: number, fill: string): string =>
  `<circle cx="${round(x)}" cy="${round(y)}" r="5" fill="${fill}"/>`

const cut = (label: string, most: number): string =>
  label.length <= most ? label : `${label.slice(0, Math.max(0, most - 1))}…`

const labelled = (y: number, label: string, value: string): string =>
  text(labelWidth - 10, y + rowHeight / 2 + 4, cut(label, 27), 'text-anchor="end"') +
  text(labelWidth + plotWidth + 12, y + rowHeight / 2 + 4, value, 'fill="#555"')

/** An axis of percent under `rows` rows: 0 to 100. */
const percentAxis = (top: number, bottom: number): ReadonlyArray<string> =>
  [0, 25, 50, 75, 100].flatMap((percent) => {
    const x = labelWidth + (percent / 100) * plotWidth
    return [
      line(x, top, x, bottom, "#e3e3e3"),
      text(x, bottom + 17, `${percent} %`, 'text-anchor="middle" font-size="12" fill="#555"')
    ]
  })

const legend = (y: number, items: ReadonlyArray<readonly [colour: string, label: string]>): string => {
  let x = labelWidth
  return items
    .map(([colour, label]) => {
      const item = dot(x + 5, y, colour) + text(x + 16, y + 4, label, 'font-size="12"')
      x += 34 + label.length * 6.6
      return item
    })
    .join("")
}

export interface Segment {
  readonly label: string
  readonly value: number
  readonly colour: string
}

/** One bar of parts that are a whole together, and a legend with each part's number. Parts of 0 are in the legend alone. */
export const stack = (title: string, segments: ReadonlyArray<Segment>): string => {
  const total = segments.reduce((sum, { value }) => sum + value, 0)
  let x = 0
  const bar = segments
    .filter(({ value }) => value > 0)
    .map(({ colour, label, value }) => {
      const w = (value / total) * width
      const part = rect(x, 0, w, 34, colour, `${label}: ${value}`)
      x += w
      return part
    })
  const perRow = 3
  const keys = segments.map(({ colour, label, value }, index) => {
    const at = (index % perRow) * (width / perRow)
    const y = 58 + Math.floor(index / perRow) * 24
    return rect(at, y - 11, 13, 13, colour) + text(at + 20, y, `${label}: ${value}`, value === 0 ? 'fill="#777"' : "")
  })
  return svg(58 + Math.ceil(segments.length / perRow) * 24 - 12, title, [...bar, ...keys])
}

export interface Bar {
  readonly label: string
  /** From 0 to 1. */
  readonly share: number
  /** A second value, as a mark on the bar. */
  readonly mark?: number
  readonly value: string
}

/** Horizontal bars of percentages. */
export const percentBars = (
  title: string,
  bars: ReadonlyArray<Bar>,
  names: { readonly bar: string; readonly mark: string }
): string => {
  const top = 26
  const bottom = top + bars.length * rowHeight
  return svg(bottom + 24, title, [
    legend(10, [
      [colours.success, names.bar],
      [colours.mark, names.mark]
    ]),
    ...percentAxis(top, bottom),
    ...bars.map(({ label, mark, share, value }, index) => {
      const y = top + index * rowHeight
      const x = mark === undefined ? undefined : labelWidth + mark * plotWidth
      return (
        labelled(y, label, value) +
        rect(labelWidth, y + 5, share * plotWidth, rowHeight - 10, colours.success, `${label}: ${value}`) +
        (x === undefined ? "" : line(x, y + 3, x, y + rowHeight - 3, colours.mark, 'stroke-width="3"'))
      )
    })
  ])
}

/** Horizontal bars of counts. */
export const countBars = (title: string, bars: ReadonlyArray<readonly [label: string, count: number]>): string => {
  const most = bars.reduce((most, [, count]) => Math.max(most, count), 1)
  return svg(
    bars.length * rowHeight + 4,
    title,
    bars.map(
      ([label, count], index) =>
        labelled(index * rowHeight, label, String(count)) +
        rect(labelWidth, index * rowHeight + 5, (count / most) * plotWidth, rowHeight - 10, colours.bar)
    )
  )
}

export interface Twin {
  readonly label: string
  /** From 0 to 1. */
  readonly a: number
  readonly b: number
  readonly value: string
}

/** Two values a row, with the way from the one to the other. */
export const twins = (
  title: string,
  rows: ReadonlyArray<Twin>,
  names: { readonly a: string; readonly b: string }
): string => {
  const top = 26
  const bottom = top + rows.length * rowHeight
  return svg(bottom + 24, title, [
    legend(10, [
      [colours.a, names.a],
      [colours.b, names.b]
    ]),
    ...percentAxis(top, bottom),
    ...rows.map(({ a, b, label, value }, index) => {
      const y = top + index * rowHeight
      const [xA, xB] = [labelWidth + a * plotWidth, labelWidth + b * plotWidth]
      const middle = y + rowHeight / 2
      return (
        labelled(y, label, value) +
        line(xA, middle, xB, middle, "#999", 'stroke-width="3"') +
        dot(xA, middle, colours.a) +
        dot(xB, middle, colours.b)
      )
    })
  ])
}

export interface Interval {
  readonly label: string
  readonly value: number
  readonly low: number
  readonly high: number
  readonly text: string
}

/** Differences in percentage points with their intervals, around a line at 0. */
export const intervals = (title: string, rows: ReadonlyArray<Interval>): string => {
  const most = rows.reduce((most, { high, low }) => Math.max(most, Math.abs(low), Math.abs(high)), 1)
  const [top, bottom] = [4, 4 + rows.length * rowHeight]
  const at = (value: number) => labelWidth + plotWidth / 2 + (value / (most * 1.1)) * (plotWidth / 2)
  const steps = ticks(most, 2)
  return svg(bottom + 24, title, [
    ...[...steps.map((step) => -step), ...steps.slice(1)].flatMap((step) => [
      line(at(step), top, at(step), bottom, step === 0 ? "#555" : "#e3e3e3"),
      text(
        at(step),
        bottom + 17,
        `${step > 0 ? "+" : step < 0 ? "−" : ""}${Math.abs(step)}`,
        'text-anchor="middle" font-size="12" fill="#555"'
      )
    ]),
    ...rows.map(({ high, label, low, text: shown, value }, index) => {
      const y = top + index * rowHeight
      const middle = y + rowHeight / 2
      return (
        labelled(y, label, shown) +
        line(at(low), middle, at(high), middle, colours.a, 'stroke-width="3"') +
        dot(at(value), middle, colours.a)
      )
    })
  ])
}

/**
 * How often values fall where, around a line at 0, with what is outside of `low` to `high` in grey. Wants sorted values; where
 * they lie on multiples of `step`, each bin has as many of them.
 */
export const histogram = (
  title: string,
  values: ArrayLike<number>,
  { high, low, step }: { readonly low: number; readonly high: number; readonly step: number }
): string => {
  const [height, left] = [170, 30]
  const [least = 0, most = 0] = [values[0], values[values.length - 1]]
  // The line at 0 is always to be seen.
  const range = Math.max(most, 0) - Math.min(least, 0)
  const binWidth = step * Math.max(1, Math.ceil(range / (step * 50)))
  const binOf = (value: number) => Math.round(value / binWidth)
  const [first, last] = [binOf(Math.min(least, 0)) - 1, binOf(Math.max(most, 0)) + 1]
  const [from, to] = [(first - 0.5) * binWidth, (last + 0.5) * binWidth]
  const count = last - first + 1
  const bins = new Array<number>(count).fill(0)
  for (const value of Array.from(values)) {
    const bin = binOf(value) - first
    bins[bin] = (bins[bin] ?? 0) + 1
  }
  const tallest = bins.reduce((tallest, bin) => Math.max(tallest, bin), 1)
  const at = (value: number) => left + ((value - from) / (to - from)) * (width - 2 * left)
  const size = (width - 2 * left) / count
  const scale = ticks(Math.max(Math.abs(from), Math.abs(to)), 5)
  const marks = [...scale.slice(1).map((mark) => -mark), ...scale].filter((mark) => mark >= from && mark <= to)
  return svg(height + 26, title, [
    ...bins.map((bin, index) => {
      const middle = (first + index) * binWidth
      const h = (bin / tallest) * (height - 16)
      const inside = middle >= low && middle <= high
      return rect(left + index * size + 0.5, height - h, size - 1, h, inside ? colours.bar : "#c9c9c9")
    }),
    line(left, height, width - left, height, "#555"),
    line(at(0), 6, at(0), height, "#1a1a1a", 'stroke-dasharray="4 3"'),
    text(at(0), 12, "no difference", `${at(0) > width / 2 ? 'text-anchor="end" dx="-6"' : 'dx="6"'} font-size="12"`),
    ...marks.map((step) =>
      text(
        at(step),
        height + 18,
        `${step > 0 ? "+" : step < 0 ? "−" : ""}${Math.abs(step)}`,
        'text-anchor="middle" font-size="12" fill="#555"'
      )
    )
  ])
}
