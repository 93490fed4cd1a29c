import * as Either from "effect/Either"
import { readChatMessage } from "./chatRead.js"
import { isObject, isSet, type JsonObject, list, object, type Reading, refuse, string, typeName } from "./json.js"
import type { AssistantTurn } from "./turn.js"

/** What a whole chat completion says, its first choice alone. */
export interface Completion {
  readonly turn: AssistantTurn
  /** The server's word; `null` where it said none. */
  readonly finish: string | null
  /** The text that ended the reply, where a server tells it. */
  readonly stopText: string | null
  readonly model: string | null
  readonly usage: ReplyUsage | null
}

/** Tokens as the server counted them; `null` is what it did not tell. */
export interface ReplyUsage {
  readonly input: number | null
  readonly output: number | null
  readonly total: number | null
  readonly cached: number | null
  readonly reasoning: number | null
}

const count = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null

const firstCount = (...values: ReadonlyArray<unknown>): number | null =>
  values.map(count).find((value) => value !== null) ?? null

/** The `usage` of a chat completion, or of the chunk that tells it; `null` where there is none. */
export const readUsage = (usage: unknown): ReplyUsage | null => {
  if (!isObject(usage)) return null
  const prompt = isObject(usage["prompt_tokens_details"]) ? usage["prompt_tokens_details"] : {}
  const completion = isObject(usage["completion_tokens_details"]) ? usage["completion_tokens_details"] : {}
  return {
    input: count(usage["prompt_tokens"]),
    output: count(usage["completion_tokens"]),
    total: count(usage["total_tokens"]),
    cached: firstCount(prompt["cached_tokens"], usage["cached_input_tokens"], usage["cache_read_input_tokens"]),
    reasoning: firstCount(completion["reasoning_tokens"], usage["reasoning_output_tokens"])
  }
}

/** A server's word for a reply that it gave up is no end of a reply. */
const broken = new Set(["abort", "error"])

/** The word with which a choice ended. */
export const readFinish = (value: unknown, path: string): Reading<string | null> => {
  if (!isSet(value)) return Either.right(null)
  return Either.flatMap(string(value, path), (finish) =>
    broken.has(finish)
      ? refuse(path, `a reply that the upstream broke off (${typeName(finish)})`)
      : Either.right(finish)
  )
}

export const readCompletion = (completion: JsonObject, thinkTags: boolean): Reading<Completion> =>
  Either.gen(function* () {
    const choices = yield* list(completion["choices"], "choices")
    if (choices.length === 0) return yield* refuse("choices", "a completion without choices")
    const choice = yield* object(choices[0], "choices[0]")
    return {
      turn: yield* readChatMessage(choice["message"], thinkTags, "choices[0].message"),
      finish: yield* readFinish(choice["finish_reason"], "choices[0].finish_reason"),
      stopText: typeof choice["stop_reason"] === "string" ? choice["stop_reason"] : null,
      model: typeof completion["model"] === "string" ? completion["model"] : null,
      usage: readUsage(completion["usage"])
    }
  })
