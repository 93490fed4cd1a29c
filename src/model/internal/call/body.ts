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

/**
 * A multiple of 3, so that slices join. Their base64 stays below the 128 KiB from which allocators map fresh pages for
 * each block: sending an image in one piece costs twice the CPU.
 */
const sliceBytes = 72 * 1024

function* base64(bytes: Uint8Array): Generator<string> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at < view.length; at += sliceBytes) {
    yield view.toString("base64", at, at + sliceBytes)
  }
}

/** Text that ends at an image's place, if one comes after it. */
interface Piece {
  readonly text: string
  readonly blob?: BlobRef
}

export const placeholders = (): Placeholders => {
  // Stands in the text where the base64 will be. No text has it: nobody has seen it before.
  const mark = `${randomUUID()}.`
  const blobs: Array<BlobRef> = []
  /** `text` in pieces; a place is the mark, a number and a full stop. */
  const cut = (text: string): ReadonlyArray<Piece> => {
    const pieces: Array<Piece> = []
    let from = 0
    for (let at = text.indexOf(mark); at >= 0; at = text.indexOf(mark, from)) {
      const number = at + mark.length
      const end = text.indexOf(".", number)
      const blob = blobs[Number(text.slice(number, end))]
      pieces.push({ text: text.slice(from, at), ...(blob === undefined ? {} : { blob }) })
      from = end + 1
    }
    pieces.push({ text: text.slice(from) })
    return pieces
  }
  const address = (blob: BlobRef) => `data:${blob.mediaType};base64,`
  const referenced = (value: unknown): unknown => {
    if (typeof value === "string") return value.includes(mark) ? (cut(value)[0]?.blob ?? value) : value
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
      const pieces = cut(JSON.stringify(json))
      return {
        length: pieces.reduce(
          (sum, { blob, text }) => sum + Buffer.byteLength(text) + base64Length(blob?.bytes ?? 0),
          0
        ),
        open: async function* () {
          for (const { blob, text } of pieces) {
            yield text
            if (blob === undefined) continue
            for (const slice of base64(await read(blob))) yield slice
          }
        }
      }
    },
    referenced: (json) => Object.fromEntries(Object.entries(json).map(([key, value]) => [key, referenced(value)]))
  }
}
