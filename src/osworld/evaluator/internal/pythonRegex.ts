/**
 * Python's `re` patterns as JavaScript's, with Python's meaning: `.` stops only at `\n`, `$` also matches before a final
 * `\n`, `\w`, `\d` and `\b` know Unicode, and a brace that is no quantifier is a brace.
 */
import * as Either from "effect/Either"

const classes: Record<string, string> = {
  w: "\\p{L}\\p{N}_",
  d: "\\p{Nd}"
}
const wordChar = "[\\p{L}\\p{N}_]"
const boundary = `(?:(?<=${wordChar})(?!${wordChar})|(?<!${wordChar})(?=${wordChar}))`
const innerBoundary = `(?:(?<=${wordChar})(?=${wordChar})|(?<!${wordChar})(?!${wordChar}))`

interface Flags {
  readonly ignoreCase: boolean
  readonly multiline: boolean
  readonly dotAll: boolean
}

const flagNames: Record<string, keyof Flags | "none"> = {
  I: "ignoreCase",
  IGNORECASE: "ignoreCase",
  M: "multiline",
  MULTILINE: "multiline",
  S: "dotAll",
  DOTALL: "dotAll",
  U: "none",
  UNICODE: "none"
}

const escape = (rest: string, inClass: boolean): { readonly length: number; readonly text: string } => {
  const char = rest[1] ?? ""
  const known = classes[char]
  if (known !== undefined) return { length: 2, text: inClass ? known : `[${known}]` }
  if (char === "W" && !inClass) return { length: 2, text: `[^${classes.w}]` }
  if (char === "D") return { length: 2, text: "\\P{Nd}" }
  if (char === "b") return { length: 2, text: inClass ? "\\x08" : boundary }
  if (char === "B" && !inClass) return { length: 2, text: innerBoundary }
  if (char === "A" && !inClass) return { length: 2, text: "(?<![\\s\\S])" }
  if (char === "Z" && !inClass) return { length: 2, text: "(?![\\s\\S])" }
  if (char === "a") return { length: 2, text: "\\x07" }
  const code = /^\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))/.exec(rest)
  if (code !== null) return { length: code[0].length, text: `\\u{${code[1] ?? code[2] ?? code[3]}}` }
  if (/[sSnrtfv0-9]/.test(char)) return { length: 2, text: `\\${char}` }
  // With the u flag only syntax characters may be escaped; elsewhere the backslash means nothing.
  const syntax = inClass ? /[\^$\\.*+?()[\]{}|/-]/ : /[\^$\\.*+?()[\]{}|/]/
  return { length: 1 + char.length, text: syntax.test(char) ? `\\${char}` : char }
}

const translateClass = (
  pattern: string,
  start: number
): { readonly end: number; readonly text: string } | undefined => {
  let i = start + 1
  let text = "["
  if (pattern[i] === "^") {
    text += "^"
    i++
  }
  for (let first = true; i < pattern.length; first = false) {
    const char = pattern[i] ?? ""
    if (char === "]" && !first) return { end: i + 1, text: `${text}]` }
    if (char === "\\") {
      const { length, text: escaped } = escape(pattern.slice(i), true)
      text += escaped
      i += length
      // After a class such as \w a hyphen is itself and not a range.
      if (/^\\[wdsDS]$/.test(pattern.slice(i - length, i)) && pattern[i] === "-") {
        text += "\\-"
        i++
      }
    } else {
      text += char === "[" || char === "]" ? `\\${char}` : char
      i++
    }
  }
  return undefined
}

const translate = (pattern: string, flags: Flags): string | undefined => {
  const plain: Record<string, string> = {
    ".": flags.dotAll ? "[\\s\\S]" : "[^\\n]",
    "^": flags.multiline ? "(?<![^\\n])" : "(?<![\\s\\S])",
    $: flags.multiline ? "(?![^\\n])" : "(?=\\n?(?![\\s\\S]))",
    "}": "\\}",
    "]": "\\]"
  }
  let text = ""
  for (let i = 0; i < pattern.length; ) {
    const char = pattern[i] ?? ""
    const rest = pattern.slice(i)
    if (char === "\\") {
      const { length, text: escaped } = escape(rest, false)
      text += escaped
      i += length
    } else if (char === "[") {
      const inner = translateClass(pattern, i)
      if (inner === undefined) return undefined
      text += inner.text
      i = inner.end
    } else if (char === "{") {
      const quantifier = /^\{(\d*)(,?)(\d*)\}/.exec(rest)
      const [whole = "{", low = "", comma = "", high = ""] = quantifier ?? []
      const isQuantifier = quantifier !== null && (low !== "" || (comma !== "" && high !== ""))
      text += isQuantifier ? `{${low === "" ? "0" : low}${comma}${high}}` : "\\{"
      i += isQuantifier ? whole.length : 1
    } else if (rest.startsWith("(?P<")) {
      text += "(?<"
      i += 4
    } else if (rest.startsWith("(?P=")) {
      const name = /^\(\?P=(\w+)\)/.exec(rest)
      if (name === null) return undefined
      text += `\\k<${name[1]}>`
      i += name[0].length
    } else {
      text += plain[char] ?? char
      i++
    }
  }
  return text
}

/**
 * Compiles for searching. `flagList` holds Python names: `["I", "S"]`. A pattern that we cannot translate is the task's
 * fault, never a mismatch.
 */
export const compile = (pattern: string, flagList: ReadonlyArray<string> = []): Either.Either<RegExp, string> => {
  const flags = { ignoreCase: false, multiline: false, dotAll: false }
  const inline = /^\(\?([a-zA-Z]+)\)/.exec(pattern)
  for (const name of [...flagList, ...(inline?.[1] ?? "")]) {
    const flag = flagNames[name.toUpperCase()]
    if (flag === undefined) return Either.left(`the regular expression flag ${name} is not supported`)
    if (flag !== "none") flags[flag] = true
  }
  const refused = (why: string) => Either.left(`the pattern ${JSON.stringify(pattern)} is not supported: ${why}`)
  const source = translate(pattern.slice(inline?.[0].length ?? 0), flags)
  if (source === undefined) return refused("it does not end")
  try {
    return Either.right(new RegExp(source, flags.ignoreCase ? "iu" : "u"))
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error))
  }
}
