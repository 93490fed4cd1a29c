/**
 * LibreOffice's `registrymodifications.xcu`: what a user's profile sets, apart from the program's own defaults.
 *
 * A file is a list of `item`s, each with a path and below it `node`s and `prop`s, whose `value` holds the text.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { decode } from "./xmlText.js"
import * as Xml from "./xmlTree.js"

export interface Registry {
  /** A property's value; the last one where several items set it, and `undefined` where none does. */
  readonly get: (path: string, property: string) => string | undefined
}

const maxBytes = 16 * 1024 * 1024

/** The text of a property: its value, or the parts of a list, a line each. */
const valueOf = (property: Xml.Tree): string | undefined => {
  const value = Xml.child(property, "value")
  if (value === undefined) return undefined
  const parts = Xml.children(value, "it")
  return parts.length === 0 ? Xml.text(value) : parts.map(Xml.text).join("\n")
}

export const parse = (bytes: Uint8Array): Either.Either<Registry, Refusal> => {
  if (bytes.length > maxBytes) {
    return Either.left({ kind: "Undecidable", reason: `a registry of ${bytes.length} bytes, more than ${maxBytes}` })
  }
  return Either.map(Xml.parse(decode(bytes)), (root): Registry => {
    const values = new Map<string, string>()
    // Nodes below an item lengthen its path. A list of what is still to read, since nodes may nest without end.
    const waiting = Xml.children(root, "item").map((item) => ({ path: Xml.attribute(item, "path") ?? "", node: item }))
    for (let i = 0; i < waiting.length; i++) {
      const next = waiting[i]
      if (next === undefined) break
      for (const child of Xml.children(next.node)) {
        const name = Xml.attribute(child, "name") ?? ""
        if (child.name === "node") waiting.push({ path: `${next.path}/${name}`, node: child })
        const value = child.name === "prop" ? valueOf(child) : undefined
        if (value !== undefined) values.set(JSON.stringify([next.path, name]), value)
      }
    }
    return { get: (path, property) => values.get(JSON.stringify([path, property])) }
  })
}
