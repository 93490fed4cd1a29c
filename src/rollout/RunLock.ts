/**
 * One run at a time in a folder, among all processes of a machine.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as ProcessLock from "../artifact/ProcessLock.js"
import { CollectError } from "./CollectError.js"

/**
 * Holds `<out>/lock` until the scope closes. Fails where another run holds it; a lock whose process is gone is taken
 * over, and that is told.
 *
 * @since 0.1.0
 * @category operations
 */
export const acquire = (
  out: string
): Effect.Effect<void, CollectError, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const file = path.join(path.resolve(out), "lock")
    const failed = (cause: { readonly message: string }) =>
      new CollectError({ path: file, reason: cause.message, remedy: "Check that the folder is writable" })
    const refused = ({ holder, path }: ProcessLock.LockBusy) => {
      const does = path === file ? "runs here" : "takes this folder over,"
      return new CollectError({
        path,
        reason:
          holder === null
            ? "it is no lock of a run"
            : `process ${holder.pid} on ${holder.host} ${does} since ${holder.since}`,
        remedy: `Wait for it or stop it, or choose another folder with --out; if it runs no more, remove ${path}`
      })
    }
    yield* Effect.flatMap(ProcessLock.self, (me) => ProcessLock.hold(file, me)).pipe(
      Effect.catchTags({ LockBusy: refused, SystemError: failed, BadArgument: failed })
    )
  })
