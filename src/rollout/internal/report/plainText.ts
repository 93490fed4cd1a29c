/** A document as text for a terminal. */
import type { Block, Document, Table } from "./document.js"

const table = ({ heads, rows, words }: Table): string => {
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => (row[column] ?? "").length)))
  const line = (cells: ReadonlyArray<string>) =>
    widths
      .map((width, column) => {
        const cell = cells[column] ?? ""
        return column < words ? cell.padEnd(width) : cell.padStart(width)
      })
      .join("  ")
      .trimEnd()
  return [heads, ...rows].map((cells) => `  ${line(cells)}`).join("\n")
}

const block = (block: Block): string | undefined => {
  switch (block._tag) {
    case "Heading":
      return `${block.text}:`
    case "Paragraph":
    case "Verdict":
      return block.text
    case "Warnings":
      return block.items.map((item) => `note: ${item}`).join("\n")
    case "Figures":
      return block.figures.map(({ label, over, value }) => `${label}: ${value} (${over})`).join("\n")
    case "Table":
      return table(block.table)
    case "Plot":
      return block.otherwise === undefined ? undefined : table(block.otherwise)
    case "Details":
      return undefined
  }
}

export const toText = ({ blocks, title }: Document): string =>
  [title, ...blocks.flatMap((each) => block(each) ?? [])].join("\n\n").replace(/:\n\n {2}/g, ":\n  ")
