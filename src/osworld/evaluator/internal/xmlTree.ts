/**
 * A quick XML reader for large text documents: a tree of plain objects in a thirtieth of a DOM's time. Names are local,
 * attributes are read when asked for.
 *
 * Only what documents need: no document type declarations, so no entities of a file's own, and no validation.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { Builder, Repeated } from "./treeBuilder.js"

export { Repeated }

export interface Tree {
  /** Without its prefix. */
  readonly name: string
  /** The attributes as they are written. */
  readonly written: string
  readonly children: ReadonlyArray<Tree | string>
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

/** A name as programs write it. Native matches take a fraction of a loop's time until V8 has compiled the loop. */
const usualName = /[^\s<>/"'=]+/y

/**
 * What is behind the name of a tag, to its end, as programs write it: one space before each attribute, no single quotes,
 * and not so many that a match runs out of its stack.
 */
const usualRest = /(?: [^\s<>/"'=]+="[^<"]*"){0,64} ?\/?>/y

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

/** Thrown inside `parse` only: unwinding by hand through a loop this hot costs more than it says. */
class Refused {
  constructor(readonly refusal: Refusal) {}
}

const malformed = (reason: string): Refused =>
  new Refused({ kind: "Unparsable", reason: `not well-formed XML: ${reason}` })

const undecidable = (reason: string): Refused => new Refused({ kind: "Undecidable", reason })

const add = (content: string, builder: Builder): void => {
  if (builder.depth > 0) {
    if (content !== "") builder.add(content)
  } else if (content.trim() !== "") {
    throw malformed("text outside the root")
  }
}

// Each of these reads what is at `at` and answers where it ends. V8 compiles a short function long before a long one.

const readText = (text: string, at: number, builder: Builder): number => {
  const next = text.indexOf("<", at)
  const end = next < 0 ? text.length : next
  const content = unescape(text.slice(at, end))
  if (content === undefined) throw malformed("an entity that XML does not define")
  add(content, builder)
  return end
}

/** Comments, instructions and CDATA sections. */
const readMarkup = (text: string, at: number, builder: Builder): number => {
  const isInstruction = text.charCodeAt(at + 1) === 63
  if (isInstruction || text.startsWith("<!--", at)) {
    const close = isInstruction ? "?>" : "-->"
    const end = text.indexOf(close, at + (isInstruction ? 2 : 4))
    if (end < 0) throw malformed(`no ${close}`)
    return end + close.length
  }
  if (!text.startsWith("<![CDATA[", at)) throw malformed("document type declarations are not allowed")
  const end = text.indexOf("]]>", at)
  if (end < 0) throw malformed("a CDATA section")
  add(text.slice(at + 9, end), builder)
  return end + 3
}

const readEndTag = (text: string, at: number, builder: Builder): number => {
  const end = text.indexOf(">", at)
  const tag = builder.tag()
  // Mostly nothing stands behind the name, and then it need not be cut out.
  const isUsual = tag !== undefined && end === at + 2 + tag.length && text.startsWith(tag, at + 2)
  if (!isUsual && (end < 0 || tag === undefined || text.slice(at + 2, end).trimEnd() !== tag))
    throw malformed("an end tag that closes nothing")
  builder.close(end + 1)
  return end + 1
}

const readTag = (text: string, at: number, builder: Builder): number => {
  usualName.lastIndex = at + 1
  let nameEnd = usualName.test(text) ? usualName.lastIndex : at + 1
  let tag = text.slice(at + 1, nameEnd)
  const after = builder.repeat(tag, at)
  if (after >= 0) return after

  usualRest.lastIndex = nameEnd
  const end = usualRest.test(text) ? usualRest.lastIndex - 1 : tagEnd(text, at + 1)
  if (end < 0) throw malformed("a tag without an end")
  const empty = text.charCodeAt(end - 1) === 47
  const last = empty ? end - 1 : end
  if (nameEnd < last && !isSpace(text.charCodeAt(nameEnd))) {
    while (nameEnd < last && !isSpace(text.charCodeAt(nameEnd))) nameEnd++
    tag = text.slice(at + 1, nameEnd)
  }
  if (tag === "") throw malformed("a tag without a name")
  if (builder.depth === 0 && builder.hasRoot) throw malformed("two roots")
  const written = text.slice(nameEnd, last)
  if (empty) builder.empty(tag, written, at, end + 1)
  else if (builder.depth < builder.maxDepth) builder.open(tag, written, at)
  else throw undecidable(`XML deeper than ${builder.maxDepth} levels`)
  return end + 1
}

const read = (text: string, maxNodes: number, builder: Builder): Tree => {
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0
  while (at < text.length) {
    if (builder.nodes++ > maxNodes) throw undecidable(`more than ${maxNodes} XML nodes`)
    if (text.charCodeAt(at) !== 60) {
      at = readText(text, at, builder)
      continue
    }
    const mark = text.charCodeAt(at + 1)
    if (mark === 47) at = readEndTag(text, at, builder)
    else if (mark === 33 || mark === 63) at = readMarkup(text, at, builder)
    else at = readTag(text, at, builder)
  }
  if (builder.depth > 0) throw malformed(`no end of ${builder.tag()}`)
  const root = builder.root()
  if (root === undefined) throw malformed("it is empty")
  return root
}

/** `repeated` is for several texts that are written alike: the parts of one document. */
export const parse = (
  text: string,
  allowed: typeof limits = limits,
  repeated: Repeated = new Repeated()
): Either.Either<Tree, Refusal> => {
  try {
    return Either.right(read(text, allowed.nodes, new Builder(text, repeated, allowed.depth)))
  } catch (error) {
    if (error instanceof Refused) return Either.left(error.refusal)
    throw error
  }
}

export const child = (of: Tree | undefined, name: string): Tree | undefined => {
  if (of === undefined) return undefined
  const { children } = of
  // By index, here and below: an iterator costs most of the time until V8 has compiled it away.
  for (let i = 0; i < children.length; i++) {
    const node = children[i]
    if (typeof node === "object" && node.name === name) return node
  }
  return undefined
}

/** The first element that is so. */
export const childWhere = (of: Tree, is: (node: Tree) => boolean): Tree | undefined => {
  const { children } = of
  for (let i = 0; i < children.length; i++) {
    const node = children[i]
    if (typeof node === "object" && is(node)) return node
  }
  return undefined
}

export const children = (of: Tree | undefined, name?: string): Array<Tree> => {
  const found: Array<Tree> = []
  if (of === undefined) return found
  const { children } = of
  for (let i = 0; i < children.length; i++) {
    const node = children[i]
    if (typeof node === "object" && (name === undefined || node.name === name)) found.push(node)
  }
  return found
}

/** Every element inside, in the document's order. Depth is limited, so recursion is too. */
export const visit = (of: Tree, see: (node: Tree) => void): void => {
  const { children } = of
  for (let i = 0; i < children.length; i++) {
    const node = children[i]
    if (typeof node !== "object") continue
    see(node)
    // Most elements of a document are leaves.
    if (node.children.length > 0) visit(node, see)
  }
}

const gather = (of: Tree, name: string, apart: string | undefined, found: Array<Tree>): void => {
  const { children } = of
  for (let i = 0; i < children.length; i++) {
    const node = children[i]
    if (typeof node !== "object") continue
    if (node.name === name) found.push(node)
    else if (node.children.length > 0 && node.name !== apart) gather(node, name, apart, found)
  }
}

/** The elements of that name inside, in the document's order; none inside another, or inside one called `apart`. */
export const descendants = (of: Tree, name: string, apart?: string): ReadonlyArray<Tree> => {
  const found: Array<Tree> = []
  gather(of, name, apart, found)
  return found
}

/** What cannot stand in a prefix as programs write it, and so is part of something else. */
const noPrefix = /^xmlns|["'=:<>]/

/**
 * The value of the attribute whose name, with or without a prefix, has its local part at `start`, where the tag is written
 * as programs do: no single quotes, a space in front, nothing to unescape.
 */
const usualAttribute = (written: string, start: number, name: string): string | undefined => {
  let space = start - 1
  if (written.charCodeAt(space) === 58) {
    space = written.lastIndexOf(" ", space)
    if (space < 0 || noPrefix.test(written.slice(space + 1, start - 1))) return undefined
  }
  // Before the space either nothing, or the quote that ends a value; one that starts a value has `=` before it.
  if (written.charCodeAt(space) !== 32 || written.includes("'")) return undefined
  if (space > 0 && written.charCodeAt(space - 1) !== 34) return undefined
  if (space > 1 && (written.charCodeAt(space - 2) === 61 || isSpace(written.charCodeAt(space - 2)))) return undefined
  const from = start + name.length + 2
  const to = written.indexOf('"', from)
  if (to < 0) return undefined
  const value = written.slice(from, to)
  return value.includes("&") || value.includes("\r") ? undefined : value
}

/** The first attribute of that local name. */
export const attribute = (of: Tree | undefined, name: string): string | undefined => {
  if (of === undefined || of.written === "") return undefined
  const start = of.written.indexOf(`${name}="`)
  const usual = start < 0 ? undefined : usualAttribute(of.written, start, name)
  if (usual !== undefined) return usual
  if (start < 0 && !of.written.includes(name)) return undefined
  // A name starts after a space only: tried from within, a long one would be read again and again.
  for (const [, key = "", double, single] of of.written.matchAll(/(?:^|\s)([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    if (localName(key) !== name || key.startsWith("xmlns")) continue
    const value = double ?? single ?? ""
    return unescape(value) ?? value
  }
  return undefined
}

/** Text directly inside. */
export const text = (of: Tree | undefined): string => {
  if (of === undefined) return ""
  const { children } = of
  let all = ""
  for (let i = 0; i < children.length; i++) {
    const node = children[i]
    if (typeof node === "string") all += node
  }
  return all
}
