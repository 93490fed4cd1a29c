/**
 * One run at a time in a folder, among all processes of a machine.
 *
 * @since 0.1.0
 */
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { CollectError } from "./CollectError.js"

/**
 * Who holds a folder.
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

const decode = Schema.decodeEither(Schema.parseJson(Holder))

const has = (reason: "NotFound" | "AlreadyExists") => (error: PlatformError) =>
  error._tag === "SystemError" && error.reason === reason

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
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = path.join(path.resolve(out), "lock")
    const failed = (cause: { readonly message: string }) =>
      new CollectError({ path: file, reason: cause.message, remedy: "Check that the folder is writable" })
    const refused = (reason: string) =>
      new CollectError({
        path: file,
        reason,
        remedy: `Wait for it or stop it, or choose another folder with --out; if it runs no more, remove ${file}`
      })

    const now = yield* Clock.currentTimeMillis
    const me: Holder = {
      pid: process.pid,
      host: hostname(),
      started: yield* startedAt(fs, process.pid),
      since: new Date(now).toISOString(),
      token: randomUUID()
    }
    const own = `${file}.${me.token}`
    const text = `${JSON.stringify(me)}\n`
    const nothing = () => Effect.succeed(undefined)
    const current = Effect.catchIf(fs.readFileString(file), has("NotFound"), nothing)

    const guard = `${file}.takeover`

    /** One takes over at a time, and looks again when it is its turn: what is not that stale lock stays. */
    const evict = (stale: string) =>
      Effect.acquireUseRelease(
        Effect.catchIf(fs.writeFileString(guard, text, { flag: "wx" }), has("AlreadyExists"), () =>
          Effect.fail(refused(`another run is taking this folder over (${guard})`))
        ),
        () => Effect.flatMap(current, (there) => (there === stale ? fs.remove(file, { force: true }) : Effect.void)),
        () => Effect.ignore(fs.remove(guard, { force: true }))
      )

    const take: Effect.Effect<void, PlatformError | CollectError> = Effect.catchIf(
      // A link appears with its content; a file that is created is empty for a moment.
      fs.link(own, file),
      (error): error is PlatformError => error._tag === "SystemError" && error.reason === "AlreadyExists",
      () =>
        Effect.gen(function* () {
          const found = yield* current
          if (found === undefined) return yield* take
          const holder = Either.getOrUndefined(decode(found))
          if (holder === undefined) return yield* refused("it is no lock of a run")
          const witness: Witness = {
            host: me.host,
            runs: runs(holder.pid),
            started: yield* startedAt(fs, holder.pid)
          }
          if (!isStale(holder, witness)) {
            return yield* refused(`process ${holder.pid} on ${holder.host} runs here since ${holder.since}`)
          }
          yield* Effect.logWarning(
            `${file}: process ${holder.pid}, which ran here since ${holder.since}, is gone; its lock was taken over`
          )
          yield* evict(found)
          return yield* take
        })
    )

    yield* Effect.acquireRelease(
      Effect.mapError(
        fs
          .writeFileString(own, text)
          .pipe(
            Effect.zipRight(take),
            Effect.ensuring(Effect.catchIf(fs.remove(own), has("NotFound"), () => Effect.void).pipe(Effect.orDie))
          ),
        (error) => (error._tag === "CollectError" ? error : failed(error))
      ),
      () =>
        current.pipe(
          Effect.flatMap((found) => (found === text ? fs.remove(file) : Effect.void)),
          Effect.catchAll((error) => Effect.logWarning(`${file}: could not be removed: ${error.message}`))
        )
    )
  })
