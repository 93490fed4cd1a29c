/**
 * As much of tar as one file needs: a writer of one regular file, and a reader of the first entry. Headers as in POSIX
 * pax; GNU's long names are understood, too.
 */

const block = 512

export interface Entry {
  readonly type: "file" | "folder" | "link" | "other"
  readonly name: string
  /** Bytes of content. */
  readonly size: number
}

const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, "0")}\0`

const largestOctal = 8 ** 11 - 1

export const padding = (size: number): number => (block - (size % block)) % block

const ustar = ({ gid, mode, modified, name, size, type, uid }: HeaderFields): Uint8Array => {
  const header = Buffer.alloc(block)
  header.write(name, 0, 100, "utf8")
  header.write(octal(mode, 8), 100, "latin1")
  header.write(octal(uid, 8), 108, "latin1")
  header.write(octal(gid, 8), 116, "latin1")
  header.write(octal(Math.min(size, largestOctal), 12), 124, "latin1")
  header.write(octal(modified, 12), 136, "latin1")
  header.write("        ", 148, "latin1")
  header.write(type, 156, "latin1")
  header.write("ustar\x0000", 257, "latin1")
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1")
  return header
}

/** `<length> <key>=<value>\n`, where the length counts its own digits. */
const paxRecord = (key: string, value: string): string => {
  const rest = Buffer.byteLength(` ${key}=${value}\n`)
  let length = rest + String(rest).length
  length = rest + String(length).length
  return `${length} ${key}=${value}\n`
}

export interface FileFields {
  /** Relative to the folder that it is unpacked in. */
  readonly name: string
  readonly size: number
  readonly mode: number
  readonly uid: number
  readonly gid: number
  /** Seconds since 1970. */
  readonly modified: number
}

interface HeaderFields extends FileFields {
  readonly type: string
}

/** What comes before the file's bytes. */
export const head = (file: FileFields): Uint8Array => {
  const records = [
    ...(Buffer.byteLength(file.name) > 100 ? [paxRecord("path", file.name)] : []),
    ...(file.size > largestOctal ? [paxRecord("size", String(file.size))] : []),
    ...(file.uid >= 8 ** 7 ? [paxRecord("uid", String(file.uid))] : []),
    ...(file.gid >= 8 ** 7 ? [paxRecord("gid", String(file.gid))] : [])
  ].join("")
  const fields = { ...file, uid: file.uid >= 8 ** 7 ? 0 : file.uid, gid: file.gid >= 8 ** 7 ? 0 : file.gid }
  if (records === "") {
    return ustar({ ...fields, type: "0" })
  }
  const extension = Buffer.from(records)
  return Buffer.concat([
    ustar({ ...fields, name: "PaxHeaders/file", size: extension.length, mode: 0o644, type: "x" }),
    extension,
    Buffer.alloc(padding(extension.length)),
    ustar({ ...fields, name: Buffer.byteLength(file.name) > 100 ? "file" : file.name, type: "0" })
  ])
}

/** What comes after the file's bytes: the padding, and the two empty blocks that end an archive. */
export const tail = (size: number): Uint8Array => new Uint8Array(padding(size) + 2 * block)

/** Bytes of the whole archive. */
export const archiveSize = (file: FileFields): number => head(file).length + file.size + tail(file.size).length

const text = (header: Uint8Array, from: number, length: number): string => {
  const field = Buffer.from(header.buffer, header.byteOffset + from, length)
  const end = field.indexOf(0)
  return field.subarray(0, end === -1 ? length : end).toString("utf8")
}

/** Octal digits, or, with the first bit set, a big-endian number. */
const number = (header: Uint8Array, from: number, length: number): number => {
  const first = header[from] ?? 0
  if ((first & 0x80) === 0) {
    return Number.parseInt(text(header, from, length).trim() || "0", 8)
  }
  return header.subarray(from + 1, from + length).reduce((total, byte) => total * 256 + byte, first & 0x7f)
}

const paxRecords = (bytes: Uint8Array): Readonly<Record<string, string>> => {
  const records: Record<string, string> = {}
  const all = Buffer.from(bytes)
  let at = 0
  while (at < all.length) {
    const space = all.indexOf(0x20, at)
    const length = space === -1 ? Number.NaN : Number(all.subarray(at, space).toString("latin1"))
    if (!(length > 0)) {
      break
    }
    const record = all.subarray(space + 1, at + length - 1).toString("utf8")
    const equals = record.indexOf("=")
    records[record.slice(0, equals)] = record.slice(equals + 1)
    at += length
  }
  return records
}

const types: Readonly<Record<string, Entry["type"]>> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "1": "link",
  "2": "link",
  "5": "folder"
}

/**
 * Reads an archive in pieces of any size up to the end of its first entry. `Content` gives bytes of that entry; after
 * `done`, whatever follows is ignored.
 */
export interface Reader {
  readonly entry: Entry | undefined
  readonly done: boolean
  readonly problem: string | undefined
  /** The content in these bytes, after which the reader's fields tell how far it is. */
  readonly push: (bytes: Uint8Array) => ReadonlyArray<Uint8Array>
}

export const reader = (): Reader => {
  let entry: Entry | undefined
  let problem: string | undefined
  let done = false
  let left = 0
  let kept = Buffer.alloc(0)
  let wanted = block
  // The extension header whose content is being read.
  let extension: string | undefined
  let name: string | undefined
  let size: number | undefined

  const header = (bytes: Buffer): void => {
    const type = String.fromCharCode(bytes[156] ?? 0)
    const sum = bytes.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0)
    if (bytes.every((byte) => byte === 0)) {
      done = true
      problem = "the archive is empty"
    } else if (number(bytes, 148, 8) !== sum) {
      done = true
      problem = "the archive is damaged"
    } else if (type === "x" || type === "g" || type === "L" || type === "K") {
      extension = type
      const length = number(bytes, 124, 12)
      wanted = length + padding(length)
      left = length
      if (length === 0) {
        extension = undefined
        wanted = block
      }
    } else {
      const prefix = text(bytes, 345, 155)
      const short = text(bytes, 0, 100)
      const found = types[type] ?? "other"
      entry = {
        type: found,
        name: name ?? (prefix === "" ? short : `${prefix}/${short}`),
        size: size ?? number(bytes, 124, 12)
      }
      left = found === "file" ? entry.size : 0
      done = left === 0
    }
  }

  const extended = (bytes: Buffer): void => {
    if (extension === "L") {
      name = text(bytes, 0, left).replace(/\0.*$/, "")
    } else if (extension === "x") {
      const records = paxRecords(bytes.subarray(0, left))
      name = records["path"] ?? name
      size = records["size"] === undefined ? size : Number(records["size"])
    }
    extension = undefined
    wanted = block
    left = 0
  }

  return {
    get entry() {
      return entry
    },
    get done() {
      return done
    },
    get problem() {
      return problem
    },
    push: (bytes) => {
      const content: Array<Uint8Array> = []
      let rest = bytes
      while (rest.length > 0 && !done) {
        if (entry !== undefined) {
          const part = rest.subarray(0, left)
          content.push(part)
          left -= part.length
          rest = rest.subarray(part.length)
          done = left === 0
          continue
        }
        const part = rest.subarray(0, wanted - kept.length)
        kept = Buffer.concat([kept, part])
        rest = rest.subarray(part.length)
        if (kept.length === wanted) {
          const full = kept
          kept = Buffer.alloc(0)
          if (extension === undefined) {
            header(full)
          } else {
            extended(full)
          }
        }
      }
      return content
    }
  }
}
