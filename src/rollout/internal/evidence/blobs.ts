/** Blobs on disk against their names. */
import { createHash } from "node:crypto"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { BlobRef } from "../../../artifact/ArtifactStore.js"
import { EvidenceFault } from "../../EvidenceFault.js"
import type { Found } from "./check.js"

/** The lengths of the blobs that are there, in bytes, by their name. */
export interface Blobs {
  readonly bytes: ReadonlyMap<string, number>
  readonly faults: ReadonlyArray<EvidenceFault>
}

const isName = (name: string): boolean => /^[0-9a-f]{64}$/.test(name)

/** Reads every blob once, a piece at a time. */
export const survey = (fs: FileSystem.FileSystem, path: Path.Path, directory: string): Effect.Effect<Blobs> =>
  Effect.gen(function* () {
    const names = yield* Effect.orElseSucceed(fs.readDirectory(directory), () => [])
    const bytes = new Map<string, number>()
    const faults = yield* Effect.forEach(
      names.filter(isName).sort(),
      (name) => {
        const file = path.join(directory, name)
        const fault = (kind: "damaged_blob" | "unreadable", detail: string) => [
          new EvidenceFault({ kind, path: file, detail })
        ]
        return Effect.suspend(() => {
          const hash = createHash("sha256")
          let length = 0
          return Stream.runForEach(fs.stream(file), (chunk) =>
            Effect.sync(() => {
              hash.update(chunk)
              length += chunk.length
            })
          ).pipe(
            Effect.map(() => {
              bytes.set(name, length)
              const sha256 = hash.digest("hex")
              return sha256 === name ? [] : fault("damaged_blob", `its SHA-256 is ${sha256}, ${length} bytes`)
            }),
            Effect.catchAll((error) => Effect.succeed(fault("unreadable", error.message)))
          )
        })
      },
      { concurrency: 4 }
    )
    return { bytes, faults: faults.flat() }
  })

/** What is wrong with a reference to a blob. A blob that is not what its name says is a fault of its own. */
export const referenceFaults = ({ bytes }: Blobs, { bytes: length, sha256 }: BlobRef): ReadonlyArray<Found> => {
  const there = bytes.get(sha256)
  if (there === undefined) return [{ kind: "missing_blob", detail: `the blob ${sha256} is not there` }]
  return there === length
    ? []
    : [{ kind: "damaged_blob", detail: `the blob ${sha256} has ${there} bytes, and should have ${length}` }]
}
