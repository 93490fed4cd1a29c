/** What an EPUB holds, as lines to be compared: table of contents, package, and pages. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { splitLines } from "./lines.js"
import * as Xml from "./xml.js"
import { decode } from "./xmlText.js"
import { unzip } from "./zip.js"

export type Parts = ReadonlyMap<string, ReadonlyArray<string>>

/**
 * Which members are compared. Upstream takes the two at the archive's root alone, and pages by the one ending `.html`.
 */
const kinds = (compat: boolean) =>
  compat
    ? { contents: /^toc\.ncx$/, package: /^content\.opf$/, page: /\.html$/ }
    : { contents: /\.ncx$/, package: /\.opf$/, page: /\.x?html?$/ }

/** What each conversion makes anew: the book's identifier, and when and by which program it was made. */
const isVolatile = (element: Xml.Element): boolean => {
  if (element.localName === "identifier" || element.localName === "date") return true
  // The role of the program that made the book.
  if (element.localName === "contributor") return Xml.attribute(element, "opf:role") === "bkp"
  const name = Xml.attribute(element, "name") ?? Xml.attribute(element, "property") ?? ""
  return (
    /^(dtb:(uid|generator)|dcterms:modified|calibre:timestamp|generator)$/.test(name) && element.localName === "meta"
  )
}

/** An element a line: its name, its attributes, its text. Navigation points are numbered anew and have no attributes. */
const elementLines = (root: Xml.Element): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const waiting = [root]
  for (let element = waiting.pop(); element !== undefined; element = waiting.pop()) {
    if (isVolatile(element)) continue
    const children = Xml.elements(element)
    const attributes = element.localName === "navPoint" ? [] : Array.from(element.attributes)
    const text = children.length === 0 ? Xml.text(element).replace(/\s+/g, " ").trim() : ""
    lines.push(
      [element.localName, ...attributes.map(({ name, value }) => `${name}=${value}`).toSorted(), text].join(" ")
    )
    waiting.push(...children.toReversed())
  }
  return lines
}

/** Text of books, which becomes some ten times as much when it is taken apart. */
const limits = { entries: 10_000, entryBytes: 16 * 1024 * 1024, totalBytes: 64 * 1024 * 1024 }

/** Elements that stand in the midst of a line of text. */
const inline = new Set(
  "a abbr acronym b bdo big cite code dfn em font i img kbd q s samp small span strike strong sub sup tt u var".split(
    " "
  )
)

const pageLines = (html: string): Effect.Effect<ReadonlyArray<string>, Refusal> =>
  Effect.gen(function* () {
    const { items } = yield* Effect.promise(() => import("./html.js"))
    const lines: Array<string> = []
    let line = ""
    const flush = () => {
      if (line.trim() !== "") lines.push(line.trim())
      line = ""
    }
    for (const item of yield* items(html)) {
      if (item.kind === "text") line += item.text.replace(/\s+/g, " ")
      if (item.kind !== "element") continue
      if (!inline.has(item.name)) flush()
      line += `<${item.name}${Array.from(item.attributes, ([name, value]) => ` ${name}="${value}"`).join("")}>`
    }
    flush()
    return lines
  })

/** An archive that is none has no parts. */
export const parts = (bytes: Uint8Array, compat: boolean): Effect.Effect<Parts, Refusal> =>
  Effect.gen(function* () {
    const kind = kinds(compat)
    const members = yield* unzip(
      bytes,
      (name) => kind.contents.test(name) || kind.package.test(name) || kind.page.test(name),
      limits
    )
    const found = new Map<string, ReadonlyArray<string>>()
    for (const [name, content] of members) {
      const text = decode(content)
      if (kind.page.test(name)) {
        found.set(name, yield* pageLines(text))
        continue
      }
      const lines = splitLines(text)
      const dropped = kind.contents.test(name) ? /navPoint/ : /dc:identifier/
      // Upstream drops lines; a program may write all in one. A document type without a part of its own says nothing.
      const root = Xml.parse(text.replace(/<!DOCTYPE[^[>]*>/, ""))
      found.set(
        name,
        compat || Either.isLeft(root) ? lines.filter((line) => !dropped.test(line)) : elementLines(root.right)
      )
    }
    return found
  })
