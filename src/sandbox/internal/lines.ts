/**
 * A file of lines that is open for appending. Lines that are written at the same time share one sync. What a broken
 * write left of a line is ended before the next one.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export interface Lines {
  /** The lines that were there when it was opened, torn ones among them. */
  readonly found: ReadonlyArray<string>
  /** `line` ends with its newline. With `sync` it is on the disk when this returns. */
  readonly append: (line: string, sync: boolean) => Effect.Effect<void, PlatformError>
}

export const openLines = (path: string): Effect.Effect<Lines, PlatformError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = (yield* fs.exists(path)) ? yield* fs.readFileString(path) : ""
    const file = yield* fs.open(path, { flag: "a", mode: 0o600 })
    if (text !== "" && !text.endsWith("\n")) {
      // What comes next begins a line of its own.
      yield* file.writeAll(Buffer.from("\n"))
    }
    const turn = yield* Effect.makeSemaphore(1)
    let written = 0
    let synced = 0
    let torn = false
    const write = (line: string) =>
      Effect.suspend(() => {
        const text = torn ? `\n${line}` : line
        // Until all of it is there, part of it may be.
        torn = true
        return Effect.tap(file.writeAll(Buffer.from(text)), () => {
          torn = false
        })
      })
    return {
      found: text.split("\n").filter((line) => line !== ""),
      append: (line, sync) =>
        Effect.gen(function* () {
          yield* turn.withPermits(1)(write(line))
          const mine = ++written
          if (sync) {
            yield* turn.withPermits(1)(
              Effect.suspend(() => {
                const upTo = written
                return synced >= mine
                  ? Effect.void
                  : Effect.tap(file.sync, () => {
                      synced = upTo
                    })
              })
            )
          }
        })
    }
  })
