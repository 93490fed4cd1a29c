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

type Role = "leads" | "is done"

interface Pending {
  readonly bytes: Buffer
  readonly resume: (role: Effect.Effect<Role>) => void
  exit: Exit.Exit<void, PlatformError> | undefined
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
    let waiting: Array<Pending> = []
    let writing = false
    let broken: Exit.Exit<void, PlatformError> | undefined

    const nextBatch = (): ReadonlyArray<Pending> => {
      let bytes = 0
      const end = waiting.findIndex((entry, index) => {
        bytes += entry.bytes.length
        return index > 0 && bytes > batchBytes
      })
      const batch = end < 0 ? waiting : waiting.slice(0, end)
      waiting = end < 0 ? [] : waiting.slice(end)
      return batch
    }

    const wake = (entries: ReadonlyArray<Pending>, exit: Exit.Exit<void, PlatformError>) => {
      for (const entry of entries) {
        entry.exit = exit
        entry.resume(Effect.succeed("is done"))
      }
    }

    /** The first of those that wait writes for itself and for all behind it. */
    const lead: Effect.Effect<void, PlatformError> = Effect.suspend(() => {
      const [first, ...others] = nextBatch()
      if (first === undefined) return Effect.void
      const bytes =
        others.length === 0 ? first.bytes : Buffer.concat([first.bytes, ...others.map((entry) => entry.bytes)])
      return Effect.flatMap(Effect.exit(Effect.zipRight(file.writeAll(bytes), file.sync)), (exit) => {
        wake(others, exit)
        if (Exit.isFailure(exit)) {
          broken = exit
          wake(waiting, exit)
          waiting = []
        }
        const [next] = waiting
        writing = next !== undefined
        next?.resume(Effect.succeed("leads"))
        return exit
      })
    })

    return {
      append: (row) =>
        Effect.suspend(() => {
          const bytes = Buffer.from(`${JSON.stringify(row)}\n`)
          let mine: Pending | undefined
          return Effect.flatMap(
            Effect.async<Role>((resume) => {
              mine = { bytes, resume, exit: broken }
              if (broken !== undefined) return resume(Effect.succeed("is done"))
              waiting.push(mine)
              if (writing) return
              writing = true
              resume(Effect.succeed("leads"))
            }),
            (role) => (role === "leads" ? lead : (mine?.exit ?? Effect.void))
          )
        }).pipe(
          // Half a row would spoil the next one.
          Effect.uninterruptible
        )
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
