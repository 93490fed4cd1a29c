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

/** Who answers for what is found in the state folder. */
export const verdict = (entry: Folders.Entry, here: Owner) =>
  Effect.gen(function* () {
    const { record } = entry
    if (record === undefined) {
      return (yield* Folders.isStale(entry)) ? "orphaned" : "running"
    }
    if (entry.abandoned) {
      return "orphaned"
    }
    if (record.expiresAt !== undefined && record.expiresAt + 60_000 < (yield* Clock.currentTimeMillis)) {
      return "orphaned"
    }
    const alive = liveness(record.owner, yield* Proc.stat(record.owner.pid), here)
    return alive === "dead" ? "orphaned" : alive === "alive" ? "running" : "unknown"
  })

/** The entries that a selector names; an entry without a record has no metadata, so only the empty one names it. */
const selected = (stateDir: string, selector: Selector) =>
  Effect.gen(function* () {
    const here = yield* Proc.self
    const found = (yield* Folders.entries(stateDir)).filter((entry) => matches(selector, entry.record?.metadata ?? {}))
    return yield* Effect.forEach(found, (entry) => Effect.map(verdict(entry, here), (state) => ({ entry, state })), {
      concurrency: 16
    })
  })

export const list = (stateDir: string, selector: Selector) =>
  selected(stateDir, selector).pipe(
    Effect.mapError(stateError("list", stateDir)),
    Effect.map((found) =>
      found.map(
        ({ entry, state }): SandboxInfo => ({
          id: entry.id,
          provider,
          metadata: entry.record?.metadata ?? {},
          createdAt: entry.record?.createdAt ?? entry.changedAt,
          state: state === "orphaned" ? "orphaned" : "running"
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
    const found = yield* Effect.mapError(selected(stateDir, selector), stateError("sweep", stateDir))
    const swept = yield* Effect.forEach(
      found,
      ({ entry: { id }, state }): Effect.Effect<Swept, never, Platform> =>
        state === "running"
          ? Effect.succeed({ inUse: id })
          : state === "unknown"
            ? Effect.succeed({
                left: {
                  id,
                  reason: `its owner runs in another container; sweep there, or remove ${stateDir}/${id} when that is gone`
                }
              })
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
