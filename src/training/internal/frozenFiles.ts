/**
 * Files of a frozen data set: assets named by their digest, paths that lead to them, checksums over all.
 */
import { createHash } from "node:crypto"
import { homedir } from "node:os"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

export type JsonRecord = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex")

/** A file's digest, read in pieces. */
const fileSha256 = (file: string): Effect.Effect<string, PlatformError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.suspend(() => {
      const hash = createHash("sha256")
      return Effect.map(
        Stream.runForEach(fs.stream(file), (bytes) => Effect.sync(() => hash.update(bytes))),
        () => hash.digest("hex")
      )
    })
  )

export interface FrozenRefusal {
  readonly reason: "asset" | "task" | "disk"
  readonly detail: string
}

const refuse = (reason: FrozenRefusal["reason"], detail: string): FrozenRefusal => ({ reason, detail })

/** A task with every uploaded file's `local_path` replaced. */
const withUploads = (task: JsonRecord, replace: (localPath: unknown) => unknown): JsonRecord => {
  const { config } = task
  if (!isList(config)) return task
  return {
    ...task,
    config: config.map((step) => {
      if (!isRecord(step) || step["type"] !== "upload_file" || !isRecord(step["parameters"])) return step
      const { files } = step["parameters"]
      if (!isList(files)) return step
      return {
        ...step,
        parameters: {
          ...step["parameters"],
          files: files.map((file) =>
            isRecord(file) && "local_path" in file ? { ...file, local_path: replace(file["local_path"]) } : file
          )
        }
      }
    })
  }
}

/** A task with the paths of its evaluator functions replaced; paths that name no role are left out. */
const withFunctions = (task: JsonRecord, replace: (role: string, name: string) => string): JsonRecord => {
  const { metadata } = task
  if (!isRecord(metadata) || !isList(metadata["new_functions_paths"])) return task
  const paths = metadata["new_functions_paths"].flatMap((value) => {
    if (typeof value !== "string") return []
    const parts = value.split("/")
    const role = ["getters", "metrics"].find((name) => parts.includes(name))
    return role === undefined ? [] : [replace(role, parts.at(-1) ?? "")]
  })
  return { ...task, metadata: { ...metadata, new_functions_paths: paths } }
}

const functionsOf = ({ metadata }: JsonRecord): number =>
  isRecord(metadata) && isList(metadata["new_functions_paths"]) ? metadata["new_functions_paths"].length : 0

const uploadsOf = (task: JsonRecord): ReadonlyArray<unknown> => {
  const found: Array<unknown> = []
  withUploads(task, (localPath) => {
    found.push(localPath)
    return localPath
  })
  return found
}

/**
 * Copies a task's assets and functions into the stage. The two tasks that come back differ in their paths alone: one is
 * for `train.jsonl`, the other for `tasks/`.
 */
export const freezeTask = (options: {
  readonly source: string
  readonly stage: string
  readonly taskId: string
  readonly task: JsonRecord
  readonly root: string | undefined
}): Effect.Effect<
  { readonly inTraining: JsonRecord; readonly inTasks: JsonRecord; readonly assets: number },
  FrozenRefusal,
  FileSystem.FileSystem | Path.Path
> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { root, source, stage, task, taskId } = options
    const disk = (error: PlatformError) => refuse("disk", error.message)

    const from = (localPath: string): string =>
      path.resolve(path.join(source, "tasks"), localPath.replace(/^~(?=\/|$)/, homedir()))
    const sources: Array<{ readonly file: string; readonly digest: string }> = []
    const places = new Map<string, string>()
    // All are read before one is copied, so that a task that is left out leaves no file behind.
    for (const localPath of uploadsOf(task)) {
      if (typeof localPath !== "string" || localPath === "") {
        return yield* Effect.fail(refuse("asset", `${JSON.stringify(localPath)} is no path of a file`))
      }
      const file = from(localPath)
      if (sources.some((known) => known.file === file)) continue
      const digest = yield* Effect.mapError(fileSha256(file), (error) =>
        refuse("asset", `${localPath} cannot be read: ${error.message}`)
      )
      sources.push({ file, digest })
    }
    if (sources.length > 0) {
      yield* Effect.mapError(fs.makeDirectory(path.join(stage, "assets", taskId)), disk)
    }
    for (const [index, { digest, file }] of sources.entries()) {
      const name = `${String(index).padStart(3, "0")}-${digest.slice(0, 12)}-${path.basename(file)}`
      const place = path.join("assets", taskId, name)
      const copy = path.join(stage, place)
      yield* Effect.mapError(fs.copyFile(file, copy), disk)
      if ((yield* Effect.mapError(fileSha256(copy), disk)) !== digest) {
        return yield* Effect.fail(refuse("disk", `${file} changed while it was copied`))
      }
      places.set(file, place)
    }

    const functions = path.join(source, "tmp_funcs", taskId)
    if (yield* Effect.mapError(fs.exists(functions), disk)) {
      yield* Effect.mapError(fs.copy(functions, path.join(stage, "tmp_funcs", taskId)), disk)
    } else if (functionsOf(task) > 0) {
      return yield* Effect.fail(refuse("task", `its evaluator functions are not in ${functions}`))
    }

    const rewritten = (relativeRoot: string): JsonRecord => {
      const at = (place: string) => path.join(root ?? relativeRoot, place)
      return withFunctions(
        withUploads(task, (localPath) =>
          typeof localPath === "string" ? at(places.get(from(localPath)) ?? localPath) : localPath
        ),
        (role, name) => at(path.join("tmp_funcs", taskId, role, name))
      )
    }
    return { inTraining: rewritten(""), inTasks: rewritten(".."), assets: sources.length }
  })

/** `SHA256SUMS`, as `sha256sum --check` reads it, of all files below a folder, by path. */
export const writeChecksums = (folder: string): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const lines: Array<string> = []
    const entries = yield* fs.readDirectory(folder, { recursive: true })
    for (const entry of entries.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
      const file = path.join(folder, entry)
      if ((yield* fs.stat(file)).type === "File") lines.push(`${yield* fileSha256(file)}  ${entry}\n`)
    }
    yield* fs.writeFileString(path.join(folder, "SHA256SUMS"), lines.join(""))
  })
