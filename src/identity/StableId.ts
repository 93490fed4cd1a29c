/**
 * Ids that are hashes of what they name, equal to the ones that the field publishes.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"

/**
 * A JSON value whose numbers are integers.
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

const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/**
 * JSON with keys sorted by code point and no white space, as the published ids hash it.
 *
 * Throws a `RangeError` for a number that is not an integer: Python writes those differently, so the hash would differ.
 *
 * @since 0.1.0
 * @category encoding
 */
export const canonicalJson = (value: Canonical): string => {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${value} is no integer, and has no canonical form here`)
  }
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  if (isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  return `{${Object.entries(value)
    .sort(([a], [b]) => byCodePoint(a, b))
    .map(([key, entry]) => `${JSON.stringify(key)}:${canonicalJson(entry)}`)
    .join(",")}}`
}

const isArray = (value: Canonical): value is ReadonlyArray<Canonical> => Array.isArray(value)

/**
 * `prefix-` and the first 24 hexadecimal digits of the SHA-256 of the canonical JSON of `parts`. The prefix is not hashed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stableId = (prefix: string, ...parts: ReadonlyArray<Canonical>): string =>
  `${prefix}-${createHash("sha256").update(canonicalJson(parts)).digest("hex").slice(0, 24)}`
