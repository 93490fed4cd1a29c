/**
 * X window dumps, as the `xwd` program writes them: pictures that no library of ours reads.
 *
 * Format: XWDFile.h of the X Window System, file version 7, written most significant byte first.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"

export interface Pixels {
  readonly width: number
  readonly height: number
  /** Red, green and blue of each pixel. */
  readonly data: Uint8Array
}

const headerBytes = 100
const maxPixels = 50_000_000
const colorEntryBytes = 12

export const isWindowDump = (bytes: Uint8Array): boolean => {
  if (bytes.length < headerBytes) return false
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const header = view.getUint32(0)
  return header >= headerBytes && header < bytes.length && view.getUint32(4) === 7 && view.getUint32(8) <= 2
}

/** The channel that a mask selects, scaled to a byte. */
const channel = (mask: number): ((pixel: number) => number) => {
  const shift = mask === 0 ? 0 : 31 - Math.clz32(mask & -mask)
  const most = mask >>> shift
  return most === 255
    ? (pixel) => (pixel >>> shift) & 255
    : (pixel) => (most === 0 ? 0 : Math.round((((pixel & mask) >>> shift) * 255) / most))
}

/** Screens of true colour (16, 24 or 32 bits a pixel), which is what screens have been for thirty years. */
export const decode = (bytes: Uint8Array): Either.Either<Pixels, Refusal> => {
  const refuse = (kind: Refusal["kind"], reason: string) => Either.left<Refusal>({ kind, reason })
  if (!isWindowDump(bytes)) return refuse("Unparsable", "no X window dump")
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const field = (index: number) => view.getUint32(index * 4)
  const [format, width, height] = [field(2), field(4), field(5)]
  const littleEndian = field(7) === 0
  const [size, stride] = [field(11) / 8, field(12)]
  if (format !== 2 || ![2, 3, 4].includes(size)) return refuse("Undecidable", "an X window dump without true colour")
  if (width === 0 || height === 0 || stride < width * size) return refuse("Unparsable", "a broken X window dump")
  if (width * height > maxPixels) return refuse("Undecidable", `a picture of more than ${maxPixels} pixels`)
  const start = field(0) + field(19) * colorEntryBytes
  if (start + stride * height > bytes.length) return refuse("Unparsable", "a truncated X window dump")

  const [red, green, blue] = [channel(field(14)), channel(field(15)), channel(field(16))]
  const data = new Uint8Array(width * height * 3)
  let to = 0
  for (let y = 0; y < height; y++) {
    for (let x = 0, at = start + y * stride; x < width; x++, at += size) {
      let pixel = 0
      for (let i = 0; i < size; i++) pixel |= (bytes[at + i] ?? 0) << (8 * (littleEndian ? i : size - 1 - i))
      data[to++] = red(pixel)
      data[to++] = green(pixel)
      data[to++] = blue(pixel)
    }
  }
  return Either.right({ width, height, data })
}
