/**
 * Tar archives, plain or gzipped, read in memory within the limits of `zip`: POSIX's ustar format, its `path` records
 * (pax) and GNU's long names. Only files are read; links point nowhere, since nothing is unpacked to disk.
 */
import { gunzipSync } from "node:zlib"
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { limits } from "./zip.js"

const block = 512

export const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1")
const utf8 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8")

export const isTar = (bytes: Uint8Array): boolean =>
  bytes.length >= block && latin1(bytes.subarray(257, 262)) === "ustar" && checksumHolds(bytes.subarray(0, block))

const field = (header: Uint8Array, start: number, length: number): Uint8Array => {
  const bytes = header.subarray(start, start + length)
  const end = bytes.indexOf(0)
  return end < 0 ? bytes : bytes.subarray(0, end)
}

const octal = (bytes: Uint8Array): number | undefined => {
  const text = latin1(bytes).trim()
  return /^[0-7]*$/.test(text) ? Number.parseInt(text || "0", 8) : undefined
}

/** The sum of the header's bytes, its own eight taken for blanks. */
const checksumHolds = (header: Uint8Array): boolean => {
  let sum = 8 * 0x20
  for (const [at, byte] of header.entries()) if (at < 148 || at >= 156) sum += byte
  return octal(field(header, 148, 8)) === sum
}

/** `length key=value\n`, one after the other. */
const paxPath = (content: string): string | undefined => /(?:^|\n)\d+ path=([^\n]*)\n/.exec(content)?.[1]

const isSafe = (name: string): boolean => !name.startsWith("/") && !name.split("/").includes("..")

export const gunzip = (bytes: Uint8Array, allowed: typeof limits = limits): Either.Either<Uint8Array, Refusal> =>
  Either.try({
    try: (): Uint8Array => gunzipSync(bytes, { maxOutputLength: allowed.totalBytes }),
    catch: (error): Refusal =>
      error instanceof RangeError
        ? { kind: "Undecidable", reason: `the archive unpacks to more than ${allowed.totalBytes} bytes` }
        : { kind: "Unparsable", reason: `no gzip: ${String(error)}` }
  })

export const untar = (
  bytes: Uint8Array,
  allowed: typeof limits = limits
): Either.Either<ReadonlyMap<string, Uint8Array>, Refusal> => {
  const refuse = (kind: Refusal["kind"], reason: string): Either.Either<never, Refusal> => Either.left({ kind, reason })
  const members = new Map<string, Uint8Array>()
  let longName: string | undefined
  let entries = 0
  for (let at = 0; at + block <= bytes.length; ) {
    const header = bytes.subarray(at, at + block)
    if (header.every((byte) => byte === 0)) break
    if (++entries > allowed.entries) return refuse("Undecidable", `more than ${allowed.entries} archive members`)
    const size = octal(field(header, 124, 12))
    if (!checksumHolds(header) || size === undefined) return refuse("Unparsable", "no tar archive")
    const start = at + block
    if (start + size > bytes.length) return refuse("Unparsable", "the tar archive is cut off")
    const content = bytes.subarray(start, start + size)
    at = start + Math.ceil(size / block) * block

    const type = String.fromCharCode(header[156] ?? 0)
    if (type === "L") longName = utf8(field(content, 0, size))
    else if (type === "x") longName = paxPath(utf8(content)) ?? longName
    else if (type !== "g") {
      const [name, prefix] = [utf8(field(header, 0, 100)), utf8(field(header, 345, 155))]
      const isPosix = latin1(header.subarray(257, 263)) === "ustar\0"
      const whole = longName ?? (isPosix && prefix !== "" ? `${prefix}/${name}` : name)
      longName = undefined
      if (!isSafe(whole)) {
        return refuse("Unparsable", `the archive member ${JSON.stringify(whole)} leaves the archive`)
      }
      if ((type === "0" || type === "\0") && !whole.endsWith("/")) members.set(whole.replace(/^(\.\/)+/, ""), content)
    }
  }
  return Either.right(members)
}
