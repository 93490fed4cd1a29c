/**
 * Texts on their way to files, in memory that is used again. Memory of their own would be garbage that outlives the
 * collections of young objects, because a disk takes longer than those are apart.
 */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"

/** What the records of a step take. A longer text gets memory of its own. */
const pieceBytes = 16 * 1024

/** Pieces that are kept: as many as are written at once, save in a crowd. */
const kept = 64

/** Writes a text to the end of a file, from where it stands. Not to be interrupted: the disk would go on reading. */
export const textWriter = (): ((file: FileSystem.File, text: string) => Effect.Effect<void, PlatformError>) => {
  const spare: Array<Buffer> = []
  return (file, text) =>
    Effect.suspend(() => {
      const length = Buffer.byteLength(text)
      const piece = length > pieceBytes ? undefined : (spare.pop() ?? Buffer.allocUnsafeSlow(pieceBytes))
      if (piece === undefined) return file.writeAll(Buffer.from(text))
      piece.write(text)
      return Effect.onExit(file.writeAll(piece.subarray(0, length)), () =>
        Effect.sync(() => {
          if (spare.length < kept) spare.push(piece)
        })
      )
    })
}
