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
export const make: Effect.Effect<string, PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.makeTempDirectoryScoped({ prefix: `${prefix}${yield* HostProgram.label}-` })
})

/**
 * What a sweep did: the folders that it removed, and those that it could not, each by its path.
 *
 * @since 0.1.0
 * @category models
 */
export interface Swept {
  readonly removed: ReadonlyArray<string>
  readonly left: ReadonlyArray<{ readonly id: string; readonly reason: string }>
}

/**
 * Removes this user's folders of programs that are gone. Those of programs that run, or of which nobody here can tell,
 * stay and are not named.
 *
 * @since 0.1.0
 * @category operations
 */
export const sweep: Effect.Effect<Swept, PlatformError, FileSystem.FileSystem | Path.Path> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const isAbandoned = (name: string, place: string) =>
    Effect.gen(function* () {
      const label = labelOf(name)
      if (label === undefined) return false
      // One that cannot be looked at is gone by now, or somebody else's.
      const uid = yield* Effect.match(fs.stat(place), { onFailure: () => undefined, onSuccess: ({ uid }) => uid })
      if (uid === undefined || Option.getOrUndefined(uid) !== process.getuid?.()) return false
      return (yield* HostProgram.look(label)) === "dead"
    })
  const places = (yield* fs.readDirectory(tmpdir())).map((name) => ({ name, place: path.join(tmpdir(), name) }))
  const abandoned = yield* Effect.filter(places, ({ name, place }) => isAbandoned(name, place))
  const [left, removed] = yield* Effect.partition(abandoned, ({ place }) =>
    Effect.mapBoth(fs.remove(place, { recursive: true, force: true }), {
      onFailure: ({ message }) => ({ id: place, reason: message }),
      onSuccess: () => place
    })
  )
  return { removed, left }
})
