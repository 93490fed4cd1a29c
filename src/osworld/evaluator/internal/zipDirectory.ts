/**
 * The directory at the end of a ZIP archive, and where it says that members are. Nothing here trusts a number of the
 * file's: a view throws a `RangeError` where one leads out of it.
 *
 * Format: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3 (ZIP64).
 */

export interface Member {
  readonly name: string
  /** 0: stored, 8: deflated. */
  readonly method: number
  readonly crc32: number
  /** As they are in the archive. */
  readonly compressedBytes: number
  /** As the directory has it, which may lie. */
  readonly bytes: number
  /** Where the member's own header starts. */
  readonly offset: number
}

const signatures = { local: 0x04034b50, central: 0x02014b50, end: 0x06054b50, end64: 0x06064b50, locator64: 0x07064b50 }

/** The end record's own length, and the longest comment that may follow it. */
const endBytes = 22
const maxComment = 0xffff

/** Stands for a value that is in the ZIP64 field. */
const elsewhere = 0xffffffff

const invalid = () => new Error("invalid zip data")

const findEnd = (view: DataView): number => {
  const last = view.byteLength - endBytes
  for (let at = last; at >= 0 && at >= last - maxComment; at--) {
    if (view.getUint32(at, true) === signatures.end) return at
  }
  throw invalid()
}

/** Exact below 2^53, and above that beyond any archive. */
const uint64 = (view: DataView, at: number): number => view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32

const findDirectory = (view: DataView): { readonly count: number; readonly start: number; readonly is64: boolean } => {
  const end = findEnd(view)
  const locator = end - 20
  if (locator >= 0 && view.getUint32(locator, true) === signatures.locator64) {
    const end64 = uint64(view, locator + 8)
    if (view.getUint32(end64, true) === signatures.end64) {
      return { count: uint64(view, end64 + 32), start: uint64(view, end64 + 48), is64: true }
    }
  }
  return { count: view.getUint16(end + 8, true), start: view.getUint32(end + 16, true), is64: false }
}

/** Those of the three numbers that did not fit into 32 bits, in the order of the record's extra field. */
const wide = (view: DataView, start: number, end: number, member: Member): Member => {
  let at = start
  while (view.getUint16(at, true) !== 1) {
    at += 4 + view.getUint16(at + 2, true)
    if (at >= end) throw invalid()
  }
  at += 4
  const next = (value: number): number => {
    if (value !== elsewhere) return value
    at += 8
    return uint64(view, at - 8)
  }
  return {
    ...member,
    bytes: next(member.bytes),
    compressedBytes: next(member.compressedBytes),
    offset: next(member.offset)
  }
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Members as the directory has them, in its order, one after the other: a reader may stop. Throws what is no archive. */
export function* members(bytes: Uint8Array): Generator<Member> {
  const view = viewOf(bytes)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const { count, is64, start } = findDirectory(view)
  let at = start
  for (let i = 0; i < count; i++) {
    if (view.getUint32(at, true) !== signatures.central) throw invalid()
    const nameStart = at + 46
    const nameEnd = nameStart + view.getUint16(at + 28, true)
    const extraEnd = nameEnd + view.getUint16(at + 30, true)
    const isUtf8 = (view.getUint16(at + 8, true) & 0x800) !== 0
    const member: Member = {
      name: buffer.toString(isUtf8 ? "utf8" : "latin1", nameStart, nameEnd),
      method: view.getUint16(at + 10, true),
      crc32: view.getUint32(at + 16, true),
      compressedBytes: view.getUint32(at + 20, true),
      bytes: view.getUint32(at + 24, true),
      offset: view.getUint32(at + 42, true)
    }
    const isWide =
      is64 && (member.bytes === elsewhere || member.compressedBytes === elsewhere || member.offset === elsewhere)
    yield isWide ? wide(view, nameEnd, extraEnd, member) : member
    at = extraEnd + view.getUint16(at + 32, true)
  }
}

/** The member's bytes as they are in the archive; fewer where the archive ends before them. */
export const packed = (bytes: Uint8Array, { compressedBytes, offset }: Member): Uint8Array => {
  const view = viewOf(bytes)
  if (view.getUint32(offset, true) !== signatures.local) throw invalid()
  const start = offset + 30 + view.getUint16(offset + 26, true) + view.getUint16(offset + 28, true)
  return bytes.subarray(start, start + compressedBytes)
}
