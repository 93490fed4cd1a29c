/**
 * Files of JSON Lines that grow by whole, durable lines, also under several processes that take turns.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

/** How far a file was read. */
export interface Cursor {
  readonly offset: number
  /** Tells a file from another that took its place. */
  readonly file: string
}

export const start: Cursor = { offset: 0, file: "" }

export interface Tail {
  readonly cursor: Cursor
  /** Whether the file is another one than the cursor knew, so that what was read from that is void. */
  readonly fresh: boolean
  readonly lines: ReadonlyArray<string>
  /** Bytes of a last line without its newline, which were cut off. */
  readonly torn: number
}

const newline = 10

const identity = (info: FileSystem.File.Info): string =>
  `${Option.getOrElse(info.ino, () => 0)} ${Option.match(info.birthtime, { onNone: () => 0, onSome: Number })}`

/** `undefined` where there is no such file. */
export const unlessMissing = <A>(
  effect: Effect.Effect<A, PlatformError>
): Effect.Effect<A | undefined, PlatformError> =>
  Effect.catchIf(
    effect,
    (error) => error._tag === "SystemError" && error.reason === "NotFound",
    () => Effect.succeed(undefined)
  )

/** A file's bytes from `offset` on; no more than the size that was seen. */
const readFrom = (
  fs: FileSystem.FileSystem,
  path: string,
  offset: number,
  size: number
): Effect.Effect<Buffer, PlatformError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const file = yield* fs.open(path, { flag: "r" })
      yield* file.seek(BigInt(offset), "start")
      const bytes = Buffer.alloc(size - offset)
      let at = 0
      while (at < bytes.length) {
        const read = Number(yield* file.read(bytes.subarray(at)))
        if (read === 0) break
        at += read
      }
      return bytes.subarray(0, at)
    })
  )

/** The lines of a buffer, each decoded by itself: all of them together may be longer than a text can be. */
const linesOf = (bytes: Buffer): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (let from = 0, to = bytes.indexOf(newline); to >= 0; from = to + 1, to = bytes.indexOf(newline, from)) {
    if (to > from) lines.push(bytes.toString("utf8", from, to))
  }
  return lines
}

/** What came since the cursor. A torn last line is cut off, so that the next one begins a line of its own. */
export const readTail = (fs: FileSystem.FileSystem, path: string, cursor: Cursor): Effect.Effect<Tail, PlatformError> =>
  Effect.gen(function* () {
    const info = yield* unlessMissing(fs.stat(path))
    if (info === undefined) return { cursor: start, fresh: cursor.file !== "", lines: [], torn: 0 }
    const size = Number(info.size)
    const file = identity(info)
    const fresh = cursor.file !== "" && (cursor.file !== file || size < cursor.offset)
    const from = fresh || cursor.file === "" ? 0 : cursor.offset
    if (size === from) return { cursor: { offset: from, file }, fresh, lines: [], torn: 0 }
    const bytes = yield* readFrom(fs, path, from, size)
    const whole = bytes.lastIndexOf(newline) + 1
    const torn = bytes.length - whole
    if (torn > 0) yield* fs.truncate(path, from + whole)
    return { cursor: { offset: from + whole, file }, fresh, lines: linesOf(bytes.subarray(0, whole)), torn }
  })

/** All whole lines of a file, none where it is not. */
export const readLines = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<ReadonlyArray<string>, PlatformError> =>
  Effect.gen(function* () {
    const info = yield* unlessMissing(fs.stat(path))
    return info === undefined ? [] : linesOf(yield* readFrom(fs, path, 0, Number(info.size)))
  })

/** Makes the names in a folder durable. */
export const syncDirectory = (fs: FileSystem.FileSystem, directory: string): Effect.Effect<void, PlatformError> =>
  Effect.scoped(Effect.flatMap(fs.open(directory, { flag: "r" }), (file) => file.sync))

/** Adds a line, on the disk when this returns, and says where the file ends now. What was not written whole is taken back. */
export const appendLine = (
  fs: FileSystem.FileSystem,
  directory: string,
  path: string,
  line: string
): Effect.Effect<Cursor, PlatformError> =>
  Effect.gen(function* () {
    const bytes = Buffer.from(`${line}\n`)
    const file = yield* fs.open(path, { flag: "a", mode: 0o600 })
    const info = yield* file.stat
    yield* file.writeAll(bytes).pipe(
      Effect.zipRight(file.sync),
      // Where this fails, too, the next reader cuts it off.
      Effect.tapError(() => Effect.ignore(file.truncate(info.size)))
    )
    if (info.size === FileSystem.Size(0)) yield* syncDirectory(fs, directory)
    return { offset: Number(info.size) + bytes.length, file: identity(info) }
  }).pipe(Effect.scoped, Effect.uninterruptible)

/** Puts a small file in place whole, or not at all, and durable when this returns. */
export const replaceFile = (
  fs: FileSystem.FileSystem,
  directory: string,
  path: string,
  text: string
): Effect.Effect<void, PlatformError> => {
  const partial = `${path}.partial`
  return Effect.scoped(
    Effect.flatMap(fs.open(partial, { flag: "w", mode: 0o600 }), (file) =>
      Effect.zipRight(file.writeAll(Buffer.from(text)), file.sync)
    )
  ).pipe(
    Effect.zipRight(fs.rename(partial, path)),
    Effect.zipRight(syncDirectory(fs, directory)),
    Effect.uninterruptible
  )
}
