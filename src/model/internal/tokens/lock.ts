/**
 * One owner at a time of a path, among processes: a symbolic link that only one of them can create, and that names its
 * owner from the moment on which it exists. An owner that died is noticed and its link taken away; one on another
 * machine is waited for.
 */
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

/** Whoever holds a lock does so for one write, so this long means that something is wrong. */
const patience = Schedule.spaced("5 millis").pipe(Schedule.upTo("10 seconds"))

/** The lock stayed with another owner. */
export interface Locked {
  readonly _tag: "Locked"
  readonly owner: string
}

/** The last part tells it from an earlier process of the same number. */
const me = `${process.pid} ${hostname()} ${randomUUID()}`

const isDead = (owner: string): boolean => {
  const [pid, host] = owner.split(" ")
  if (host !== hostname()) return false
  // Another process had this one's number before, as the first of a container has each time.
  if (Number(pid) === process.pid) return owner !== me
  try {
    process.kill(Number(pid), 0)
    return false
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH"
  }
}

const isGone = (error: PlatformError) => error._tag === "SystemError" && error.reason === "NotFound"

/**
 * Holds the lock until the scope closes. Fibers of one process have to take turns before they come here, and a folder is
 * used by one thread of a process: another would be taken for an earlier process of the same number.
 */
export const acquireLock = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<void, PlatformError | Locked, Scope.Scope> => {
  const create = fs.symlink(me, path)
  const owner = fs.readLink(path).pipe(Effect.catchIf(isGone, () => Effect.succeed("")))
  /** Renaming is atomic: of several that see the same dead owner, one takes its link away. */
  const evict = (dead: string) => {
    const aside = `${path}.${randomUUID()}`
    return fs.rename(path, aside).pipe(
      Effect.zipRight(fs.readLink(aside)),
      // If somebody else was faster, this is the lock of the next owner: it goes back.
      Effect.tap((evicted) => (evicted === dead ? Effect.void : fs.symlink(evicted, path))),
      Effect.zipRight(fs.remove(aside)),
      Effect.catchIf(isGone, () => Effect.void)
    )
  }
  const attempt: Effect.Effect<void, PlatformError | Locked> = Effect.catchIf(
    create,
    (error) => error._tag === "SystemError" && error.reason === "AlreadyExists",
    () =>
      Effect.flatMap(owner, (found) =>
        (isDead(found) ? evict(found) : Effect.void).pipe(
          Effect.zipRight(Effect.fail<Locked>({ _tag: "Locked", owner: found }))
        )
      )
  )
  return Effect.acquireRelease(
    Effect.retry(attempt, { schedule: patience, while: ({ _tag }) => _tag === "Locked" }),
    () => Effect.catchIf(fs.remove(path), isGone, () => Effect.void).pipe(Effect.orDie)
  )
}
