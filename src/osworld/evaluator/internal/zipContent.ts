/**
 * The contents of ZIP members, as long as the directory says and with the checksum that it says, or an error.
 *
 * A stream of zlib's takes longer to set up than a small member to inflate, and a deck has two for each slide. A gzip
 * file may be several, one after the other (RFC 1952, 2.2), and each is what a member is in other covers: so many members
 * are inflated, and checked, in one call.
 */
import { crc32, gunzipSync } from "node:zlib"
import { type Member, packed } from "./zipDirectory.js"

/** Magic number, method, no flags, no time, no hints, no system. */
const gzipHeader = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff)
const gzipTrailerBytes = 8

/** DEFLATE's best: 258 bytes for two bits. */
const maxRatio = 1032

/** zlib's smallest chunk. */
const minChunk = 64

/** Members go into one call up to this many bytes of content. */
const batchBytes = 4 * 1024 * 1024

const lies = () => new Error("members hold more or less than the directory says")

const sum = <A>(items: ReadonlyArray<A>, of: (item: A) => number): number =>
  items.reduce((total, item) => total + of(item), 0)

/** Never writes more than the directory says in all. */
const gunzip = (covered: Uint8Array, bytes: number): Uint8Array => {
  try {
    return gunzipSync(covered, {
      maxOutputLength: Math.max(bytes, 1),
      // In one piece, with room for zlib to see the end; and no more than the content can fill.
      chunkSize: Math.max(minChunk, Math.min(bytes, covered.length * maxRatio) + 1)
    })
  } catch (error) {
    throw error instanceof RangeError ? lies() : error
  }
}

const inflate = (archive: Uint8Array, members: ReadonlyArray<Member>): ReadonlyArray<Uint8Array> => {
  const contents = members.map((member) => packed(archive, member))
  const covers = gzipHeader.length + gzipTrailerBytes
  const covered = Buffer.allocUnsafe(sum(contents, ({ length }) => length + covers))
  let at = 0
  for (const [i, member] of members.entries()) {
    const content = contents[i] ?? new Uint8Array(0)
    covered.set(gzipHeader, at)
    covered.set(content, at + gzipHeader.length)
    at = covered.writeUInt32LE(member.crc32, at + gzipHeader.length + content.length)
    at = covered.writeUInt32LE(member.bytes % 2 ** 32, at)
  }
  const bytes = sum(members, (member) => member.bytes)
  const { buffer, byteLength, byteOffset } = gunzip(covered, bytes)
  if (byteLength !== bytes) throw lies()
  let start = byteOffset
  return members.map((member) => {
    start += member.bytes
    return new Uint8Array(buffer, start - member.bytes, member.bytes)
  })
}

/** A copy, or the whole archive would stay in memory with it. */
const stored = (archive: Uint8Array, member: Member): Uint8Array => {
  const content = packed(archive, member)
  if (content.length !== member.bytes) throw lies()
  if (crc32(content) !== member.crc32) throw new Error("incorrect data check")
  return Uint8Array.from(content)
}

/** By name, in the order of `members`; of two of one name the last. Throws where one is not as the directory says. */
export const unpack = (archive: Uint8Array, members: ReadonlyArray<Member>): ReadonlyMap<string, Uint8Array> => {
  const unpacked = new Map<string, Uint8Array>(members.map(({ name }) => [name, new Uint8Array(0)]))
  let batch: Array<Member> = []
  let bytes = 0
  const flush = () => {
    for (const [i, content] of inflate(archive, batch).entries()) unpacked.set(batch[i]?.name ?? "", content)
    batch = []
    bytes = 0
  }
  for (const member of members) {
    // Nothing at all is no DEFLATE stream, and what some programs write for an empty file.
    if (member.method === 0 || (member.method === 8 && member.compressedBytes === 0)) {
      unpacked.set(member.name, stored(archive, member))
    } else if (member.method === 8) {
      batch.push(member)
      bytes += member.bytes
      if (bytes >= batchBytes) flush()
    } else {
      throw new Error(`unknown compression type ${member.method}`)
    }
  }
  if (batch.length > 0) flush()
  return unpacked
}
