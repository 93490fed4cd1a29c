/**
 * The files that tasks name: fetched once, kept on this host, and read from there.
 *
 * @since 0.1.0
 */
import { createHash, randomUUID } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

/**
 * An asset could not be had. `missing`: whoever was asked says that it does not exist; trying again is of no use.
 *
 * @since 0.1.0
 * @category errors
 */
export class AssetError extends Schema.TaggedError<AssetError>("deskhand/AssetError")("AssetError", {
  url: Schema.String,
  missing: Schema.Boolean,
  reason: Schema.String
}) {
  override get message() {
    return `could not get ${this.url}: ${this.reason}`
  }
}

/**
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

const isRemote = (url: string): boolean => /^https?:\/\//i.test(url)

/** Three more tries, a second, two and four apart. */
const retrySchedule = Schedule.intersect(Schedule.exponential("1 second"), Schedule.recurs(3))

const tryTimeout = "300 seconds"

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  /** Where downloads are kept; made if it is missing. */
  readonly directory: string
}): Layer.Layer<Assets, never, FileSystem.FileSystem | Path.Path | HttpClient.HttpClient> =>
  Layer.effect(
    Assets,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const http = yield* HttpClient.HttpClient
      // One download at a time: a group of rollouts starts with the same files.
      const turn = yield* Effect.makeSemaphore(1)

      const download = (url: string, target: string): Effect.Effect<void, AssetError> => {
        const failed = (missing: boolean) => (cause: { readonly message: string }) =>
          new AssetError({ url, missing, reason: cause.message })
        const partial = path.join(options.directory, `.${randomUUID()}`)
        const once = http.get(url).pipe(
          Effect.mapError(failed(false)),
          Effect.flatMap((response) =>
            response.status >= 200 && response.status < 300
              ? Effect.succeed(response)
              : Effect.fail(failed(response.status === 404)({ message: `the server answered HTTP ${response.status}` }))
          ),
          HttpClientResponse.stream,
          Stream.catchAll((error) => Stream.fail(error instanceof AssetError ? error : failed(false)(error))),
          Stream.run(fs.sink(partial)),
          Effect.mapError((error) => (error instanceof AssetError ? error : failed(false)(error))),
          Effect.timeoutFail({
            duration: tryTimeout,
            onTimeout: () => failed(false)({ message: `no complete answer within ${tryTimeout}` })
          })
        )
        return Effect.retry(once, { schedule: retrySchedule, while: (error) => !error.missing }).pipe(
          Effect.zipRight(Effect.mapError(fs.rename(partial, target), failed(false))),
          Effect.onError(() => Effect.ignore(fs.remove(partial, { force: true })))
        )
      }

      return Assets.of({
        fetch: Effect.fn("Assets.fetch", { captureStackTrace: false })(function* (url, taskFile) {
          if (!isRemote(url)) {
            const local = path.resolve(
              taskFile === undefined ? "." : path.dirname(taskFile),
              url.startsWith("file://") ? decodeURIComponent(new URL(url).pathname) : url
            )
            const exists = yield* Effect.orElseSucceed(fs.exists(local), () => false)
            return exists
              ? local
              : yield* new AssetError({ url: local, missing: true, reason: "there is no such file" })
          }
          const digest = createHash("sha256").update(url).digest("hex").slice(0, 32)
          const name = decodeURIComponent(path.basename(new URL(url).pathname)).replace(/[^A-Za-z0-9_.-]/g, "_")
          const target = path.join(options.directory, `${digest}_${name}`)
          yield* Effect.gen(function* () {
            if (yield* fs.exists(target)) return
            yield* fs.makeDirectory(options.directory, { recursive: true })
            yield* download(url, target)
          }).pipe(
            turn.withPermits(1),
            Effect.mapError((error) =>
              error instanceof AssetError ? error : new AssetError({ url, missing: false, reason: error.message })
            )
          )
          return target
        })
      })
    })
  )
