/**
 * SQLite's write-ahead log laid over its database, so that one file says what both say. A browser that runs keeps its
 * latest writes there. The format is that of https://www.sqlite.org/fileformat2.html, section 4.
 */

const headerSize = 32
const frameHeaderSize = 24

/** The running checksum of the log over more bytes, whose number is a multiple of 8. */
const checksum = (
  view: DataView,
  start: number,
  end: number,
  littleEndian: boolean,
  [before0, before1]: readonly [number, number]
): readonly [number, number] => {
  let s0 = before0
  let s1 = before1
  for (let at = start; at < end; at += 8) {
    s0 = (s0 + view.getUint32(at, littleEndian) + s1) >>> 0
    s1 = (s1 + view.getUint32(at + 4, littleEndian) + s0) >>> 0
  }
  return [s0, s1]
}

/** Byte 18 and 19 of a database say whether a log belongs to it. */
const withoutLog = (database: Uint8Array): Uint8Array => {
  if (database[18] === 2 || database[19] === 2) {
    database[18] = 1
    database[19] = 1
  }
  return database
}

/** What is left of a log that broke off in mid-transaction, or of an older log in the same file, does not count. */
export const merge = (database: Uint8Array, log: Uint8Array | undefined): Uint8Array => {
  const alone = () => withoutLog(Uint8Array.from(database))
  if (log === undefined || log.length < headerSize) return alone()
  const view = new DataView(log.buffer, log.byteOffset, log.byteLength)
  const magic = view.getUint32(0)
  if (magic !== 0x377f0682 && magic !== 0x377f0683) return alone()
  const littleEndian = magic === 0x377f0682
  const pageSize = view.getUint32(8)
  if (pageSize < 512 || pageSize > 65536 || (pageSize & (pageSize - 1)) !== 0) return alone()
  const salts = [view.getUint32(16), view.getUint32(20)]
  let sum = checksum(view, 0, 24, littleEndian, [0, 0])
  if (sum[0] !== view.getUint32(24) || sum[1] !== view.getUint32(28)) return alone()

  let pending = new Map<number, number>()
  const committed = new Map<number, number>()
  let pages: number | undefined
  for (let at = headerSize; at + frameHeaderSize + pageSize <= log.length; at += frameHeaderSize + pageSize) {
    if (view.getUint32(at + 8) !== salts[0] || view.getUint32(at + 12) !== salts[1]) break
    sum = checksum(view, at, at + 8, littleEndian, sum)
    sum = checksum(view, at + frameHeaderSize, at + frameHeaderSize + pageSize, littleEndian, sum)
    if (sum[0] !== view.getUint32(at + 16) || sum[1] !== view.getUint32(at + 20)) break
    const size = view.getUint32(at + 4)
    pending.set(view.getUint32(at), at + frameHeaderSize)
    if (size > 0) {
      for (const [page, place] of pending) committed.set(page, place)
      pending = new Map()
      pages = size
    }
  }
  // A log cannot make more pages than the database and the log have.
  if (pages === undefined || pages > database.length / pageSize + committed.size) return alone()
  const merged = new Uint8Array(pages * pageSize)
  merged.set(database.subarray(0, merged.length))
  for (const [page, place] of committed) {
    if (page >= 1 && page <= pages) merged.set(log.subarray(place, place + pageSize), (page - 1) * pageSize)
  }
  return withoutLog(merged)
}
