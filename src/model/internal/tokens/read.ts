/**
 * Reads each of the places where a reply may carry tokens. A place is empty, or whole, or wrong.
 */
import * as Either from "effect/Either"
import { isLogProb, isLogProbs, isTokenIds } from "./ids.js"
import { field, isArray, isObject, type JsonObject, objectField } from "./json.js"

/** What is wrong, and where. */
export interface Complaint {
  readonly source: "bundle" | "token_ids" | "token_strings" | "tokenize" | "reply"
  readonly path: string
  readonly what: string
}

export const wrong = (source: Complaint["source"], path: string, what: string): Either.Either<never, Complaint> =>
  Either.left({ source, path, what })

/** What one place says; what it does not speak of is absent. */
export interface Found {
  readonly source: Complaint["source"]
  readonly path: string
  readonly prompt?: ReadonlyArray<number>
  readonly generation?: ReadonlyArray<number>
  readonly logProbs?: ReadonlyArray<number>
}

export const bundleKeys = ["prompt_token_ids", "generation_token_ids", "generation_log_probs"] as const

const notIds = "is no list of token ids (integers from 0)"
const notLogProbs = "is no list of log-probabilities (finite numbers, at most 0)"

const lengths = (tokens: number, logProbs: number) => `has ${logProbs} log-probabilities for ${tokens} tokens`

/** An array of token ids under a key, if there is one. */
export const readIds = (
  object: JsonObject,
  key: string,
  source: Complaint["source"],
  path: string
): Either.Either<ReadonlyArray<number> | undefined, Complaint> => {
  const value = field(object, key)
  if (value === undefined) return Either.right(undefined)
  return isTokenIds(value) ? Either.right(value) : wrong(source, `${path}${key}`, notIds)
}

/** The three arrays on a message or an item: all, or none. */
export const readBundle = (carrier: JsonObject, path: string): Either.Either<Found | undefined, Complaint> => {
  const present = bundleKeys.filter((key) => field(carrier, key) !== undefined)
  if (present.length === 0) {
    return field(carrier, "routed_experts") === undefined
      ? Either.right(undefined)
      : wrong("bundle", path, "has routed_experts without tokens")
  }
  const missing = bundleKeys.filter((key) => !present.includes(key))
  if (missing.length > 0) return wrong("bundle", path, `has ${present.join(", ")} without ${missing.join(", ")}`)
  const { generation_log_probs: logProbs, generation_token_ids: generation, prompt_token_ids: prompt } = carrier
  if (!isTokenIds(prompt)) return wrong("bundle", `${path}.prompt_token_ids`, notIds)
  if (!isTokenIds(generation)) return wrong("bundle", `${path}.generation_token_ids`, notIds)
  if (!isLogProbs(logProbs)) return wrong("bundle", `${path}.generation_log_probs`, notLogProbs)
  if (generation.length !== logProbs.length) return wrong("bundle", path, lengths(generation.length, logProbs.length))
  return Either.right({ source: "bundle", path, prompt, generation, logProbs })
}

/** How likely each token was and, where the server writes ids for texts, which it was. */
export interface TokenTexts {
  readonly path: string
  readonly logProbs: ReadonlyArray<number>
  readonly ids?: ReadonlyArray<number>
}

const idText = /^token_id:(0|[1-9][0-9]*)$/

const readTexts = (
  texts: ReadonlyArray<unknown>,
  logProbs: ReadonlyArray<unknown>,
  path: string,
  at: (index: number) => { readonly text: string; readonly logProb: string }
): Either.Either<TokenTexts | undefined, Complaint> => {
  const areIds = texts.some((text) => typeof text === "string" && text.startsWith("token_id:"))
  const source = areIds ? "token_strings" : "token_ids"
  if (texts.length !== logProbs.length) return wrong(source, path, lengths(texts.length, logProbs.length))
  const ids: Array<number> = []
  const numbers: Array<number> = []
  for (const [index, logProb] of logProbs.entries()) {
    if (!isLogProb(logProb)) {
      return wrong(source, at(index).logProb, "is no log-probability (a finite number, at most 0)")
    }
    numbers.push(logProb)
    if (areIds) {
      const text = texts[index]
      const digits = typeof text === "string" ? idText.exec(text)?.[1] : undefined
      const id = Number(digits)
      if (digits === undefined || !Number.isSafeInteger(id)) {
        return wrong(source, at(index).text, `is not of the form token_id:<number>, as others of the reply are`)
      }
      ids.push(id)
    }
  }
  return Either.right(areIds ? { path, logProbs: numbers, ids } : { path, logProbs: numbers })
}

/** `logprobs.content[*]` of a chat choice. `undefined` where there is no list. */
export const readChatTexts = (choice: JsonObject, path: string): Either.Either<TokenTexts | undefined, Complaint> => {
  const content = objectField(choice, "logprobs")?.["content"]
  if (!isArray(content)) return Either.right(undefined)
  const here = `${path}.logprobs.content`
  const entries: ReadonlyArray<JsonObject> = content.map((entry) => (isObject(entry) ? entry : {}))
  return readTexts(
    entries.map((entry) => entry["token"]),
    entries.map((entry) => entry["logprob"]),
    here,
    (index) => ({ text: `${here}[${index}].token`, logProb: `${here}[${index}].logprob` })
  )
}

/** `logprobs.tokens` and `logprobs.token_logprobs` of a completions choice. `undefined` where there is neither. */
export const readCompletionTexts = (
  choice: JsonObject,
  path: string
): Either.Either<TokenTexts | undefined, Complaint> => {
  const logprobs = objectField(choice, "logprobs")
  const tokens = logprobs?.["tokens"]
  const numbers = logprobs?.["token_logprobs"]
  if (!isArray(tokens) && !isArray(numbers)) return Either.right(undefined)
  const here = `${path}.logprobs`
  return readTexts(isArray(tokens) ? tokens : [], isArray(numbers) ? numbers : [], here, (index) => ({
    text: `${here}.tokens[${index}]`,
    logProb: `${here}.token_logprobs[${index}]`
  }))
}
