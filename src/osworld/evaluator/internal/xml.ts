/** A narrow door to @xmldom/xmldom: well-formed XML or nothing, and elements by local name. */
import { DOMParser, type Document, type Element, type Node } from "@xmldom/xmldom"
import * as Either from "effect/Either"

export type { Element }

/** Characters that XML 1.0 cannot hold, and that applications write all the same. */
const illegal = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

export const parse = (text: string): Either.Either<Element, string> =>
  Either.flatMap(
    Either.try({
      try: (): Document =>
        new DOMParser({
          locator: false,
          onError: (level, message) => {
            if (level !== "warning") throw new Error(message)
          }
        }).parseFromString(text.replace(/^\uFEFF/, "").replace(illegal, ""), "text/xml"),
      catch: (error) => `not well-formed XML: ${error instanceof Error ? error.message : String(error)}`
    }),
    (document) => Either.fromNullable(document.documentElement, () => "an empty XML document")
  )

export const isElement = (node: Node): node is Element => node.nodeType === 1

/** Sibling pointers, because indexing a NodeList walks it from its start. */
export const elements = (parent: Element, localName?: string): Array<Element> => {
  const found: Array<Element> = []
  for (let node = parent.firstChild; node !== null; node = node.nextSibling) {
    if (isElement(node) && (localName === undefined || node.localName === localName)) found.push(node)
  }
  return found
}

export const element = (parent: Element | undefined, localName: string): Element | undefined =>
  parent === undefined ? undefined : elements(parent, localName)[0]

export const attribute = (of: Element | undefined, name: string): string | undefined =>
  of?.getAttribute(name) ?? undefined

/** Text and CDATA directly inside. */
export const text = (of: Element | undefined): string => {
  let content = ""
  for (let node = of?.firstChild ?? null; node !== null; node = node.nextSibling) {
    if (node.nodeType === 3 || node.nodeType === 4) content += node.nodeValue ?? ""
  }
  return content
}
