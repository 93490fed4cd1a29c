/**
 * A few values out of rows of JSON Lines, byte by byte: what is not asked for is checked and dropped as it comes, so that a
 * row of any size takes no memory.
 */

/** What to keep of a row. Names are paths of keys, joined by dots. */
export interface Selection {
  /** Strings, numbers, booleans and nulls. */
  readonly values: ReadonlyArray<string>
  /** Arrays of which the length is kept, in place of a value. */
  readonly lengths: ReadonlyArray<string>
}

export type Value = string | number | boolean | null

/** A line that is not empty, by its number from 1. `torn` when the file ended before its newline. */
export interface ScannedRow {
  readonly line: number
  readonly torn: boolean
  /** By path; or why the line is no JSON object. */
  readonly row: ReadonlyMap<string, Value> | string
}

export interface RowScanner {
  readonly feed: (bytes: Uint8Array) => ReadonlyArray<ScannedRow>
  /** The last line, if it has no newline. */
  readonly end: () => ReadonlyArray<ScannedRow>
}

/** Longer strings are cut: they are read by people. */
const longest = 4096

/** Longer numbers are none. */
const longestNumber = 512

const [quote, comma, colon, backslash] = [0x22, 0x2c, 0x3a, 0x5c]
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]
const newline = 0x0a

const isSpace = (byte: number) => byte === 0x20 || byte === 0x09 || byte === 0x0d
const isHex = (byte: number) =>
  (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)
/** Nothing that a string's reader has to look at. */
const isPlain = (byte: number) => byte >= 0x20 && byte !== quote && byte !== backslash
const escapes = new Set(Array.from('"\\/bfnrtu', (sign) => sign.charCodeAt(0)))
/** Bytes of numbers and of `true`, `false`, `null`. */
const isWord = (byte: number) =>
  (byte >= 0x30 && byte <= 0x39) ||
  (byte >= 0x61 && byte <= 0x7a) ||
  byte === 0x2b ||
  byte === 0x2d ||
  byte === 0x2e ||
  byte === 0x45

/** What may come next in a row. */
type State = "value" | "valueOrClose" | "keyOrClose" | "key" | "colon" | "commaOrClose" | "string" | "word" | "end"

interface Frame {
  readonly object: boolean
  /** Undefined where nothing below is asked for. */
  readonly path: string | undefined
  /** The key that is being read, of an object. */
  key: string | undefined
  /** Elements so far, of an array. */
  count: number
}

const prefixes = (paths: ReadonlyArray<string>): ReadonlySet<string> =>
  new Set(
    paths.flatMap((path) => {
      const keys = path.split(".")
      return keys.slice(1).map((_, index) => keys.slice(0, index + 1).join("."))
    })
  )

const showByte = (byte: number) =>
  byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `byte 0x${byte.toString(16).padStart(2, "0")}`

export const rowScanner = (selection: Selection): RowScanner => {
  const values = new Set(selection.values)
  const lengths = new Set(selection.lengths)
  const inner = prefixes([...selection.values, ...selection.lengths])

  let line = 1
  let state: State = "value"
  let fault: string | undefined
  let begun = false
  let column = 0
  let stack: Array<Frame> = []
  let found = new Map<string, Value>()
  // The string or word that is being read.
  let asKey = false
  let taken: Array<number> | undefined
  let cut = false
  let escaped = false
  let hexLeft = 0

  const reset = () => {
    state = "value"
    fault = undefined
    begun = false
    column = 0
    stack = []
    found = new Map()
    taken = undefined
  }

  const top = () => stack[stack.length - 1]

  const pathHere = (): string | undefined => {
    const frame = top()
    if (frame === undefined || !frame.object || frame.path === undefined || frame.key === undefined) return undefined
    return frame.path === "" ? frame.key : `${frame.path}.${frame.key}`
  }

  /** A key that comes twice holds what it had last. */
  const forget = (path: string) => {
    found.delete(path)
    if (!inner.has(path)) return
    for (const each of found.keys()) if (each.startsWith(`${path}.`)) found.delete(each)
  }

  const afterValue = () => {
    state = stack.length === 0 ? "end" : "commaOrClose"
  }

  const open = (object: boolean) => {
    const path = pathHere()
    const below = path !== undefined && (inner.has(path) || lengths.has(path))
    const wanted = stack.length === 0 ? "" : below ? path : undefined
    if (path !== undefined) forget(path)
    stack.push({ object, path: wanted, key: undefined, count: 0 })
    state = object ? "keyOrClose" : "valueOrClose"
  }

  const close = () => {
    const frame = stack.pop()
    if (frame !== undefined && !frame.object && frame.path !== undefined && lengths.has(frame.path)) {
      found.set(frame.path, frame.count)
    }
    afterValue()
  }

  const startString = (key: boolean) => {
    asKey = key
    const frame = top()
    const path = key ? frame?.path : pathHere()
    taken = path !== undefined && (key || values.has(path)) ? [] : undefined
    cut = false
    escaped = false
    hexLeft = 0
    state = "string"
  }

  const parse = (bytes: ReadonlyArray<number>): Value => JSON.parse(Buffer.from(bytes).toString("utf8"))

  const endString = () => {
    const frame = top()
    const text = taken === undefined ? undefined : parse([quote, ...taken, quote])
    taken = undefined
    if (asKey) {
      // A key with a dot is none of ours.
      if (frame !== undefined) frame.key = typeof text === "string" && !text.includes(".") ? text : undefined
      state = "colon"
      return
    }
    const path = pathHere()
    if (path !== undefined) {
      forget(path)
      if (typeof text === "string") found.set(path, cut ? `${text}…` : text)
    }
    afterValue()
  }

  const inString = (byte: number): string | undefined => {
    if (byte < 0x20) return "a control character in a string"
    if (hexLeft > 0) {
      if (!isHex(byte)) return "an escape that is none"
      hexLeft--
    } else if (escaped) {
      if (!escapes.has(byte)) return "an escape that is none"
      escaped = false
      if (byte === 0x75) hexLeft = 4
    } else if (byte === quote) {
      endString()
      return undefined
    } else {
      // Between two characters, and nowhere else, a text may be cut.
      if (taken !== undefined && taken.length >= longest && (byte & 0xc0) !== 0x80) cut = true
      if (byte === backslash) escaped = true
    }
    if (taken !== undefined && !cut) taken.push(byte)
    return undefined
  }

  const endWord = (): string | undefined => {
    const bytes = taken ?? []
    taken = undefined
    const text = Buffer.from(bytes).toString("latin1")
    if (!/^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)$/.test(text)) return `"${text}" is no value`
    const path = pathHere()
    if (path !== undefined) {
      forget(path)
      if (values.has(path)) found.set(path, parse(bytes))
    }
    afterValue()
    return undefined
  }

  const startValue = (byte: number): string | undefined => {
    const frame = top()
    if (frame !== undefined && !frame.object) frame.count++
    if (byte === openObject) open(true)
    else if (stack.length === 0) return "it is no object"
    else if (byte === openArray) open(false)
    else if (byte === quote) startString(false)
    else if (isWord(byte)) {
      taken = [byte]
      state = "word"
    } else return `unexpected ${showByte(byte)}`
    return undefined
  }

  /** Takes one byte; answers with what is wrong with it. */
  const step = (byte: number): string | undefined => {
    if (state === "string") return inString(byte)
    if (state === "word") {
      if (isWord(byte)) {
        taken?.push(byte)
        return (taken?.length ?? 0) > longestNumber ? "a number of more than 512 digits" : undefined
      }
      const wrong = endWord()
      if (wrong !== undefined) return wrong
    }
    if (isSpace(byte)) return undefined
    switch (state) {
      case "value":
        return startValue(byte)
      case "valueOrClose":
        if (byte !== closeArray) return startValue(byte)
        close()
        return undefined
      case "keyOrClose":
      case "key":
        if (byte === quote) startString(true)
        else if (byte === closeObject && state === "keyOrClose") close()
        else return `unexpected ${showByte(byte)} where a key should be`
        return undefined
      case "colon":
        if (byte !== colon) return `unexpected ${showByte(byte)} after a key`
        state = "value"
        return undefined
      case "commaOrClose": {
        const object = top()?.object === true
        if (byte === comma) state = object ? "key" : "value"
        else if (byte === (object ? closeObject : closeArray)) close()
        else return `unexpected ${showByte(byte)} after a value`
        return undefined
      }
      default:
        return `unexpected ${showByte(byte)} after the end of the object`
    }
  }

  const finish = (torn: boolean): ReadonlyArray<ScannedRow> => {
    const row = fault ?? (state === "end" ? found : "it ends in the middle")
    const rows = begun ? [{ line, torn, row }] : []
    line++
    reset()
    return rows
  }

  return {
    feed: (bytes) => {
      const rows: Array<ScannedRow> = []
      for (let at = 0; at < bytes.length; at++) {
        // Most bytes are inside of strings that nobody asked for.
        if (fault === undefined && state === "string" && taken === undefined && !escaped && hexLeft === 0) {
          const from = at
          while (at < bytes.length && isPlain(bytes[at] ?? 0)) at++
          column += at - from
          if (at === bytes.length) break
        }
        const byte = bytes[at] ?? 0
        if (byte === newline) {
          rows.push(...finish(false))
          continue
        }
        column++
        if (!begun && !isSpace(byte)) begun = true
        if (fault !== undefined) continue
        const wrong = step(byte)
        if (wrong !== undefined) fault = `${wrong} (byte ${column})`
      }
      return rows
    },
    end: () => finish(true)
  }
}
