/**
 * The chat-completions wire, as the call machinery wants one.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { AssistantMessage } from "../../Conversation.js"
import {
  fromChatMessage,
  type JsonObject,
  type ReasoningMode,
  toChatMessages,
  toChatToolChoice,
  toChatTools
} from "../../Convert.js"
import type { ModelRequest } from "../../ModelClient.js"
import * as TokenSources from "../../TokenSources.js"
import { readFinish } from "../convert/completion.js"
import * as ChatAccumulator from "../streams/chatAccumulator.js"
import { isObject, isText } from "../streams/streamError.js"
import type { ReplyFacts, ReplyProblem, Wire } from "./call.js"
import type { Accumulator } from "./reply.js"
import { chatUsage } from "./usage.js"

export interface ChatWireOptions {
  readonly stream: boolean
  readonly tokens: "none" | "logprobs" | "ids"
  readonly thinkTags: boolean
  readonly reasoning: ReasoningMode
}

const samplingFields = ({ sampling }: ModelRequest): JsonObject => {
  const { maxTokens, seed, stop, temperature, topK, topP } = sampling
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: topK }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(stop === undefined ? {} : { stop }),
    ...(seed === undefined ? {} : { seed })
  }
}

const accumulator = (): Accumulator => {
  let state = ChatAccumulator.empty
  return {
    add: (event) =>
      Either.map(ChatAccumulator.addEvent(state, event), (next) => {
        state = next
      }),
    isDone: () => state.done,
    finish: () => ChatAccumulator.finish(state)
  }
}

const problem = (reason: ReplyProblem["reason"], detail: string): Either.Either<never, ReplyProblem> =>
  Either.left({ reason, detail })

const malformed = (detail: string) => problem("malformed_reply", `the reply is no chat completion: ${detail}`)

const read = (
  completion: JsonObject,
  promptTokens: ReadonlyArray<number> | undefined,
  options: ChatWireOptions
): Either.Either<ReplyFacts, ReplyProblem> => {
  const choices = completion["choices"]
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isObject(choice)) return malformed("it has no choice")
  const wire = choice["message"]
  if (!isObject(wire)) return malformed("its choice has no message")
  const finish = readFinish(choice["finish_reason"], "finish_reason")
  if (Either.isLeft(finish)) return problem("truncated", `the reply is not whole: ${finish.left.what}`)
  if (isText(wire["refusal"])) return problem("refused", `the model declined: ${wire["refusal"]}`)
  if (finish.right === "content_filter") return problem("refused", "the model declined: content filter")
  const message = fromChatMessage(wire, { thinkTags: options.thinkTags })
  if (Either.isLeft(message)) return malformed(`${message.left.path} ${message.left.what}`)
  const facts = {
    message: message.right,
    finishReason: finish.right ?? "unknown",
    model: isText(completion["model"]) ? completion["model"] : undefined,
    id: isText(completion["id"]) ? completion["id"] : undefined,
    usage: chatUsage(completion)
  }
  if (options.tokens === "none") return Either.right(facts)
  const tokens = TokenSources.fromChatCompletion(completion, promptTokens === undefined ? {} : { promptTokens })
  if (Either.isLeft(tokens)) return problem("malformed_reply", tokens.left.message)
  if (Option.isNone(tokens.right)) {
    return problem("malformed_reply", "the reply's tokens were asked for and are missing")
  }
  return Either.right({
    ...facts,
    message: new AssistantMessage(
      { role: "assistant", content: message.right.content, tokens: tokens.right.value },
      // The bundle was checked when it was read, and the parts are those of a message.
      { disableValidation: true }
    )
  })
}

export const chatWire = (options: ChatWireOptions): Wire => ({
  dialect: "chat",
  path: "/chat/completions",
  tokens: options.tokens,
  fields: (request, image) =>
    Either.gen(function* () {
      const messages = yield* toChatMessages(request.messages, { image, reasoning: options.reasoning })
      const tools = yield* toChatTools(request.tools ?? [])
      return {
        messages,
        ...(tools.length === 0 ? {} : { tools }),
        ...(request.toolChoice === undefined ? {} : { tool_choice: toChatToolChoice(request.toolChoice) }),
        ...samplingFields(request),
        ...(options.stream ? { stream: true, stream_options: { include_usage: true } } : {})
      }
    }),
  accumulator,
  needsTokenize: (completion) => options.tokens !== "none" && TokenSources.needsTokenize(completion),
  read: (completion, promptTokens) => read(completion, promptTokens, options),
  // It asks for words and changes nothing but the bill.
  isSafe: () => true
})
