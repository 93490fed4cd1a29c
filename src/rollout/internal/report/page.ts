/** A document as an HTML page that loads nothing: no script, no font, no picture from elsewhere. */
import { escape } from "../../Plot.js"
import type { Block, Document, Table } from "./document.js"

const style = `
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f6f8; color: #222; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 860px; margin: 32px auto; padding: 28px 48px 44px; background: #fff; border: 1px solid #e2e4e8; border-radius: 10px; }
h1 { margin: 0 0 8px; font-size: 25px; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 36px 0 10px; font-size: 18px; }
p { margin: 8px 0; }
.verdict { margin: 18px 0; padding: 12px 16px; border-left: 4px solid #0072b2; background: #eef5fa; font-weight: 600; }
.warnings { margin: 18px 0; padding: 10px 16px 10px 34px; border-left: 4px solid #e69f00; background: #fdf6e7; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin: 20px 0; }
.figure { padding: 12px 14px; border: 1px solid #e2e4e8; border-radius: 8px; }
.figure b { display: block; font-size: 25px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.figure span { display: block; color: #555; font-size: 13px; }
figure { margin: 14px 0; }
figcaption { margin-bottom: 6px; color: #555; font-size: 13px; }
svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { width: 100%; margin: 10px 0; border-collapse: collapse; font-size: 13.5px; }
th, td { padding: 5px 9px; border-bottom: 1px solid #e8eaed; text-align: right; vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: #555; font-weight: 600; border-bottom-color: #bbb; }
.word { text-align: left; overflow-wrap: break-word; }
.word:last-child { overflow-wrap: anywhere; white-space: pre-line; }
td:not(.word) { white-space: nowrap; }
summary { margin: 14px 0 4px; cursor: pointer; font-weight: 600; }
@media (max-width: 640px) { main { margin: 0; padding: 20px 16px; border: 0; border-radius: 0; } }
@media print { body { background: #fff; } main { margin: 0; border: 0; } h2 { break-after: avoid; } figure { break-inside: avoid; } }
`

const table = ({ heads, rows, words }: Table): string => {
  const cell = (tag: "td" | "th") => (content: string, column: number) =>
    `<${tag}${column < words ? ' class="word"' : ""}>${escape(content)}</${tag}>`
  const row = (tag: "td" | "th", cells: ReadonlyArray<string>) => `<tr>${cells.map(cell(tag)).join("")}</tr>`
  return [
    '<div class="scroll"><table>',
    `<thead>${row("th", heads)}</thead>`,
    "<tbody>",
    ...rows.map((cells) =>
      row(
        "td",
        heads.map((_, column) => cells[column] ?? "")
      )
    ),
    "</tbody>",
    "</table></div>"
  ].join("\n")
}

const block = (block: Block): string => {
  switch (block._tag) {
    case "Heading":
      return `<h2>${escape(block.text)}</h2>`
    case "Paragraph":
      return `<p>${escape(block.text)}</p>`
    case "Verdict":
      return `<p class="verdict">${escape(block.text)}</p>`
    case "Warnings":
      return `<ul class="warnings">${block.items.map((item) => `<li>${escape(item)}</li>`).join("")}</ul>`
    case "Figures":
      return `<div class="figures">${block.figures
        .map(
          ({ label, over, value }) =>
            `<div class="figure"><span>${escape(label)}</span><b>${escape(value)}</b><span>${escape(over)}</span></div>`
        )
        .join("")}</div>`
    case "Table":
      return table(block.table)
    case "Plot": {
      const caption = block.caption === undefined ? "" : `<figcaption>${escape(block.caption)}</figcaption>`
      return `<figure>${caption}${block.svg}</figure>`
    }
    case "Details":
      return `<details><summary>${escape(block.summary)}</summary>${table(block.table)}</details>`
  }
}

export const toPage = ({ blocks, title }: Document): string =>
  [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escape(title)}</title>`,
    `<style>${style}</style>`,
    "</head>",
    "<body>",
    "<main>",
    `<h1>${escape(title)}</h1>`,
    ...blocks.map(block),
    "</main>",
    "</body>",
    "</html>",
    ""
  ].join("\n")
