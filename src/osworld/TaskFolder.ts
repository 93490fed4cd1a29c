/**
 * Where a task's files are kept on the driver's host while its desktop lives.
 *
 * @since 0.1.0
 */
import { tmpdir } from "node:os"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as HostProgram from "../sandbox/HostProgram.js"

const prefix = "deskhand-task-"

/** The label of the program that made a folder; `undefined` for a folder that is none of ours. */
const labelOf = (name: string): string | undefined =>
  name.startsWith(prefix)
    ? /^([0-9a-f]+\.[0-9]+\.[0-9]+\.[0-9]+)-[A-Za-z0-9]+$/.exec(name.slice(prefix.length))?.[1]
    : undefined

/**
 * A new folder below the system's temporary folder (`TMPDIR`), which goes with its scope, and which `sweep` finds when
 * the program was killed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<
  string,
  PlatformError | HostProgram.ProcUnreadable,
  FileSystem.FileSystem | Scope.Scope
> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.makeTempDirectoryScoped({ prefix: `${prefix}${yield* HostProgram.label}-` })
})

/**
 * What a sweep did: the folders that it removed, and those that it could not remove or of which it could not be read
 * whether their program runs, each by its path.
 *
 * @since 0.1.0
 * @category models
 */
export interface Swept {
  readonly removed: ReadonlyArray<string>
  readonly left: ReadonlyArray<{ readonly id: string; readonly reason: string }>
}

/**
 * Removes this user's folders of programs that are gone. Those of programs that run, or that are in another container,
 * stay and are not named.
 *
 * @since 0.1.0
 * @category operations
 */
export const sweep: Effect.Effect<Swept, PlatformError, FileSystem.FileSystem | Path.Path> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const untold = (place: string) => (error: { readonly message: string }) => ({
    id: place,
    reason: `nobody can tell whether its program runs: ${error.message}; sweep again when that can be read, or remove it by hand when no run uses it`
  })
  const isAbandoned = (name: string, place: string) =>
    Effect.gen(function* () {
      const label = labelOf(name)
      if (label === undefined) return false
      const uid = yield* Effect.map(fs.stat(place), ({ uid }) => Option.getOrUndefined(uid)).pipe(
        // It is gone by now.
        Effect.catchIf(
          (error) => error._tag === "SystemError" && error.reason === "NotFound",
          () => Effect.succeed(undefined)
        )
      )
      if (uid === undefined || uid !== process.getuid?.()) return false
      return (yield* HostProgram.look(label)) === "dead"
    })
  const places = (yield* fs.readDirectory(tmpdir())).map((name) => ({ name, place: path.join(tmpdir(), name) }))
  const [unknown, known] = yield* Effect.partition(places, ({ name, place }) =>
    Effect.mapBoth(isAbandoned(name, place), {
      onFailure: untold(place),
      onSuccess: (abandoned) => (abandoned ? [place] : [])
    })
  )
  const [left, removed] = yield* Effect.partition(known.flat(), (place) =>
    Effect.mapBoth(fs.remove(place, { recursive: true, force: true }), {
      onFailure: ({ message }) => ({ id: place, reason: message }),
      onSuccess: () => place
    })
  )
  return { removed, left: [...unknown, ...left] }
})
