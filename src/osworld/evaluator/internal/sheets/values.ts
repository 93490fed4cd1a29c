/** Values of formulas, and how a spreadsheet converts and orders them. */
export interface FormulaError {
  readonly _tag: "FormulaError"
  readonly code: string
}

/** `null` is an empty cell. */
export type Scalar = number | string | boolean | null | FormulaError

export interface Matrix {
  readonly _tag: "Matrix"
  readonly rows: ReadonlyArray<ReadonlyArray<Scalar>>
}

export type Value = Scalar | Matrix

export const error = (code: string): FormulaError => ({ _tag: "FormulaError", code })

export const matrix = (rows: ReadonlyArray<ReadonlyArray<Scalar>>): Matrix => ({ _tag: "Matrix", rows })

export const isMatrix = (value: Value): value is Matrix =>
  typeof value === "object" && value !== null && value._tag === "Matrix"

export const isError = (value: Value): value is FormulaError =>
  typeof value === "object" && value !== null && value._tag === "FormulaError"

export const finite = (value: number): Scalar => (Number.isFinite(value) ? value : error("#NUM!"))

export const first = (value: Value): Scalar => (isMatrix(value) ? (value.rows[0]?.[0] ?? null) : value)

export const count = (value: Value): number => (isMatrix(value) ? value.rows.length * (value.rows[0]?.length ?? 0) : 1)

/** What it takes to look at a value once: long texts take longer. */
export const weight = (value: Value): number => {
  const one = (scalar: Scalar) => (typeof scalar === "string" ? 1 + (scalar.length >> 5) : 1)
  if (!isMatrix(value)) return one(value)
  let sum = 0
  for (const row of value.rows) for (const each of row) sum += one(each)
  return sum
}

const flattened = new WeakMap<Matrix, ReadonlyArray<Scalar>>()

/** All values, row by row. A range that a rule asks of each cell is laid out once. */
export const flat = (value: Value): ReadonlyArray<Scalar> => {
  if (!isMatrix(value)) return [value]
  const known = flattened.get(value)
  if (known !== undefined) return known
  const all = value.rows.flat()
  flattened.set(value, all)
  return all
}

export const map = (value: Value, f: (scalar: Scalar) => Scalar): Value =>
  isMatrix(value) ? matrix(value.rows.map((row) => row.map(f))) : f(value)

/** A single value, row or column meets every one of the other; what has no partner is #N/A. */
export const zip = (a: Value, b: Value, f: (a: Scalar, b: Scalar) => Scalar): Value => {
  if (!isMatrix(a)) return map(b, (other) => f(a, other))
  if (!isMatrix(b)) return map(a, (one) => f(one, b))
  const height = Math.max(a.rows.length, b.rows.length)
  const width = Math.max(a.rows[0]?.length ?? 0, b.rows[0]?.length ?? 0)
  // Two long lines of different direction would make a table; no conditional format means that.
  if (height * width > Math.max(count(a), count(b))) return error("#VALUE!")
  const at = ({ rows }: Matrix, row: number, column: number): Scalar => {
    const values = rows[rows.length === 1 ? 0 : row]
    const value = values?.[values.length === 1 ? 0 : column]
    return value === undefined ? error("#N/A") : value
  }
  return matrix(
    Array.from({ length: height }, (_, row) =>
      Array.from({ length: width }, (_, column) => f(at(a, row, column), at(b, row, column)))
    )
  )
}

/** Excel's longest text. */
const maxText = 32_767

export const joined = (parts: ReadonlyArray<string | FormulaError>): Scalar => {
  let text = ""
  for (const part of parts) {
    if (typeof part !== "string") return part
    text += part
    if (text.length > maxText) return error("#VALUE!")
  }
  return text
}

export const toText = (value: Scalar): string | FormulaError => {
  if (value === null) return ""
  if (typeof value === "boolean") return value ? "TRUE" : "FALSE"
  return typeof value === "number" ? String(value) : value
}

export const toNumber = (value: Scalar): number | FormulaError => {
  if (value === null) return 0
  if (typeof value === "boolean") return Number(value)
  if (typeof value !== "string") return value
  const number = value.trim() === "" ? Number.NaN : Number(value)
  return Number.isFinite(number) ? number : error("#VALUE!")
}

/** What a condition makes of it. Text is no condition. */
export const toTruth = (value: Scalar): boolean | FormulaError => {
  if (value === null) return false
  if (typeof value === "boolean") return value
  if (typeof value === "number") return value !== 0
  if (typeof value !== "string") return value
  return /^true$/i.test(value) ? true : /^false$/i.test(value) ? false : error("#VALUE!")
}

const rank = (value: Scalar): number => (typeof value === "string" ? 1 : 0)

/**
 * Numbers are less than text; case does not count; an empty cell is what it meets. Truth values are numbers, as
 * LibreOffice has it, which is the desktop's application.
 */
export const order = (a: Scalar, b: Scalar): number => {
  if (a === null && b === null) return 0
  if (a === null) return -order(b, a)
  if (b === null) return order(a, typeof a === "string" ? "" : 0)
  if (rank(a) !== rank(b)) return rank(a) - rank(b)
  if (typeof a === "string" && typeof b === "string") {
    const [left, right] = [a.toLowerCase(), b.toLowerCase()]
    return left === right ? 0 : left < right ? -1 : 1
  }
  return Number(a) - Number(b)
}

/**
 * A pattern with `*` and `?` (and `~` before those that are meant) against a whole text, without regard to case. Never
 * goes back further than to the last star, so no pattern of an agent's takes long.
 */
export const like = (text: string, pattern: string): boolean => {
  const given = text.toLowerCase()
  const parts: Array<{ readonly kind: "any" | "one" | "char"; readonly char: string }> = []
  const wanted = pattern.toLowerCase()
  for (let i = 0; i < wanted.length; i++) {
    const char = wanted[i] ?? ""
    const next = wanted[i + 1] ?? ""
    if (char === "~" && /[*?~]/.test(next)) {
      parts.push({ kind: "char", char: next })
      i++
    } else {
      parts.push({ kind: char === "*" ? "any" : char === "?" ? "one" : "char", char })
    }
  }
  let at = 0
  let part = 0
  let star = -1
  let mark = 0
  while (at < given.length) {
    const wantedPart = parts[part]
    if (wantedPart?.kind === "any") {
      star = part++
      mark = at
    } else if (wantedPart !== undefined && (wantedPart.kind === "one" || wantedPart.char === given[at])) {
      at++
      part++
    } else if (star >= 0) {
      part = star + 1
      at = ++mark
    } else {
      return false
    }
  }
  while (parts[part]?.kind === "any") part++
  return part === parts.length
}
