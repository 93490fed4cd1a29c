/**
 * The files that tasks name: fetched once, kept on this host, and read from there.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Cache from "./internal/benchmark/cache.js"
import { bare, parseMirrors } from "./internal/benchmark/sources.js"

/**
 * An asset could not be had. `missing`: whoever was asked says that it does not exist, or nobody may be asked; trying
 * again is of no use.
 *
 * @since 0.1.0
 * @category errors
 */
export class AssetError extends Schema.TaggedError<AssetError>("deskhand/AssetError")("AssetError", {
  /** Without what signs it. */
  url: Schema.String,
  missing: Schema.Boolean,
  reason: Schema.String
}) {
  override get message() {
    return `could not get ${this.url}: ${this.reason}`
  }
}

/**
 * Files that tasks name by address, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class Assets extends Context.Tag("deskhand/osworld/Assets")<
  Assets,
  {
    /**
     * The path on this host of what a task names: an `http:` or `https:` address, which is downloaded the first time, or
     * a path of this host, which, if it is relative, starts from the folder of the task's file.
     */
    readonly fetch: (url: string, taskFile: string | undefined) => Effect.Effect<string, AssetError>
  }
>() {}

/**
 * @since 0.1.0
 * @category models
 */
export interface AssetsOptions {
  /** Where downloads are kept; made if it is missing. */
  readonly directory: string
  /** Folders that `Benchmark.prepare` has filled: looked in first, and never written to. */
  readonly shared?: ReadonlyArray<string>
  /** Nothing is downloaded: what is not there is an error that says so. */
  readonly offline?: boolean
  /** Downloads at a time; 4 unless given. */
  readonly concurrency?: number
  /** Shown to Hugging Face, and to `endpoint`, and to nobody else. */
  readonly token?: Redacted.Redacted
  /** What stands for `https://huggingface.co`. */
  readonly endpoint?: string
  /** What begins with `from` is asked for at `to` first. */
  readonly mirrors?: ReadonlyArray<{ readonly from: string; readonly to: string }>
}

/**
 * A download is tried five times, 1 to 8 seconds apart or as the server says, goes on where it broke off, also after the
 * process was killed, and has its name only when it is whole.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: AssetsOptions
): Layer.Layer<Assets, never, FileSystem.FileSystem | Path.Path | HttpClient.HttpClient> =>
  Layer.effect(
    Assets,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const cache = yield* Cache.make(options)
      return Assets.of({
        fetch: Effect.fn("Assets.fetch", { captureStackTrace: false })(function* (url, taskFile) {
          if (Cache.isRemote(url)) {
            return URL.canParse(url)
              ? yield* Effect.mapError(
                  cache.get(url),
                  ({ missing, reason }) => new AssetError({ url: bare(url), missing, reason })
                )
              : yield* new AssetError({ url, missing: true, reason: "it is no address" })
          }
          const local = path.resolve(
            taskFile === undefined ? "." : path.dirname(taskFile),
            url.startsWith("file://") ? decodeURIComponent(new URL(url).pathname) : url
          )
          const exists = yield* Effect.orElseSucceed(fs.exists(local), () => false)
          return exists ? local : yield* new AssetError({ url: local, missing: true, reason: "there is no such file" })
        })
      })
    })
  )

const Settings = Config.all({
  token: Config.option(Config.redacted("HF_TOKEN")),
  endpoint: Config.option(Config.url("HF_ENDPOINT")),
  mirrors: Config.string("DESKHAND_ASSET_MIRRORS").pipe(
    Config.mapOrFail((text) =>
      Either.fromNullable(parseMirrors(text), () =>
        ConfigError.InvalidData(
          ["DESKHAND_ASSET_MIRRORS"],
          "expected https://FROM=https://TO, and commas between several"
        )
      )
    ),
    Config.withDefault([])
  )
})

/**
 * Where assets come from, as the environment says: `HF_TOKEN`, `HF_ENDPOINT` (what stands for Hugging Face), and
 * `DESKHAND_ASSET_MIRRORS` (`https://FROM=https://TO,...`).
 *
 * @since 0.1.0
 * @category config
 */
export const sources: Config.Config<Pick<AssetsOptions, "token" | "endpoint" | "mirrors">> = Config.map(
  Settings,
  ({ endpoint, mirrors, token }) => ({
    mirrors,
    ...Option.match(token, { onNone: () => ({}), onSome: (token) => ({ token }) }),
    ...Option.match(endpoint, { onNone: () => ({}), onSome: ({ href }) => ({ endpoint: href }) })
  })
)

/**
 * `layer` with `sources`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Omit<AssetsOptions, "token" | "endpoint" | "mirrors">
): Layer.Layer<Assets, ConfigError.ConfigError, FileSystem.FileSystem | Path.Path | HttpClient.HttpClient> =>
  Layer.unwrapEffect(Effect.map(sources, (sources) => layer({ ...options, ...sources })))
