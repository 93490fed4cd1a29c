/**
 * Files that are never seen half written by who reads them under their name.
 *
 * @since 0.1.0
 */
import { randomUUID } from "node:crypto"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"

/**
 * Writes a text under a name of its own and renames it: under `file` is all of it, or what was there before, also where
 * the disk is full. The folder is made if it is missing. Not synced.
 *
 * @since 0.1.0
 * @category operations
 */
export const writeWhole = (
  file: string,
  content: string
): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.makeDirectory(path.dirname(file), { recursive: true })
    const partial = `${file}.${randomUUID()}.partial`
    yield* fs.writeFileString(partial, content).pipe(
      Effect.zipRight(fs.rename(partial, file)),
      Effect.onExit((exit) =>
        exit._tag === "Success" ? Effect.void : Effect.ignore(fs.remove(partial, { force: true }))
      )
    )
  })
