/**
 * How a run's desktops ended, on disk and, if anything is left of them, on the screen.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { Ledger, type LedgerEntry } from "../sandbox/Ledger.js"

const describe = ({ attemptKey, reason, sandboxId }: LedgerEntry): string =>
  `  ${sandboxId ?? `a create of unknown outcome (${attemptKey})`}${reason === undefined ? "" : `: ${reason}`}`

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
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const ledger = yield* Ledger
    const receipt = yield* ledger.receipt(provider)
    yield* fs.writeFileString(path.join(out, "receipt.json"), `${JSON.stringify(receipt, null, 2)}\n`)
    if (receipt.left.length > 0) {
      const left = receipt.left.map(describe).join("\n")
      yield* Console.error(`${provider}: not confirmed gone:\n${left}\nRun: deskhand sweep --provider ${provider}`)
    }
  }).pipe(Effect.catchAll((error) => Console.error(error.message)))
