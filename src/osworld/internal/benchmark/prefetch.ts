/** Fetches assets into a cache, or checks those that are there. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { writeWhole } from "../../../artifact/WholeFile.js"
import type { AssetsOptions } from "../../Assets.js"
import type { Progress } from "../../Benchmark.js"
import * as Cache from "./cache.js"
import { sha256OfFile } from "./digest.js"
import { DownloadFailed } from "./download.js"

export { nameOf } from "./cache.js"

interface Pin {
  readonly url: string
  readonly file: string
  readonly bytes: number
  readonly sha256: string
}

/** Adds to the list of a cache, which others may be adding to: it holds sizes, and a file without one is as good. */
const extendIndex = (directory: string, pins: ReadonlyArray<Pin>) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    if (pins.length === 0) return
    const assets = {
      ...(yield* Cache.readIndex(directory)),
      ...Object.fromEntries(pins.map(({ bytes, file, sha256, url }) => [file, { url, bytes, sha256 }]))
    }
    const index: Cache.Index = { schema_version: 1, kind: "osworld-assets", assets }
    yield* writeWhole(path.join(directory, Cache.indexName), `${JSON.stringify(index, null, 2)}\n`)
  })

export const prefetch = (
  urls: ReadonlyArray<string>,
  options: AssetsOptions,
  pins: ReadonlyMap<string, { readonly bytes: number; readonly sha256: string }>,
  onProgress: (progress: Progress) => void
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const cache = yield* Cache.make(options)
    let progress: Progress = { phase: "assets", files: 0, failed: 0, total: urls.length, bytes: 0 }
    const tell = (more: { readonly files?: number; readonly failed?: number; readonly bytes?: number }) => {
      progress = {
        ...progress,
        files: progress.files + (more.files ?? 0),
        failed: progress.failed + (more.failed ?? 0),
        bytes: progress.bytes + (more.bytes ?? 0)
      }
      onProgress(progress)
    }
    const onBytes = (bytes: number) => tell({ bytes })

    const one = (url: string) =>
      Effect.gen(function* () {
        const file = Cache.nameOf(url)
        const pin = pins.get(file)
        const there = yield* cache.find(url)
        if (Option.isSome(there)) {
          const content = yield* Effect.mapError(
            sha256OfFile(there.value.path, onBytes),
            (error) => new DownloadFailed({ missing: false, again: false, reason: error.message })
          )
          const wrong = pin === undefined ? undefined : Cache.wrongIn(content, pin)
          if (wrong === undefined) return { url: Cache.bare(url), file, ...content }
          if (options.offline === true) {
            return yield* new DownloadFailed({ missing: false, again: false, reason: `${there.value.path}: ${wrong}` })
          }
        }
        const { bytes, sha256 } = yield* cache.fetch(url, pin ?? {}, onBytes)
        return { url: Cache.bare(url), file, bytes, sha256 }
      }).pipe(
        Effect.tapBoth({
          onSuccess: () => Effect.sync(() => tell({ files: 1 })),
          onFailure: () => Effect.sync(() => tell({ failed: 1 }))
        }),
        Effect.mapError(({ reason }) => ({ url: Cache.bare(url), file: Cache.nameOf(url), reason })),
        Effect.either
      )

    const done: Array<Pin> = []
    const writable = Effect.isSuccess(fs.access(options.directory, { writable: true }))
    const results = yield* Effect.forEach(
      urls,
      (url) =>
        Effect.tap(one(url), (result) =>
          Effect.sync(() => {
            if (Either.isRight(result)) done.push(result.right)
          })
        ),
      { concurrency: Math.max(1, options.concurrency ?? 4) }
    ).pipe(
      // What an interrupted one has found is of use to the next.
      Effect.ensuring(
        Effect.whenEffect(Effect.ignore(Effect.suspend(() => extendIndex(options.directory, done))), writable)
      )
    )
    return {
      assets: results.flatMap((result) => (Either.isRight(result) ? [result.right] : [])),
      missing: results.flatMap((result) => (Either.isLeft(result) ? [result.left] : []))
    }
  })
