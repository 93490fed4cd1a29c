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
import * as Buffers from "./internal/buffers.js"
import * as Turns from "./internal/turns.js"

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
 * Bytes in memory that is used again: they hold until `release` is called, which is due exactly once.
 *
 * @since 0.1.0
 * @category models
 */
export interface Lent {
  readonly bytes: Uint8Array
  readonly release: () => void
}

/**
 * Bytes by their SHA-256, each kept once.
 *
 * @since 0.1.0
 * @category context
 */
export class ArtifactStore extends Context.Tag("deskhand/artifact/ArtifactStore")<
  ArtifactStore,
  {
    /** Stores bytes once, however often they are put, and returns what stands for them. */
    readonly put: (bytes: Uint8Array, mediaType: string) => Effect.Effect<BlobRef, ArtifactError>
    /**
     * Stores bytes that come piece by piece, as from a socket. `fill` hands each piece over, which is copied at once into
     * memory that is used again, and succeeds with the media type when all have come. Of a crowd that comes at once, few
     * begin at a time, in their order.
     */
    readonly receive: <E, R>(
      fill: (add: (piece: Uint8Array) => void) => Effect.Effect<string, E, R>
    ) => Effect.Effect<BlobRef, ArtifactError | E, R>
    /** The bytes again. */
    readonly get: (blob: BlobRef) => Effect.Effect<Uint8Array, ArtifactError>
    /** The bytes for a moment, as when they are sent: a thousand readers share the memory of those that read now. */
    readonly lend: (blob: BlobRef) => Effect.Effect<Lent, ArtifactError>
    /** The folder that holds the blobs, each a file named by its SHA-256. */
    readonly directory: string
  }
>() {}

/** Memory for bytes that are stored or sent at this moment; who comes when so much is in use waits for a part of it. */
const limitBytes = 64 * 1024 * 1024

/**
 * So many begin to receive in a turn of the event loop. With one or two, a loop whose turns are long for other reasons
 * lets too few pass; with far more they are a crowd again.
 */
const receiversPerTurn = 8

/**
 * A store in a folder, made if it is missing. A blob is written beside its place and renamed, so a reader never sees
 * half of one, whatever kills this program. Blobs are not synced, which would cost each as much as its writing: after a
 * power cut, those of the last moments may be missing, empty or cut short. Their names tell, `Verify` reports them, and
 * a program that is started anew and puts such a blob again mends it.
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
      const buffers = Buffers.make(limitBytes)
      const turnThenRoom = Effect.zipRight(Turns.make(receiversPerTurn), buffers.room)
      // Desktops stand still: what was stored a moment ago comes again, and is not even looked for.
      const recent = new Set<string>()
      const remember = (sha256: string) => {
        if (recent.size >= 4_096) for (const oldest of recent) if (recent.delete(oldest)) break
        recent.add(sha256)
      }
      /**
       * Stores what is in the piece, and gives that back by its name: whoever sends it next does not read the disk. Not to
       * be interrupted: the disk would go on reading what is another's by then.
       */
      const keep = (piece: Buffers.Piece, mediaType: string): Effect.Effect<BlobRef, ArtifactError> => {
        const bytes = piece.memory.subarray(0, piece.length)
        const sha256 = createHash("sha256").update(bytes).digest("hex")
        const blob = new BlobRef({ sha256, bytes: bytes.length, mediaType }, true)
        const stored = () => {
          remember(sha256)
          buffers.name(piece, sha256, true)
          buffers.give(piece)
          return blob
        }
        if (recent.has(sha256)) return Effect.sync(stored)
        // One that is there already has the same content; to look first costs every new one more than that.
        const target = path.join(directory, sha256)
        const partial = path.join(directory, `.${randomUUID()}`)
        return Effect.matchCauseEffect(Effect.zipRight(fs.writeFile(partial, bytes), fs.rename(partial, target)), {
          onFailure: (cause) => {
            buffers.give(piece)
            return Effect.zipRight(
              Effect.ignore(fs.remove(partial, { force: true })),
              Effect.mapError(Effect.failCause(cause), failed("write", target))
            )
          },
          onSuccess: () => Effect.sync(stored)
        })
      }
      /** The length of what came last: the next is likely to be about as long. */
      let usual = 0
      return ArtifactStore.of({
        directory,
        put: (bytes, mediaType) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(restore(buffers.room), () => {
              const piece = buffers.take(bytes.length)
              piece.memory.set(bytes)
              piece.length = bytes.length
              return keep(piece, mediaType)
            })
          ),
        receive: (fill) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(restore(turnThenRoom), () => {
              let piece = buffers.take(usual)
              piece.length = 0
              let over = false
              const add = (bytes: Uint8Array) => {
                // One that is late: the memory is another's by now.
                if (over) return
                const length = piece.length + bytes.length
                if (length > piece.memory.length) {
                  const longer = buffers.take(Math.max(length, 2 * piece.memory.length))
                  longer.memory.set(piece.memory.subarray(0, piece.length))
                  buffers.give(piece)
                  piece = longer
                }
                piece.memory.set(bytes, length - bytes.length)
                piece.length = length
              }
              return Effect.matchCauseEffect(restore(fill(add)), {
                onFailure: (cause) => {
                  over = true
                  buffers.give(piece)
                  return Effect.failCause(cause)
                },
                onSuccess: (mediaType) => {
                  over = true
                  usual = piece.length
                  return keep(piece, mediaType)
                }
              })
            })
          ),
        get: (blob) => {
          const source = path.join(directory, blob.sha256)
          return Effect.mapError(fs.readFile(source), failed("read", source))
        },
        lend: (blob) =>
          Effect.uninterruptibleMask((restore) => {
            const lent = (piece: Buffers.Piece): Lent => {
              let due = true
              return {
                bytes: piece.memory.subarray(0, blob.bytes),
                release: () => {
                  if (due) buffers.give(piece)
                  due = false
                }
              }
            }
            const found = buffers.find(blob.sha256)
            if (found?.length === blob.bytes) return Effect.succeed(lent(found))
            if (found !== undefined) buffers.give(found)
            const source = path.join(directory, blob.sha256)
            const filled = (
              file: FileSystem.File,
              memory: Uint8Array,
              from: number
            ): Effect.Effect<void, { readonly message: string }> =>
              Effect.flatMap(file.read(memory.subarray(from)), (read) => {
                const length = from + Number(read)
                if (length < blob.bytes && length > from) return filled(file, memory, length)
                return length === blob.bytes
                  ? Effect.void
                  : Effect.fail({ message: `it has ${length} bytes, and ${blob.bytes} were stored` })
              })
            return Effect.flatMap(restore(buffers.room), () => {
              const piece = buffers.take(blob.bytes)
              const read = Effect.flatMap(fs.open(source, { flag: "r" }), (file) => filled(file, piece.memory, 0))
              // Not to be interrupted: the disk would go on writing to what is another's by then.
              return Effect.matchCauseEffect(Effect.scoped(read), {
                onFailure: (cause) => {
                  buffers.give(piece)
                  return Effect.mapError(Effect.failCause(cause), failed("read", source))
                },
                onSuccess: () => {
                  piece.length = blob.bytes
                  buffers.name(piece, blob.sha256, false)
                  return Effect.succeed(lent(piece))
                }
              })
            })
          })
      })
    })
  )
