/** Files of this host that tasks may name, when tasks come from elsewhere. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AssetError, Assets } from "../../Assets.js"

const isRemote = (url: string): boolean => /^https?:\/\//i.test(url)

/**
 * What a task names on this host is read only below `tasks`, links followed: otherwise a task could have this host's
 * secrets carried into its desktop. What is fetched over HTTP is as it was.
 */
export const layer = (options: {
  readonly tasks: string | undefined
}): Layer.Layer<Assets, never, Assets | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Assets,
    Effect.gen(function* () {
      const assets = yield* Assets
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      return Assets.of({
        fetch: (url, taskFile) =>
          isRemote(url)
            ? assets.fetch(url, taskFile)
            : Effect.gen(function* () {
                // One answer for all, so that nobody learns which files there are.
                const refused = new AssetError({
                  url,
                  missing: true,
                  reason: "of this host's files a task may name only those in the server's folder of tasks"
                })
                if (options.tasks === undefined || taskFile === undefined) return yield* refused
                const folder = yield* Effect.mapError(fs.realPath(options.tasks), () => refused)
                const local = yield* Effect.mapError(assets.fetch(url, taskFile), () => refused)
                const real = yield* Effect.mapError(fs.realPath(local), () => refused)
                return real.startsWith(`${folder}${path.sep}`) ? real : yield* refused
              })
      })
    })
  )
