/** Decoded pictures: one byte a sample, one array a channel. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { type Reader as ReaderType, Unusable } from "../Metric.js"
import * as Reader from "../Reader.js"

/** Rows from top to bottom. Colours are as the file stores them: profiles and orientation marks are not applied. */
export interface Raster {
  readonly width: number
  readonly height: number
  /** Red, green, blue. */
  readonly colours: readonly [Uint8Array, Uint8Array, Uint8Array]
  /** Undefined where the file has no transparency. */
  readonly alpha: Uint8Array | undefined
  /** Whether the file names its colours by an index. */
  readonly palette: boolean
}

/** What a picture's file is, before anything is decoded. */
export interface Encoded {
  readonly name: string
  readonly bytes: Uint8Array
}

/** A photograph of twice the size of those in the tasks; a few hundred bytes of PNG can claim a million times more. */
export const maxPixels = 40_000_000

const ascii = (bytes: Uint8Array, from: number, text: string): boolean =>
  Array.from(text).every((char, index) => bytes[from + index] === char.charCodeAt(0))

/** Formats that we decode, and those that a picture may well have and we don't. */
const formatOf = (bytes: Uint8Array): "supported" | "unsupported" | "none" => {
  const supported =
    ascii(bytes, 0, "\u0089PNG\r\n\u001a\n") ||
    ascii(bytes, 0, "\u00ff\u00d8\u00ff") ||
    ascii(bytes, 0, "GIF8") ||
    (ascii(bytes, 0, "RIFF") && ascii(bytes, 8, "WEBP")) ||
    ascii(bytes, 0, "II*\u0000") ||
    ascii(bytes, 0, "MM\u0000*") ||
    ascii(bytes, 4, "ftypavif")
  if (supported) return "supported"
  const known = ["BM", "8BPS", "P3", "P5", "P6", "\u0000\u0000\u0001\u0000", "DDS "]
  return known.some((mark) => ascii(bytes, 0, mark)) ? "unsupported" : "none"
}

const detail = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** Channels of interleaved samples, `stride` of them a pixel. */
const separate = (samples: Uint8Array, stride: number, pixels: number, channel: number): Uint8Array => {
  const plane = new Uint8Array(pixels)
  for (let i = 0, at = channel; i < pixels; i++, at += stride) plane[i] = samples[at] ?? 0
  return plane
}

export const decode = ({ bytes, name }: Encoded): Effect.Effect<Raster, Unusable> =>
  Effect.gen(function* () {
    const unusable = (kind: "Unparsable" | "Undecidable", reason: string, cause?: unknown) =>
      new Unusable({ kind, reason: `${name}: ${reason}`, cause })
    const format = formatOf(bytes)
    if (format === "none") return yield* unusable("Unparsable", "no picture")
    if (format === "unsupported") return yield* unusable("Undecidable", "pictures of this format are not supported")

    const { default: sharp } = yield* Effect.promise(() => import("sharp"))
    const broken = (cause: unknown) => unusable("Unparsable", `a broken picture: ${detail(cause)}`, cause)
    const facts = yield* Effect.tryPromise({
      try: () => sharp(bytes, { limitInputPixels: false }).metadata(),
      catch: broken
    })
    const pixels = facts.width * facts.height
    if (pixels > maxPixels) {
      return yield* unusable(
        "Undecidable",
        `${facts.width} x ${facts.height} pixels, and ${maxPixels} is the most that is decoded`
      )
    }
    const { data, info } = yield* Effect.tryPromise({
      try: () =>
        sharp(bytes, { failOn: "truncated", limitInputPixels: maxPixels, ignoreIcc: true })
          .toColourspace("srgb")
          .raw({ depth: "uchar" })
          .toBuffer({ resolveWithObject: true }),
      catch: broken
    })
    const { channels, height, width } = info
    const plane = (channel: number) => separate(data, channels, width * height, channel)
    const grey = channels < 3 ? plane(0) : undefined
    return {
      width,
      height,
      colours: grey === undefined ? [plane(0), plane(1), plane(2)] : [grey, grey, grey],
      alpha: facts.hasAlpha ? plane(channels - 1) : undefined,
      palette: facts.isPalette || facts.format === "gif"
    } satisfies Raster
  })

const encodedOf: Reader.Parser<Encoded> = (bytes, file) => Either.right({ bytes, name: file.name })

/** A file that may be a picture. */
export const encoded: ReaderType<Encoded> = Reader.file(encodedOf)

/** Files that may be pictures, to be decoded one at a time. */
export const encodedList: ReaderType<ReadonlyArray<Encoded>> = Reader.files(encodedOf)

/** A picture. */
export const image: ReaderType<Raster> = (value) => Effect.flatMap(encoded(value), decode)

/** Whether two pictures have one size. */
export const sameSize = (a: Raster, b: Raster): boolean => a.width === b.width && a.height === b.height

/** A picture's part; the edges are those of `contentBox`. */
export const crop = (raster: Raster, { bottom, left, right, top }: Box): Raster => {
  const width = right - left
  const cut = (plane: Uint8Array): Uint8Array => {
    const part = new Uint8Array(width * (bottom - top))
    for (let y = top; y < bottom; y++) {
      part.set(plane.subarray(y * raster.width + left, y * raster.width + right), (y - top) * width)
    }
    return part
  }
  const [red, green, blue] = raster.colours
  return {
    width,
    height: bottom - top,
    colours: [cut(red), cut(green), cut(blue)],
    alpha: raster.alpha === undefined ? undefined : cut(raster.alpha),
    palette: raster.palette
  }
}

/** `right` and `bottom` are the first column and row outside. */
export interface Box {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** The smallest box around all that is not wholly transparent; undefined when nothing is. */
export const contentBox = ({ alpha, height, width }: Raster): Box | undefined => {
  if (alpha === undefined) return { left: 0, top: 0, right: width, bottom: height }
  let [left, top, right, bottom] = [width, height, 0, 0]
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (alpha[i] === 0) continue
      if (x < left) left = x
      if (x >= right) right = x + 1
      if (y < top) top = y
      bottom = y + 1
    }
  }
  return right === 0 ? undefined : { left, top, right, bottom }
}

/** The picture in a mirror that stands beside it. */
export const mirror = (raster: Raster): Raster => {
  const flip = (plane: Uint8Array): Uint8Array => {
    const flipped = plane.slice()
    for (let y = 0; y < raster.height; y++) flipped.subarray(y * raster.width, (y + 1) * raster.width).reverse()
    return flipped
  }
  const [red, green, blue] = raster.colours
  return {
    ...raster,
    colours: [flip(red), flip(green), flip(blue)],
    alpha: raster.alpha === undefined ? undefined : flip(raster.alpha)
  }
}

/** Lightness by ITU-R BT.601, rounded as Pillow's mode `L` rounds it. */
export const lightness = ({ colours: [red, green, blue], height, width }: Raster): Uint8Array => {
  const plane = new Uint8Array(width * height)
  for (let i = 0; i < plane.length; i++) {
    plane[i] = ((red[i] ?? 0) * 19595 + (green[i] ?? 0) * 38470 + (blue[i] ?? 0) * 7471 + 0x8000) >> 16
  }
  return plane
}

/** Hue, saturation and value, each of them scaled to a byte and cut off, in single precision: Pillow's mode `HSV`. */
export const hsv = ({
  colours: [red, green, blue],
  height,
  width
}: Raster): { readonly hue: Uint8Array; readonly saturation: Uint8Array; readonly value: Uint8Array } => {
  const hue = new Uint8Array(width * height)
  const saturation = new Uint8Array(width * height)
  const value = new Uint8Array(width * height)
  for (let i = 0; i < value.length; i++) {
    const r = red[i] ?? 0
    const g = green[i] ?? 0
    const b = blue[i] ?? 0
    const high = Math.max(r, g, b)
    const range = high - Math.min(r, g, b)
    value[i] = high
    if (range === 0) continue
    saturation[i] = Math.trunc(Math.fround(range / high) * 255)
    const belowRed = Math.fround((high - r) / range)
    const belowGreen = Math.fround((high - g) / range)
    const belowBlue = Math.fround((high - b) / range)
    const sixth =
      r === high ? belowBlue - belowGreen : g === high ? 2 + belowRed - belowBlue : 4 + belowGreen - belowRed
    // A whole turn more, so that none is negative.
    const turn = Math.fround(sixth) / 6 + 1
    hue[i] = Math.trunc(Math.fround(turn >= 1 ? turn - 1 : turn) * 255)
  }
  return { hue, saturation, value }
}

export const mean = (plane: Uint8Array): number => {
  let sum = 0
  for (const sample of plane) sum += sample
  return sum / plane.length
}
