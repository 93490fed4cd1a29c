/**
 * What a model is shown: messages of text and of images that are held by reference.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { BlobRef } from "../artifact/ArtifactStore.js"

/**
 * @since 0.1.0
 * @category models
 */
export class TextPart extends Schema.TaggedClass<TextPart>("deskhand/model/TextPart")("TextPart", {
  text: Schema.String
}) {}

/**
 * An image, by reference: its bytes are read when the request is sent and forgotten afterwards.
 *
 * @since 0.1.0
 * @category models
 */
export class ImagePart extends Schema.TaggedClass<ImagePart>("deskhand/model/ImagePart")("ImagePart", {
  blob: BlobRef
}) {}

/**
 * @since 0.1.0
 * @category models
 */
export const Part = Schema.Union(TextPart, ImagePart)

/**
 * @since 0.1.0
 * @category models
 */
export type Part = typeof Part.Type

/**
 * @since 0.1.0
 * @category models
 */
export class Message extends Schema.Class<Message>("deskhand/model/Message")({
  role: Schema.Literal("system", "user", "assistant"),
  content: Schema.NonEmptyArray(Part)
}) {}

/**
 * A message of plain text.
 *
 * @since 0.1.0
 * @category constructors
 */
export const text = (role: Message["role"], content: string): Message =>
  new Message({ role, content: [new TextPart({ text: content })] })
