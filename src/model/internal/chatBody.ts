import { randomUUID } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Stream from "effect/Stream"
import type { ArtifactError, ArtifactStore, BlobRef } from "../../artifact/ArtifactStore.js"
import type { Message, Part } from "../Conversation.js"

/** Length of the base64 of so many bytes. */
const base64Length = (bytes: number): number => Math.ceil(bytes / 3) * 4

/**
 * The JSON of a request as a body that reads each picture from disk when its turn comes and forgets it when it is sent:
 * a prompt of many pictures is never whole in memory. `fields` are the request's other fields.
 */
export const chatBody = (
  messages: ReadonlyArray<Message>,
  fields: Readonly<Record<string, unknown>>,
  store: ArtifactStore["Type"]
): HttpBody.Stream => {
  const pictures: Array<BlobRef> = []
  // Stands for a picture's base64 until the text is cut at it. No text has it: nobody has seen it before.
  const mark = randomUUID()
  const wirePart = (part: Part) => {
    if (part._tag === "TextPart") return { type: "text", text: part.text }
    pictures.push(part.blob)
    return { type: "image_url", image_url: { url: `data:${part.blob.mediaType};base64,${mark}`, detail: "high" } }
  }
  const wireMessage = ({ content, role }: Message) =>
    content.length === 1 && content[0]._tag === "TextPart"
      ? { role, content: content[0].text }
      : { role, content: content.map(wirePart) }
  const pieces = JSON.stringify({ ...fields, messages: messages.map(wireMessage) })
    .split(mark)
    .map((text) => Buffer.from(text))
  const picture = (blob: BlobRef): Effect.Effect<Uint8Array, ArtifactError> =>
    Effect.map(store.get(blob), (bytes) => Buffer.from(Encoding.encodeBase64(bytes)))
  const length =
    pieces.reduce((sum, text) => sum + text.length, 0) +
    pictures.reduce((sum, blob) => sum + base64Length(blob.bytes), 0)
  const stream = Stream.fromIterable(pieces).pipe(
    Stream.zipWithIndex,
    Stream.flatMap(([text, index]) => {
      const blob = pictures[index]
      return blob === undefined ? Stream.make(text) : Stream.concat(Stream.make(text), Stream.fromEffect(picture(blob)))
    })
  )
  return HttpBody.stream(stream, "application/json", length)
}
