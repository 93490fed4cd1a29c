/**
 * Archives that somebody else made: read in memory, within limits, and never unpacked to disk.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Tar from "./internal/tar.js"
import * as Zip from "./internal/zip.js"
import type { Refusal } from "./Reader.js"

/**
 * What an archive may hold.
 *
 * @since 0.1.0
 * @category models
 */
export interface Limits {
  readonly entries: number
  readonly entryBytes: number
  readonly totalBytes: number
}

/**
 * The wanted members of a ZIP archive, or of a tar archive, gzipped or not, by their names. An archive with a member that
 * leaves it is unparsable, whether or not that one is wanted; one that is beyond the limits is undecidable.
 *
 * @since 0.1.0
 * @category reading
 */
export const members = (
  bytes: Uint8Array,
  wanted: (name: string) => boolean,
  limits: Limits
): Either.Either<ReadonlyMap<string, Uint8Array>, Refusal> => {
  if (bytes[0] === 0x50 && bytes[1] === 0x4b) return Zip.unzip(bytes, wanted, limits)
  const tar = Tar.isGzip(bytes) ? Tar.gunzip(bytes, limits) : Either.right(bytes)
  return Either.flatMap(tar, (tar) =>
    Tar.isTar(tar)
      ? Either.map(
          Tar.untar(tar, limits),
          // A copy of what is wanted, or the whole archive stays in memory with it.
          (all) => new Map(Array.from(all).flatMap(([name, at]) => (wanted(name) ? [[name, Uint8Array.from(at)]] : [])))
        )
      : Either.left<Refusal>({
          kind: "Unparsable",
          reason: "it is neither a ZIP archive nor a tar archive, gzipped or not"
        })
  )
}
