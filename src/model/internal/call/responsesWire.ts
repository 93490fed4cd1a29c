/**
 * The Responses wire, as the call machinery wants one.
 */
import * as Either from "effect/Either"
import { ComputerTool } from "../../Conversation.js"
import {
  fromResponsesOutput,
  type JsonObject,
  toResponsesInput,
  toResponsesToolChoice,
  toResponsesTools
} from "../../Convert.js"
import type { ModelRequest } from "../../ModelClient.js"
import * as TokenSources from "../../TokenSources.js"
import * as ResponsesAccumulator from "../streams/responsesAccumulator.js"
import { isObject, isText } from "../streams/streamError.js"
import type { ReplyFacts, ReplyProblem, Wire } from "./call.js"
import { excerpt, reportedReason } from "./failure.js"
import type { Accumulator } from "./reply.js"
import { responseUsage } from "./usage.js"

export interface ResponsesWireOptions {
  readonly stream: boolean
  readonly reasoning: "items" | "omit"
}

const samplingFields = ({ sampling }: ModelRequest): JsonObject => {
  const { maxTokens, seed, stop, temperature, topK, topP } = sampling
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(maxTokens === undefined ? {} : { max_output_tokens: maxTokens }),
    // OpenAI's own server knows none of these and says so; vLLM's does.
    ...(topK === undefined ? {} : { top_k: topK }),
    ...(stop === undefined ? {} : { stop }),
    ...(seed === undefined ? {} : { seed })
  }
}

/**
 * The whole conversation is sent each time, so that reasoning has to come sealed: a call of the computer is refused
 * without the reasoning before it. The preview takes no request that its server may not shorten.
 */
const computerFields = ({ tools = [] }: ModelRequest): JsonObject => {
  const computer = tools.find((tool) => tool instanceof ComputerTool)
  if (computer === undefined) return {}
  return {
    include: ["reasoning.encrypted_content"],
    ...(computer.generation === "preview" ? { truncation: "auto" } : {})
  }
}

const accumulator = (): Accumulator => {
  let state = ResponsesAccumulator.empty
  return {
    add: (event) =>
      Either.map(ResponsesAccumulator.addEvent(state, event), (next) => {
        state = next
      }),
    isDone: () => state.response !== undefined,
    finish: () => ResponsesAccumulator.finish(state)
  }
}

const problem = (reason: ReplyProblem["reason"], detail: string): Either.Either<never, ReplyProblem> =>
  Either.left({ reason, detail })

const malformed = (detail: string) => problem("malformed_reply", `the reply is no response: ${detail}`)

const refusalOf = (output: ReadonlyArray<unknown>): string | undefined => {
  for (const item of output) {
    const content = isObject(item) ? item["content"] : undefined
    for (const part of Array.isArray(content) ? content : []) {
      if (isObject(part) && part["type"] === "refusal") return isText(part["refusal"]) ? part["refusal"] : "a refusal"
    }
  }
  return undefined
}

const calling: ReadonlySet<unknown> = new Set(["function_call", "computer_call"])

/** Why a response ended, in the words of the chat wire. */
const finishOf = (response: JsonObject, hasCalls: boolean): Either.Either<string, ReplyProblem> => {
  const { error, incomplete_details: incomplete, status } = response
  switch (status) {
    case "completed":
      return Either.right(hasCalls ? "tool_calls" : "stop")
    case "incomplete": {
      const reason = isObject(incomplete) ? incomplete["reason"] : undefined
      if (reason === "content_filter") return problem("refused", "the model declined: content filter")
      return Either.right(reason === "max_output_tokens" ? "length" : isText(reason) ? reason : "incomplete")
    }
    case "failed": {
      const told = JSON.stringify(error ?? null)
      return problem(reportedReason(told), `the server says that the response failed: ${excerpt(told)}`)
    }
    case "cancelled":
      return problem("truncated", "the server says that the response was cancelled")
    default:
      return malformed(`its status is ${JSON.stringify(status) ?? "missing"}`)
  }
}

const read = (response: JsonObject): Either.Either<ReplyFacts, ReplyProblem> =>
  Either.gen(function* () {
    const { output } = response
    if (!Array.isArray(output)) {
      // A response that failed may have none.
      yield* finishOf(response, false)
      return yield* malformed("it has no output")
    }
    const refusal = refusalOf(output)
    if (refusal !== undefined) return yield* problem("refused", `the model declined: ${refusal}`)
    const calls = output.some((item) => isObject(item) && calling.has(item["type"]))
    const finishReason = yield* finishOf(response, calls)
    const message = yield* Either.orElse(fromResponsesOutput(output), ({ path, what }) => malformed(`${path} ${what}`))
    // Bundles on more than one item, or halves of one, are an error whoever asked for them.
    yield* Either.orElse(TokenSources.fromResponse(response), (error) => problem("malformed_reply", error.message))
    return {
      message,
      finishReason,
      model: isText(response["model"]) ? response["model"] : undefined,
      id: isText(response["id"]) ? response["id"] : undefined,
      usage: responseUsage(response)
    }
  })

export const responsesWire = (options: ResponsesWireOptions): Wire => ({
  dialect: "responses",
  path: "/responses",
  tokens: "none",
  fields: (request, image) =>
    Either.gen(function* () {
      const input = yield* toResponsesInput(request.messages, { image, reasoning: options.reasoning })
      const tools = yield* toResponsesTools(request.tools ?? [])
      return {
        input,
        ...(tools.length === 0 ? {} : { tools }),
        ...computerFields(request),
        ...(request.toolChoice === undefined ? {} : { tool_choice: toResponsesToolChoice(request.toolChoice) }),
        ...samplingFields(request),
        ...(options.stream ? { stream: true } : {})
      }
    }),
  accumulator,
  needsTokenize: () => false,
  read,
  // A conversation that the server keeps would get the turn twice; work in the background would be done twice.
  isSafe: ({ background, conversation }) => background !== true && (conversation === undefined || conversation === null)
})
