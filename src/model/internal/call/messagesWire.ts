/**
 * The Messages wire, as the call machinery wants one.
 */
import * as Either from "effect/Either"
import { ComputerTool, type OfferedTool } from "../../Conversation.js"
import { ConversionError, type JsonObject } from "../../Convert.js"
import { fromMessagesContent, toMessages, toMessagesToolChoice, toMessagesTools } from "../../ConvertMessages.js"
import type { ModelRequest } from "../../ModelClient.js"
import * as MessagesAccumulator from "../streams/messagesAccumulator.js"
import { isText } from "../streams/streamError.js"
import type { ReplyFacts, ReplyProblem, Wire } from "./call.js"
import type { Accumulator } from "./reply.js"
import type { Authorise } from "./upstream.js"
import { messageUsage } from "./usage.js"

export interface MessagesWireOptions {
  readonly stream: boolean
  readonly reasoning: "blocks" | "omit"
  readonly version: string
  readonly betas: ReadonlyArray<string>
}

export const apiKeyHeader: Authorise = (key) => ({ "x-api-key": key })

const samplingFields = ({ sampling }: ModelRequest): Either.Either<JsonObject, ConversionError> => {
  const { maxTokens, seed, stop, temperature, topK, topP } = sampling
  if (seed !== undefined) {
    const what = "a seed, which Messages has no place for"
    return Either.left(new ConversionError({ from: "conversation", to: "messages", path: "sampling.seed", what }))
  }
  return Either.right({
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    // -1 is all of them, which is what the wire does when it is told nothing.
    ...(topK === undefined || topK < 1 ? {} : { top_k: topK }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(stop === undefined ? {} : { stop_sequences: stop })
  })
}

/** The computer tool was a beta, and each version of it had its own name; the toolset is none. */
const toolBetas = (tools: ReadonlyArray<OfferedTool>): ReadonlyArray<string> =>
  tools.flatMap((tool) =>
    tool instanceof ComputerTool && tool.generation !== "2026-08-01" ? [`computer-use-${tool.generation}`] : []
  )

const headers =
  ({ betas, version }: MessagesWireOptions) =>
  ({ tools = [] }: ModelRequest): Readonly<Record<string, string>> => {
    const named = Array.from(new Set([...betas, ...toolBetas(tools)]))
    return { "anthropic-version": version, ...(named.length === 0 ? {} : { "anthropic-beta": named.join(",") }) }
  }

const accumulator = (): Accumulator => {
  let state = MessagesAccumulator.empty
  return {
    add: (event) =>
      Either.map(MessagesAccumulator.addEvent(state, event), (next) => {
        state = next
      }),
    isDone: () => state.done,
    finish: () => MessagesAccumulator.finish(state)
  }
}

const problem = (reason: ReplyProblem["reason"], detail: string): Either.Either<never, ReplyProblem> =>
  Either.left({ reason, detail })

/** Why a message ended, in the words of the chat wire. */
const finishOf = (reason: unknown): Either.Either<string, ReplyProblem> => {
  switch (reason) {
    case "end_turn":
    case "stop_sequence":
      return Either.right("stop")
    case "tool_use":
      return Either.right("tool_calls")
    case "max_tokens":
    case "model_context_window_exceeded":
      return Either.right("length")
    case "refusal":
      return problem("refused", "the model declined")
    default:
      return isText(reason) && reason !== ""
        ? Either.right(reason)
        : problem("truncated", "the reply is not whole: it has no stop_reason")
  }
}

const read = (message: JsonObject): Either.Either<ReplyFacts, ReplyProblem> =>
  Either.gen(function* () {
    const { content, id, model, stop_reason: reason, type } = message
    const malformed = (detail: string) => problem("malformed_reply", `the reply is no message: ${detail}`)
    if (type !== "message" || !Array.isArray(content)) return yield* malformed("it has no content")
    const finishReason = yield* finishOf(reason)
    const said = yield* Either.orElse(fromMessagesContent(content), ({ path, what }) => malformed(`${path} ${what}`))
    return {
      message: said,
      finishReason,
      model: isText(model) ? model : undefined,
      id: isText(id) ? id : undefined,
      usage: messageUsage(message)
    }
  })

export const messagesWire = (options: MessagesWireOptions): Wire => ({
  dialect: "messages",
  path: "/messages",
  tokens: "none",
  authorise: apiKeyHeader,
  headers: headers(options),
  fields: (request, image) =>
    Either.gen(function* () {
      const { messages, system } = yield* toMessages(request.messages, { image, reasoning: options.reasoning })
      const tools = yield* toMessagesTools(request.tools ?? [])
      return {
        ...(system.length === 0 ? {} : { system }),
        messages,
        ...(tools.length === 0 ? {} : { tools }),
        ...(request.toolChoice === undefined ? {} : { tool_choice: toMessagesToolChoice(request.toolChoice) }),
        ...(yield* samplingFields(request)),
        ...(options.stream ? { stream: true } : {})
      }
    }),
  accumulator,
  needsTokenize: () => false,
  read,
  // It asks for words and changes nothing but the bill.
  isSafe: () => true
})
