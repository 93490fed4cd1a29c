/**
 * The tokens behind one reply, as the server that sampled them counted them: all of them, or none.
 *
 * @since 0.1.0
 */
import type * as FastCheck from "effect/FastCheck"
import type * as JSONSchema from "effect/JSONSchema"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"

interface Kind {
  readonly expected: string
  readonly isOne: (value: number) => boolean
  readonly arbitrary: (fc: Pick<typeof FastCheck, "nat" | "double">) => FastCheck.Arbitrary<number>
  readonly json: JSONSchema.JsonSchema7
}

/** A list that is checked in one loop: a schema of every number takes a tenth of a second for a long prompt. */
const list = ({ arbitrary, expected, isOne, json }: Kind) => {
  const check = (input: unknown, _: unknown, ast: ParseResult.Type["ast"]) => {
    const wrong = (actual: unknown, message: string) => ParseResult.fail(new ParseResult.Type(ast, actual, message))
    if (!Array.isArray(input)) return wrong(input, `expected a list of ${expected}`)
    const given: ReadonlyArray<unknown> = input
    const found: Array<number> = []
    for (let at = 0; at < given.length; at++) {
      const value = given[at]
      if (typeof value !== "number" || !isOne(value)) {
        return wrong(value, `expected ${expected}, found ${String(value)} at place ${at} of ${given.length}`)
      }
      found.push(value)
    }
    return ParseResult.succeed(found)
  }
  return Schema.declare<ReadonlyArray<number>, ReadonlyArray<number>, []>(
    [],
    { decode: () => check, encode: () => check },
    { arbitrary: () => (fc) => fc.array(arbitrary(fc)), jsonSchema: { type: "array", items: json } }
  )
}

const largestId = 0x7fffffff

const TokenIds = list({
  expected: `token ids, integers from 0 to ${largestId}`,
  isOne: (id) => Number.isInteger(id) && id >= 0 && id <= largestId,
  arbitrary: (fc) => fc.nat({ max: largestId }),
  json: { type: "integer", minimum: 0, maximum: largestId }
})

const LogProbs = list({
  expected: "log-probabilities, finite and at most 0",
  isOne: (logProb) => Number.isFinite(logProb) && logProb <= 0,
  arbitrary: (fc) => fc.double({ max: 0, noNaN: true, noDefaultInfinity: true }),
  json: { type: "number", maximum: 0 }
})

/**
 * What trains: tokens in, tokens out, and how likely each was. The keys on the wire are those of the field's rollout
 * rows.
 *
 * @since 0.1.0
 * @category models
 */
export class TokenBundle extends Schema.Class<TokenBundle>("deskhand/model/TokenBundle")(
  Schema.Struct({
    /** The prompt's tokens, `[prompt length]`, from 0 to 2^31 - 1. */
    promptTokenIds: Schema.propertySignature(TokenIds).pipe(Schema.fromKey("prompt_token_ids")),
    /** The reply's tokens, `[reply length]`, from 0 to 2^31 - 1. */
    generationTokenIds: Schema.propertySignature(TokenIds).pipe(Schema.fromKey("generation_token_ids")),
    /** Natural logarithms of the probability of each of the reply's tokens, `[reply length]`, finite, at most 0. */
    generationLogProbs: Schema.propertySignature(LogProbs).pipe(Schema.fromKey("generation_log_probs")),
    /** Which experts each token went to; never looked into. */
    routedExperts: Schema.optionalWith(Schema.Unknown, { exact: true }).pipe(Schema.fromKey("routed_experts"))
  }).pipe(
    Schema.filter(({ generationLogProbs, generationTokenIds }) =>
      generationLogProbs.length === generationTokenIds.length
        ? undefined
        : `${generationTokenIds.length} tokens have ${generationLogProbs.length} log-probabilities`
    )
  )
) {}
