/** What local sandboxes there are, who answers for each, and the removal of those that nobody answers for. */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Ledger } from "../Ledger.js"
import type { SandboxInfo } from "../Sandbox.js"
import { SandboxStateError } from "../SandboxError.js"
import type { Selector, SweepReceipt } from "../SandboxProvider.js"
import * as Folders from "./folders.js"
import { note, type Platform, provider, removal } from "./localRemoval.js"
import { liveness, type Owner } from "./owner.js"
import * as Proc from "./proc.js"
import { explainFileError } from "./reasons.js"
import { matches } from "./record.js"

const stateError = (operation: string, stateDir: string) => (error: PlatformError) => {
  const { reason, remedy } = explainFileError(error, stateDir)
  return new SandboxStateError({ provider, operation, reason, remedy })
}

export type Verdict =
  | { readonly state: "running" | "orphaned" }
  /** `reason` says why nobody here can tell, and what to do. */
  | { readonly state: "unknown"; readonly reason: string }

const running: Verdict = { state: "running" }
const orphaned: Verdict = { state: "orphaned" }
const unknown = (reason: string): Verdict => ({ state: "unknown", reason })

/** Who answers for what is found in the state folder; `here` is this process. */
export const verdict = (
  stateDir: string,
  entry: Folders.Entry,
  here: Effect.Effect<Owner, Proc.ProcUnreadable, FileSystem.FileSystem>
): Effect.Effect<Verdict, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { record } = entry
    const folder = `${stateDir}/${entry.id}`
    if (entry.unreadable !== undefined) {
      return unknown(
        `nobody can tell whose it is: ${entry.unreadable}; sweep again when that can be read, or remove ${folder} by hand when no run uses it`
      )
    }
    if (record === undefined) {
      return (yield* Folders.isStale(entry)) ? orphaned : running
    }
    if (entry.abandoned) {
      return orphaned
    }
    if (record.expiresAt !== undefined && record.expiresAt + 60_000 < (yield* Clock.currentTimeMillis)) {
      return orphaned
    }
    const alive = liveness(record.owner, yield* Proc.stat(record.owner.pid), yield* here)
    return alive === "dead"
      ? orphaned
      : alive === "alive"
        ? running
        : unknown(`its owner runs in another container; sweep there, or remove ${folder} when that is gone`)
  }).pipe(Effect.catchTag("ProcUnreadable", (error) => Effect.succeed(unknown(Proc.untold(error)))))

const verdicts = (stateDir: string, entries: ReadonlyArray<Folders.Entry>) =>
  Effect.gen(function* () {
    const here = yield* Effect.cached(Proc.self)
    return yield* Effect.forEach(
      entries,
      (entry) => Effect.map(verdict(stateDir, entry, here), (verdict) => ({ entry, verdict })),
      { concurrency: 16 }
    )
  })

/** An entry without a record has no metadata, so only the empty selector names it. */
const isNamed = (selector: Selector) => (entry: Folders.Entry) => matches(selector, entry.record?.metadata ?? {})

export const list = (stateDir: string, selector: Selector) =>
  Folders.entries(stateDir).pipe(
    Effect.mapError(stateError("list", stateDir)),
    Effect.flatMap((found) => verdicts(stateDir, found.filter(isNamed(selector)))),
    Effect.map((found) =>
      found.map(
        ({ entry, verdict }): SandboxInfo => ({
          id: entry.id,
          provider,
          metadata: entry.record?.metadata ?? {},
          createdAt: entry.record?.createdAt ?? entry.changedAt,
          state: verdict.state
        })
      )
    ),
    Stream.fromIterableEffect
  )

/**
 * Confirms in the ledger what a program that is gone left open there, and of which nothing is on the disk. The ledger
 * knows a local sandbox by its folder.
 */
export const confirmGone = (
  stateDir: string,
  ledger: Ledger["Type"],
  answered: ReadonlySet<string>,
  selector: Selector
): Effect.Effect<void, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    for (const { attemptKey, metadata, provider: whose } of yield* ledger.open) {
      const named = whose === provider && attemptKey.startsWith(`${stateDir}/`) && matches(selector, metadata)
      if (named && !answered.has(attemptKey) && !(yield* Effect.orElseSucceed(fs.exists(attemptKey), () => true))) {
        yield* note(ledger.confirmed(attemptKey))
      }
    }
  })

type Swept = { readonly removed: string } | { readonly inUse: string } | { readonly left: SweepReceipt["left"][number] }

export const sweep = (stateDir: string) =>
  Effect.fn("LocalProvider.sweep", { captureStackTrace: false })(function* (selector: Selector) {
    const entries = yield* Effect.mapError(Folders.entries(stateDir), stateError("sweep", stateDir))
    const named = isNamed(selector)
    // What cannot be read may be what the selector names, so no sweep may pass over it in silence.
    const found = yield* verdicts(
      stateDir,
      entries.filter((entry) => entry.unreadable !== undefined || named(entry))
    )
    const swept = yield* Effect.forEach(
      found,
      ({ entry: { id }, verdict }): Effect.Effect<Swept, never, Platform> =>
        verdict.state === "running"
          ? Effect.succeed({ inUse: id })
          : verdict.state === "unknown"
            ? Effect.succeed({ left: { id, reason: verdict.reason } })
            : Effect.map(removal(stateDir, id), (reason) =>
                reason === undefined ? { removed: id } : { left: { id, reason } }
              ),
      { concurrency: 4 }
    )
    const receipt: SweepReceipt = {
      provider,
      removed: swept.flatMap((each) => ("removed" in each ? [each.removed] : [])),
      left: swept.flatMap((each) => ("left" in each ? [each.left] : [])),
      inUse: swept.flatMap((each) => ("inUse" in each ? [each.inUse] : []))
    }
    return receipt
  })
