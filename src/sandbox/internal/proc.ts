/**
 * What this host's `/proc` says of processes.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { processMark } from "./bwrapArguments.js"
import { type Liveness, liveness, Owner, ownerLabel, type ProcessStat, parseOwnerLabel, parseStat } from "./owner.js"
import { isSandboxId } from "./record.js"

/** A process that should end and could not be told to. */
export class KillRefused extends Data.TaggedError("KillRefused")<{ readonly pid: number; readonly reason: string }> {
  override get message() {
    return `process ${this.pid} could not be killed: ${this.reason}`
  }
}

const readOr = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.orElseSucceed((): string | undefined => undefined)
  )

/** undefined when there is no such process, or none that may be looked at. */
export const stat = (pid: number): Effect.Effect<ProcessStat | undefined, never, FileSystem.FileSystem> =>
  Effect.map(readOr(`/proc/${pid}/stat`), (text) => (text === undefined ? undefined : parseStat(text)))

/** This process. */
export const self: Effect.Effect<Owner, never, FileSystem.FileSystem> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const found = yield* stat(process.pid)
  const boot = yield* readOr("/proc/sys/kernel/random/boot_id")
  const pidNamespace = yield* Effect.orElseSucceed(fs.readLink("/proc/self/ns/pid"), () => "")
  return Owner.make({ pid: process.pid, startedAt: found?.startedAt ?? "", boot: boot?.trim() ?? "", pidNamespace })
})

/** Whether the owner that a label names still runs. A label is shorter than its owner, so both are compared as labels. */
export const labelled = (label: string): Effect.Effect<Liveness, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const owner = parseOwnerLabel(label)
    const here = parseOwnerLabel(ownerLabel(yield* self))
    return owner === undefined || here === undefined ? "dead" : liveness(owner, yield* stat(owner.pid), here)
  })

const mark = processMark("")

/** The processes on this host, by the sandbox that they start or supervise. */
export const supervisors: Effect.Effect<
  ReadonlyMap<string, ReadonlyArray<number>>,
  never,
  FileSystem.FileSystem
> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const names = yield* Effect.orElseSucceed(fs.readDirectory("/proc"), () => [])
  const found = new Map<string, Array<number>>()
  for (const name of names) {
    if (!/^\d+$/.test(name)) {
      continue
    }
    const words = ((yield* readOr(`/proc/${name}/cmdline`)) ?? "").split("\0")
    const id = words.find((word) => word.startsWith(mark))?.slice(mark.length)
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
