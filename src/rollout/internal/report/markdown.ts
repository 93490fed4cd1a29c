/** A document as Markdown (GitHub's). */
import type { Block, Document, Table } from "./document.js"

/** Signs that would be read as Markdown or HTML, and line ends, which would end a cell or a heading. */
const escape = (text: string): string =>
  text
    .replace(/[\\`*_|<>[\]]/g, (sign) => `\\${sign}`)
    .replace(/&/g, "&amp;")
    .replace(/\s*\r?\n\s*/g, " ")

const table = ({ heads, rows, words }: Table): string => {
  const line = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`
  return [
    line(heads.map(escape)),
    line(heads.map((_, column) => (column < words ? "---" : "---:"))),
    ...rows.map((cells) => line(heads.map((_, column) => escape(cells[column] ?? ""))))
  ].join("\n")
}

const block = (block: Block): string | undefined => {
  switch (block._tag) {
    case "Heading":
      return `## ${escape(block.text)}`
    case "Paragraph":
      return escape(block.text)
    case "Verdict":
      return `**${escape(block.text)}**`
    case "Warnings":
      return block.items.map((item) => `> - ${escape(item)}`).join("\n")
    case "Figures":
      return block.figures
        .map(({ label, over, value }) => `- ${escape(label)}: **${escape(value)}** (${escape(over)})`)
        .join("\n")
    case "Table":
      return table(block.table)
    case "Plot":
      return block.otherwise === undefined ? undefined : table(block.otherwise)
    case "Details":
      return undefined
  }
}

export const toMarkdown = ({ blocks, title }: Document): string =>
  `${[`# ${escape(title)}`, ...blocks.flatMap((each) => block(each) ?? [])].join("\n\n")}\n`
