/**
 * Conversations to the Messages wire (Anthropic's) and back. What it has no place for is an error that names it, but for
 * how closely an image is looked at, which no server of it is told.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { AssistantMessage, ImagePart, Message, OfferedTool } from "./Conversation.js"
import { ConversionError, type JsonObject } from "./Convert.js"
import { assistantOf, conversationOf, turnsOf } from "./internal/convert/conversation.js"
import { list, type Reading } from "./internal/convert/json.js"
import { readMessages, readSaid, readSystem } from "./internal/convert/messagesRead.js"
import { type MessagesBody, writeMessages } from "./internal/convert/messagesWrite.js"
import * as tools from "./internal/convert/tools.js"
import type { ToolChoice } from "./ModelClient.js"

export type {
  /**
   * A conversation as the fields `system` and `messages` of a request.
   *
   * @since 0.1.0
   * @category models
   */
  MessagesBody
} from "./internal/convert/messagesWrite.js"

type Result<A> = Either.Either<A, ConversionError>

const to = <A>(reading: Reading<A>): Result<A> =>
  Either.mapLeft(reading, (refused) => new ConversionError({ from: "conversation", to: "messages", ...refused }))

const from = <A>(reading: Reading<A>): Result<A> =>
  Either.mapLeft(reading, (refused) => new ConversionError({ from: "messages", to: "conversation", ...refused }))

/**
 * @since 0.1.0
 * @category models
 */
export interface ToMessagesOptions {
  /** The address that stands for an image held by reference: `data:` with base64 in it, or one that the server fetches. */
  readonly image: (part: ImagePart) => string
  /** Whether reasoning of earlier turns is sent; as blocks unless it is `omit`. */
  readonly reasoning?: "blocks" | "omit"
}

/**
 * The conversation as a request tells it: system messages at its beginning apart, developers' among them, answers of
 * tools as blocks of one user message. Empty texts of the model are left out, which the wire takes none of. Fails on
 * system messages further on, calls with arguments that are no JSON object, a function named `computer`, and what
 * another server sealed.
 *
 * @since 0.1.0
 * @category conversations
 */
export const toMessages = (messages: ReadonlyArray<Message>, options: ToMessagesOptions): Result<MessagesBody> =>
  to(
    Either.flatMap(turnsOf(messages, options.image), (turns) =>
      writeMessages(turns, { reasoning: options.reasoning !== "omit" })
    )
  )

/**
 * The conversation that a request holds. Sealed thinking keeps its seal, and a call of the tool named `computer` is a
 * call of the computer.
 *
 * @since 0.1.0
 * @category conversations
 */
export const fromMessages = (body: {
  readonly system?: unknown
  readonly messages: unknown
}): Result<ReadonlyArray<Message>> =>
  from(
    Either.gen(function* () {
      const head = yield* readSystem(body.system, "system")
      const turns = yield* readMessages(yield* list(body.messages, "messages"), "messages", true)
      return yield* conversationOf([...head, ...turns])
    })
  )

/**
 * What a model said, from the `content` of a message.
 *
 * @since 0.1.0
 * @category conversations
 */
export const fromMessagesContent = (content: unknown): Result<AssistantMessage> =>
  from(
    Either.flatMap(readSaid(content, true, "content"), (pieces) =>
      assistantOf({ role: "assistant", pieces, path: "content" })
    )
  )

/**
 * Fails on a computer tool of Responses, and on a function named `computer`.
 *
 * @since 0.1.0
 * @category tools
 */
export const toMessagesTools = (offered: ReadonlyArray<OfferedTool>): Result<ReadonlyArray<JsonObject>> =>
  to(tools.toMessages(offered))

/**
 * As the messages API has it: an object whose `type` is `auto`, `none`, `any` or `tool`.
 *
 * @since 0.1.0
 * @category tools
 */
export const toMessagesToolChoice = (choice: typeof ToolChoice.Type): JsonObject => tools.toMessagesChoice(choice)
