/**
 * What is said in one dialect, said in another: conversations to Chat Completions and Responses and back, and whole
 * requests and replies between dialects. What the other dialect has no place for is an error that names it.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { AssistantMessage, ImagePart, Message, OfferedTool, Tool } from "./Conversation.js"
import { readChatMessage, readChatMessages } from "./internal/convert/chatRead.js"
import { writeChatMessages } from "./internal/convert/chatWrite.js"
import { assistantOf, conversationOf, turnsOf } from "./internal/convert/conversation.js"
import type { Refused } from "./internal/convert/json.js"
import { messagesReply } from "./internal/convert/messagesReply.js"
import { messagesRequest } from "./internal/convert/messagesRequest.js"
import { readResponsesInput, readResponsesOutput } from "./internal/convert/responsesRead.js"
import { responsesReply } from "./internal/convert/responsesReply.js"
import { responsesRequest } from "./internal/convert/responsesRequest.js"
import { writeResponsesItems } from "./internal/convert/responsesWrite.js"
import * as tools from "./internal/convert/tools.js"
import type { ToolChoice } from "./ModelClient.js"

// -----------------------------------------------------------------------------
// Data
// -----------------------------------------------------------------------------

/**
 * A JSON object as it is on a wire.
 *
 * @since 0.1.0
 * @category models
 */
export type JsonObject = Readonly<Record<string, unknown>>

/**
 * Chat Completions, Responses (both OpenAI's), Messages (Anthropic's), and our own conversations.
 *
 * @since 0.1.0
 * @category models
 */
export const Dialect = Schema.Literal("chat", "responses", "messages", "conversation")

/**
 * @since 0.1.0
 * @category models
 */
export type Dialect = typeof Dialect.Type

/**
 * Something that the other dialect has no place for, or that is not what its own dialect says it should be.
 *
 * @since 0.1.0
 * @category errors
 */
export class ConversionError extends Schema.TaggedError<ConversionError>("deskhand/ConversionError")(
  "ConversionError",
  {
    from: Dialect,
    to: Dialect,
    /** Where it is, such as `input[3].content[0]`; empty for the whole. */
    path: Schema.String,
    /** What it is and why it can't be carried. */
    what: Schema.String
  }
) {
  override get message() {
    const place = this.path === "" ? "" : `${this.path}: `
    return `${place}${this.what} (from ${names[this.from]} to ${names[this.to]}). ${remedy(this.from, this.to)}`
  }
}

const names: Readonly<Record<Dialect, string>> = {
  chat: "Chat Completions",
  responses: "Responses",
  messages: "Messages",
  conversation: "a conversation"
}

const remedy = (from: Dialect, to: Dialect): string => {
  if (from === "chat") {
    return to === "conversation"
      ? "See what the server sent, or leave it out of the history"
      : "See what the upstream sent, or speak Chat Completions with it"
  }
  if (from === "conversation") {
    return to === "chat" ? "Leave it out, or send it to an upstream that speaks Responses" : "Leave it out"
  }
  if (to === "conversation") return "Leave it out"
  return `Leave it out, or send it to an upstream that speaks ${names[from]}`
}

/**
 * How reasoning of earlier turns is sent: as `<think>` spans at their places in the text; the first span, where it comes
 * before all text, in the fields `reasoning_content` and `reasoning` and the others as spans; or not at all.
 *
 * @since 0.1.0
 * @category models
 */
export type ReasoningMode = "inline" | "field" | "omit"

/**
 * @since 0.1.0
 * @category models
 */
export interface ToChatOptions {
  /** The address that stands for an image held by reference, so that a streaming body can cut at it. */
  readonly image: (part: ImagePart) => string
  readonly reasoning: ReasoningMode
  /** Whether the tokens of earlier replies go along, for servers that continue from them; not unless it is true. */
  readonly tokens?: boolean
}

/**
 * @since 0.1.0
 * @category models
 */
export interface FromChatOptions {
  /** Whether `<think>` spans in an assistant's text are reasoning; an unclosed one stays text. */
  readonly thinkTags: boolean
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ToResponsesOptions {
  /** The address that stands for an image held by reference. */
  readonly image: (part: ImagePart) => string
  /** Whether reasoning of earlier turns is sent; as items unless it is `omit`. */
  readonly reasoning?: "items" | "omit"
  /** Whether the tokens of earlier replies go along; not unless it is true. */
  readonly tokens?: boolean
}

/**
 * @since 0.1.0
 * @category models
 */
export interface BridgeOptions {
  /** `inline` unless given. */
  readonly reasoning?: ReasoningMode
  /** Whether token bundles of the history stay on its assistant messages; not unless it is true. */
  readonly tokens?: boolean
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ReplyOptions {
  /** Unique text that every id of the reply is made of: usually 32 hexadecimal digits. */
  readonly id: string
  /** Unix time in seconds. */
  readonly createdAt: number
  /** Whether `<think>` spans in the text are reasoning. */
  readonly thinkTags: boolean
}

type Result<A> = Either.Either<A, ConversionError>

const named = <A>(from: Dialect, to: Dialect, result: Either.Either<A, Refused>): Result<A> =>
  Either.mapLeft(result, ({ path, what }) => new ConversionError({ from, to, path, what }))

// -----------------------------------------------------------------------------
// Conversations
// -----------------------------------------------------------------------------

/**
 * Messages for a Chat Completions request. An assistant's text and reasoning are one text in their order, its tool calls
 * follow. Fails on an image in a tool's answer, on calls of the computer and their answers, and on reasoning that is
 * sealed, or holds its own end tag and would be sent inline.
 *
 * @since 0.1.0
 * @category conversations
 */
export const toChatMessages = (
  messages: ReadonlyArray<Message>,
  options: ToChatOptions
): Result<ReadonlyArray<JsonObject>> =>
  named(
    "conversation",
    "chat",
    Either.flatMap(turnsOf(messages, options.image), (turns) =>
      writeChatMessages(turns, { reasoning: options.reasoning, tokens: options.tokens === true })
    )
  )

/**
 * The conversation that messages of a Chat Completions request hold. Fails on what a conversation has no part for:
 * audio, video, files, names of speakers, the old `function` role.
 *
 * @since 0.1.0
 * @category conversations
 */
export const fromChatMessages = (
  wire: ReadonlyArray<unknown>,
  options: FromChatOptions
): Result<ReadonlyArray<Message>> =>
  named("chat", "conversation", Either.flatMap(readChatMessages(wire, options.thinkTags, "messages"), conversationOf))

/**
 * What a model said, from the `message` of a choice, with its token bundle where the keys are there: all of them, or an
 * error. Fails on a refusal, which a conversation has no part for.
 *
 * @since 0.1.0
 * @category conversations
 */
export const fromChatMessage = (wire: unknown, options: FromChatOptions): Result<AssistantMessage> =>
  named("chat", "conversation", Either.flatMap(readChatMessage(wire, options.thinkTags, "message"), assistantOf))

/**
 * Items for the `input` of a Responses request: reasoning, text and tool calls are items in their order. Fails on
 * reasoning that another server sealed, and on an answer of the computer that is not one image.
 *
 * @since 0.1.0
 * @category conversations
 */
export const toResponsesInput = (
  messages: ReadonlyArray<Message>,
  options: ToResponsesOptions
): Result<ReadonlyArray<JsonObject>> =>
  named(
    "conversation",
    "responses",
    Either.flatMap(turnsOf(messages, options.image), (turns) =>
      writeResponsesItems(turns, { reasoning: options.reasoning !== "omit", tokens: options.tokens === true })
    )
  )

/**
 * The conversation that the `input` of a Responses request holds: a text, or items. Items of the assistant that follow
 * each other are one message.
 *
 * @since 0.1.0
 * @category conversations
 */
export const fromResponsesInput = (input: unknown): Result<ReadonlyArray<Message>> =>
  named(
    "responses",
    "conversation",
    Either.flatMap(readResponsesInput(input, "input", { native: true }), conversationOf)
  )

/**
 * What a model said, from the `output` of a response. Where several items carry tokens, the last one's are kept.
 *
 * @since 0.1.0
 * @category conversations
 */
export const fromResponsesOutput = (items: ReadonlyArray<unknown>): Result<AssistantMessage> =>
  named("responses", "conversation", Either.flatMap(readResponsesOutput(items, "output"), assistantOf))

// -----------------------------------------------------------------------------
// Tools
// -----------------------------------------------------------------------------

/**
 * Fails on the computer tool.
 *
 * @since 0.1.0
 * @category tools
 */
export const toChatTools = (offered: ReadonlyArray<OfferedTool>): Result<ReadonlyArray<JsonObject>> =>
  named("conversation", "chat", tools.toChat(offered))

/**
 * Fails on a tool that is no function.
 *
 * @since 0.1.0
 * @category tools
 */
export const fromChatTools = (wire: ReadonlyArray<unknown>): Result<ReadonlyArray<Tool>> =>
  named("chat", "conversation", tools.fromChat(wire, "tools"))

/**
 * Fails on a computer tool of Messages.
 *
 * @since 0.1.0
 * @category tools
 */
export const toResponsesTools = (offered: ReadonlyArray<OfferedTool>): Result<ReadonlyArray<JsonObject>> =>
  named("conversation", "responses", tools.toResponses(offered))

/**
 * Fails on a tool that is no function.
 *
 * @since 0.1.0
 * @category tools
 */
export const fromResponsesTools = (wire: ReadonlyArray<unknown>): Result<ReadonlyArray<Tool>> =>
  named("responses", "conversation", tools.fromResponses(wire, "tools"))

/**
 * As the chat-completions API has it: `auto`, `none`, `required`, or one function by its name.
 *
 * @since 0.1.0
 * @category tools
 */
export const toChatToolChoice = (choice: typeof ToolChoice.Type): string | JsonObject =>
  typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } }

/**
 * Fails on a choice among several named tools, and on tools of the server.
 *
 * @since 0.1.0
 * @category tools
 */
export const fromChatToolChoice = (wire: unknown): Result<typeof ToolChoice.Type> =>
  named("chat", "conversation", tools.fromChatChoice(wire, "tool_choice"))

/**
 * As the responses API has it: `auto`, `none`, `required`, or one function by its name.
 *
 * @since 0.1.0
 * @category tools
 */
export const toResponsesToolChoice = (choice: typeof ToolChoice.Type): string | JsonObject =>
  typeof choice === "string" ? choice : { type: "function", name: choice.name }

/**
 * Fails on a choice among several named tools, and on tools of the server.
 *
 * @since 0.1.0
 * @category tools
 */
export const fromResponsesToolChoice = (wire: unknown): Result<typeof ToolChoice.Type> =>
  named("responses", "conversation", tools.fromResponsesChoice(wire, "tool_choice"))

// -----------------------------------------------------------------------------
// Whole requests and replies
// -----------------------------------------------------------------------------

/**
 * A Responses request as a Chat Completions request. Fails, by name, on what only the server of the first could do:
 * state that it keeps (`previous_response_id`, `conversation`, `prompt`, `background`), tools that it runs, truncation.
 *
 * @since 0.1.0
 * @category bridges
 */
export const responsesRequestToChat = (body: JsonObject, options: BridgeOptions = {}): Result<JsonObject> =>
  named(
    "responses",
    "chat",
    responsesRequest(body, { reasoning: options.reasoning ?? "inline", tokens: options.tokens === true })
  )

/**
 * An Anthropic Messages request as a Chat Completions request. Fails, by name, on documents, tools that the server runs,
 * images in a tool's answer, sealed thinking, a thinking budget, and a reply begun
 * by the caller. A tool's failure is told in words, `Error:` on a line before its answer.
 *
 * @since 0.1.0
 * @category bridges
 */
export const messagesRequestToChat = (body: JsonObject, options: BridgeOptions = {}): Result<JsonObject> =>
  named("messages", "chat", messagesRequest(body, options.reasoning ?? "inline"))

/**
 * A whole chat completion as a response to `request`. Fails on a completion that is none, and on what a response has no
 * item for.
 *
 * @since 0.1.0
 * @category bridges
 */
export const chatReplyToResponses = (
  completion: JsonObject,
  request: JsonObject,
  options: ReplyOptions
): Result<JsonObject> => named("chat", "responses", responsesReply(completion, request, options))

/**
 * A whole chat completion as an Anthropic message. Fails on a completion that is none, and on tool arguments that are
 * no JSON object, which a message has no place for.
 *
 * @since 0.1.0
 * @category bridges
 */
export const chatReplyToMessages = (
  completion: JsonObject,
  request: JsonObject,
  options: ReplyOptions
): Result<JsonObject> => named("chat", "messages", messagesReply(completion, request, options))
