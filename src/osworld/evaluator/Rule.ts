/**
 * `{ method, ref }`: the small language in which tasks say what a value has to be.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as CellRange from "./internal/cellRange.js"
import { equals } from "./internal/json.js"
import * as PythonRegex from "./internal/pythonRegex.js"

/**
 * What a found value is held against: `method` is one of upstream's names, `ref` what it compares with.
 *
 * @since 0.1.0
 * @category models
 */
export const Rule = Schema.Struct({ method: Schema.String, ref: Schema.Unknown })

/**
 * @since 0.1.0
 * @category models
 */
export type Rule = typeof Rule.Type

const toNumber = (value: unknown): number | undefined => {
  if (typeof value === "number") return value
  if (typeof value !== "string" || value.trim() === "") return undefined
  const number = Number(value)
  return Number.isNaN(number) ? undefined : number
}

/** Numbers with numbers, strings with strings, and the lists of these element by element, as Python orders them. */
const compare = (a: unknown, b: unknown): number | undefined => {
  if (typeof a === "number" && typeof b === "number") return a - b
  if (typeof a === "string" && typeof b === "string") return a === b ? 0 : a < b ? -1 : 1
  if (!Array.isArray(a) || !Array.isArray(b)) return undefined
  for (const [i, item] of a.entries()) {
    if (i >= b.length) return 1
    const order = equals(item, b[i]) ? 0 : compare(item, b[i])
    if (order !== 0) return order
  }
  return a.length - b.length
}

const orders: Record<string, (order: number) => boolean> = {
  le: (order) => order <= 0,
  lt: (order) => order < 0,
  ge: (order) => order >= 0,
  gt: (order) => order > 0
}

/** `"a,b"` in quotes or not, as the list of its parts. */
const parts = (value: string): Array<string> => value.replace(/^["']+|["']+$/g, "").split(",")

const isStringList = Schema.is(Schema.Array(Schema.String))

const rangeLists = (ref: unknown): readonly [ReadonlyArray<string>, ReadonlyArray<string>] | undefined => {
  if (!Array.isArray(ref) || ref.length !== 2) return undefined
  const [lower, upper] = ref.map((item: unknown) => (typeof item === "string" ? item.split(/\s+/) : item))
  return isStringList(lower) && isStringList(upper) ? [lower, upper] : undefined
}

/**
 * Whether a value satisfies a rule. A value that cannot be compared with the reference does not; a method or a reference
 * that makes no sense is `Left`, because then the rule judges nothing.
 *
 * Methods: `eq ne le lt ge gt`; `re[.FLAG...]` (a Python pattern found anywhere); `approx:TH` (within TH of `ref`);
 * `range.XY` (`ref` is `[low, high]`, X and Y are `e` for "or equal" or `t`); `str_list_eq` and `str_set_eq` (the
 * comma-separated parts); `spreadsheet_range` (cells that cover `ref[0]` and lie within `ref[1]`).
 *
 * @since 0.1.0
 * @category matching
 */
export const matches = (value: unknown, rule: Rule): Either.Either<boolean, string> => {
  const { method, ref } = rule
  const badReference = Either.left(`the reference ${JSON.stringify(ref)} does not fit the method ${method}`)
  const [name = "", ...flags] = method.split(".")

  if (method === "eq") return Either.right(equals(value, ref))
  if (method === "ne") return Either.right(!equals(value, ref))

  const order = orders[method]
  if (order !== undefined) {
    const compared = compare(value, ref)
    return Either.right(compared !== undefined && order(compared))
  }
  if (name === "re") {
    if (typeof ref !== "string") return badReference
    if (value === null || value === undefined || typeof value === "object") {
      return Either.map(PythonRegex.compile(ref, flags), () => false)
    }
    return Either.map(PythonRegex.compile(ref, flags), (pattern) => pattern.test(String(value)))
  }
  if (method.startsWith("approx:")) {
    const threshold = toNumber(method.slice("approx:".length))
    const target = toNumber(ref)
    if (threshold === undefined || target === undefined) return badReference
    const number = toNumber(value)
    return Either.right(number !== undefined && Math.abs(number - target) <= threshold)
  }
  if (/^range\.[et][et]$/.test(method)) {
    const [low, high] = Array.isArray(ref) ? ref.map(toNumber) : []
    if (low === undefined || high === undefined) return badReference
    const number = toNumber(value)
    if (number === undefined) return Either.right(false)
    const aboveLow = method[6] === "e" ? number >= low : number > low
    const belowHigh = method[7] === "e" ? number <= high : number < high
    return Either.right(aboveLow && belowHigh)
  }
  if (method === "str_list_eq" || method === "str_set_eq") {
    if (!isStringList(ref)) return badReference
    if (typeof value !== "string") return Either.right(false)
    const found = parts(value)
    if (method === "str_list_eq") return Either.right(equals(found, ref))
    return Either.right(found.every((part) => ref.includes(part)) && ref.every((part) => found.includes(part)))
  }
  if (method === "spreadsheet_range") {
    const limits = rangeLists(ref)
    const [lower, upper] = limits === undefined ? [] : limits.map(CellRange.parseList)
    if (lower === undefined || upper === undefined) return badReference
    const cells = typeof value === "string" ? CellRange.parseList(value.split(/\s+/)) : undefined
    return Either.right(cells !== undefined && CellRange.covers(cells, lower) && CellRange.covers(upper, cells))
  }
  return Either.left(`the method ${JSON.stringify(method)} is not supported`)
}
