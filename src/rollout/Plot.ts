/**
 * Lines over numbers as SVG, for pages that load nothing.
 *
 * @since 0.1.0
 */

/**
 * A line over numbers, each point `[x, y]`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Series {
  readonly name: string
  readonly points: ReadonlyArray<readonly [x: number, y: number]>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Panel {
  readonly title: string
  readonly xLabel: string
  readonly yLabel: string
  readonly series: ReadonlyArray<Series>
  /** Where the y axis ends; the largest value unless given. It begins at 0. */
  readonly yMax?: number
  readonly showY?: (value: number) => string
}

/**
 * Colours that people with any colour vision tell apart (Okabe and Ito, 2008): blue, vermilion, green, purple, orange, sky
 * and black.
 *
 * @since 0.1.0
 * @category constants
 */
export const strokes = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
/** For those who see no colours. */
const dashes = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4"]

const width = 760
const height = 300
const left = 76
const right = 20
const top = 40
const bottom = 48
const lineHeight = 20

/**
 * A text as it has to stand in SVG or HTML, in quotes too.
 *
 * @since 0.1.0
 * @category encoding
 */
export const escape = (text: string): string =>
  text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign] ?? sign)

const round = (value: number): string => String(Math.round(value * 10) / 10)

/**
 * About so many values from 0 to `max` that a person would choose: multiples of 1, 2 or 5 and a power of ten.
 *
 * @since 0.1.0
 * @category rendering
 */
export const ticks = (max: number, about: number): ReadonlyArray<number> => {
  if (!(max > 0)) return [0]
  const rough = max / about
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5, 10].find((times) => times * power >= rough) ?? 10)
  return Array.from({ length: Math.floor(max / step + 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(12)))
}

/**
 * `1234567` as `1.23M`, `45000` as `45k`.
 *
 * @since 0.1.0
 * @category rendering
 */
export const compact = (value: number): string => {
  for (const [size, sign] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"]
  ] as const) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${sign}`
  }
  return String(Number(value.toPrecision(3)))
}

const drawPanel = (panel: Panel, offset: number): string => {
  const xs = panel.series.flatMap(({ points }) => points.map(([x]) => x))
  const ys = panel.series.flatMap(({ points }) => points.map(([, y]) => y))
  const xMax = xs.reduce((most, x) => Math.max(most, x), 1)
  const yMax = panel.yMax ?? ys.reduce((most, y) => Math.max(most, y), 0)
  const show = panel.showY ?? compact
  const atX = (x: number) => left + (x / xMax) * (width - left - right)
  const atY = (y: number) => offset + height - bottom - (yMax === 0 ? 0 : y / yMax) * (height - top - bottom)
  const grid = ticks(yMax, 6).map(
    (y) =>
      `<line x1="${left}" x2="${width - right}" y1="${round(atY(y))}" y2="${round(atY(y))}" stroke="#ddd"/>` +
      `<text x="${left - 8}" y="${round(atY(y) + 4)}" text-anchor="end">${escape(show(y))}</text>`
  )
  // What is counted along x comes in whole numbers.
  const marks = ticks(xMax, 10)
    .filter(Number.isInteger)
    .map(
      (x) =>
        `<line x1="${round(atX(x))}" x2="${round(atX(x))}" y1="${offset + height - bottom}" y2="${offset + height - bottom + 5}" stroke="#555"/>` +
        `<text x="${round(atX(x))}" y="${offset + height - bottom + 18}" text-anchor="middle">${escape(compact(x))}</text>`
    )
  const lines = panel.series.map(({ points }, index) => {
    const path = points.map(([x, y], at) => `${at === 0 ? "M" : "L"}${round(atX(x))} ${round(atY(y))}`).join("")
    const dash = dashes[index % dashes.length] ?? ""
    return `<path d="${path}" fill="none" stroke="${strokes[index % strokes.length]}" stroke-width="2"${dash === "" ? "" : ` stroke-dasharray="${dash}"`}/>`
  })
  return [
    `<text x="${left}" y="${offset + 24}" font-size="15" font-weight="bold">${escape(panel.title)}</text>`,
    ...grid,
    ...marks,
    `<line x1="${left}" x2="${width - right}" y1="${offset + height - bottom}" y2="${offset + height - bottom}" stroke="#555"/>`,
    `<text x="${(left + width - right) / 2}" y="${offset + height - 10}" text-anchor="middle">${escape(panel.xLabel)}</text>`,
    `<text transform="translate(16 ${offset + (height - bottom + top) / 2}) rotate(-90)" text-anchor="middle">${escape(panel.yLabel)}</text>`,
    ...lines
  ].join("\n")
}

/**
 * Panels one above the other, which show the same series under one legend, as an SVG of its own.
 *
 * @since 0.1.0
 * @category rendering
 */
export const svgPlot = (title: string, panels: ReadonlyArray<Panel>): string => {
  const names = [...new Set(panels.flatMap(({ series }) => series.map(({ name }) => name)))]
  const head = 40 + names.length * lineHeight
  const total = head + panels.length * height
  const legend = names.map((name, index) => {
    const y = 48 + index * lineHeight
    const dash = dashes[index % dashes.length] ?? ""
    return (
      `<line x1="${left}" x2="${left + 34}" y1="${y}" y2="${y}" stroke="${strokes[index % strokes.length]}" stroke-width="2"${dash === "" ? "" : ` stroke-dasharray="${dash}"`}/>` +
      `<text x="${left + 44}" y="${y + 4}">${escape(name)}</text>`
    )
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" width="${width}" height="${total}" font-family="sans-serif" font-size="12" fill="#222">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${total}" fill="#fff"/>`,
    `<text x="${left}" y="26" font-size="17" font-weight="bold">${escape(title)}</text>`,
    ...legend,
    ...panels.map((panel, index) => drawPanel(panel, head + index * height)),
    "</svg>",
    ""
  ].join("\n")
}
