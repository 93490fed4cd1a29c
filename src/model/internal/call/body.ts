/**
 * The JSON of a request whose images are read from disk when their turn comes and forgotten when they are sent: a prompt
 * of many images is never whole in memory.
 */
import { randomUUID } from "node:crypto"
import { Readable } from "node:stream"
import { BlobRef, type Lent } from "../../../artifact/ArtifactStore.js"
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
 * A multiple of 3, so that slices join. The socket takes room for three times the length of a string, and that stays
 * below the 128 KiB from which allocators map fresh pages for each block: an image in one piece costs twice the CPU.
 */
const sliceBytes = 24 * 1024

/** Text that ends at an image's place, if one comes after it. */
interface Piece {
  readonly text: string
  readonly blob?: BlobRef
}

const nothing = Buffer.alloc(0)

type Read = (blob: BlobRef) => Promise<Lent>

/**
 * Makes the body as the socket takes it. A generator would cost promises for each slice, and buffers in the place of
 * strings are memory that the garbage collector counts, and runs for.
 */
class Pieces extends Readable {
  /** What is still to be sent, the last first: an exchange holds its body until the reply has come. */
  readonly #pieces: Array<Piece>
  readonly #blob: Read
  /** The image that comes next and has to be read. */
  #waiting: BlobRef | undefined
  /** The image whose turn it is. */
  #lent: Lent | undefined
  #image: Buffer = nothing
  #at = 0

  constructor(pieces: ReadonlyArray<Piece>, blob: Read) {
    // In object mode a chunk goes to the socket as it is, one at a time.
    super({ objectMode: true, highWaterMark: 1 })
    this.#pieces = pieces.toReversed()
    this.#blob = blob
  }

  override _read(): void {
    const waiting = this.#waiting
    if (waiting !== undefined) {
      this.#waiting = undefined
      this.#blob(waiting).then(
        (lent) => {
          if (this.destroyed) return lent.release()
          const { buffer, byteLength, byteOffset } = lent.bytes
          this.#lent = lent
          this.#image = Buffer.from(buffer, byteOffset, byteLength)
          this.#at = 0
          this._read()
        },
        (error) => this.destroy(error)
      )
      return
    }
    if (this.#at < this.#image.length) {
      const from = this.#at
      this.#at += sliceBytes
      const slice = this.#image.toString("base64", from, this.#at)
      if (this.#at >= this.#image.length) this.#release()
      this.push(slice)
      return
    }
    this.#release()
    const piece = this.#pieces.pop()
    this.#waiting = piece?.blob
    this.push(piece === undefined ? null : piece.text)
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#release()
    callback(error)
  }

  #release(): void {
    this.#lent?.release()
    this.#lent = undefined
    this.#image = nothing
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
    // The text is made when it is sent, and nothing holds it while the model thinks.
    body: (json, read) => ({
      open: () => {
        const pieces = cut(JSON.stringify(json))
        return {
          length: pieces.reduce(
            (sum, { blob, text }) => sum + Buffer.byteLength(text) + base64Length(blob?.bytes ?? 0),
            0
          ),
          stream: new Pieces(pieces, read)
        }
      }
    }),
    referenced: (json) => Object.fromEntries(Object.entries(json).map(([key, value]) => [key, referenced(value)]))
  }
}
