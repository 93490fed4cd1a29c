import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/** A JSON Lines file that is open for appending: a row is on the disk, not in a cache, when `append` returns. */
export interface JsonLines {
  readonly append: (row: unknown) => Effect.Effect<void, PlatformError>
}

export const openJsonLines = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<JsonLines, PlatformError, Scope.Scope> =>
  Effect.gen(function* () {
    const file = yield* fs.open(path, { flag: "a" })
    const turn = yield* Effect.makeSemaphore(1)
    return {
      append: (row) =>
        file.writeAll(Buffer.from(`${JSON.stringify(row)}\n`)).pipe(
          Effect.zipRight(file.sync),
          turn.withPermits(1),
          // Half a row would spoil the next one.
          Effect.uninterruptible
        )
    }
  })

/** What `readJsonLines` read: a value, or the number (from 1) of a line that is no JSON. */
export type Line = Option.Option<unknown>

/**
 * The rows of a file as a stream, memory-flat. A last line without its newline was torn by a crash and is left out; use
 * `repairTail` before appending.
 */
export const readJsonLines = (fs: FileSystem.FileSystem, path: string): Stream.Stream<Line, PlatformError> =>
  fs.stream(path).pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.filter((line) => line.trim() !== ""),
    Stream.map((line) => Option.liftThrowable((): unknown => JSON.parse(line))())
  )

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
          if (whole < size) yield* file.truncate(whole)
          return size - whole
        }
      }
      if (size > 0) yield* file.truncate(0)
      return size
    })
  )
