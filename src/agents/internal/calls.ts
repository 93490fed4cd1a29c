/** Reads calls with quoted arguments, such as `click(point='<point>1 2</point>')`, that models write as text. */

export interface Call {
  readonly name: string
  readonly arguments: ReadonlyMap<string, string>
  /** As it was written. */
  readonly text: string
}

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", "\\": "\\", "'": "'", '"': '"' }

const unescaped = (text: string): string =>
  text.replace(/\\([\s\S])/g, (whole, character: string) =>
    Object.hasOwn(escapes, character) ? (escapes[character] ?? whole) : whole
  )

const opening = /\s*([A-Za-z_]\w*)\s*\(/y
const naming = /\s*([A-Za-z_]\w*)\s*=\s*(['"])/y
const closing = /\s*\)/y
const comma = /\s*,/y
// What comes after the quote that ends a value: the end of the call and of the text, or another call, or another argument.
const afterLast = /\s*\)\s*(?:$|[A-Za-z_]\w*\s*\()/y
const afterOne = /\s*,\s*(?:\)|[A-Za-z_]\w*\s*=\s*['"])/y

const match = (pattern: RegExp, text: string, at: number): RegExpExecArray | null => {
  pattern.lastIndex = at
  return pattern.exec(text)
}

/**
 * Where the value that begins at `start` ends. Models forget to escape quotes in what they type, so a quote ends a value
 * only where the call can go on behind it.
 */
const valueEnd = (text: string, start: number, quote: string): number | undefined => {
  for (let at = start; at < text.length; at++) {
    const character = text.charAt(at)
    if (character === "\\") at++
    else if (character === quote && (match(afterLast, text, at + 1) ?? match(afterOne, text, at + 1)) !== null)
      return at
  }
  return undefined
}

const callAt = (text: string, start: number): { readonly call: Call; readonly end: number } | undefined => {
  const head = match(opening, text, start)
  if (head === null) return undefined
  const found = new Map<string, string>()
  let at = start + head[0].length
  for (;;) {
    const end = match(closing, text, at)
    if (end !== null) {
      at += end[0].length
      return { call: { name: head[1] ?? "", arguments: found, text: text.slice(start, at).trim() }, end: at }
    }
    const name = match(naming, text, at)
    const keyword = name?.[1] ?? ""
    if (name === null || found.has(keyword)) return undefined
    const from = at + name[0].length
    const to = valueEnd(text, from, name[2] ?? "")
    if (to === undefined) return undefined
    found.set(keyword, unescaped(text.slice(from, to)))
    at = to + 1
    at += match(comma, text, at)?.[0].length ?? 0
  }
}

/** The calls that a text is made of; `undefined` where it holds anything else, or none. */
export const calls = (text: string): ReadonlyArray<Call> | undefined => {
  const found: Array<Call> = []
  const end = text.trimEnd().length
  for (let at = 0; at < end; ) {
    const next = callAt(text.slice(0, end), at)
    if (next === undefined) return undefined
    found.push(next.call)
    at = next.end
  }
  return found.length === 0 ? undefined : found
}
