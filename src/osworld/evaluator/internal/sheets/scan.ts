/**
 * XML as a stream of tags and text. Sheets have a million cells and attributes have no bound, so what agents wrote is
 * read in one linear pass and never as a general DOM.
 *
 * Well-formed XML or a reason; names lose their namespace prefix, attributes keep theirs. Declarations of types and
 * entities are refused.
 */
import * as Either from "effect/Either"

/** The attributes of one tag. They are there while its handler runs: the next tag takes their place. */
export interface Attributes {
  get(name: string): string | undefined
  names(): ReadonlyArray<string>
  /** To keep. */
  copy(): ReadonlyMap<string, string>
}

export interface Handlers {
  open(name: string, attributes: Attributes): void
  close(name: string): void
  text(text: string): void
  /**
   * Reads on its own from the `<` at `start`, inside the element that is written as `within`: elements of forms that it
   * knows to be well-formed. It answers where it stopped, inside an element of that very name and depth; that is `start`
   * where it knows none.
   */
  ahead?(text: string, start: number, within: string): number
}

/** Thrown inside `scan` only, by it and by handlers: unwinding by hand through a loop this hot costs more than it says. */
export class Malformed {
  constructor(
    readonly reason: string,
    readonly kind: "Unparsable" | "Undecidable" = "Unparsable"
  ) {}
}

const maxDepth = 256
const maxAttributes = 256

const named: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" }

const decodeEntity = (whole: string, name: string): string => {
  const known = named[name]
  if (known !== undefined) return known
  const code = /^#(?:x([0-9a-fA-F]{1,6})|(\d{1,7}))$/.exec(name)
  const point = code === null ? Number.NaN : code[1] === undefined ? Number(code[2]) : Number.parseInt(code[1], 16)
  if (!(point <= 0x10ffff)) throw new Malformed(`the entity ${whole} is not declared`)
  return String.fromCodePoint(point)
}

const decode = (raw: string): string => {
  if (!raw.includes("&")) return raw
  return raw.replace(/&([^;&\s]{0,12};?)/g, (whole, name: string) => {
    if (!name.endsWith(";")) throw new Malformed("an ampersand that starts no entity")
    return decodeEntity(whole, name.slice(0, -1))
  })
}

/** Text as it is written to what it says. */
const unescape = (raw: string): string => decode(raw.includes("\r") ? raw.replace(/\r\n?/g, "\n") : raw)

const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9

const localName = (name: string): string => {
  const colon = name.indexOf(":")
  return colon < 0 ? name : name.slice(colon + 1)
}

/** One store for all tags of a text, never shortened: a million small maps cost more than the text. */
class Store implements Attributes {
  private readonly keys: Array<string> = []
  private readonly values: Array<string> = []
  private size = 0

  get(name: string): string | undefined {
    for (let i = 0; i < this.size; i++) if (this.keys[i] === name) return this.values[i]
    return undefined
  }

  names(): ReadonlyArray<string> {
    return this.keys.slice(0, this.size)
  }

  copy(): ReadonlyMap<string, string> {
    return new Map(this.names().map((key, i) => [key, this.values[i] ?? ""]))
  }

  clear(): void {
    this.size = 0
  }

  add(name: string, value: string): void {
    if (this.get(name) !== undefined) throw new Malformed(`the attribute ${name} is given twice`)
    if (this.size === maxAttributes) {
      throw new Malformed(`a tag has more than ${maxAttributes} attributes`, "Undecidable")
    }
    this.keys[this.size] = name
    this.values[this.size++] = value
  }
}

/** Behind the name that starts at `start`, which ends at white space or `=`. */
const attributeNameEnd = (text: string, start: number): number => {
  let i = start
  for (;;) {
    const code = text.charCodeAt(i)
    if (code === 61 /* = */ || isSpace(code)) return i
    // NaN: the text is over. And the characters " & ' / < >.
    if (!(code > 32) || code === 34 || code === 38 || code === 39 || code === 47 || code === 60 || code === 62) {
      throw new Malformed("a tag does not end")
    }
    i++
  }
}

const skipSpace = (text: string, start: number): number => {
  let i = start
  while (isSpace(text.charCodeAt(i))) i++
  return i
}

/** From behind a tag's name to behind its `>`; negative where the tag closes itself. */
const readTag = (text: string, start: number, store: Store): number => {
  store.clear()
  let i = start
  for (;;) {
    const before = i
    i = skipSpace(text, i)
    const code = text.charCodeAt(i)
    if (code === 62 /* > */) return i + 1
    if (code === 47 /* / */ && text.charCodeAt(i + 1) === 62) return -(i + 2)
    if (before === i) throw new Malformed("a tag does not end")
    const end = attributeNameEnd(text, i)
    const name = text.slice(i, end)
    i = skipSpace(text, end)
    if (name === "" || text.charCodeAt(i) !== 61) throw new Malformed("an attribute has no name or no value")
    i = skipSpace(text, i + 1)
    const quote = text[i]
    if (quote !== '"' && quote !== "'") throw new Malformed(`the attribute ${name} has no quotes`)
    const close = text.indexOf(quote, i + 1)
    if (close < 0) throw new Malformed(`the attribute ${name} does not end`)
    const value = text.slice(i + 1, close)
    if (value.includes("<")) throw new Malformed(`the attribute ${name} holds a <`)
    store.add(name, decode(value))
    i = close + 1
  }
}

const nameEnd = (text: string, start: number): number => {
  let i = start
  for (;;) {
    const code = text.charCodeAt(i)
    if (code === 62 || code === 47 || isSpace(code)) return i
    // NaN: the text is over.
    if (!(code > 32) || code === 60) throw new Malformed("a tag does not end")
    i++
  }
}

const closeOf = (text: string, mark: string, from: number): number => {
  const end = text.indexOf(mark, from)
  if (end < 0) throw new Malformed(`${mark} is missing`)
  return end
}

const run = (text: string, handlers: Handlers): void => {
  /** Names as they are written, and without their prefixes. */
  const stack: Array<string> = []
  const locals: Array<string> = []
  const store = new Store()
  let roots = 0
  let i = 0
  while (i < text.length) {
    let next = text.indexOf("<", i)
    if (next < 0) next = text.length
    if (next > i) {
      const raw = text.slice(i, next)
      if (stack.length > 0) handlers.text(unescape(raw))
      else if (raw.trim() !== "") throw new Malformed("text outside of the root element")
    }
    if (next === text.length) break
    const within = stack[stack.length - 1]
    if (handlers.ahead !== undefined && within !== undefined) {
      i = handlers.ahead(text, next, within)
      if (i > next) continue
    }
    i = next + 1
    const code = text.charCodeAt(i)
    if (code === 47 /* / */) {
      const end = closeOf(text, ">", i)
      const name = stack.pop()
      // Mostly nothing stands behind the name, and then it need not be cut out.
      const isUsual = name !== undefined && end === i + 1 + name.length && text.startsWith(name, i + 1)
      if (!isUsual) {
        const found = text.slice(i + 1, end).trimEnd()
        if (found !== name) throw new Malformed(`</${found}> closes nothing`)
      }
      handlers.close(locals.pop() ?? "")
      i = end + 1
    } else if (code === 63 /* ? */) {
      i = closeOf(text, "?>", i) + 2
    } else if (code === 33 /* ! */) {
      if (text.startsWith("!--", i)) {
        i = closeOf(text, "-->", i + 3) + 3
      } else if (text.startsWith("![CDATA[", i) && stack.length > 0) {
        const end = closeOf(text, "]]>", i)
        handlers.text(text.slice(i + 8, end))
        i = end + 3
      } else {
        throw new Malformed("it declares types or entities")
      }
    } else {
      const end = nameEnd(text, i)
      const name = text.slice(i, end)
      if (name === "") throw new Malformed("a tag has no name")
      if (stack.length === 0 && roots++ > 0) throw new Malformed("it has two root elements")
      const after = readTag(text, end, store)
      const local = localName(name)
      handlers.open(local, store)
      if (after < 0) handlers.close(local)
      else if (stack.push(name) > maxDepth) throw new Malformed(`it is nested deeper than ${maxDepth}`, "Undecidable")
      else locals.push(local)
      i = Math.abs(after)
    }
  }
  if (stack.length > 0) throw new Malformed(`<${stack[stack.length - 1]}> does not end`)
  if (roots === 0) throw new Malformed("an empty XML document")
}

export const scan = (text: string, handlers: Handlers): Either.Either<void, Malformed> =>
  Either.try({
    try: () => run(text.startsWith("\uFEFF") ? text.slice(1) : text, handlers),
    catch: (error) => {
      if (error instanceof Malformed) return error
      throw error
    }
  })
