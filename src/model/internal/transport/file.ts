import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

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
    let waiting: Array<string> = []
    let issued = 0
    let taken = 0
    let torn = false
    const flush = Effect.suspend(() => {
      const text = `${torn ? "\n" : ""}${waiting.join("\n")}\n`
      waiting = []
      taken = issued
      torn = true
      return file.writeAll(Buffer.from(text)).pipe(
        Effect.tap(() => {
          torn = false
        }),
        Effect.zipRight(file.sync)
      )
    })
    return (line) =>
      Effect.suspend(() => {
        issued += 1
        const mine = issued
        waiting.push(line)
        return turn.withPermits(1)(Effect.suspend(() => (taken >= mine ? Effect.void : flush)))
      }).pipe(Effect.uninterruptible)
  })
