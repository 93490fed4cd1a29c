/**
 * How a run's desktops ended, on disk and, if anything is left of them, on the screen.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { writeWhole } from "../artifact/WholeFile.js"
import { Ledger, type LedgerEntry } from "../sandbox/Ledger.js"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"

const describe = ({ attemptKey, reason, sandboxId }: LedgerEntry): string =>
  `  ${sandboxId ?? `a create of unknown outcome (${attemptKey})`}${reason === undefined ? "" : `: ${reason}`}`

/**
 * Asks the provider about what a process of the run that is gone left open in the ledger. What is still there of it is
 * removed, and what is certainly gone, whoever removed it, is confirmed in the ledger. A provider that does not answer
 * confirms nothing. To be run while the provider is open; it takes no longer than half a minute.
 *
 * @since 0.1.0
 * @category operations
 */
export const settleEarlier = (
  earlier: ReadonlyArray<LedgerEntry>
): Effect.Effect<void, never, Ledger | SandboxProvider> =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const ledger = yield* Ledger
    const keys = new Set(earlier.map(({ attemptKey }) => attemptKey))
    const open = (yield* ledger.open).filter((entry) => entry.provider === provider.name && keys.has(entry.attemptKey))
    // A sweep by the run's name leaves the desktops of all other runs alone.
    const runs = new Set(open.flatMap(({ metadata: { run } }) => (run === undefined ? [] : [run])))
    yield* Effect.forEach(
      runs,
      (run) => Effect.catchAll(provider.sweep({ run }), (error) => Effect.logWarning(error.message)),
      { discard: true }
    )
  }).pipe(
    Effect.timeoutOption("30 seconds"),
    // Also for a run that was interrupted, whose own fiber cannot wait any more.
    Effect.interruptible,
    Effect.forkDaemon,
    Effect.flatMap(Fiber.join),
    Effect.asVoid
  )

/**
 * Writes `receipt.json` from the ledger: sandboxes created, removed, confirmed gone, and what is left. To be run when the
 * provider is closed.
 *
 * @since 0.1.0
 * @category operations
 */
export const write = (
  out: string,
  provider: string
): Effect.Effect<void, never, Ledger | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const ledger = yield* Ledger
    const receipt = yield* ledger.receipt(provider)
    if (receipt.left.length > 0) {
      const left = receipt.left.map(describe).join("\n")
      yield* Console.error(`${provider}: not confirmed gone:\n${left}\nRun: deskhand sweep --provider ${provider}`)
    }
    // Told first: the disk may be full.
    yield* writeWhole(path.join(out, "receipt.json"), `${JSON.stringify(receipt, null, 2)}\n`)
  }).pipe(Effect.catchAll((error) => Console.error(error.message)))
