/**
 * One owner at a time of a path, among all processes of a machine. An owner that died is noticed, and its lock taken
 * away; one on another machine cannot be seen from here, and keeps it.
 *
 * @since 0.1.0
 */
import { createHash, randomUUID } from "node:crypto"
import { hostname } from "node:os"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/**
 * Who holds a lock.
 *
 * @since 0.1.0
 * @category models
 */
export const Holder = Schema.Struct({
  pid: Schema.Int,
  host: Schema.String,
  /** The boot of the machine and the moment in it at which the process began; null where the system does not tell. */
  started: Schema.NullOr(Schema.String),
  /** ISO 8601. */
  since: Schema.String,
  /** No two are alike. */
  token: Schema.String
})

/**
 * @since 0.1.0
 * @category models
 */
export type Holder = typeof Holder.Type

/**
 * What is known of the process that a holder names.
 *
 * @since 0.1.0
 * @category models
 */
export interface Witness {
  readonly host: string
  /** Whether a process of that number runs here. */
  readonly runs: boolean
  /** When it began, as `Holder.started` has it. */
  readonly started: string | null
}

/**
 * The lock is another's.
 *
 * @since 0.1.0
 * @category errors
 */
export class LockBusy extends Schema.TaggedError<LockBusy>("deskhand/LockBusy")("LockBusy", {
  /** What is in the way: the lock, or a guard beside it that is held while a dead owner's lock is taken away. */
  path: Schema.String,
  /** Null where what is there is no lock. */
  holder: Schema.NullOr(Holder)
}) {
  override get message() {
    const owner = this.holder === null ? "it is no lock" : `process ${this.holder.pid} on ${this.holder.host} holds it`
    return `${this.path}: ${owner}. If no process uses it, remove ${this.path}`
  }
}

/**
 * Whether a holder is gone for sure. A process of the same number that began at another moment is another process; one
 * on another machine cannot be seen from here.
 *
 * @since 0.1.0
 * @category decisions
 */
export const isStale = (holder: Holder, witness: Witness): boolean => {
  if (holder.host !== witness.host) return false
  if (!witness.runs) return true
  return holder.started !== null && witness.started !== null && holder.started !== witness.started
}

const runs = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (cause) {
    // A process of another user may not be signalled, and runs.
    return !(cause instanceof Error && "code" in cause && cause.code === "ESRCH")
  }
}

/** When a process began, by Linux' `/proc`: proc(5), field 22 of `stat`; the name in field 2 may hold anything. */
const startedAt = (fs: FileSystem.FileSystem, pid: number): Effect.Effect<string | null> =>
  Effect.zipWith(
    fs.readFileString("/proc/sys/kernel/random/boot_id"),
    fs.readFileString(`/proc/${pid}/stat`),
    (boot, stat) => `${boot.trim()}/${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? ""}`
  ).pipe(Effect.orElseSucceed(() => null))

/**
 * This process as a holder, with a token of its own each time.
 *
 * @since 0.1.0
 * @category constructors
 */
export const self: Effect.Effect<Holder, never, FileSystem.FileSystem> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  return {
    pid: process.pid,
    host: hostname(),
    started: yield* startedAt(fs, process.pid),
    since: new Date(yield* Clock.currentTimeMillis).toISOString(),
    token: randomUUID()
  }
})

const encode = Schema.encodeSync(Schema.parseJson(Holder))
const decode = Schema.decodeOption(Schema.parseJson(Holder))

const has = (reason: "NotFound" | "AlreadyExists") => (error: PlatformError) =>
  error._tag === "SystemError" && error.reason === reason

/** readlink(2) says so of what is there and is no symbolic link. */
const isNoLink = (error: PlatformError) =>
  error._tag === "SystemError" && error.cause instanceof Error && "code" in error.cause && error.cause.code === "EINVAL"

/** What a lock says; `undefined` where there is none. One that somebody wrote as a file says it, too. */
const read = (fs: FileSystem.FileSystem, path: string): Effect.Effect<string | undefined, PlatformError> =>
  fs.readLink(path).pipe(
    Effect.catchIf(isNoLink, () => fs.readFileString(path)),
    Effect.catchIf(has("NotFound"), () => Effect.succeed(undefined))
  )

/**
 * Holds the lock until the scope closes; fails at once where another holds it. A lock whose process is gone is taken
 * over, and that is told. A holder is for one fiber at a time: a lock that names it is taken for one that it could not
 * remove when it was done.
 *
 * The lock is a symbolic link: only one can create it, and it names its owner from the moment on which it exists.
 *
 * @since 0.1.0
 * @category operations
 */
export const hold = (
  path: string,
  holder: Holder
): Effect.Effect<void, PlatformError | LockBusy, FileSystem.FileSystem | Scope.Scope> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => holdAt(fs, path, path, holder))

/** Holds `at`: the lock `path` itself, or a guard of it. */
const holdAt = (
  fs: FileSystem.FileSystem,
  path: string,
  at: string,
  holder: Holder
): Effect.Effect<void, PlatformError | LockBusy, Scope.Scope> => {
  const mine = encode(holder)

  const take: Effect.Effect<void, PlatformError | LockBusy> = Effect.catchIf(
    fs.symlink(mine, at),
    has("AlreadyExists"),
    () =>
      Effect.gen(function* () {
        const found = yield* read(fs, at)
        if (found === undefined) return yield* take
        if (found === mine) return
        const other = Option.getOrNull(decode(found))
        if (other === null) return yield* new LockBusy({ path: at, holder: null })
        const witness = { host: holder.host, runs: runs(other.pid), started: yield* startedAt(fs, other.pid) }
        if (!isStale(other, witness)) return yield* new LockBusy({ path: at, holder: other })
        yield* evict(found, other)
        return yield* take
      })
  )

  /**
   * Takes a dead owner's lock away. Whoever does so holds a guard that belongs to this very lock, and looks again when it
   * does: what is not that lock stays. No other lock is ever like it, so a guard that is too late does no harm; and a
   * guard whose owner died is a lock like any other, with a guard of its own.
   */
  const evict = (stale: string, { host, pid, since }: Holder): Effect.Effect<void, PlatformError | LockBusy> => {
    const guard = `${path}.${createHash("sha256").update(stale).digest("hex").slice(0, 16)}`
    const remove = Effect.zipRight(
      fs.remove(at, { force: true }),
      Effect.logWarning(
        `${at}: process ${pid} on ${host}, which held it since ${since}, is gone; its lock was taken over`
      )
    )
    return Effect.scoped(
      Effect.zipRight(
        holdAt(fs, path, guard, holder),
        Effect.flatMap(read(fs, at), (there) => (there === stale ? remove : Effect.void))
      )
    )
  }

  // Whoever took it away by hand may have given it to another.
  const release = read(fs, at).pipe(
    Effect.flatMap((found) => (found === mine ? fs.remove(at) : Effect.void)),
    Effect.catchIf(has("NotFound"), () => Effect.void),
    Effect.catchAll((error) =>
      Effect.logWarning(`${at}: the lock could not be removed, and holds until this process ends: ${error.message}`)
    )
  )

  return Effect.acquireRelease(take, () => release)
}
