/** A run's folder: held, mended, and what is in it. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import type * as Scope from "effect/Scope"
import { CollectError } from "../CollectError.js"
import type { FailedBefore, Finished, ScoredBefore } from "../Collection.js"
import * as Journal from "../Journal.js"
import * as RunLock from "../RunLock.js"
import { repairTail } from "./jsonLines.js"
import { closeDispatched, mendFailures, mendRollouts } from "./mend.js"

const remedy = "Check that the folder is writable and the disk has space, then go on with --resume"

export const failed = (at: string) => (cause: { readonly message: string }) =>
  new CollectError({ path: at, reason: cause.message, remedy })

const earlier = (standings: ReadonlyMap<string, Journal.Standing>): Finished => {
  const scored = new Map<string, ScoredBefore>()
  const attempts = new Map<string, number>()
  const failed = new Map<string, FailedBefore>()
  for (const [key, { failures, last }] of standings) {
    if (last.state === "finished") {
      const { milliseconds, reward, score, steps, termination } = last
      scored.set(key, { reward, score, steps, termination, milliseconds })
      continue
    }
    attempts.set(key, last.attempt + 1)
    if (last.state === "failed") {
      failed.set(key, { class: last.class, kind: last.kind, cause: last.cause, attempt: last.attempt, failures })
    }
  }
  return { scored, attempts, failed }
}

/** Holds the folder until the scope closes, and makes its journal and its rows agree. */
export const openFolder = (
  out: string,
  { failuresPath, rolloutsPath }: { readonly rolloutsPath: string; readonly failuresPath: string },
  resume: boolean
): Effect.Effect<
  { readonly finished: Finished; readonly journal: Journal.Journal },
  CollectError,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const journalPath = path.join(out, "journal.jsonl")
    yield* Effect.mapError(fs.makeDirectory(out, { recursive: true }), failed(out))
    const written = Effect.filter([rolloutsPath, failuresPath, journalPath], (file) =>
      Effect.gen(function* () {
        if (!(yield* fs.exists(file))) return false
        return (yield* fs.stat(file)).size > 0n
      }).pipe(Effect.mapError(failed(file)))
    )
    const refuseTaken = Effect.flatMap(written, ([file]) =>
      resume || file === undefined
        ? Effect.void
        : new CollectError({
            path: file,
            reason: "this folder already holds a run",
            remedy: "Go on with it by --resume, or choose another folder with --out"
          })
    )
    yield* Effect.catchAll(refuseTaken, (refused) =>
      // Of a run that goes on, its process is what has to be told. The lock of one that is gone is no news to whoever is
      // refused anyway.
      Effect.scoped(RunLock.acquire(out)).pipe(
        Logger.withMinimumLogLevel(LogLevel.Error),
        Effect.zipRight(Effect.fail(refused))
      )
    )
    yield* RunLock.acquire(out)
    yield* refuseTaken
    const before = new Set(yield* written)
    for (const file of before) {
      if (file === journalPath) continue
      const cut = yield* Effect.mapError(repairTail(fs, file), failed(file))
      if (cut > 0) yield* Effect.logWarning(`${file}: the last line was torn by a crash; ${cut} bytes were cut off`)
    }
    const journal = yield* Journal.open(journalPath)
    const asError = (at: string) =>
      Effect.mapError((error: CollectError | { readonly _tag: string; readonly message: string }) =>
        error instanceof CollectError ? error : failed(at)(error)
      )
    if (before.size > 0) {
      yield* mendRollouts(fs, rolloutsPath, journal).pipe(asError(rolloutsPath))
      yield* mendFailures(fs, failuresPath, journal).pipe(asError(failuresPath))
    }
    const stopped = yield* closeDispatched(journal)
    if (stopped > 0)
      yield* Effect.logWarning(`${stopped} rollouts were under way when the run was stopped; they run again`)
    return { finished: earlier(journal.standings), journal }
  })
