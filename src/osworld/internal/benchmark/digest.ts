import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

export const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex")

/** A file's SHA-256, read piece by piece. `onBytes` hears how many bytes each piece had. */
export const sha256OfFile = (file: string, onBytes: (bytes: number) => void = () => {}) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const hash = createHash("sha256")
    let bytes = 0
    yield* Stream.runForEachChunk(fs.stream(file, { chunkSize: 1024 * 1024 }), (chunk) =>
      Effect.sync(() => {
        for (const piece of chunk) {
          hash.update(piece)
          bytes += piece.length
          onBytes(piece.length)
        }
      })
    )
    return { sha256: hash.digest("hex"), bytes }
  })
