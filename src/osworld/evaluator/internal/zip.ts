/** Archives that an agent may have made: read in memory, within limits, and never unpacked to disk. */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { unpack } from "./zipContent.js"
import { type Member, members } from "./zipDirectory.js"

/** Far above what the benchmark's documents hold, far below what hurts. */
export const limits = { entries: 10_000, entryBytes: 128 * 1024 * 1024, totalBytes: 256 * 1024 * 1024 }

const isSafeName = (name: string): boolean =>
  !name.startsWith("/") &&
  !name.includes("\\") &&
  !/^[A-Za-z]:/.test(name) &&
  !(name.includes("..") && name.split("/").includes(".."))

/**
 * The wanted members by name. An archive is measured by its directory before the first of them is unpacked, and a member
 * that is not what the directory says is a reason to refuse.
 */
export const unzip = (
  bytes: Uint8Array,
  wanted: (name: string) => boolean,
  allowed: typeof limits = limits
): Either.Either<ReadonlyMap<string, Uint8Array>, Refusal> => {
  const refuse = (kind: Refusal["kind"], reason: string): Either.Either<never, Refusal> => Either.left({ kind, reason })
  try {
    const chosen: Array<Member> = []
    let entries = 0
    let total = 0
    for (const member of members(bytes)) {
      if (++entries > allowed.entries) return refuse("Undecidable", `more than ${allowed.entries} archive members`)
      if (!isSafeName(member.name))
        return refuse("Unparsable", `the archive member ${JSON.stringify(member.name)} leaves the archive`)
      if (!wanted(member.name)) continue
      total += member.bytes
      if (member.bytes > allowed.entryBytes || total > allowed.totalBytes)
        return refuse("Undecidable", `the archive unpacks to more than ${allowed.totalBytes} bytes`)
      chosen.push(member)
    }
    return Either.right(unpack(bytes, chosen))
  } catch (error) {
    return refuse("Unparsable", `no ZIP archive: ${String(error)}`)
  }
}
