/**
 * Where a reply carries its tokens, and whether all places that do say the same.
 *
 * @since 0.1.0
 */
import { isDeepStrictEqual } from "node:util"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { isTokenIds, sameNumbers } from "./internal/tokens/ids.js"
import { field, isArray, isObject, type JsonObject, omit } from "./internal/tokens/json.js"
import {
  type Complaint,
  type Found,
  readBundle,
  readChatTexts,
  readCompletionTexts,
  readIds,
  type TokenTexts,
  wrong
} from "./internal/tokens/read.js"
import { TokenBundle } from "./TokenBundle.js"

/**
 * - `bundle`: the three arrays on one message or output item
 * - `token_ids`: `prompt_token_ids` and `token_ids` beside the message
 * - `token_strings`: log-probabilities whose tokens are written `token_id:<number>`
 * - `tokenize`: the prompt's tokens, asked for separately
 * - `reply`: the reply as a whole
 *
 * @since 0.1.0
 * @category models
 */
export const TokenSource = Schema.Literal("bundle", "token_ids", "token_strings", "tokenize", "reply")

/**
 * @since 0.1.0
 * @category models
 */
export type TokenSource = typeof TokenSource.Type

/**
 * The tokens of a reply are incomplete, malformed or contradict each other. None of them can be trusted.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenError extends Schema.TaggedError<TokenError>("deskhand/TokenError")("TokenError", {
  source: TokenSource,
  /** Where in the reply: `choices[0].logprobs.content[3].token`. */
  path: Schema.String,
  what: Schema.String
}) {
  override get message() {
    return `the reply's tokens cannot be used: ${this.path} ${this.what} (source: ${this.source}). Check that the server returns the id and the log-probability of every token`
  }
}

/**
 * What a reply does not say itself.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenOptions {
  /** The prompt's tokens as `POST /tokenize` counted them; what the reply says of the prompt must be the same. */
  readonly promptTokens?: ReadonlyArray<number>
}

/**
 * Tokens of a Responses reply, and which of its items carries them.
 *
 * @since 0.1.0
 * @category models
 */
export interface CarriedTokens {
  readonly tokens: TokenBundle
  /** Index in `output`. */
  readonly itemIndex: number
}

type Read<A> = Either.Either<A, Complaint>

const result = <A>(read: Read<A>): Either.Either<A, TokenError> => Either.mapLeft(read, (_) => new TokenError(_))

/** The choice that is used; more than one that carries tokens would leave no way to say whose they are. */
const onlyChoice = (completion: JsonObject): Read<JsonObject | undefined> => {
  const choices = completion["choices"]
  const [choice, ...others] = isArray(choices) ? choices : []
  const carries = (other: unknown) =>
    isObject(other) && ["token_ids", "prompt_token_ids", "logprobs"].some((key) => field(other, key) !== undefined)
  if (others.some(carries)) return wrong("reply", "choices", "has tokens on more than one choice: ask for n = 1")
  return Either.right(isObject(choice) ? choice : undefined)
}

const agreed = (found: ReadonlyArray<Found>, which: "prompt" | "generation" | "logProbs"): Read<Found | undefined> => {
  const [first, ...others] = found.filter((one) => one[which] !== undefined)
  for (const other of others) {
    if (!sameNumbers(first?.[which] ?? [], other[which] ?? [])) {
      const name = { prompt: "prompt tokens", generation: "generated tokens", logProbs: "log-probabilities" }[which]
      return wrong(other.source, other.path, `has other ${name} than ${first?.path}`)
    }
  }
  return Either.right(first)
}

const experts = (
  carriers: ReadonlyArray<readonly [string, JsonObject]>
): Read<{ readonly routedExperts?: unknown }> => {
  const [first, ...others] = carriers.filter(([, carrier]) => field(carrier, "routed_experts") !== undefined)
  if (first === undefined) return Either.right({})
  const [firstPath, { routed_experts: routedExperts }] = first
  for (const [path, other] of others) {
    if (!isDeepStrictEqual(other["routed_experts"], routedExperts)) {
      return wrong("reply", `${path}.routed_experts`, `differs from ${firstPath}.routed_experts`)
    }
  }
  return Either.right({ routedExperts })
}

/** One bundle from all places: the same arrays wherever they are told, and as many log-probabilities as tokens. */
const merged = (
  found: ReadonlyArray<Found>,
  carriers: ReadonlyArray<readonly [string, JsonObject]>
): Read<Option.Option<TokenBundle>> =>
  Either.gen(function* () {
    const generation = yield* agreed(found, "generation")
    if (generation?.generation === undefined) return Option.none()
    const prompt = yield* agreed(found, "prompt")
    if (prompt?.prompt === undefined) {
      return yield* wrong(
        "tokenize",
        "prompt_token_ids",
        "is missing: ask the server's /tokenize for the prompt's tokens"
      )
    }
    const logProbs = yield* agreed(found, "logProbs")
    const count = generation.generation.length
    if (logProbs?.logProbs === undefined && count > 0) {
      return yield* wrong(generation.source, generation.path, `has ${count} tokens without log-probabilities`)
    }
    const numbers = logProbs?.logProbs ?? []
    if (numbers.length !== count) {
      return yield* wrong(
        generation.source,
        generation.path,
        `has ${count} tokens, ${logProbs?.path} has ${numbers.length} log-probabilities`
      )
    }
    const { routedExperts } = yield* experts(carriers)
    return Option.some(
      new TokenBundle(
        {
          promptTokenIds: prompt.prompt,
          generationTokenIds: generation.generation,
          generationLogProbs: numbers,
          ...(routedExperts === undefined ? {} : { routedExperts })
        },
        // All was checked above, in one loop each.
        { disableValidation: true }
      )
    )
  })

const fromTexts = (texts: TokenTexts | undefined): ReadonlyArray<Found> =>
  texts === undefined
    ? []
    : texts.ids === undefined
      ? [{ source: "token_ids", path: texts.path, logProbs: texts.logProbs }]
      : [{ source: "token_strings", path: texts.path, generation: texts.ids, logProbs: texts.logProbs }]

const fromTokenize = ({ promptTokens }: TokenOptions): Read<ReadonlyArray<Found>> => {
  if (promptTokens === undefined) return Either.right([])
  return isTokenIds(promptTokens)
    ? Either.right([{ source: "tokenize", path: "the answer of /tokenize", prompt: promptTokens }])
    : wrong("tokenize", "the answer of /tokenize", "is no list of token ids (integers from 0)")
}

const defined = <A>(value: A | undefined): ReadonlyArray<A> => (value === undefined ? [] : [value])

/**
 * The tokens of a whole Chat Completions reply. Three places may carry them: the bundle on the message;
 * `prompt_token_ids` with the choice's `token_ids`, both or neither; log-probabilities of tokens written
 * `token_id:<number>`. Each place that is there must be whole, and all must agree exactly. None carries any: `None`.
 *
 * @since 0.1.0
 * @category decoding
 */
export const fromChatCompletion = (
  completion: JsonObject,
  options: TokenOptions = {}
): Either.Either<Option.Option<TokenBundle>, TokenError> =>
  Either.gen(function* () {
    const choice = (yield* onlyChoice(completion)) ?? {}
    const path = "choices[0]"
    const message = isObject(choice["message"]) ? choice["message"] : {}
    const bundle = yield* readBundle(message, `${path}.message`)
    const prompt = yield* readIds(completion, "prompt_token_ids", "token_ids", "")
    const generation = yield* readIds(choice, "token_ids", "token_ids", `${path}.`)
    if ((prompt === undefined) !== (generation === undefined)) {
      const [there, missing] =
        prompt === undefined ? [`${path}.token_ids`, "prompt_token_ids"] : ["prompt_token_ids", `${path}.token_ids`]
      return yield* wrong("token_ids", there, `is there without ${missing}`)
    }
    const texts = yield* readChatTexts(choice, path)
    if (generation !== undefined && generation.length > 0 && texts === undefined) {
      // A place that is there must be whole by itself, though another may have what it lacks.
      return yield* wrong("token_ids", `${path}.token_ids`, `has ${generation.length} tokens without log-probabilities`)
    }
    const ids: ReadonlyArray<Found> =
      prompt === undefined || generation === undefined
        ? []
        : [{ source: "token_ids", path: `${path}.token_ids`, prompt, generation }]
    return yield* merged(
      [...defined(bundle), ...ids, ...fromTexts(texts), ...(yield* fromTokenize(options))],
      [
        [`${path}.message`, message],
        [path, choice]
      ]
    )
  }).pipe(result)

/**
 * The tokens of a whole reply of the older Completions API: the choice's `token_ids`, or its `logprobs.tokens` written
 * `token_id:<number>`; the prompt's from the choice or from `/tokenize`.
 *
 * @since 0.1.0
 * @category decoding
 */
export const fromCompletion = (
  completion: JsonObject,
  options: TokenOptions = {}
): Either.Either<Option.Option<TokenBundle>, TokenError> =>
  Either.gen(function* () {
    const choice = (yield* onlyChoice(completion)) ?? {}
    const path = "choices[0]"
    const prompt = yield* readIds(choice, "prompt_token_ids", "token_ids", `${path}.`)
    const generation = yield* readIds(choice, "token_ids", "token_ids", `${path}.`)
    const texts = yield* readCompletionTexts(choice, path)
    return yield* merged(
      [
        ...(prompt === undefined ? [] : [{ source: "token_ids" as const, path: `${path}.prompt_token_ids`, prompt }]),
        ...(generation === undefined ? [] : [{ source: "token_ids" as const, path: `${path}.token_ids`, generation }]),
        ...fromTexts(texts),
        ...(yield* fromTokenize(options))
      ],
      [[path, choice]]
    )
  }).pipe(result)

/**
 * The tokens of a whole Responses reply: the bundle that exactly one of its output items carries.
 *
 * @since 0.1.0
 * @category decoding
 */
export const fromResponse = (response: JsonObject): Either.Either<Option.Option<CarriedTokens>, TokenError> =>
  Either.gen(function* () {
    const output = isArray(response["output"]) ? response["output"] : []
    let carried: CarriedTokens | undefined
    for (const [itemIndex, item] of output.entries()) {
      if (!isObject(item)) continue
      const path = `output[${itemIndex}]`
      const found = yield* readBundle(item, path)
      if (found === undefined) continue
      if (carried !== undefined) {
        return yield* wrong("bundle", path, `carries tokens, and output[${carried.itemIndex}] does, too`)
      }
      const tokens = yield* merged([found], [[path, item]])
      if (Option.isSome(tokens)) carried = { tokens: tokens.value, itemIndex }
    }
    return Option.fromNullable(carried)
  }).pipe(result)

/**
 * Whether the reply has generated tokens but does not say the prompt's, so that `POST /tokenize` has to be asked (with
 * the same model, messages, tools and template arguments) before its tokens can be read.
 *
 * @since 0.1.0
 * @category predicates
 */
export const needsTokenize = (completion: JsonObject): boolean => {
  const choices = completion["choices"]
  const choice = isArray(choices) && isObject(choices[0]) ? choices[0] : {}
  const message = isObject(choice["message"]) ? choice["message"] : {}
  if ([completion, choice, message].some((carrier) => field(carrier, "prompt_token_ids") !== undefined)) return false
  if (field(choice, "token_ids") !== undefined) return !("message" in choice)
  const texts = "message" in choice ? readChatTexts(choice, "") : readCompletionTexts(choice, "")
  return Either.match(texts, { onLeft: () => false, onRight: (read) => read?.ids !== undefined })
}

const raw: ReadonlySet<string> = new Set(["prompt_token_ids", "token_ids", "logprobs", "routed_experts"])
const carried: ReadonlySet<string> = new Set([
  "prompt_token_ids",
  "generation_token_ids",
  "generation_log_probs",
  "routed_experts"
])

/**
 * The same reply without its tokens, wherever it carries them: what a caller that asked for none is shown, and what is
 * kept beside tokens that are kept once. Chat, Completions and Responses replies, and chunks of a chat stream; what is
 * not about tokens is as it was.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withoutTokens = (reply: JsonObject): JsonObject => {
  const strip = (value: unknown): unknown => (isObject(value) ? omit(value, carried) : value)
  const stripChoice = (choice: unknown): unknown => {
    if (!isObject(choice)) return choice
    const kept = omit(choice, raw)
    return {
      ...kept,
      ...("message" in kept ? { message: strip(kept["message"]) } : {}),
      ...("delta" in kept ? { delta: strip(kept["delta"]) } : {})
    }
  }
  const { choices, output } = reply
  return {
    ...omit(reply, new Set(["prompt_token_ids"])),
    ...(isArray(choices) ? { choices: choices.map(stripChoice) } : {}),
    ...(isArray(output) ? { output: output.map(strip) } : {})
  }
}
