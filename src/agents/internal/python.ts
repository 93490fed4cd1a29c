/**
 * Whether Python that a model wrote can be compiled, said before it is sent: Ruff's parser, which refuses what CPython's
 * compiler refuses, as WebAssembly. Nothing is run.
 */
import { createRequire } from "node:module"
import * as Either from "effect/Either"
import { pythonProgram } from "../../desktop/Action.js"

type Ruff = typeof import("@astral-sh/ruff-wasm-nodejs")
type Check = (code: string) => unknown

// The oldest Python that desktops have, and what its compiler refuses beyond its grammar: late imports from the future,
// and break, continue, yield, await and return where they do not belong.
const settings = { "target-version": "py310", lint: { select: ["F404", "F701", "F702", "F704", "F706"] } }

const load = (): Check => {
  // Loaded when the first code comes, because it takes a third of a second; anew after a failure in the middle of its
  // work, which may have left it half done.
  const require = createRequire(import.meta.url)
  const name = "@astral-sh/ruff-wasm-nodejs"
  delete require.cache[require.resolve(name)]
  const ruff: Ruff = require(name)
  // Columns in bytes: for any other, every fault makes it count through the text anew, which a hostile reply can make minutes.
  const workspace = new ruff.Workspace(settings, ruff.PositionEncoding.Utf8)
  return (code) => workspace.check(code)
}

let loaded: Check | undefined

interface Fault {
  readonly message: string
  readonly start_location: { readonly row: number; readonly column: number }
}

const isRecord = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null

const isFault = (value: unknown): value is Fault =>
  isRecord(value) &&
  typeof value.message === "string" &&
  isRecord(value.start_location) &&
  typeof value.start_location.row === "number" &&
  typeof value.start_location.column === "number"

/** Why the code cannot be compiled as the program of an action; `undefined` when it can. */
export const syntaxError = (code: string): string | undefined => {
  const found = Either.try(() => {
    loaded ??= load()
    return loaded(pythonProgram(code))
  })
  if (Either.isLeft(found)) {
    loaded = undefined
    return "Invalid Python action: it is nested too deeply"
  }
  const fault = Array.isArray(found.right) ? found.right.find(isFault) : undefined
  if (fault === undefined) return undefined
  // The program has a line before the code.
  const row = fault.start_location.row - 1
  const line = Buffer.from(code.split("\n", row)[row - 1] ?? "")
  const column = line.subarray(0, fault.start_location.column - 1).toString().length + 1
  return `Invalid Python action: ${fault.message} (line ${row}, offset ${column})`
}

// -----------------------------------------------------------------------------
// Spans
// -----------------------------------------------------------------------------

/** A stretch of code, a string literal or a comment. */
export interface Span {
  readonly kind: "code" | "string" | "comment"
  readonly text: string
}

const stringAt = (code: string, start: number): number => {
  const quote = code.charAt(start)
  const long = code.startsWith(quote.repeat(3), start)
  const end = long ? quote.repeat(3) : quote
  for (let at = start + end.length; at < code.length; at++) {
    const character = code.charAt(at)
    if (character === "\\") at++
    else if (code.startsWith(end, at)) return at + end.length
    else if (!long && character === "\n") return at
  }
  return code.length
}

/** The code in pieces that give it again when they are joined. A string that does not end takes its line, or the rest. */
export const spans = (code: string): ReadonlyArray<Span> => {
  const found: Array<Span> = []
  let from = 0
  let at = 0
  const push = (kind: Span["kind"], to: number) => {
    if (to > from) found.push({ kind, text: code.slice(from, to) })
    from = to
    at = to
  }
  while (at < code.length) {
    const character = code.charAt(at)
    if (character === '"' || character === "'") {
      push("code", at)
      push("string", stringAt(code, at))
    } else if (character === "#") {
      push("code", at)
      const end = code.indexOf("\n", at)
      push("comment", end < 0 ? code.length : end)
    } else {
      at++
    }
  }
  push("code", code.length)
  return found
}
