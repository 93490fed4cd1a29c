/**
 * Prepares OSWorld for runs: the tasks pinned by their content, the usual parts of them as files of rows, shares for
 * several machines, and the files that the tasks name, fetched beforehand.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { writeWhole } from "../artifact/WholeFile.js"
import type { AssetsOptions } from "./Assets.js"
import { sha256 } from "./internal/benchmark/digest.js"
import * as Disk from "./internal/benchmark/disk.js"
import * as Plan from "./internal/benchmark/plan.js"
import * as Prefetch from "./internal/benchmark/prefetch.js"
import * as Rows from "./internal/benchmark/rows.js"
import * as Source from "./internal/benchmark/source.js"
import { TaskSourceError } from "./TaskSource.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * A part of the benchmark: `all`; `nogdrive`, the tasks that want no Google account; `small`, OSWorld's own short list;
 * `infeasible`, those that cannot be done.
 *
 * @since 0.1.0
 * @category models
 */
export const SplitName = Schema.Literal(...Plan.splitNames)

/**
 * @since 0.1.0
 * @category models
 */
export type SplitName = typeof SplitName.Type

const Pin = Schema.Struct({
  /** Without what signs it. */
  url: Schema.String,
  /** The file's name in the cache, which stands for the whole address. */
  file: Schema.String,
  bytes: Schema.NonNegativeInt,
  sha256: Schema.String
})

/**
 * `benchmark.json`: what was prepared, by content.
 *
 * @since 0.1.0
 * @category models
 */
export class Manifest extends Schema.Class<Manifest>("deskhand/osworld/Benchmark/Manifest")({
  schema_version: Schema.Literal(1),
  kind: Schema.Literal("osworld-benchmark"),
  source: Schema.Struct({
    name: Schema.String,
    kind: Schema.Literal("folder", "archive"),
    /** Of an archive. */
    sha256: Schema.optionalWith(Schema.String, { exact: true }),
    /** The commit of a checkout. */
    revision: Schema.optionalWith(Schema.String, { exact: true })
  }),
  /** Changes with any byte of any task, and with nothing else. */
  tasks_sha256: Schema.String,
  tasks: Schema.Array(
    Schema.Struct({
      index: Schema.NonNegativeInt,
      id: Schema.String,
      domain: Schema.String,
      sha256: Schema.String,
      infeasible: Schema.Boolean,
      drive: Schema.Boolean,
      /** Wants its traffic to leave through a proxy. */
      proxy: Schema.Boolean,
      /** What of it depends on the web as it is today. */
      live_web: Schema.Array(Schema.Literal("setup", "evaluator")),
      /** Names in the cache. */
      assets: Schema.Array(Schema.String)
    })
  ),
  splits: Schema.Array(
    Schema.Struct({
      name: SplitName,
      file: Schema.String,
      tasks: Schema.NonNegativeInt,
      tasks_sha256: Schema.String,
      rows_sha256: Schema.String,
      infeasible: Schema.NonNegativeInt,
      proxy: Schema.NonNegativeInt,
      live_web: Schema.NonNegativeInt,
      shards: Schema.Array(Schema.String)
    })
  ),
  /** Every asset that was ever found here, as it was then. */
  assets: Schema.Array(Pin),
  /** What could not be had, or is not what an earlier preparation pinned. */
  missing: Schema.Array(Schema.Struct({ url: Schema.String, file: Schema.String, reason: Schema.String })),
  notes: Schema.Array(Schema.String)
}) {}

/**
 * What was prepared cannot be written, or it is another benchmark than the one that the folder holds.
 *
 * @since 0.1.0
 * @category errors
 */
export class BenchmarkError extends Schema.TaggedError<BenchmarkError>("deskhand/BenchmarkError")("BenchmarkError", {
  path: Schema.String,
  reason: Schema.String,
  remedy: Schema.String
}) {
  override get message() {
    return `${this.path}: ${this.reason}. ${this.remedy}`
  }
}

/**
 * How far it is.
 *
 * @since 0.1.0
 * @category models
 */
export interface Progress {
  readonly phase: "assets" | "disk"
  /** Files that are done, and those that failed. */
  readonly files: number
  readonly failed: number
  /** Of all files. */
  readonly total: number
  /** Bytes that were read or downloaded so far. */
  readonly bytes: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface PrepareOptions {
  /** A checkout of OSWorld, its `evaluation_examples`, a folder of task files, or a ZIP or (gzipped) tar archive. */
  readonly source: string
  /** The folder that is written. */
  readonly out: string
  /** Where assets are kept and come from; without it none is fetched. */
  readonly assets?: AssetsOptions
  /** Shares of each part that has as many tasks; none unless given. */
  readonly shards?: number
  /** The name of the agent in the rows; they have none unless given. */
  readonly agent?: string
  /** Write over what the folder holds, although tasks have changed, and take assets as they are now. */
  readonly force?: boolean
  /** Called often: as bytes come. */
  readonly onProgress?: (progress: Progress) => void
}

// -----------------------------------------------------------------------------
// Operations
// -----------------------------------------------------------------------------

const manifestName = "benchmark.json"

const encode = Schema.encodeSync(Schema.parseJson(Manifest, { space: 2 }))

const decode = Schema.decodeUnknown(Schema.parseJson(Manifest))

const unwritable = (path: string) => (error: { readonly message: string }) =>
  new BenchmarkError({
    path,
    reason: error.message,
    remedy: "Check that the folder is writable and the disk has space"
  })

/**
 * The manifest in a folder, if there is one.
 *
 * @since 0.1.0
 * @category operations
 */
export const read = (
  out: string
): Effect.Effect<Option.Option<Manifest>, BenchmarkError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = path.join(out, manifestName)
    if (!(yield* Effect.orElseSucceed(fs.exists(file), () => false))) return Option.none()
    const text = yield* Effect.mapError(fs.readFileString(file), unwritable(file))
    return Option.some(
      yield* Effect.mapError(
        decode(text),
        (error) =>
          new BenchmarkError({
            path: file,
            reason: ParseResult.TreeFormatter.formatErrorSync(error),
            remedy: "It is no manifest of a benchmark; choose another folder"
          })
      )
    )
  })

/**
 * What two manifests have of each other's tasks, in words; empty where the tasks are the same.
 *
 * @since 0.1.0
 * @category decisions
 */
export const differences = (before: Pick<Manifest, "tasks">, now: Pick<Manifest, "tasks">): ReadonlyArray<string> => {
  const earlier = new Map(before.tasks.map((task) => [task.id, task]))
  const later = new Map(now.tasks.map((task) => [task.id, task]))
  const added = now.tasks.filter(({ id }) => !earlier.has(id))
  const gone = before.tasks.filter(({ id }) => !later.has(id))
  const changed = now.tasks.filter((task) => {
    const other = earlier.get(task.id)
    return other !== undefined && (other.sha256 !== task.sha256 || other.domain !== task.domain)
  })
  const say = (tasks: Manifest["tasks"], what: string) => {
    if (tasks.length === 0) return []
    const ids = tasks.slice(0, 3).map(({ domain, id }) => `${domain}/${id}`)
    const more = tasks.length > ids.length ? ` and ${tasks.length - ids.length} more` : ""
    return [`${tasks.length === 1 ? "1 task" : `${tasks.length} tasks`} ${what}: ${ids.join(", ")}${more}`]
  }
  return [...say(added, "new"), ...say(gone, "gone"), ...say(changed, "changed")]
}

const loadPlan = (source: string) =>
  Effect.gen(function* () {
    const problem = (reason: string) => new TaskSourceError({ problems: [{ source, path: "", message: reason }] })
    const files = yield* Effect.mapError(Source.read(source), ({ reason }) => problem(reason))
    const plan = yield* Either.mapLeft(Plan.plan(source, files.files), (problems) => new TaskSourceError({ problems }))
    return { files, plan }
  })

/** Rows of each part, and their shares. */
const writeSplits = (out: string, plan: Plan.Plan, { agent, shards }: Pick<PrepareOptions, "agent" | "shards">) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const splits: Array<Manifest["splits"][number]> = []
    for (const [name, tasks] of plan.splits) {
      const file = path.join("rows", `${name}.jsonl`)
      const content = Rows.rows(tasks, agent)
      yield* writeWhole(path.join(out, file), content)
      const written: Array<string> = []
      for (
        let shard = 0;
        shards !== undefined && shard < shards && (tasks.length >= shards || name === "all");
        shard++
      ) {
        const two = (count: number) => String(count).padStart(2, "0")
        const shareFile = path.join("rows", `${name}-shard-${two(shard)}-of-${two(shards)}.jsonl`)
        const share = yield* Either.mapLeft(
          Rows.shard({ path: file, content }, { shards, shard }),
          (reason) =>
            new BenchmarkError({
              path: path.join(out, shareFile),
              reason,
              remedy: "Ask for as many shards as there are tasks, or fewer"
            })
        )
        yield* writeWhole(path.join(out, shareFile), share.content)
        yield* writeWhole(path.join(out, `${shareFile}.manifest.json`), `${JSON.stringify(share.manifest, null, 2)}\n`)
        written.push(shareFile)
      }
      const count = (is: (task: Plan.Prepared) => boolean) => tasks.filter(is).length
      splits.push({
        name,
        file,
        tasks: tasks.length,
        tasks_sha256: Plan.contentHash(tasks.map(({ domain, sha256, task }) => ({ domain, id: task.id, sha256 }))),
        rows_sha256: sha256(content),
        infeasible: count(({ infeasible }) => infeasible),
        proxy: count(({ proxy }) => proxy),
        live_web: count(({ liveWeb }) => liveWeb.length > 0),
        shards: written
      })
    }
    return splits
  })

/**
 * Prepares the benchmark. Files appear whole or not at all, so it can be interrupted anywhere and be run again: what is
 * there is checked and stays.
 *
 * A folder that holds other tasks is refused unless `force` is given. Assets are held against what an earlier preparation
 * in the folder found; those that could not be had are in the manifest's `missing`, and are no failure of this.
 *
 * @since 0.1.0
 * @category operations
 */
export const prepare: (
  options: PrepareOptions
) => Effect.Effect<
  Manifest,
  TaskSourceError | BenchmarkError,
  FileSystem.FileSystem | Path.Path | HttpClient.HttpClient
> = Effect.fn("Benchmark.prepare", { captureStackTrace: false })(function* (options: PrepareOptions) {
  const path = yield* Path.Path
  const { out } = options
  const earlier = yield* read(out)
  const { files, plan } = yield* loadPlan(options.source)
  const tasks = plan.tasks.map(({ assets, domain, drive, index, infeasible, liveWeb, proxy, sha256, task }) => ({
    index,
    id: task.id,
    domain,
    sha256,
    infeasible,
    drive,
    proxy,
    live_web: liveWeb,
    assets: assets.map(Prefetch.nameOf)
  }))
  const changed = Option.match(earlier, { onNone: () => [], onSome: (before) => differences(before, { tasks }) })
  if (changed.length > 0 && options.force !== true) {
    return yield* new BenchmarkError({
      path: out,
      reason: `it holds another benchmark:\n${changed.map((line) => `  ${line}`).join("\n")}\n`,
      remedy: "Choose another folder with --out, or write over it with --force"
    })
  }
  const head = {
    schema_version: 1,
    kind: "osworld-benchmark",
    source: {
      name: path.basename(path.resolve(options.source)),
      kind: files.kind,
      ...(files.sha256 === undefined ? {} : { sha256: files.sha256 }),
      ...(files.revision === undefined ? {} : { revision: files.revision })
    },
    tasks_sha256: Plan.contentHash(tasks),
    tasks,
    notes: plan.notes
  } as const
  const splits = yield* Effect.mapError(writeSplits(out, plan, options), (error) =>
    error instanceof BenchmarkError ? error : unwritable(out)(error)
  )
  const pins = Option.match(options.force === true ? Option.none() : earlier, {
    onNone: () => new Map<string, typeof Pin.Type>(),
    onSome: ({ assets }) => new Map(assets.map((pin) => [pin.file, pin]))
  })
  const urls = Array.from(new Set(plan.tasks.flatMap(({ assets }) => assets)))
  const fetched =
    options.assets === undefined
      ? { assets: [], missing: [] }
      : yield* Prefetch.prefetch(urls, options.assets, pins, options.onProgress ?? (() => {}))
  const there = new Set(fetched.assets.map(({ file }) => file))
  const named = new Set(urls.map(Prefetch.nameOf))
  // What cannot be had today is still pinned.
  const kept = Array.from(pins.values()).filter(({ file }) => named.has(file) && !there.has(file))
  const { missing } = fetched
  const manifest = new Manifest({ ...head, splits, assets: [...fetched.assets, ...kept], missing })
  const file = path.join(out, manifestName)
  yield* Effect.mapError(writeWhole(file, `${encode(manifest)}\n`), unwritable(file))
  return manifest
})

/**
 * A virtual machine's disk by its content.
 *
 * @since 0.1.0
 * @category models
 */
export interface DiskIdentity {
  readonly path: string
  readonly bytes: number
  readonly sha256: string
  /** Whether it is OSWorld's published one. */
  readonly official: boolean
  /** Whether the hash was known from before, and the file has not changed since. */
  readonly remembered: boolean
}

/**
 * Identifies a disk image, and writes `vm-snapshot.json` into `out` where that is given. `expected` is a SHA-256, with or
 * without `sha256:` before it; another disk is a `BenchmarkError`. Hashes are kept in the file `memory`.
 *
 * @since 0.1.0
 * @category operations
 */
export const identifyDisk: (options: {
  readonly disk: string
  readonly memory: string
  readonly out?: string
  readonly expected?: string
  /** What the disk is run by. */
  readonly image?: string
  readonly onProgress?: (progress: Progress) => void
}) => Effect.Effect<DiskIdentity, BenchmarkError, FileSystem.FileSystem | Path.Path> = Effect.fn(
  "Benchmark.identifyDisk",
  { captureStackTrace: false }
)(function* ({ disk, expected, image, memory, onProgress, out }) {
  const path = yield* Path.Path
  let bytes = 0
  const identity = yield* Disk.identify({
    disk,
    memory,
    onBytes: (more) => {
      bytes += more
      onProgress?.({ phase: "disk", files: 0, failed: 0, total: 1, bytes })
    }
  }).pipe(
    Effect.mapError(
      (error) => new BenchmarkError({ path: disk, reason: error.message, remedy: "Give the qcow2 file of the machine" })
    )
  )
  const wanted = expected
    ?.trim()
    .toLowerCase()
    .replace(/^sha256:/, "")
  if (wanted !== undefined && wanted !== identity.sha256) {
    return yield* new BenchmarkError({
      path: disk,
      reason: `its SHA-256 is ${identity.sha256}, and ${wanted} was expected`,
      remedy: "Give the disk that was meant, or download it again"
    })
  }
  const official = identity.sha256 === Disk.official.sha256 && identity.bytes === Disk.official.bytes
  if (out !== undefined) {
    const snapshot = {
      schema_version: 1,
      kind: "osworld-qcow2-base-snapshot",
      snapshot_id: `sha256:${identity.sha256}`,
      path: identity.path,
      size_bytes: identity.bytes,
      sha256: identity.sha256,
      execution_backend: "docker",
      container_image: image ?? null,
      mount_mode: "read-only",
      reset_semantics: "close-and-recreate-from-base",
      live_ram_snapshot_supported: false
    }
    const file = path.join(out, "vm-snapshot.json")
    yield* Effect.mapError(writeWhole(file, `${JSON.stringify(snapshot, null, 2)}\n`), unwritable(file))
  }
  return { ...identity, official }
})
