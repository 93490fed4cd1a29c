/**
 * Checks of token arrays that are fast enough for prompts of 50,000 tokens.
 */
import type * as FastCheck from "effect/FastCheck"
import type * as JSONSchema from "effect/JSONSchema"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { isArray } from "./json.js"

/** Trainers keep ids in 32 bits. */
const largestId = 0x7fffffff

export const isTokenId = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= largestId

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

interface Kind {
  readonly expected: string
  readonly isOne: (value: unknown) => value is number
  readonly arbitrary: (fc: Pick<typeof FastCheck, "nat" | "double">) => FastCheck.Arbitrary<number>
  readonly json: JSONSchema.JsonSchema7
}

/** A list that is checked in one loop: a schema of every number takes a tenth of a second for a long prompt. */
const list = ({ arbitrary, expected, isOne, json }: Kind) => {
  const check = (input: unknown, _: unknown, ast: ParseResult.Type["ast"]) => {
    const wrong = (actual: unknown, message: string) => ParseResult.fail(new ParseResult.Type(ast, actual, message))
    if (every(input, isOne)) return ParseResult.succeed(input)
    if (!isArray(input)) return wrong(input, `expected a list of ${expected}`)
    const at = input.findIndex((value) => !isOne(value))
    return wrong(input[at], `expected ${expected}, found ${String(input[at])} at place ${at} of ${input.length}`)
  }
  return Schema.declare<ReadonlyArray<number>, ReadonlyArray<number>, []>(
    [],
    { decode: () => check, encode: () => check },
    { arbitrary: () => (fc) => fc.array(arbitrary(fc)), jsonSchema: { type: "array", items: json } }
  )
}

export const TokenIds = list({
  expected: `token ids, integers from 0 to ${largestId}`,
  isOne: isTokenId,
  arbitrary: (fc) => fc.nat({ max: largestId }),
  json: { type: "integer", minimum: 0, maximum: largestId }
})

export const LogProbs = list({
  expected: "log-probabilities, finite and at most 0",
  isOne: isLogProb,
  arbitrary: (fc) => fc.double({ max: 0, noNaN: true, noDefaultInfinity: true }),
  json: { type: "number", maximum: 0 }
})

export const sameNumbers = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): boolean =>
  a.length === b.length && startsWith(a, b)

/** Whether `whole` begins with all of `prefix`. */
export const startsWith = (whole: ReadonlyArray<number>, prefix: ReadonlyArray<number>): boolean => {
  if (prefix.length > whole.length) return false
  for (let at = 0; at < prefix.length; at++) if (whole[at] !== prefix[at]) return false
  return true
}
