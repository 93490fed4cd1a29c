import { createHash } from "node:crypto"
import { BlobRef } from "../../../artifact/ArtifactStore.js"
import type { JsonObject } from "../../Convert.js"

/** An image (a sound, a film) of a payload, in the field's names. */
export interface EmbeddedImage {
  /** Which message or input item holds it, and which of that one's parts it is, from 0. */
  readonly message_index?: number
  readonly part_index?: number
  /** Length of its `data:` address, in characters. */
  readonly data_url_chars: number
  /** SHA-256 of its base64; only where the payload had that. */
  readonly encoded_sha256?: string
  readonly decoded_bytes: number
  readonly decoded_sha256: string
  readonly media_type: string
}

type Path = ReadonlyArray<string | number>

const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")

const dataUrl = /^data:([^,]{0,256}?);base64,/i

const addressLength = (mediaType: string, bytes: number): number =>
  `data:${mediaType};base64,`.length + Math.ceil(bytes / 3) * 4

const places = (path: Path): Pick<EmbeddedImage, "message_index" | "part_index"> => {
  const [root, message, ...rest] = path
  if ((root !== "messages" && root !== "input") || typeof message !== "number") return {}
  const part = rest.find((step) => typeof step === "number")
  return part === undefined ? { message_index: message } : { message_index: message, part_index: part }
}

/** `{ media_type: "image/png", data: ... }` of the Messages wire, `{ format: "wav", data: ... }` of the chat wire. */
const besideData = (owner: JsonObject): string | undefined => {
  const { format, media_type } = owner
  return typeof media_type === "string" ? media_type : typeof format === "string" ? `audio/${format}` : undefined
}

/** The payload with `sha256:<digest of the bytes>` for each image, and what is known of each. */
export const withoutPixels = (
  payload: unknown
): { readonly payload: unknown; readonly images: ReadonlyArray<EmbeddedImage> } => {
  const images: Array<EmbeddedImage> = []
  const found = (image: EmbeddedImage): string => {
    images.push(image)
    return `sha256:${image.decoded_sha256}`
  }
  const encoded = (base64: string, mediaType: string, characters: number, path: Path): string => {
    const bytes = Buffer.from(base64, "base64")
    return found({
      ...places(path),
      data_url_chars: characters,
      encoded_sha256: sha256(base64),
      decoded_bytes: bytes.length,
      decoded_sha256: sha256(bytes),
      media_type: mediaType
    })
  }
  const walk = (value: unknown, path: Path): unknown => {
    if (typeof value === "string") {
      const [head, mediaType = ""] = dataUrl.exec(value) ?? []
      return head === undefined ? value : encoded(value.slice(head.length), mediaType, value.length, path)
    }
    if (value instanceof BlobRef) {
      return found({
        ...places(path),
        data_url_chars: addressLength(value.mediaType, value.bytes),
        decoded_bytes: value.bytes,
        decoded_sha256: value.sha256,
        media_type: value.mediaType
      })
    }
    if (Array.isArray(value)) return value.map((item: unknown, index) => walk(item, [...path, index]))
    return isObject(value) ? walkObject(value, path) : value
  }
  const walkObject = (owner: JsonObject, path: Path): JsonObject => {
    const mediaType = besideData(owner)
    return Object.fromEntries(
      Object.entries(owner).map(([key, value]) => {
        const bare = key === "data" && typeof value === "string" && mediaType !== undefined && !dataUrl.test(value)
        return [
          key,
          bare
            ? encoded(value, mediaType, `data:${mediaType};base64,`.length + value.length, path)
            : walk(value, [...path, key])
        ]
      })
    )
  }
  return { payload: walk(payload, []), images }
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
