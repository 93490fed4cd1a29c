/** The virtual machine's disk by its content. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { writeWhole } from "../../../artifact/WholeFile.js"
import { sha256OfFile } from "./digest.js"

/** OSWorld's published `Ubuntu.qcow2`. */
export const official = {
  sha256: "6bf667a852b3c307f61d9f09c42559351f45e0607e428b4997becf534cf4d313",
  bytes: 24_460_197_888
}

const Known = Schema.Record({ key: Schema.String, value: Schema.String })

const decode = Schema.decodeUnknown(Schema.parseJson(Known))

/**
 * Its size and SHA-256. Reading 24 GB takes minutes, so a hash is kept in `memory` and stands as long as the file has
 * the same place, size and time of change.
 */
export const identify = (options: {
  readonly disk: string
  readonly memory: string
  readonly onBytes: (bytes: number) => void
}) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const place = yield* fs.realPath(path.resolve(options.disk))
    const stamp = Effect.map(fs.stat(place), ({ ino, mtime, size }) => ({
      bytes: Number(size),
      key: JSON.stringify([
        place,
        Number(size),
        mtime._tag === "Some" ? mtime.value.getTime() : null,
        ino._tag === "Some" ? ino.value : null
      ])
    }))
    const known = yield* Effect.flatMap(fs.readFileString(options.memory), decode).pipe(
      Effect.orElseSucceed((): typeof Known.Type => ({}))
    )
    const before = yield* stamp
    const kept = known[before.key]
    if (kept !== undefined) return { path: place, bytes: before.bytes, sha256: kept, remembered: true }
    const { sha256 } = yield* sha256OfFile(place, options.onBytes)
    // A disk that somebody wrote to meanwhile has no hash that is worth keeping.
    if ((yield* stamp).key === before.key) {
      yield* Effect.ignore(
        writeWhole(options.memory, `${JSON.stringify({ ...known, [before.key]: sha256 }, null, 2)}\n`)
      )
    }
    return { path: place, bytes: before.bytes, sha256, remembered: false }
  })
