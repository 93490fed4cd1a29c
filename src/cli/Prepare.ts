/**
 * `deskhand prepare`: from a checkout or an archive of OSWorld to files of rows and a cache of assets.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import type * as ConfigError from "effect/ConfigError"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Assets from "../osworld/Assets.js"
import * as Benchmark from "../osworld/Benchmark.js"
import type { TaskSourceError } from "../osworld/TaskSource.js"
import { cacheFolder } from "./internal/caches.js"
import * as Counter from "./internal/counter.js"
import { table } from "./internal/table.js"
import { type UsageError, usage } from "./internal/usage.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface PrepareOptions {
  readonly source: string
  readonly out: string
  /** The cache; the one that runs use unless given. */
  readonly assets: Option.Option<string>
  readonly skipAssets: boolean
  readonly offline: boolean
  /** Downloads at a time. */
  readonly concurrency: number
  readonly shards: Option.Option<number>
  readonly agent: Option.Option<string>
  readonly vm: Option.Option<string>
  readonly expectedVmSha256: Option.Option<string>
  readonly force: boolean
}

/**
 * Some assets could not be had; the report has said which and why.
 *
 * @since 0.1.0
 * @category errors
 */
export class AssetsMissing extends Schema.TaggedError<AssetsMissing>("deskhand/cli/AssetsMissing")("AssetsMissing", {
  missing: Schema.Int,
  total: Schema.Int
}) {
  override get message() {
    return `${this.missing} of ${this.total} assets could not be had; run the same command again to go on`
  }
}

/** Assets whose reasons are told; all are in the manifest. */
const shown = 20

/**
 * What was prepared.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (
  out: string,
  manifest: Benchmark.Manifest,
  disk: Option.Option<Benchmark.DiskIdentity>
): string => {
  const { assets, missing, notes, source, splits, tasks } = manifest
  const named = new Set(tasks.flatMap((task) => task.assets))
  const bytes = assets.reduce((sum, one) => sum + one.bytes, 0)
  const from = [source.name, source.revision, source.sha256 && `sha256:${source.sha256}`].filter((part) => part)
  const identity = Option.map(
    disk,
    ({ bytes, official, remembered, sha256 }) =>
      `Disk sha256:${sha256}, ${Counter.size(bytes)}${official ? ", the published one" : ", not the published one"}${remembered ? " (known from before)" : ""}`
  )
  return [
    table(
      ["part", "tasks", "infeasible", "proxy", "live web", "shards", "rows"],
      splits.map(({ file, infeasible, live_web, name, proxy, shards, tasks }) => [
        name,
        ...[tasks, infeasible, proxy, live_web, shards.length].map(String),
        file
      ])
    ),
    "",
    `${tasks.length} tasks of ${from.join(", ")}`,
    `Content sha256:${manifest.tasks_sha256}`,
    `${assets.length} of ${named.size} assets are pinned, ${Counter.size(bytes)}`,
    ...Option.toArray(identity),
    ...notes.map((note) => `Note: ${note}`),
    ...missing.slice(0, shown).map(({ reason, url }) => `Missing: ${url}: ${reason}`),
    ...(missing.length > shown ? [`Missing: ${missing.length - shown} more; they are in benchmark.json`] : []),
    `All of it is in ${out}. To run a part: deskhand run ${out}/${splits[0]?.file ?? ""}`
  ].join("\n")
}

/**
 * Prepares the benchmark, shows how far it is, and says what came of it. Fails with `AssetsMissing` where an asset could
 * not be had; all else is written then.
 *
 * @since 0.1.0
 * @category programs
 */
export const prepare = (
  options: PrepareOptions
): Effect.Effect<
  void,
  UsageError | AssetsMissing | TaskSourceError | Benchmark.BenchmarkError | ConfigError.ConfigError,
  FileSystem.FileSystem | Path.Path | HttpClient.HttpClient
> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const { concurrency, force, offline, out, skipAssets, source } = options
    if (Option.isSome(options.expectedVmSha256) && Option.isNone(options.vm)) {
      return yield* usage("--expected-vm-sha256 wants --vm, the disk that is meant")
    }
    if (skipAssets && offline)
      return yield* usage("--offline looks at the assets, and --skip-assets does not: give one")
    const cache = yield* cacheFolder
    const sources = yield* Assets.sources
    const directory = Option.getOrElse(options.assets, () => path.join(cache, "assets"))
    const counter = yield* Counter.make(process.stderr)
    const disk = yield* Effect.transposeOption(
      Option.map(options.vm, (disk) =>
        Benchmark.identifyDisk({
          disk,
          memory: path.join(cache, "disks.json"),
          out,
          ...Option.match(options.expectedVmSha256, { onNone: () => ({}), onSome: (expected) => ({ expected }) }),
          onProgress: counter
        })
      )
    )
    const manifest = yield* Benchmark.prepare({
      source,
      out,
      force,
      onProgress: counter,
      ...(skipAssets ? {} : { assets: { directory, offline, concurrency, ...sources } }),
      ...Option.match(options.shards, { onNone: () => ({}), onSome: (shards) => ({ shards }) }),
      ...Option.match(options.agent, { onNone: () => ({}), onSome: (agent) => ({ agent }) })
    })
    yield* Console.log(render(out, manifest, disk))
    const total = new Set(manifest.tasks.flatMap(({ assets }) => assets)).size
    if (manifest.missing.length > 0) return yield* new AssetsMissing({ missing: manifest.missing.length, total })
  }).pipe(Effect.scoped)
