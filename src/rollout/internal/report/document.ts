/** What a report says, apart from how: written once, and shown as text, Markdown or a page. */

export type Block =
  | { readonly _tag: "Heading"; readonly text: string }
  | { readonly _tag: "Paragraph"; readonly text: string }
  /** The sentence that a reader who reads only one should read. */
  | { readonly _tag: "Verdict"; readonly text: string }
  | { readonly _tag: "Warnings"; readonly items: ReadonlyArray<string> }
  /** Numbers in large print, each with what it is over. */
  | { readonly _tag: "Figures"; readonly figures: ReadonlyArray<Figure> }
  | { readonly _tag: "Table"; readonly table: Table }
  /** An SVG on a page; elsewhere the table, if there is one. */
  | { readonly _tag: "Plot"; readonly svg: string; readonly caption?: string; readonly otherwise?: Table }
  /** On a page, closed until somebody opens it; elsewhere left out. */
  | { readonly _tag: "Details"; readonly summary: string; readonly table: Table }

export interface Figure {
  readonly label: string
  readonly value: string
  readonly over: string
}

export interface Table {
  readonly heads: ReadonlyArray<string>
  readonly rows: ReadonlyArray<ReadonlyArray<string>>
  /** How many of the first columns are words, and so stand to the left. */
  readonly words: number
}

export interface Document {
  readonly title: string
  readonly blocks: ReadonlyArray<Block>
}

export const heading = (text: string): Block => ({ _tag: "Heading", text })
export const paragraph = (text: string): Block => ({ _tag: "Paragraph", text })
export const tableOf = (words: number, heads: Table["heads"], rows: Table["rows"]): Table => ({ heads, rows, words })
