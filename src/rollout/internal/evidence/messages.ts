/** Messages as they are compared, and the pictures in them. */
import type { BlobRef } from "../../../artifact/ArtifactStore.js"
import type { Message } from "../../../model/Conversation.js"
import { canonical } from "./json.js"

const known = new WeakMap<Message, string>()

/** A message as canonical JSON, without its tokens: those belong to the call that it answered. */
export const messageJson = (message: Message): string => {
  const found = known.get(message)
  if (found !== undefined) return found
  const json = canonical(message.role === "assistant" ? { ...message, tokens: undefined } : message)
  known.set(message, json)
  return json
}

export const promptJson = (messages: ReadonlyArray<Message>): string => `[${messages.map(messageJson).join(",")}]`

export const imagesOf = (message: Message): ReadonlyArray<BlobRef> =>
  message.role === "user" || message.role === "tool"
    ? message.content.flatMap((part) => (part._tag === "ImagePart" ? [part.blob] : []))
    : []
