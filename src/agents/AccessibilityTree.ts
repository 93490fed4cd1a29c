/**
 * The accessibility tree of a desktop as a table that a model reads: what is on the screen and can be told apart.
 *
 * @since 0.1.0
 */
import { DOMParser, type Element, type Node as XmlNode } from "@xmldom/xmldom"
import * as Data from "effect/Data"
import * as Either from "effect/Either"

/**
 * An element of the desktop that is worth showing. Pixels of the screen.
 *
 * @since 0.1.0
 * @category models
 */
export interface Node {
  /** Its role, with hyphens: `push-button`. */
  readonly tag: string
  readonly name: string
  readonly text: string
  readonly class: string
  readonly description: string
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/**
 * What the desktop gave is no XML.
 *
 * @since 0.1.0
 * @category errors
 */
export class TreeError extends Data.TaggedError("TreeError")<{ readonly message: string }> {}

// The roles that OSWorld's agents show, by the facts of its tree filter.
const prefixes = ["document"]
const suffixes = [
  "item",
  "button",
  "heading",
  "label",
  "scrollbar",
  "searchbox",
  "textbox",
  "link",
  "tabelement",
  "textfield",
  "textarea",
  "menu"
]
const roles = new Set([
  "alert",
  "canvas",
  "check-box",
  "combo-box",
  "entry",
  "icon",
  "image",
  "paragraph",
  "scroll-bar",
  "section",
  "slider",
  "static",
  "table-cell",
  "terminal",
  "text"
])

const isShownRole = (tag: string): boolean =>
  roles.has(tag) || prefixes.some((prefix) => tag.startsWith(prefix)) || suffixes.some((suffix) => tag.endsWith(suffix))

/** Characters that XML 1.0 cannot hold, and that applications write all the same. */
const illegal = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

const isElement = (node: XmlNode): node is Element => node.nodeType === 1

/** By the last part of its namespace, which differs from platform to platform before it. */
const attributesOf = (element: Element): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  for (const { localName, name, namespaceURI, value } of element.attributes) {
    const space = namespaceURI === null ? "" : namespaceURI.slice(namespaceURI.indexOf("/ns/") + 4)
    if (space.startsWith("http")) continue
    found.set(space === "" ? name : `${space}:${localName ?? name}`, value)
  }
  return found
}

const pair = (text: string | undefined): readonly [number, number] | undefined => {
  const found = text === undefined ? null : /^\(\s*(-?\d+)\s*,\s*(-?\d+)\s*\)$/.exec(text.trim())
  return found === null ? undefined : [Number(found[1]), Number(found[2])]
}

const ownText = (element: Element): string => {
  let text = ""
  for (let node = element.firstChild; node !== null; node = node.nextSibling) {
    if (node.nodeType === 3 || node.nodeType === 4) text += node.nodeValue ?? ""
  }
  return text.trim()
}

/** What can be acted on or read is shown; a picture without a name is worth showing where it gets a mark. */
const nodeOf = (element: Element): Node | undefined => {
  const tag = element.localName ?? element.tagName
  if (!isShownRole(tag)) return undefined
  const attributes = attributesOf(element)
  const is = (state: string): boolean => attributes.get(`state:${state}`) === "true"
  if (!is("showing") || !is("visible")) return undefined
  if (!is("enabled") && !is("editable") && !is("expandable") && !is("checkable")) return undefined
  const position = pair(attributes.get("component:screencoord"))
  const size = pair(attributes.get("component:size"))
  if (position === undefined || size === undefined) return undefined
  const [x, y] = position
  const [width, height] = size
  if (x < 0 || y < 0 || width <= 0 || height <= 0) return undefined
  return {
    tag,
    name: (attributes.get("name") ?? "").trim(),
    text: ownText(element) || (attributes.get("value:value") ?? ""),
    class: attributes.get("attributes:class") ?? "",
    description: attributes.get("attributes:description") ?? "",
    x,
    y,
    width,
    height
  }
}

/**
 * The elements that are showing, can be told apart by a name or a text (or are pictures), and lie on the screen; in the order of the tree.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (xml: string): Either.Either<ReadonlyArray<Node>, TreeError> =>
  Either.map(
    Either.try({
      try: () =>
        new DOMParser({
          locator: false,
          onError: (level, message) => {
            if (level !== "warning") throw new Error(message)
          }
        }).parseFromString(xml.replace(/^\uFEFF/, "").replace(illegal, ""), "text/xml"),
      catch: (error) =>
        new TreeError({ message: `no well-formed XML: ${error instanceof Error ? error.message : String(error)}` })
    }),
    (document) => {
      const found: Array<Node> = []
      // By hand: a tree may be deeper than a stack of calls.
      let at: XmlNode | null = document.documentElement
      while (at !== null) {
        if (isElement(at)) {
          const node = nodeOf(at)
          if (node !== undefined) found.push(node)
        }
        let next: XmlNode | null = at.firstChild
        for (let up: XmlNode | null = at; next === null && up !== null; up = up.parentNode) next = up.nextSibling
        at = next
      }
      return found
    }
  )

/** Without line breaks and tabs, which the table is made of. */
const cell = (text: string): string => {
  const line = text.replace(/[\t\r\n]+/g, " ")
  if (line === "") return '""'
  return line.includes('"') ? `"${line.replaceAll('"', '""')}"` : line
}

const plain = (text: string): string => text.replace(/[\t\r\n]+/g, " ")

/** Rows as far as they fit, and a word on those that do not. */
const trimmed = (rows: ReadonlyArray<string>, characters: number): string => {
  let length = 0
  const fits = rows.findIndex((row) => {
    length += row.length + 1
    return length > characters
  })
  return (fits < 0 ? rows : [...rows.slice(0, Math.max(1, fits)), "[...]"]).join("\n")
}

/**
 * The longest table that a prompt holds, in UTF-16 units: about the 10,000 tokens that OSWorld's agents allow.
 *
 * @since 0.1.0
 * @category constants
 */
export const maximumLength = 35_000

/**
 * A table with a line for each element that has a name or a text, its columns parted by tabs. A longer one than `characters` is cut between two lines.
 *
 * @since 0.1.0
 * @category encoding
 */
export const table = (nodes: ReadonlyArray<Node>, characters: number = maximumLength): string =>
  trimmed(
    [
      "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)",
      ...nodes
        .filter(({ name, text }) => name !== "" || text !== "")
        .map((node) =>
          [
            node.tag,
            plain(node.name),
            cell(node.text),
            plain(node.class),
            plain(node.description),
            `(${node.x}, ${node.y})`,
            `(${node.width}, ${node.height})`
          ].join("\t")
        )
    ],
    characters
  )

/**
 * As `table`, with a number in front and without places: for pictures that show the numbers.
 *
 * @since 0.1.0
 * @category encoding
 */
export const numberedTable = (nodes: ReadonlyArray<Node>, characters: number = maximumLength): string =>
  trimmed(
    [
      "index\ttag\tname\ttext",
      ...nodes.map((node, at) => [at + 1, node.tag, plain(node.name), cell(node.text)].join("\t"))
    ],
    characters
  )
