/**
 * Which tokens stand for pictures. An engine puts a picture's placeholder tokens into the prompt; a policy can also spell
 * such a token, and then it is text.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * The placeholder tokens of one picture, all the same token, counted from the start of the prompt.
 *
 * @since 0.1.0
 * @category models
 */
export interface MediaSpan {
  readonly offset: number
  readonly length: number
  readonly tokenId: number
}

/**
 * A picture as the processor put it into a prompt.
 *
 * @since 0.1.0
 * @category models
 */
export interface Image extends MediaSpan {
  /** The same for the same picture: a digest of it. */
  readonly id: string
  /** In pixels, as it was processed. */
  readonly height: number
  readonly width: number
  /** More than 1 only for moving pictures, which do not train; 1 when absent. */
  readonly frames?: number
  /** The most pixels that the processor allowed, where it has such a limit. */
  readonly maxPixels?: number
}

/**
 * The pictures don't stand where they are said to.
 *
 * @since 0.1.0
 * @category errors
 */
export class MediaError extends Schema.TaggedError<MediaError>("deskhand/training/MediaError")("MediaError", {
  reason: Schema.Literal("span", "order", "retained", "token", "count", "digest", "size", "frames", "length"),
  detail: Schema.String,
  /** Which picture of the call, from 0. */
  image: Schema.optionalWith(Schema.Number, { exact: true })
}) {
  override get message() {
    return `${this.image === undefined ? "pictures" : `picture ${this.image}`}: ${this.detail}`
  }
}

const refuse = (reason: MediaError["reason"], detail: string, image?: number) =>
  Either.left(new MediaError({ reason, detail, ...(image === undefined ? {} : { image }) }))

// -----------------------------------------------------------------------------
// Rows without pictures
// -----------------------------------------------------------------------------

/**
 * For each row `[tokens]`: 0 where a token looks like a picture's and the row has no picture, else 1. `undefined` where all
 * of it is 1.
 *
 * @param mediaCounts `[rows]`: how many pictures each row has.
 *
 * @since 0.1.0
 * @category masks
 */
export const mediaTokenValidity = (
  rows: ReadonlyArray<ArrayLike<number>>,
  mediaCounts: ArrayLike<number>,
  mediaTokenIds: ReadonlySet<number>
): Either.Either<ReadonlyArray<Uint8Array> | undefined, MediaError> => {
  if (rows.length !== mediaCounts.length) {
    return refuse("length", `${rows.length} rows have ${mediaCounts.length} counts of pictures`)
  }
  let invalid = false
  const masks = rows.map((tokens, row) => {
    const mask = new Uint8Array(tokens.length).fill(1)
    if (mediaCounts[row] !== 0) return mask
    for (let at = 0; at < tokens.length; at++) {
      if (!mediaTokenIds.has(tokens[at] ?? -1)) continue
      mask[at] = 0
      invalid = true
    }
    return mask
  })
  return Either.right(invalid ? masks : undefined)
}

// -----------------------------------------------------------------------------
// Spans
// -----------------------------------------------------------------------------

/**
 * The SHA-256 of the first `length` token ids, each as four bytes, the lowest first: what a processor says of the prefix that it kept.
 *
 * @since 0.1.0
 * @category digests
 */
export const prefixDigest = (tokenIds: ArrayLike<number>, length = tokenIds.length): string => {
  const bytes = new DataView(new ArrayBuffer(length * 4))
  for (let at = 0; at < length; at++) bytes.setUint32(at * 4, tokenIds[at] ?? 0, true)
  return createHash("sha256").update(bytes).digest("hex")
}

/**
 * Whether spans lie in the part of a prompt that is new, in order and apart, and consist of their token alone.
 *
 * @param retained Tokens at the start of the prompt that earlier calls had already.
 *
 * @since 0.1.0
 * @category checks
 */
export const checkSpans = (
  promptTokenIds: ArrayLike<number>,
  spans: ReadonlyArray<MediaSpan>,
  retained = 0
): Either.Either<void, MediaError> => {
  let end = 0
  for (const [image, { length, offset, tokenId }] of spans.entries()) {
    if (!Number.isInteger(offset) || !Number.isInteger(length) || offset < 0 || length < 1) {
      return refuse("span", `${length} tokens from ${offset} are no span`, image)
    }
    if (offset + length > promptTokenIds.length) {
      return refuse("span", `it ends at ${offset + length}, and the prompt at ${promptTokenIds.length}`, image)
    }
    if (offset < retained)
      return refuse("retained", `it begins at ${offset}, before the new part at ${retained}`, image)
    if (offset < end)
      return refuse("order", `it begins at ${offset}, before the end of the one before at ${end}`, image)
    for (let at = offset; at < offset + length; at++) {
      if (promptTokenIds[at] !== tokenId) {
        return refuse("token", `token ${at} is ${promptTokenIds[at]}, and it consists of ${tokenId}`, image)
      }
    }
    end = offset + length
  }
  return Either.right(undefined)
}

/**
 * What a processor says of the pictures that one call added, to be held against the tokens and the action.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallGeometry {
  readonly promptTokenIds: ArrayLike<number>
  /** The pictures that the call added, in order. */
  readonly images: ReadonlyArray<Image>
  /** Tokens at the start of the prompt that earlier calls had already. */
  readonly retained: number
  /** The digest of these, as the processor gives it; not compared when absent. */
  readonly retainedDigest?: string
  /** What the environment showed before the call; not compared when absent. */
  readonly shown?: ReadonlyArray<Pick<Image, "height" | "width" | "maxPixels">>
}

/**
 * Whether spans, count, sizes and retained prefix agree.
 *
 * @since 0.1.0
 * @category checks
 */
export const checkGeometry = (call: CallGeometry): Either.Either<void, MediaError> => {
  const { images, promptTokenIds, retained, retainedDigest, shown } = call
  if (retained > promptTokenIds.length) {
    return refuse("retained", `${retained} tokens are retained of a prompt of ${promptTokenIds.length}`)
  }
  if (retainedDigest !== undefined) {
    const digest = prefixDigest(promptTokenIds, retained)
    if (digest !== retainedDigest) {
      return refuse(
        "digest",
        `the ${retained} tokens retained have ${digest}, and the processor kept ${retainedDigest}`
      )
    }
  }
  if (shown !== undefined && shown.length !== images.length) {
    return refuse("count", `${shown.length} were shown, and ${images.length} are in the prompt`)
  }
  for (const [image, { frames = 1, height, maxPixels, width }] of images.entries()) {
    if (frames !== 1) return refuse("frames", `it has ${frames} frames`, image)
    if (!(Number.isInteger(height) && Number.isInteger(width) && height > 0 && width > 0)) {
      return refuse("size", `${width}x${height} is no size`, image)
    }
    const expected = shown?.[image]
    if (expected === undefined) continue
    if (expected.height !== height || expected.width !== width) {
      return refuse("size", `it is ${width}x${height}, and ${expected.width}x${expected.height} was shown`, image)
    }
    if (expected.maxPixels !== maxPixels) {
      return refuse("size", `its limit is ${maxPixels} pixels, and was ${expected.maxPixels}`, image)
    }
  }
  return checkSpans(promptTokenIds, images, retained)
}

/**
 * `[tokens]`: 1 where a token is a picture's because the processor put it there. A picture's token anywhere else is text,
 * and a policy that generated it may train on it.
 *
 * @since 0.1.0
 * @category masks
 */
export const owned = (length: number, spans: ReadonlyArray<MediaSpan>): Uint8Array => {
  const mask = new Uint8Array(length)
  for (const span of spans) mask.fill(1, span.offset, span.offset + span.length)
  return mask
}

/**
 * `[tokens]`: 0 where a token looks like a picture's and no processor put it there, else 1. `undefined` where all of it
 * is 1.
 *
 * @since 0.1.0
 * @category masks
 */
export const exactValidity = (
  tokenIds: ArrayLike<number>,
  spans: ReadonlyArray<MediaSpan>,
  mediaTokenIds: ReadonlySet<number>
): Uint8Array | undefined => {
  const mask = owned(tokenIds.length, spans)
  let invalid = false
  for (let at = 0; at < tokenIds.length; at++) {
    if (mask[at] === 1) continue
    const text = mediaTokenIds.has(tokenIds[at] ?? -1)
    mask[at] = text ? 0 : 1
    invalid ||= text
  }
  return invalid ? mask : undefined
}

/**
 * Whether the pictures of one prompt are the first of another's, at the same places.
 *
 * @since 0.1.0
 * @category checks
 */
export const extendsImages = (before: ReadonlyArray<Image>, after: ReadonlyArray<Image>): boolean =>
  before.length <= after.length &&
  before.every((image, at) => {
    const same = after[at]
    return (
      same !== undefined &&
      same.id === image.id &&
      same.offset === image.offset &&
      same.length === image.length &&
      same.tokenId === image.tokenId &&
      same.height === image.height &&
      same.width === image.width
    )
  })
