import * as Option from "effect/Option"

/** Values inside values that are still read: Python itself stops at about 200. */
const depthLimit = 100

class Malformed extends Error {}

const named: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v"
}

const widths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

const words: Readonly<Record<string, unknown>> = { True: true, False: false, None: null }

/** The Python literals that `repr` writes for lists, tuples, dictionaries, texts, numbers, truth values and `None`. */
const pythonLiteral = (source: string): unknown => {
  let at = 0

  const space = () => {
    while (/\s/.test(source.charAt(at)) && at < source.length) at++
  }

  const escape = (): string => {
    const letter = source.charAt(at++)
    const width = widths[letter]
    if (width === undefined) return named[letter] ?? `\\${letter}`
    const digits = source.slice(at, at + width)
    const point = /^[0-9a-fA-F]+$/.test(digits) && digits.length === width ? Number.parseInt(digits, 16) : Infinity
    if (point > 0x10ffff) throw new Malformed()
    at += width
    return String.fromCodePoint(point)
  }

  const text = (quote: string): string => {
    let value = ""
    while (true) {
      const character = source.charAt(at++)
      if (character === "" || character === "\n") throw new Malformed()
      if (character === quote) return value
      value += character === "\\" ? escape() : character
    }
  }

  const items = <A>(end: string, item: () => A): Array<A> => {
    const values: Array<A> = []
    space()
    while (source.charAt(at) !== end) {
      values.push(item())
      space()
      if (source.charAt(at) === ",") at++
      else if (source.charAt(at) !== end) throw new Malformed()
      space()
    }
    at++
    return values
  }

  const value = (depth: number): unknown => {
    if (depth > depthLimit) throw new Malformed()
    space()
    const first = source.charAt(at)
    if (first === "'" || first === '"') {
      at++
      return text(first)
    }
    if (first === "[" || first === "(") {
      at++
      return items(first === "[" ? "]" : ")", () => value(depth + 1))
    }
    if (first === "{") {
      at++
      return Object.fromEntries(
        items("}", () => {
          const key = value(depth + 1)
          space()
          if (source.charAt(at++) !== ":" || typeof key !== "string") throw new Malformed()
          return [key, value(depth + 1)] as const
        })
      )
    }
    const [word] = /^(?:[A-Za-z]+|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)/.exec(source.slice(at, at + 64)) ?? [""]
    at += word.length
    if (Object.hasOwn(words, word)) return words[word]
    if (word === "" || !Number.isFinite(Number(word))) throw new Malformed()
    return Number(word)
  }

  const read = value(0)
  space()
  if (at < source.length) throw new Malformed()
  return read
}

const attempt = (read: () => unknown): Option.Option<unknown> => {
  try {
    return Option.some(read())
  } catch (error) {
    if (error instanceof Malformed || error instanceof SyntaxError) return Option.none()
    throw error
  }
}

/** What a text says as JSON or as a Python literal; none where it is neither. */
export const decodeSerialised = (source: string): Option.Option<unknown> =>
  attempt(() => JSON.parse(source)).pipe(
    Option.orElse(() => attempt(() => pythonLiteral(source))),
    // A text that was escaped twice ends at its first apostrophe unless that is read as one.
    Option.orElse(() =>
      source.includes("\\\\'") ? attempt(() => pythonLiteral(source.replaceAll("\\\\'", "\\'"))) : Option.none()
    )
  )
