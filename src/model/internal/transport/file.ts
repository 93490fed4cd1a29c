import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"

/** Lines that are written together, and how that went. */
interface Batch {
  readonly lines: Array<string>
  exit: Exit.Exit<void, PlatformError> | undefined
}

/** Appends a line (without its end) and returns when it is on the disk. */
export type Append = (line: string) => Effect.Effect<void, PlatformError>

/**
 * A file that many write to at once: those who wait while one writes are written together, with one sync. What a broken
 * write left of a line is ended before the next one.
 */
export const openAppend = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<Append, PlatformError, Scope.Scope> =>
  Effect.gen(function* () {
    // Prompts and replies are in it: for its owner alone.
    const file = yield* fs.open(path, { flag: "a", mode: 0o600 })
    const turn = yield* Effect.makeSemaphore(1)
    let batch: Batch = { lines: [], exit: undefined }
    let torn = false
    const flush = (mine: Batch) => {
      const text = `${torn ? "\n" : ""}${mine.lines.join("\n")}\n`
      // What comes from now on is written with the next one.
      batch = { lines: [], exit: undefined }
      torn = true
      return file.writeAll(Buffer.from(text)).pipe(
        Effect.tap(() => {
          torn = false
        }),
        Effect.zipRight(file.sync),
        Effect.onExit((exit) =>
          Effect.sync(() => {
            mine.exit = exit
          })
        )
      )
    }
    return (line) =>
      Effect.suspend(() => {
        const mine = batch
        mine.lines.push(line)
        // Whoever was written by another learns how that went.
        return turn.withPermits(1)(Effect.suspend(() => mine.exit ?? flush(mine)))
      }).pipe(Effect.uninterruptible)
  })
