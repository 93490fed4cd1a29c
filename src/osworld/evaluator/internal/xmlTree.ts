/**
 * A quick XML reader for large text documents: a tree of plain objects in a thirtieth of a DOM's time. Names are local,
 * attributes are read when asked for.
 *
 * Only what documents need: no document type declarations, so no entities of a file's own, and no validation.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"

export interface Tree {
  /** Without its prefix. */
  readonly name: string
  /** The attributes as they are written. */
  readonly written: string
  readonly children: ReadonlyArray<Tree | string>
}

interface Open {
  readonly name: string
  readonly written: string
  readonly children: Array<Tree | string>
  /** With its prefix. */
  readonly tag: string
}

/** Far above what documents hold: a novel has some hundred thousand nodes, and fifty levels are many. */
export const limits = { nodes: 1_000_000, depth: 256 }

const named: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" }

/** `undefined` for an entity that XML itself does not define. */
const entity = (name: string): string | undefined => {
  if (!name.startsWith("#")) return Object.hasOwn(named, name) ? named[name] : undefined
  const code = /^#x[0-9a-f]{1,6}$/i.test(name)
    ? Number.parseInt(name.slice(2), 16)
    : /^#\d{1,7}$/.test(name)
      ? Number(name.slice(1))
      : -1
  return code >= 0 && code <= 0x10ffff ? String.fromCodePoint(code) : undefined
}

const unescape = (text: string): string | undefined => {
  const lines = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text
  if (!lines.includes("&")) return lines
  let bad = false
  const plain = lines.replace(/&([^;&\s]{0,10};?)/g, (whole, name: string) => {
    const value = name.endsWith(";") ? entity(name.slice(0, -1)) : undefined
    if (value === undefined) bad = true
    return value ?? whole
  })
  return bad ? undefined : plain
}

const localName = (tag: string): string => tag.slice(tag.indexOf(":") + 1)

const isSpace = (code: number): boolean => code === 32 || code === 9 || code === 10 || code === 13

/** Where the tag that opens at `start` ends: its `>`, which may also stand inside a quoted value. */
const tagEnd = (text: string, start: number): number => {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 62) return at
    if (code === 34 || code === 39) {
      at = text.indexOf(code === 34 ? '"' : "'", at + 1)
      if (at < 0) return -1
    } else if (code === 60) return -1
  }
  return -1
}

export const parse = (text: string, allowed: typeof limits = limits): Either.Either<Tree, Refusal> => {
  const malformed = (reason: string) =>
    Either.left<Refusal>({ kind: "Unparsable", reason: `not well-formed XML: ${reason}` })
  const names = new Map<string, string>()
  const open: Array<Open> = []
  let root: Tree | undefined
  let nodes = 0
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0

  const add = (content: string): boolean => {
    const parent = open[open.length - 1]
    if (parent === undefined) return content.trim() === ""
    if (content !== "") parent.children.push(content)
    return true
  }

  while (at < text.length) {
    if (nodes++ > allowed.nodes)
      return Either.left({ kind: "Undecidable", reason: `more than ${allowed.nodes} XML nodes` })
    if (text.charCodeAt(at) !== 60) {
      const next = text.indexOf("<", at)
      const end = next < 0 ? text.length : next
      const content = unescape(text.slice(at, end))
      if (content === undefined) return malformed("an entity that XML does not define")
      if (!add(content)) return malformed("text outside the root")
      at = end
      continue
    }
    const mark = text.charCodeAt(at + 1)
    if (mark === 63 || text.startsWith("<!--", at)) {
      const close = mark === 63 ? "?>" : "-->"
      const end = text.indexOf(close, at + (mark === 63 ? 2 : 4))
      if (end < 0) return malformed(`no ${close}`)
      at = end + close.length
    } else if (text.startsWith("<![CDATA[", at)) {
      const end = text.indexOf("]]>", at)
      if (end < 0 || !add(text.slice(at + 9, end))) return malformed("a CDATA section")
      at = end + 3
    } else if (mark === 33) {
      return malformed("document type declarations are not allowed")
    } else if (mark === 47) {
      const end = text.indexOf(">", at)
      const closed = open.pop()
      if (end < 0 || closed === undefined || text.slice(at + 2, end).trimEnd() !== closed.tag)
        return malformed(`an end tag that closes nothing`)
      at = end + 1
    } else {
      const end = tagEnd(text, at + 1)
      if (end < 0) return malformed("a tag without an end")
      const empty = text.charCodeAt(end - 1) === 47
      const last = empty ? end - 1 : end
      let nameEnd = at + 1
      while (nameEnd < last && !isSpace(text.charCodeAt(nameEnd))) nameEnd++
      const tag = text.slice(at + 1, nameEnd)
      if (tag === "") return malformed("a tag without a name")
      let name = names.get(tag)
      if (name === undefined) {
        name = localName(tag)
        names.set(tag, name)
      }
      const node: Open = { name, tag, written: text.slice(nameEnd, last), children: [] }
      const parent = open[open.length - 1]
      if (parent !== undefined) parent.children.push(node)
      else if (root === undefined) root = node
      else return malformed("two roots")
      if (!empty) {
        if (open.length >= allowed.depth)
          return Either.left({ kind: "Undecidable", reason: `XML deeper than ${allowed.depth} levels` })
        open.push(node)
      }
      at = end + 1
    }
  }
  if (open.length > 0) return malformed(`no end of ${open[open.length - 1]?.tag}`)
  return root === undefined ? malformed("it is empty") : Either.right(root)
}

export const child = (of: Tree | undefined, name: string): Tree | undefined => {
  for (const node of of?.children ?? []) if (typeof node !== "string" && node.name === name) return node
  return undefined
}

export const children = (of: Tree | undefined, name?: string): Array<Tree> => {
  const found: Array<Tree> = []
  for (const node of of?.children ?? []) {
    if (typeof node !== "string" && (name === undefined || node.name === name)) found.push(node)
  }
  return found
}

/** Every element inside, in the document's order. Depth is limited, so recursion is too. */
export const visit = (of: Tree, see: (node: Tree) => void): void => {
  for (const node of of.children) {
    if (typeof node === "string") continue
    see(node)
    visit(node, see)
  }
}

/** The attribute of that local name. */
export const attribute = (of: Tree | undefined, name: string): string | undefined => {
  if (of === undefined || !of.written.includes(name)) return undefined
  // As programs write it: no prefix, no spaces, no single quotes around, nothing to unescape.
  const { written } = of
  const at = written.indexOf(`${name}="`)
  if (at > 0 && isSpace(written.charCodeAt(at - 1)) && !written.includes("'") && !written.includes(`:${name}`)) {
    const start = at + name.length + 2
    const end = written.indexOf('"', start)
    const value = written.slice(start, end)
    if (end >= 0 && !value.includes("&") && !value.includes("\r")) return value
  }
  // A name starts after a space only: tried from within, a long one would be read again and again.
  for (const [, key = "", double, single] of of.written.matchAll(/(?:^|\s)([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    if (localName(key) !== name || key.startsWith("xmlns")) continue
    const value = double ?? single ?? ""
    return unescape(value) ?? value
  }
  return undefined
}

/** Text directly inside. */
export const text = (of: Tree | undefined): string =>
  of === undefined ? "" : of.children.filter((node) => typeof node === "string").join("")
