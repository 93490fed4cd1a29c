import type { JsonObject } from "../../Convert.js"
import { Usage } from "../../ModelClient.js"
import { type ReplyUsage, readUsage } from "../convert/completion.js"
import { isObject } from "../streams/streamError.js"

const usage = ({ cached, input, output, reasoning }: Omit<ReplyUsage, "total">): Usage =>
  new Usage(
    {
      ...(input === null ? {} : { promptTokens: input }),
      ...(output === null ? {} : { completionTokens: output }),
      ...(cached === null ? {} : { cachedTokens: cached }),
      ...(reasoning === null ? {} : { reasoningTokens: reasoning })
    },
    // Each was counted right where it was read.
    { disableValidation: true }
  )

/** The tokens that a chat completion counts. */
export const chatUsage = (completion: JsonObject): Usage | undefined => {
  const told = readUsage(completion["usage"])
  return told === null ? undefined : usage(told)
}

const count = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null

/** The tokens that a message counts: what a cache had or took is apart from the other input there. */
export const messageUsage = (message: JsonObject): Usage | undefined => {
  const { usage: told } = message
  if (!isObject(told)) return undefined
  const input = count(told["input_tokens"])
  const cached = count(told["cache_read_input_tokens"])
  return usage({
    input: input === null ? null : input + (cached ?? 0) + (count(told["cache_creation_input_tokens"]) ?? 0),
    output: count(told["output_tokens"]),
    cached,
    reasoning: null
  })
}

/** The tokens that a response counts. */
export const responseUsage = (response: JsonObject): Usage | undefined => {
  const { usage: told } = response
  if (!isObject(told)) return undefined
  const input = isObject(told["input_tokens_details"]) ? told["input_tokens_details"] : {}
  const output = isObject(told["output_tokens_details"]) ? told["output_tokens_details"] : {}
  return usage({
    input: count(told["input_tokens"]),
    output: count(told["output_tokens"]),
    cached: count(input["cached_tokens"]),
    reasoning: count(output["reasoning_tokens"])
  })
}
