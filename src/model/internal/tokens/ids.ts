/**
 * Checks of token arrays that are fast enough for prompts of 50,000 tokens.
 */
import * as Schema from "effect/Schema"
import { isArray } from "./json.js"

export const isTokenId = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0

/** A finite natural logarithm of a probability. A boolean or a numeric text is none. */
export const isLogProb = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value) && value <= 0

const every = (value: unknown, is: (entry: unknown) => entry is number): value is ReadonlyArray<number> => {
  if (!isArray(value)) return false
  for (const entry of value) if (!is(entry)) return false
  return true
}

export const isTokenIds = (value: unknown): value is ReadonlyArray<number> => every(value, isTokenId)

export const isLogProbs = (value: unknown): value is ReadonlyArray<number> => every(value, isLogProb)

/** As `Schema.Array(Schema.NonNegativeInt)`, checked in one loop. */
export const TokenIds = Schema.declare(isTokenIds, { identifier: "TokenIds" })

/** As an array of finite numbers that are at most 0, checked in one loop. */
export const LogProbs = Schema.declare(isLogProbs, { identifier: "LogProbs" })

export const sameNumbers = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): boolean =>
  a.length === b.length && startsWith(a, b)

/** Whether `whole` begins with all of `prefix`. */
export const startsWith = (whole: ReadonlyArray<number>, prefix: ReadonlyArray<number>): boolean => {
  if (prefix.length > whole.length) return false
  for (let at = 0; at < prefix.length; at++) if (whole[at] !== prefix[at]) return false
  return true
}
