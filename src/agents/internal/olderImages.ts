/** Prompts with fewer images. */
import type { NonEmptyReadonlyArray } from "effect/Array"
import { type Message, ToolMessage, text, UserMessage } from "../../model/Conversation.js"

/** A message whose images may go: an answer of the computer is nothing without its image. */
const isShown = (message: Message): message is UserMessage | ToolMessage =>
  (message.role === "user" || (message.role === "tool" && message.computer === undefined)) &&
  message.content.some(({ _tag }) => _tag !== "TextPart")

/** Only the newest message with images keeps them. */
export const withoutOlderImages = (messages: NonEmptyReadonlyArray<Message>): NonEmptyReadonlyArray<Message> => {
  const newest = messages.findLastIndex(isShown)
  const [first, ...rest] = messages.map((message, index) =>
    index < newest && isShown(message) ? withoutImages(message) : message
  )
  return first === undefined ? messages : [first, ...rest]
}

const withoutImages = (message: UserMessage | ToolMessage): UserMessage | ToolMessage => {
  const [first, ...rest] = message.content.map((part) =>
    part._tag === "TextPart" ? part : text("(This picture is no longer shown.)")
  )
  if (first === undefined) return message
  const content: typeof message.content = [first, ...rest]
  return message.role === "user"
    ? new UserMessage({ role: message.role, content })
    : new ToolMessage({ role: message.role, callId: message.callId, content })
}
