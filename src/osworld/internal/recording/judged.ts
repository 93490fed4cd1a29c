/** The files that getters brought into a rollout's folder. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Order from "effect/Order"
import { ArtifactStore } from "../../../artifact/ArtifactStore.js"
import { sha256OfFile } from "../benchmark/digest.js"

export interface JudgedFile {
  /** `result` is under judgement, `expected` is what it was held against, `setup` is what setup's commands printed. */
  readonly role: "result" | "expected" | "setup"
  readonly name: string
  readonly bytes: number
  readonly sha256: string
  /** Whether it is among the run's blobs; a file that is too large has its hash alone. */
  readonly kept: boolean
}

/** A blob goes through memory. */
const maxBytes = 64 * 1024 * 1024

const maxFiles = 200

const mediaType = "application/octet-stream"

const roleOf = (name: string): JudgedFile["role"] =>
  name.startsWith("result/") ? "result" : name.startsWith("expected/") ? "expected" : "setup"

export const keep = (cache: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const store = yield* ArtifactStore
    const names = yield* fs.readDirectory(cache, { recursive: true })
    const files: Array<JudgedFile> = []
    for (const name of [...names].sort(Order.string)) {
      if (files.length === maxFiles) break
      const file = path.join(cache, name)
      // What a getter wrote is a file; a link would lead anywhere.
      const isLink = yield* Effect.isSuccess(fs.readLink(file))
      const info = yield* Effect.option(fs.stat(file))
      if (isLink || info._tag === "None" || info.value.type !== "File") continue
      const kept = Number(info.value.size) <= maxBytes
      const { bytes, sha256 } = kept
        ? yield* Effect.flatMap(fs.readFile(file), (bytes) => store.put(bytes, mediaType))
        : yield* sha256OfFile(file)
      const role = roleOf(name)
      files.push({ role, name: role === "setup" ? name : name.slice(role.length + 1), bytes, sha256, kept })
    }
    return files
  })

/** Of what was under judgement. */
export const lines = (files: ReadonlyArray<JudgedFile>): ReadonlyArray<string> =>
  files.flatMap(({ bytes, name, role, sha256 }) =>
    role === "result" ? [`judged ${name}: ${bytes} bytes, sha256 ${sha256}`] : []
  )
