/** A narrow door to parse5: what a page holds, in document order. */
import * as Either from "effect/Either"
import { type DefaultTreeAdapterTypes, parse, parseFragment } from "parse5"
import type { Refusal } from "../Reader.js"

/** A document of this size becomes some ten times as much in memory. */
const maxLength = 32 * 1024 * 1024

export type Item =
  | {
      readonly kind: "element"
      readonly name: string
      readonly attributes: ReadonlyMap<string, string>
    }
  | { readonly kind: "text" | "comment" | "doctype"; readonly text: string }

const describe = (node: DefaultTreeAdapterTypes.ChildNode): Item => {
  if ("tagName" in node) {
    return {
      kind: "element",
      name: node.tagName,
      attributes: new Map(
        node.attrs.map(({ name, value }) => [
          name,
          // A list of classes is what it is however it is spaced.
          name === "class" ? value.split(/\s+/).filter(Boolean).join(" ") : value
        ])
      )
    }
  }
  if ("value" in node) return { kind: "text", text: node.value }
  if ("data" in node) return { kind: "comment", text: node.data }
  return { kind: "doctype", text: [node.name, node.publicId, node.systemId].join(" ") }
}

/** Everything in a document, each before what it holds. A page always parses; one that is too large is refused. */
export const items = (text: string): Either.Either<ReadonlyArray<Item>, Refusal> => {
  if (text.length > maxLength) {
    return Either.left({ kind: "Undecidable", reason: `an HTML document of more than ${maxLength} characters` })
  }
  const found: Array<Item> = []
  const pending: Array<DefaultTreeAdapterTypes.ChildNode> = [...parse(text).childNodes].reverse()
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    found.push(describe(node))
    if ("childNodes" in node) for (const child of [...node.childNodes].reverse()) pending.push(child)
  }
  return Either.right(found)
}

/** The texts that lie directly in what `inner` is the HTML of, trimmed, without the empty ones. */
export const ownTexts = (inner: string): ReadonlyArray<string> =>
  parseFragment(inner.slice(0, maxLength)).childNodes.flatMap((node) => {
    const text = node.nodeName === "#text" && "value" in node ? node.value.trim() : ""
    return text === "" ? [] : [text]
  })
