/**
 * Ids that are hashes of what they name, equal to the ones that the field publishes.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"

/**
 * A number that the recipe has as a float, whatever its value: `1` is written `1.0`. Numbers that are no integers are
 * floats without being marked.
 *
 * @since 0.1.0
 * @category models
 */
export class Float {
  readonly _tag = "Float"
  constructor(readonly value: number) {}
}

/**
 * A number that is written as a float also where it is whole: `1.0`, and not `1`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const float = (value: number): Float => new Float(value)

/**
 * A JSON value that has one canonical form.
 *
 * @since 0.1.0
 * @category models
 */
export type Canonical =
  | null
  | boolean
  | number
  | string
  | ReadonlyArray<Canonical>
  | { readonly [key: string]: Canonical }

/**
 * A value with floats in it that are marked as such.
 *
 * @since 0.1.0
 * @category models
 */
export type Hashable =
  | null
  | boolean
  | number
  | string
  | Float
  | ReadonlyArray<Hashable>
  | { readonly [key: string]: Hashable }

const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/**
 * A float as Python's `repr` writes it: the fewest digits that give the same number, as in JavaScript, but `1.0` and not
 * `1`, and an exponent below 1e-4 and from 1e16 on, of at least two digits: `1e-05`, `1e+16`.
 */
const showFloat = (value: number): string => {
  if (Object.is(value, -0)) return "-0.0"
  const [mantissa = "", exponent = "0"] = value.toExponential().split("e")
  const power = Number(exponent)
  if (value !== 0 && (power < -4 || power >= 16)) {
    return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`
  }
  if (Number.isInteger(value)) return `${BigInt(value)}.0`
  // JavaScript goes over to exponents only below 1e-6.
  return String(value)
}

const showNumber = (value: number, at: string): string => {
  if (!Number.isFinite(value)) throw new RangeError(`${at} is ${value}, which has no form in JSON`)
  if (!Number.isInteger(value)) return showFloat(value)
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`${at} is ${value}, which is larger than the integers that are told apart; mark it as a float`)
  }
  return Object.is(value, -0) ? "0" : String(value)
}

const encode = (value: Hashable, at: string): string => {
  if (typeof value === "number") return showNumber(value, at)
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  if (value instanceof Float) {
    if (!Number.isFinite(value.value)) throw new RangeError(`${at} is ${value.value}, which has no form in JSON`)
    return showFloat(value.value)
  }
  if (isArray(value)) return `[${value.map((entry, index) => encode(entry, `${at}[${index}]`)).join(",")}]`
  return `{${Object.entries(value)
    .sort(([a], [b]) => byCodePoint(a, b))
    .map(([key, entry]) => `${JSON.stringify(key)}:${encode(entry, `${at}.${key}`)}`)
    .join(",")}}`
}

const isArray = (value: Hashable): value is ReadonlyArray<Hashable> => Array.isArray(value)

/**
 * JSON with keys sorted by code point and no white space, as the published ids hash it.
 *
 * Throws a `RangeError` that names the place of a number that is not finite, or that is too large to be told from its
 * neighbours.
 *
 * @since 0.1.0
 * @category encoding
 */
export const canonicalJson = (value: Hashable): string => encode(value, "$")

/**
 * `prefix-` and the first 24 hexadecimal digits of the SHA-256 of the canonical JSON of `parts`. The prefix is not hashed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stableId = (prefix: string, ...parts: ReadonlyArray<Hashable>): string =>
  `${prefix}-${createHash("sha256").update(canonicalJson(parts)).digest("hex").slice(0, 24)}`
