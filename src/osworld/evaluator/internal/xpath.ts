/** XPath 1.0 over XML. Prefixes are the document's own, as in `selector`. */
import { createRequire } from "node:module"
import type { Document, Node } from "@xmldom/xmldom"
import * as Either from "effect/Either"
import { type Element, isElement } from "./xml.js"

/** The part of xpath that we use. Its own types leave this one out, and bring a browser's globals to all of a program. */
interface XPath {
  readonly parse: (text: string) => {
    /** Throws where the path leads to no nodes, or has a prefix that stands for nothing. */
    readonly select: (from: {
      readonly node: Document | null
      readonly namespaces: (prefix: string) => string | undefined
    }) => ReadonlyArray<Node>
  }
}

const XPath: XPath = createRequire(import.meta.url)("xpath")

export interface Path {
  readonly text: string
  /** The elements that it leads to, or why there is no saying. */
  readonly select: (root: Element) => Either.Either<ReadonlyArray<Element>, string>
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

export const parse = (text: string): Either.Either<Path, string> =>
  Either.map(
    Either.try({ try: () => XPath.parse(text), catch: (error) => `${text} is no XPath: ${reasonOf(error)}` }),
    (evaluator): Path => ({
      text,
      select: (root) =>
        Either.try({
          // The document, so that a path may begin at its root.
          try: () => {
            const node = root.ownerDocument
            const namespaces = (prefix: string) => root.lookupNamespaceURI(prefix) ?? undefined
            return evaluator.select({ node, namespaces }).filter(isElement)
          },
          catch: (error) => `the XPath ${text} cannot be followed: ${reasonOf(error)}`
        })
    })
  )
