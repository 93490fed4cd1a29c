/** Downloads by address: folders that are only read, one that is filled, and what is known of the files in them. */
import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Content, DownloadFailed, download, type Expected, wrongIn } from "./download.js"
import { bare, type SourceOptions, sourcesOf } from "./sources.js"

export interface CacheOptions extends SourceOptions {
  /** Where downloads are kept; made if it is missing. */
  readonly directory: string
  /** Looked in first, and never written to. */
  readonly shared?: ReadonlyArray<string>
  /** Nothing is downloaded. */
  readonly offline?: boolean
  /** Downloads at a time; 4 unless given. */
  readonly concurrency?: number
}

/** Files of a cache by name: what `prepare` found them to be. */
export const Index = Schema.Struct({
  schema_version: Schema.Literal(1),
  kind: Schema.Literal("osworld-assets"),
  assets: Schema.Record({
    key: Schema.String,
    value: Schema.Struct({ url: Schema.String, bytes: Schema.NonNegativeInt, sha256: Schema.String })
  })
})

export type Index = typeof Index.Type

export const indexName = "assets.json"

const decodeIndex = Schema.decodeUnknown(Schema.parseJson(Index))

export const readIndex = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    return yield* Effect.flatMap(fs.readFileString(path.join(directory, indexName)), decodeIndex)
  }).pipe(
    Effect.map(({ assets }) => assets),
    Effect.orElseSucceed((): Index["assets"] => ({}))
  )

export const isRemote = (url: string): boolean => /^https?:\/\//i.test(url)

/** What a download is called: told apart by the address, and readable by its end. */
export const nameOf = (url: string): string => {
  const digest = createHash("sha256").update(url).digest("hex").slice(0, 32)
  const last = new URL(url).pathname.split("/").at(-1) ?? ""
  let readable = last
  try {
    readable = decodeURIComponent(last)
  } catch {
    // A stray percent sign is part of the name.
  }
  return `${digest}_${readable.replace(/[^A-Za-z0-9_.-]/g, "_").slice(-120)}`
}

export interface Held extends Content {
  readonly path: string
}

export const make = (options: CacheOptions) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const services = yield* Effect.context<FileSystem.FileSystem | Path.Path | HttpClient.HttpClient>()
    const folders = [...(options.shared ?? []), options.directory]
    const indexes = new Map<string, Index["assets"]>()
    const permits = yield* Effect.makeSemaphore(Math.max(1, options.concurrency ?? 4))
    // One at a time for each file: a group of rollouts starts with the same ones.
    const turns = new Map<string, Effect.Semaphore>()
    const turnOf = (name: string) => {
      const turn = turns.get(name) ?? Effect.unsafeMakeSemaphore(1)
      turns.set(name, turn)
      return turn
    }

    const sizeOf = (file: string) =>
      Effect.map(
        Effect.option(fs.stat(file)),
        Option.filterMap(({ size, type }) => (type === "File" ? Option.some(Number(size)) : Option.none()))
      )

    const sizeInIndex = (folder: string, name: string) =>
      Effect.gen(function* () {
        const index = indexes.get(folder) ?? (yield* readIndex(folder))
        indexes.set(folder, index)
        return index[name]?.bytes
      })

    /** The file of that address, in the first folder that has it and whose own list does not say that it is another. */
    const find = (url: string) =>
      Effect.gen(function* () {
        const name = nameOf(url)
        for (const folder of folders) {
          const file = path.join(folder, name)
          const size = yield* sizeOf(file)
          if (Option.isNone(size)) continue
          const known = yield* sizeInIndex(folder, name)
          if (known === undefined || known === size.value) return Option.some({ path: file, bytes: size.value })
        }
        return Option.none()
      })

    const fetch = (url: string, expected: Expected, onBytes: (bytes: number) => void) =>
      Effect.gen(function* () {
        if (options.offline === true) {
          return yield* new DownloadFailed({
            missing: true,
            again: false,
            reason: `it is not in ${folders.join(" or ")}, and nothing is downloaded offline. Fetch it with deskhand prepare on a machine that has a network, or leave --offline out`
          })
        }
        const target = path.join(options.directory, nameOf(url))
        const content = yield* permits.withPermits(1)(
          download({ sources: sourcesOf(url, options), target, expected, onBytes })
        )
        return { ...content, path: target }
      })

    return {
      /** The file, which is downloaded if no folder has it. */
      get: (url: string): Effect.Effect<string, DownloadFailed> =>
        find(url).pipe(
          Effect.flatMap(
            Option.match({
              onNone: () =>
                Effect.map(
                  fetch(url, {}, () => {}),
                  ({ path }) => path
                ),
              onSome: ({ path }) => Effect.succeed(path)
            })
          ),
          turnOf(nameOf(url)).withPermits(1),
          Effect.provide(services)
        ),
      find: (url: string) => Effect.provide(find(url), services),
      /** Downloads it whatever is here. */
      fetch: (url: string, expected: Expected, onBytes: (bytes: number) => void): Effect.Effect<Held, DownloadFailed> =>
        fetch(url, expected, onBytes).pipe(turnOf(nameOf(url)).withPermits(1), Effect.provide(services)),
      folders
    }
  })

export { bare, type Content, type Expected, wrongIn }
