/**
 * Content-addressed blobs: bytes go in, a reference comes out, and nothing stays in memory.
 *
 * @since 0.1.0
 */

import { createHash, randomUUID } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/**
 * What stands for bytes everywhere else: their SHA-256, length and media type.
 *
 * @since 0.1.0
 * @category models
 */
export class BlobRef extends Schema.Class<BlobRef>("deskhand/artifact/BlobRef")({
  /** 64 lower-case hexadecimal digits. */
  sha256: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)),
  /** Length in bytes. */
  bytes: Schema.NonNegativeInt,
  mediaType: Schema.String
}) {}

/**
 * A blob could not be written or read: a full disk, a missing file, a permission.
 *
 * @since 0.1.0
 * @category errors
 */
export class ArtifactError extends Schema.TaggedError<ArtifactError>("deskhand/ArtifactError")("ArtifactError", {
  operation: Schema.Literal("write", "read"),
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `could not ${this.operation} ${this.path}: ${this.reason}`
  }
}

/**
 * @since 0.1.0
 * @category context
 */
export class ArtifactStore extends Context.Tag("deskhand/artifact/ArtifactStore")<
  ArtifactStore,
  {
    /** Stores bytes once, however often they are put, and returns what stands for them. */
    readonly put: (bytes: Uint8Array, mediaType: string) => Effect.Effect<BlobRef, ArtifactError>
    /** The bytes again. */
    readonly get: (blob: BlobRef) => Effect.Effect<Uint8Array, ArtifactError>
    /** The folder that holds the blobs, each a file named by its SHA-256. */
    readonly directory: string
  }
>() {}

/**
 * A store in a folder, made if it is missing. A blob is written beside its place and renamed, so a reader never sees
 * half of one.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly directory: string
}): Layer.Layer<ArtifactStore, ArtifactError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    ArtifactStore,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = path.resolve(options.directory)
      const failed = (operation: "write" | "read", at: string) => (cause: { readonly message: string }) =>
        new ArtifactError({ operation, path: at, reason: cause.message })
      yield* fs.makeDirectory(directory, { recursive: true }).pipe(Effect.mapError(failed("write", directory)))
      // Desktops stand still: what was stored a moment ago comes again, and is not even looked for.
      const recent = new Set<string>()
      const remember = (sha256: string) => {
        if (recent.size >= 4_096) for (const oldest of recent) if (recent.delete(oldest)) break
        recent.add(sha256)
      }
      return ArtifactStore.of({
        directory,
        put: Effect.fnUntraced(function* (bytes, mediaType) {
          const sha256 = createHash("sha256").update(bytes).digest("hex")
          const target = path.join(directory, sha256)
          const written = Effect.gen(function* () {
            if (recent.has(sha256)) return
            // One that is there already has the same content; to look first costs every new one more than that.
            const partial = path.join(directory, `.${randomUUID()}`)
            yield* fs.writeFile(partial, bytes).pipe(
              Effect.zipRight(fs.rename(partial, target)),
              Effect.onExit((exit) =>
                exit._tag === "Success" ? Effect.void : Effect.ignore(fs.remove(partial, { force: true }))
              )
            )
          })
          yield* Effect.mapError(written, failed("write", target))
          remember(sha256)
          return new BlobRef({ sha256, bytes: bytes.length, mediaType }, true)
        }),
        get: (blob) => {
          const source = path.join(directory, blob.sha256)
          return Effect.mapError(fs.readFile(source), failed("read", source))
        }
      })
    })
  )
