/** Archives that an agent may have made: read in memory, within limits, and never unpacked to disk. */
import * as Either from "effect/Either"
import { unzipSync } from "fflate"
import type { Refusal } from "../Reader.js"

/** Far above what the benchmark's documents hold, far below what hurts. */
export const limits = { entries: 10_000, entryBytes: 128 * 1024 * 1024, totalBytes: 256 * 1024 * 1024 }

const isSafeName = (name: string): boolean =>
  !name.startsWith("/") && !name.includes("\\") && !/^[A-Za-z]:/.test(name) && !name.split("/").includes("..")

/**
 * The wanted members by name. Sizes are those of the directory; fflate never writes beyond them, so a directory that
 * lies yields a short member and not a full memory.
 */
export const unzip = (
  bytes: Uint8Array,
  wanted: (name: string) => boolean,
  allowed: typeof limits = limits
): Either.Either<ReadonlyMap<string, Uint8Array>, Refusal> => {
  let entries = 0
  let total = 0
  let refusal: Refusal | undefined
  const refuse = (kind: Refusal["kind"], reason: string) => {
    refusal ??= { kind, reason }
    return false
  }
  const unpacked = Either.try({
    try: () =>
      unzipSync(bytes, {
        filter: ({ name, originalSize }) => {
          entries++
          if (refusal !== undefined) return false
          if (entries > allowed.entries) return refuse("Undecidable", `more than ${allowed.entries} archive members`)
          if (!isSafeName(name))
            return refuse("Unparsable", `the archive member ${JSON.stringify(name)} leaves the archive`)
          if (!wanted(name)) return false
          total += originalSize
          return originalSize > allowed.entryBytes || total > allowed.totalBytes
            ? refuse("Undecidable", `the archive unpacks to more than ${allowed.totalBytes} bytes`)
            : true
        }
      }),
    catch: (error): Refusal => ({ kind: "Unparsable", reason: `no ZIP archive: ${String(error)}` })
  })
  return refusal === undefined
    ? Either.map(unpacked, (members) => new Map(Object.entries(members)))
    : Either.left(refusal)
}
