/**
 * The JSON of a request whose images are read from disk when their turn comes and forgotten when they are sent: a prompt
 * of many images is never whole in memory.
 */
import { randomUUID } from "node:crypto"
import { Readable } from "node:stream"
import { BlobRef } from "../../../artifact/ArtifactStore.js"
import type { ImagePart } from "../../Conversation.js"
import type { JsonObject } from "../../Convert.js"
import { isObject } from "../streams/streamError.js"
import type { RequestBody } from "./exchange.js"

/** Addresses that stand for images in a request's JSON until it is sent. */
export interface Placeholders {
  readonly image: (part: ImagePart) => string
  /** The bytes to send. `read` is asked for each image once each time that the body is sent, in the JSON's order. */
  readonly body: (json: JsonObject, read: Read) => RequestBody
  /** The same JSON with a reference in the place of each image, for a log. */
  readonly referenced: (json: JsonObject) => JsonObject
}

/** Length of the base64 of so many bytes. */
const base64Length = (bytes: number): number => Math.ceil(bytes / 3) * 4

/**
 * A multiple of 3, so that slices join. Their base64 stays below the 128 KiB from which allocators map fresh pages for
 * each block: sending an image in one piece costs twice the CPU.
 */
const sliceBytes = 24 * 1024

/** Text that ends at an image's place, if one comes after it. */
interface Piece {
  readonly text: string
  readonly blob?: BlobRef
}

type Read = (blob: BlobRef) => Promise<Uint8Array>

/**
 * Makes the body as the socket takes it. A generator would cost promises for each slice, and a string three times its
 * length in memory when it is written, which a buffer is spared.
 */
class Pieces extends Readable {
  readonly #pieces: ReadonlyArray<Piece>
  readonly #blob: Read
  #next = 0
  /** The image whose turn it is, or the one that comes next and has to be read. */
  #image: Buffer | BlobRef | undefined
  #at = 0

  constructor(pieces: ReadonlyArray<Piece>, blob: Read) {
    // In object mode a chunk goes to the socket as it is, one at a time.
    super({ objectMode: true, highWaterMark: 1 })
    this.#pieces = pieces
    this.#blob = blob
  }

  override _read(): void {
    const image = this.#image
    if (image instanceof BlobRef) {
      this.#blob(image).then(
        ({ buffer, byteLength, byteOffset }) => {
          if (this.destroyed) return
          this.#image = Buffer.from(buffer, byteOffset, byteLength)
          this.#at = 0
          this._read()
        },
        (error) => this.destroy(error)
      )
      return
    }
    if (image !== undefined && this.#at < image.length) {
      const from = this.#at
      this.#at += sliceBytes
      this.push(image.toString("base64", from, this.#at))
      return
    }
    const piece = this.#pieces[this.#next++]
    this.#image = piece?.blob
    this.push(piece === undefined ? null : piece.text)
  }
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
        open: () => new Pieces(pieces, read)
      }
    },
    referenced: (json) => Object.fromEntries(Object.entries(json).map(([key, value]) => [key, referenced(value)]))
  }
}
