import * as Either from "effect/Either"
import { type ReplyUsage, readCompletion } from "./completion.js"
import type { JsonObject, Reading } from "./json.js"
import { assistantItems } from "./responsesWrite.js"

/** What a response says of itself, apart from its request. */
export interface ResponseFacts {
  readonly id: string
  readonly createdAt: number
  readonly model: string | null
  readonly status: "in_progress" | "completed" | "incomplete"
  readonly incomplete: "max_output_tokens" | "content_filter" | null
  readonly output: ReadonlyArray<JsonObject>
  readonly usage: ReplyUsage | null
}

/** The tokens of a response. */
export const responseUsage = (usage: ReplyUsage): JsonObject => ({
  input_tokens: usage.input,
  input_tokens_details: { cached_tokens: usage.cached },
  output_tokens: usage.output,
  output_tokens_details: { reasoning_tokens: usage.reasoning },
  total_tokens: usage.total
})

/** How a response ends whose completion ended with this word. */
export const responseEnd = (finish: string | null): Pick<ResponseFacts, "status" | "incomplete"> => {
  if (finish === "length") return { status: "incomplete", incomplete: "max_output_tokens" }
  if (finish === "content_filter") return { status: "incomplete", incomplete: "content_filter" }
  return { status: "completed", incomplete: null }
}

/** What a response repeats of its request, with what stands there when the request said nothing. */
const echoed: JsonObject = {
  background: false,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  prompt: null,
  reasoning: null,
  safety_identifier: null,
  service_tier: null,
  store: null,
  temperature: null,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_logprobs: null,
  top_p: null,
  truncation: "disabled",
  user: null
}

/** A response object: what it repeats of its request, and what it says. */
export const responseObject = (request: JsonObject, facts: ResponseFacts): JsonObject => ({
  ...Object.fromEntries(Object.entries(echoed).map(([key, unsaid]) => [key, request[key] ?? unsaid])),
  id: `resp_${facts.id}`,
  object: "response",
  created_at: facts.createdAt,
  status: facts.status,
  error: null,
  incomplete_details: facts.incomplete === null ? null : { reason: facts.incomplete },
  model: facts.model ?? request["model"] ?? null,
  output: facts.output,
  usage: facts.usage === null ? null : responseUsage(facts.usage)
})

export const responsesReply = (
  completion: JsonObject,
  request: JsonObject,
  options: { readonly id: string; readonly createdAt: number; readonly thinkTags: boolean }
): Reading<JsonObject> =>
  Either.map(readCompletion(completion, options.thinkTags), ({ finish, model, turn, usage }) =>
    responseObject(request, {
      id: options.id,
      createdAt: options.createdAt,
      model,
      ...responseEnd(finish),
      output: assistantItems(turn, options.id),
      usage
    })
  )
