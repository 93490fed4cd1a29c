/** JSON Lines that are durable when they count, and that a crash cannot spoil. */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { byteLines } from "./evidence/lines.js"

/** A JSON Lines file that is open for appending: a row is on the disk, not in a cache, when `append` returns. */
export interface JsonLines {
  readonly append: (row: unknown) => Effect.Effect<void, PlatformError>
}

/** What is written and synced at once, in bytes; a longer row goes alone. */
const batchBytes = 8 * 1024 * 1024

const lineFeed = 10

type Role = "leads" | "is done"

interface Pending {
  /** Absent until it waits. */
  resume: ((role: Effect.Effect<Role>) => void) | undefined
  /** What it is told, or would have been before it waited. */
  role: Role | undefined
  exit: Exit.Exit<void, PlatformError> | undefined
}

const tell = (row: Pending, role: Role) => {
  row.role = role
  row.resume?.(Effect.succeed(role))
}

/** Holds nothing of the row: thousands wait at a time. */
const roleOf = (row: Pending): Effect.Effect<Role> =>
  Effect.async((resume) => {
    if (row.role === undefined) row.resume = resume
    else resume(Effect.succeed(row.role))
  })

/** Rows that go together, encoded already: nothing holds their text while they wait. */
interface Batch {
  bytes: Buffer
  length: number
  readonly rows: Array<Pending>
}

/**
 * Rows that come while others are on their way to the disk wait and then go together, with one sync for all of them: the
 * disk's latency bounds how long a row takes, not how many there are a second.
 *
 * After a failure nothing more is appended: what follows half a row would be spoilt by it.
 */
export const openJsonLines = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<JsonLines, PlatformError, Scope.Scope> =>
  Effect.gen(function* () {
    const file = yield* fs.open(path, { flag: "a" })
    // In the order in which they came. While somebody writes, the first of them is who writes next. (A semaphore wakes
    // all that wait for it each time.)
    let waiting: Array<Batch> = []
    let writing = false
    let broken: Exit.Exit<void, PlatformError> | undefined
    // Buffers that were written, for batches to come.
    const spare: Array<Buffer> = []

    /** The last batch, if it has room for so much more. */
    const batchFor = (size: number): Batch => {
      const last = waiting.at(-1)
      if (last !== undefined && last.length + size <= batchBytes) {
        if (last.length + size > last.bytes.length) {
          const bytes = Buffer.allocUnsafeSlow(Math.min(batchBytes, 2 * (last.length + size)))
          last.bytes.copy(bytes, 0, 0, last.length)
          last.bytes = bytes
        }
        return last
      }
      const kept = spare.pop()
      const bytes = kept !== undefined && kept.length >= size ? kept : Buffer.allocUnsafeSlow(size)
      const batch = { bytes, length: 0, rows: [] }
      waiting.push(batch)
      return batch
    }

    const add = (text: string, row: Pending) => {
      const batch = batchFor(Buffer.byteLength(text) + 1)
      batch.length += batch.bytes.write(text, batch.length)
      batch.bytes[batch.length++] = lineFeed
      batch.rows.push(row)
    }

    const wake = (rows: ReadonlyArray<Pending>, exit: Exit.Exit<void, PlatformError>) => {
      for (const row of rows) {
        row.exit = exit
        tell(row, "is done")
      }
    }

    /** The first of those that wait writes for itself and for all behind it. */
    const lead: Effect.Effect<void, PlatformError> = Effect.suspend(() => {
      const batch = waiting.shift()
      if (batch === undefined) return Effect.void
      const write = file.writeAll(batch.bytes.subarray(0, batch.length))
      return Effect.flatMap(Effect.exit(Effect.zipRight(write, file.sync)), (exit) => {
        wake(batch.rows.slice(1), exit)
        if (batch.bytes.length <= batchBytes && spare.length === 0) spare.push(batch.bytes)
        if (Exit.isFailure(exit)) {
          broken = exit
          for (const { rows } of waiting) wake(rows, exit)
          waiting = []
        }
        const next = waiting[0]?.rows[0]
        writing = next !== undefined
        if (next !== undefined) tell(next, "leads")
        return exit
      })
    })

    const appended = (row: Pending): Effect.Effect<void, PlatformError> => {
      if (!writing) {
        writing = true
        return lead
      }
      return Effect.flatMap(roleOf(row), (role) => (role === "leads" ? lead : (row.exit ?? Effect.void)))
    }

    const append = (row: unknown): Effect.Effect<void, PlatformError> => {
      if (broken !== undefined) return broken
      const pending: Pending = { resume: undefined, role: undefined, exit: undefined }
      add(JSON.stringify(row), pending)
      return appended(pending)
    }

    return {
      // Half a row would spoil the next one.
      append: (row) => Effect.uninterruptible(Effect.suspend(() => append(row)))
    }
  })

/** A whole line: its number (from 1), its bytes without the newline, and its value unless it is no JSON. */
export interface NumberedLine {
  readonly number: number
  readonly bytes: Buffer
  readonly value: Option.Option<unknown>
}

const parse = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/**
 * The lines of a file as a stream; memory holds one of them. A line ends at `\n` and nowhere else. Blank lines are left
 * out, and so is a last line without its newline, which a crash tore: use `repairTail` before appending.
 */
export const readNumberedLines = (
  fs: FileSystem.FileSystem,
  path: string
): Stream.Stream<NumberedLine, PlatformError> =>
  byteLines(fs.stream(path)).pipe(
    Stream.filterMap(({ bytes, number, torn }) => {
      if (torn) return Option.none()
      const text = bytes.toString("utf8")
      return text.trim() === "" ? Option.none() : Option.some({ number, bytes, value: parse(text) })
    })
  )

/** What `readJsonLines` read: a value, or none for a line that is no JSON. */
export type Line = Option.Option<unknown>

/** The values of a file's lines. */
export const readJsonLines = (fs: FileSystem.FileSystem, path: string): Stream.Stream<Line, PlatformError> =>
  Stream.map(readNumberedLines(fs, path), ({ value }) => value)

/**
 * Cuts a torn last line off, so that what is appended begins a line of its own. Returns how many bytes were cut.
 */
export const repairTail = (fs: FileSystem.FileSystem, path: string): Effect.Effect<number, PlatformError> =>
  Effect.scoped(
    Effect.gen(function* () {
      if (!(yield* fs.exists(path))) return 0
      const file = yield* fs.open(path, { flag: "r+" })
      const size = Number((yield* file.stat).size)
      const chunk = 64 * 1024
      for (let end = size; end > 0; end = Math.max(0, end - chunk)) {
        const start = Math.max(0, end - chunk)
        yield* file.seek(BigInt(start), "start")
        const bytes = Option.getOrElse(yield* file.readAlloc(end - start), () => new Uint8Array())
        const newline = bytes.lastIndexOf(10)
        if (newline >= 0) {
          const whole = start + newline + 1
          if (whole < size) yield* Effect.zipRight(file.truncate(whole), file.sync)
          return size - whole
        }
      }
      if (size > 0) yield* Effect.zipRight(file.truncate(0), file.sync)
      return size
    })
  )

/**
 * Rewrites a file without the lines of these numbers, which are appended to `aside`. Whenever it is stopped, the file is
 * the old one or the new one, and no line is in neither.
 */
export const withoutLines = (
  fs: FileSystem.FileSystem,
  path: string,
  numbers: ReadonlySet<number>,
  aside: string
): Effect.Effect<void, PlatformError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const partial = `${path}.partial`
      const kept = yield* fs.open(partial, { flag: "w" })
      const removed = yield* fs.open(aside, { flag: "a" })
      yield* Stream.runForEach(readNumberedLines(fs, path), ({ bytes, number }) =>
        (numbers.has(number) ? removed : kept).writeAll(Buffer.concat([bytes, newline]))
      )
      yield* removed.sync
      yield* kept.sync
      yield* fs.rename(partial, path)
    })
  )

const newline = Buffer.from("\n")
