import * as Either from "effect/Either"
import { TokenBundle } from "../../TokenBundle.js"
import { isLogProbs, isTokenIds } from "../tokens/ids.js"
import { isSet, type JsonObject, type Reading, refuse } from "./json.js"

const keys = ["prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts"]

/** The bundle whose keys stand on `wire`: all of them, none, or an error. */
export const readTokens = (wire: JsonObject, path: string): Reading<TokenBundle | undefined> => {
  const present = keys.filter((key) => isSet(wire[key]))
  if (present.length === 0) return Either.right(undefined)
  const {
    generation_log_probs: logProbs,
    generation_token_ids: generation,
    prompt_token_ids: prompt,
    routed_experts: routedExperts
  } = wire
  const broken = (key: string, what: string) => refuse(`${path}.${key}`, `a token bundle that is not whole: ${what}`)
  if (!isTokenIds(prompt)) return broken("prompt_token_ids", "no list of token ids")
  if (!isTokenIds(generation)) return broken("generation_token_ids", "no list of token ids")
  if (!isLogProbs(logProbs)) return broken("generation_log_probs", "no list of finite numbers that are at most 0")
  if (logProbs.length !== generation.length) {
    return broken("generation_log_probs", `${generation.length} tokens have ${logProbs.length} log-probabilities`)
  }
  return Either.right(
    new TokenBundle(
      {
        promptTokenIds: prompt,
        generationTokenIds: generation,
        generationLogProbs: logProbs,
        ...(isSet(routedExperts) ? { routedExperts } : {})
      },
      // All was checked above, in one loop each: a schema takes a tenth of a second for a long prompt.
      { disableValidation: true }
    )
  )
}

/** The keys of a bundle, for the object that carries it. */
export const tokenFields = (tokens: TokenBundle | undefined): JsonObject =>
  tokens === undefined
    ? {}
    : {
        prompt_token_ids: tokens.promptTokenIds,
        generation_token_ids: tokens.generationTokenIds,
        generation_log_probs: tokens.generationLogProbs,
        ...(tokens.routedExperts === undefined ? {} : { routed_experts: tokens.routedExperts })
      }
