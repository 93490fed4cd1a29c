/**
 * Reads .odt: paragraphs and headings, and what is marked.
 *
 * Format: OpenDocument 1.3 part 3.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { decode } from "./xmlText.js"
import * as Xml from "./xmlTree.js"
import { limits, unzip } from "./zip.js"

export interface OpenDocument {
  readonly _tag: "OpenDocument"
  /** The text as a reader sees it, without fields, notes in the margin and what was deleted under tracked changes. */
  readonly paragraphs: ReadonlyArray<string>
  /** As odfpy's users take it: of every `text:p`, what stands directly in it and directly in its spans. */
  readonly plainParagraphs: ReadonlyArray<string>
  /** Backgrounds of characters in spans, as `#rrggbb`. */
  readonly spanBackgrounds: ReadonlySet<string>
  /** Those of whole paragraphs' characters. */
  readonly paragraphBackgrounds: ReadonlySet<string>
}

/** A count of spaces in the file; more than a page of them is no text. */
const maxSpaces = 10_000

const inline = new Set(["span", "a", "ruby", "ruby-base", "meta", "bookmark-ref", "reference-ref"])
const skipped = new Set(["tracked-changes", "annotation"])

const readable = (of: Xml.Tree): string => {
  let text = ""
  for (const node of of.children) {
    if (typeof node === "string") text += node
    else if (node.name === "s") text += " ".repeat(Math.min(maxSpaces, Number(Xml.attribute(node, "c") ?? 1) || 1))
    else if (node.name === "tab") text += "\t"
    else if (node.name === "line-break") text += "\n"
    else if (inline.has(node.name)) text += readable(node)
  }
  return text
}

const plain = (of: Xml.Tree): string =>
  of.children.map((node) => (typeof node === "string" ? node : node.name === "span" ? Xml.text(node) : "")).join("")

const readParts = (content: Xml.Tree, styles: Xml.Tree | undefined): OpenDocument => {
  const roots = styles === undefined ? [content] : [content, styles]
  const backgrounds = new Map<string, string>()
  for (const style of roots.flatMap((root) => Xml.children(Xml.child(root, "automatic-styles"), "style"))) {
    const name = Xml.attribute(style, "name")
    const color = Xml.children(style, "text-properties")
      .map((properties) => Xml.attribute(properties, "background-color"))
      .find((each) => each !== undefined)
    if (name !== undefined && color !== undefined) backgrounds.set(name, color.toLowerCase())
  }

  const paragraphs: Array<string> = []
  const plainParagraphs: Array<string> = []
  const spanBackgrounds = new Set<string>()
  const paragraphBackgrounds = new Set<string>()
  const walk = (of: Xml.Tree, seen: boolean): void => {
    for (const node of Xml.children(of)) {
      const here = seen && !skipped.has(node.name)
      const isParagraph = node.name === "p" || node.name === "h"
      if (isParagraph && here) paragraphs.push(readable(node))
      if (node.name === "p") plainParagraphs.push(plain(node))
      const background = backgrounds.get(
        isParagraph || node.name === "span" ? (Xml.attribute(node, "style-name") ?? "") : ""
      )
      if (background !== undefined && here) (isParagraph ? paragraphBackgrounds : spanBackgrounds).add(background)
      walk(node, here)
    }
  }
  for (const root of roots) walk(root, true)
  return { _tag: "OpenDocument", paragraphs, plainParagraphs, spanBackgrounds, paragraphBackgrounds }
}

const members = { ...limits, entryBytes: 16 * 1024 * 1024, totalBytes: 32 * 1024 * 1024 }

export const parse = (bytes: Uint8Array): Either.Either<OpenDocument, Refusal> =>
  Either.gen(function* () {
    const parts = yield* unzip(bytes, (name) => name === "content.xml" || name === "styles.xml", members)
    const main = parts.get("content.xml")
    if (main === undefined) return yield* Either.left<Refusal>({ kind: "Unparsable", reason: "no content.xml" })
    const content = yield* Xml.parse(decode(main))
    if (Xml.child(Xml.child(content, "body"), "text") === undefined)
      return yield* Either.left<Refusal>({ kind: "Unparsable", reason: "no text document" })
    const styles = parts.get("styles.xml")
    return readParts(content, styles === undefined ? undefined : yield* Xml.parse(decode(styles)))
  })
