/**
 * The JSON of a request whose images are read from disk when their turn comes and forgotten when they are sent: a prompt
 * of many images is never whole in memory.
 */
import { randomUUID } from "node:crypto"
import { BlobRef } from "../../../artifact/ArtifactStore.js"
import type { ImagePart } from "../../Conversation.js"
import type { JsonObject } from "../../Convert.js"
import { isObject } from "../streams/streamError.js"
import type { RequestBody } from "./exchange.js"

/** Addresses that stand for images in a request's JSON until it is sent. */
export interface Placeholders {
  readonly image: (part: ImagePart) => string
  /** The bytes to send. `read` is asked for each image once each time that the body is sent, in the JSON's order. */
  readonly body: (json: JsonObject, read: (blob: BlobRef) => Promise<Uint8Array>) => RequestBody
  /** The same JSON with a reference in the place of each image, for a log. */
  readonly referenced: (json: JsonObject) => JsonObject
}

/** Length of the base64 of so many bytes. */
const base64Length = (bytes: number): number => Math.ceil(bytes / 3) * 4

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")

export const placeholders = (): Placeholders => {
  // Stands in the text where the base64 will be. No text has it: nobody has seen it before.
  const mark = `${randomUUID()}.`
  const blobs: Array<BlobRef> = []
  const at = new RegExp(`${mark.replaceAll(".", "\\.")}(\\d+)\\.`)
  const blobAt = (index: string | undefined): BlobRef | undefined =>
    index === undefined ? undefined : blobs[Number(index)]
  const address = (blob: BlobRef) => `data:${blob.mediaType};base64,`
  const referenced = (value: unknown): unknown => {
    if (typeof value === "string") return value.includes(mark) ? (blobAt(at.exec(value)?.[1]) ?? value) : value
    if (Array.isArray(value)) return value.map(referenced)
    if (!isObject(value) || value instanceof BlobRef) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, referenced(inner)]))
  }
  return {
    image: ({ blob }) => {
      blobs.push(blob)
      return `${address(blob)}${mark}${blobs.length - 1}.`
    },
    body: (json, read) => {
      // Texts and, between them, the numbers of the images.
      const pieces = JSON.stringify(json).split(at)
      const length = pieces.reduce(
        (sum, piece, index) =>
          sum + (index % 2 === 0 ? Buffer.byteLength(piece) : base64Length(blobAt(piece)?.bytes ?? 0)),
        0
      )
      return {
        length,
        open: async function* () {
          for (const [index, piece] of pieces.entries()) {
            const blob = index % 2 === 0 ? undefined : blobAt(piece)
            yield blob === undefined ? piece : base64(await read(blob))
          }
        }
      }
    },
    referenced: (json) => Object.fromEntries(Object.entries(json).map(([key, value]) => [key, referenced(value)]))
  }
}
