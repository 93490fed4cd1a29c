/**
 * What this host's `/proc` says of processes.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { processMark } from "./bwrapArguments.js"
import { type Liveness, liveness, Owner, ownerLabel, type ProcessStat, parseOwnerLabel, parseStat } from "./owner.js"
import { isAbsent, isForbidden, text } from "./reasons.js"
import { isSandboxId } from "./record.js"

/** A process that should end and could not be told to. */
export class KillRefused extends Data.TaggedError("KillRefused")<{ readonly pid: number; readonly reason: string }> {
  override get message() {
    return `process ${this.pid} could not be killed: ${this.reason}`
  }
}

/** Something that this host says of its processes could not be read, so nothing is known of them. */
export class ProcUnreadable extends Schema.TaggedError<ProcUnreadable>("deskhand/ProcUnreadable")("ProcUnreadable", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `${this.path} could not be read: ${this.reason}`
  }
}

const unreadable = (path: string) => (error: PlatformError) => new ProcUnreadable({ path, reason: text(error) })

/** undefined for what is not there, and for nothing else. */
const present = <A, R>(path: string, read: Effect.Effect<A, PlatformError, R>) =>
  Effect.catchAll(read, (error) => (isAbsent(error) ? Effect.succeed(undefined) : Effect.fail(unreadable(path)(error))))

const readText = (path: string) =>
  present(
    path,
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path))
  )

/** undefined when there is no such process. */
export const stat = (pid: number): Effect.Effect<ProcessStat | undefined, ProcUnreadable, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const path = `/proc/${pid}/stat`
    const found = yield* readText(path)
    if (found === undefined) {
      return undefined
    }
    return parseStat(found) ?? (yield* new ProcUnreadable({ path, reason: "it does not tell of a process" }))
  })

/** This process. What a system without `/proc` cannot say of it stays empty. */
export const self: Effect.Effect<Owner, ProcUnreadable, FileSystem.FileSystem> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const found = yield* stat(process.pid)
  const boot = yield* readText("/proc/sys/kernel/random/boot_id")
  const pidNamespace = yield* present("/proc/self/ns/pid", fs.readLink("/proc/self/ns/pid"))
  return Owner.make({
    pid: process.pid,
    startedAt: found?.startedAt ?? "",
    boot: boot?.trim() ?? "",
    pidNamespace: pidNamespace ?? ""
  })
})

/** Whether the owner that a label names still runs. A label is shorter than its owner, so both are compared as labels. */
export const labelled = (label: string): Effect.Effect<Liveness, ProcUnreadable, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const owner = parseOwnerLabel(label)
    if (owner === undefined) {
      return "dead"
    }
    const here = parseOwnerLabel(ownerLabel(yield* self))
    return here === undefined ? "dead" : liveness(owner, yield* stat(owner.pid), here)
  })

/** Why something is left of which nobody can tell whether its owner runs, and what to do. */
export const untold = (error: ProcUnreadable): string =>
  `nobody can tell whether its owner runs: ${error.message}; sweep again when that can be read, or remove it by hand when no run uses it`

const mark = processMark("")

/** A process that may not be looked at is none of ours when it is another user's. */
const isForeign = (pid: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const found = yield* present(`/proc/${pid}`, fs.stat(`/proc/${pid}`))
    return found === undefined || Option.getOrUndefined(found.uid) !== process.getuid?.()
  })

/** The words of a process's command; none of one that has ended, or that is hidden because it is another user's. */
const words = (pid: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = `/proc/${pid}/cmdline`
    const found = yield* Effect.either(fs.readFileString(path))
    if (Either.isRight(found)) {
      return found.right.split("\0")
    }
    const error = found.left
    return isAbsent(error) || (isForbidden(error) && (yield* isForeign(pid))) ? [] : yield* unreadable(path)(error)
  })

/** The processes on this host, by the sandbox that they start or supervise. */
export const supervisors: Effect.Effect<
  ReadonlyMap<string, ReadonlyArray<number>>,
  ProcUnreadable,
  FileSystem.FileSystem
> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const names = yield* Effect.mapError(fs.readDirectory("/proc"), unreadable("/proc"))
  // Where `/proc` is not mounted its folder is empty, which says nothing of what runs.
  if (!names.includes(`${process.pid}`)) {
    return yield* new ProcUnreadable({ path: "/proc", reason: "it does not list this process" })
  }
  const found = new Map<string, Array<number>>()
  for (const name of names) {
    if (!/^\d+$/.test(name)) {
      continue
    }
    const id = (yield* words(name)).find((word) => word.startsWith(mark))?.slice(mark.length)
    if (id !== undefined && isSandboxId(id)) {
      found.set(id, [...(found.get(id) ?? []), Number(name)])
    }
  }
  return found
})

/** One that is gone already is what was wanted. */
export const signal = (pid: number, signal: "SIGKILL" | "SIGSTOP"): Effect.Effect<void, KillRefused> =>
  Effect.try({
    try: () => process.kill(pid, signal),
    catch: (cause) => (cause instanceof Error ? cause : new Error(String(cause)))
  }).pipe(
    Effect.asVoid,
    Effect.catchAll((error) =>
      "code" in error && error.code === "ESRCH"
        ? Effect.void
        : Effect.fail(new KillRefused({ pid, reason: error.message }))
    )
  )

/** Ends a process at once. */
export const kill = (pid: number): Effect.Effect<void, KillRefused> => signal(pid, "SIGKILL")
