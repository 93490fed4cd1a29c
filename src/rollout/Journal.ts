/**
 * What was begun and what came of it: the intent is on disk before a rollout is dispatched, its end before it counts.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { CollectError } from "./CollectError.js"
import { count, FailureClass, type Tally } from "./FailurePolicy.js"
import { openJsonLines, readNumberedLines, repairTail } from "./internal/jsonLines.js"

// -----------------------------------------------------------------------------
// Entries
// -----------------------------------------------------------------------------

const common = {
  v: Schema.Literal(1),
  /** Milliseconds since 1970, by the clock of the machine that wrote it: for a reader; nothing is decided by it. */
  at: Schema.Finite,
  /** Which rollout, whatever the attempt: `{task}-{rollout}`. */
  rollout: Schema.String,
  attempt: Schema.NonNegativeInt,
  /** The run that it is of; absent where it was entered from a row. */
  run: Schema.optionalWith(Schema.String, { exact: true })
}

/**
 * The attempt is about to begin.
 *
 * @since 0.1.0
 * @category models
 */
export const Dispatched = Schema.Struct({ ...common, state: Schema.Literal("dispatched"), task: Schema.String })

/**
 * The attempt was scored; its row is in `rollouts.jsonl`.
 *
 * @since 0.1.0
 * @category models
 */
export const Finished = Schema.Struct({
  ...common,
  state: Schema.Literal("finished"),
  reward: Schema.Finite,
  score: Schema.Finite,
  /** How many were taken. */
  steps: Schema.NonNegativeInt,
  /** The field's word for it. */
  termination: Schema.String,
  milliseconds: Schema.Finite
})

/**
 * The attempt gave nothing that may be used; its row is in `failures.jsonl`.
 *
 * @since 0.1.0
 * @category models
 */
export const Failed = Schema.Struct({
  ...common,
  state: Schema.Literal("failed"),
  class: FailureClass,
  kind: Schema.String,
  cause: Schema.String,
  /** What was decided at the time; a resumed run decides by its own policy. */
  disposition: Schema.Literal("retryable", "terminal")
})

/**
 * The attempt was begun and nothing is known of its end.
 *
 * @since 0.1.0
 * @category models
 */
export const Unresolved = Schema.Struct({
  ...common,
  state: Schema.Literal("unresolved"),
  cause: Schema.String,
  /** The run was told to stop: this says nothing of the rollout, and is not counted. */
  stopped: Schema.optionalWith(Schema.Boolean, { exact: true }),
  /** The journal says that it finished, and the row is gone: only this takes a finished attempt back. */
  rowMissing: Schema.optionalWith(Schema.Boolean, { exact: true })
})

/**
 * One line of the journal.
 *
 * @since 0.1.0
 * @category models
 */
export const Entry = Schema.Union(Dispatched, Finished, Failed, Unresolved)

/**
 * @since 0.1.0
 * @category models
 */
export type Entry = typeof Entry.Type

// -----------------------------------------------------------------------------
// State
// -----------------------------------------------------------------------------

/**
 * Where a rollout stands: what its newest attempt came to, and how often it failed in all; attempts without a known end
 * among them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Standing {
  readonly last: Entry
  readonly failures: Tally
}

/**
 * Whether an entry says something new of a rollout that stands so. What an older attempt came to is no news any more,
 * and a finished rollout stays finished, unless its row is gone.
 *
 * @since 0.1.0
 * @category decisions
 */
export const accepts = (before: Standing | undefined, entry: Entry): boolean => {
  if (before === undefined) return true
  const { last } = before
  if (entry.state === "unresolved" && entry.rowMissing === true) {
    return last.state === "finished" && entry.attempt === last.attempt
  }
  if (last.state === "finished") return false
  if (entry.attempt !== last.attempt) return entry.attempt > last.attempt
  switch (last.state) {
    case "dispatched":
      return entry.state !== "dispatched"
    case "unresolved":
      // Its row has turned up.
      return entry.state === "finished" || entry.state === "failed"
    case "failed":
      return false
  }
}

/**
 * Where a rollout stands after an entry that is accepted.
 *
 * @since 0.1.0
 * @category decisions
 */
export const next = (before: Standing | undefined, entry: Entry): Standing => {
  const failures = before?.failures ?? {}
  // What is said later of an attempt without a known end takes its place.
  const others = before !== undefined && isCounted(before.last) && entry.attempt === before.last.attempt
  const counted = others ? { ...failures, unresolved: (failures.unresolved ?? 1) - 1 } : failures
  if (entry.state === "failed") return { last: entry, failures: count(counted, entry) }
  return { last: entry, failures: isCounted(entry) ? count(counted, { class: "unresolved" }) : counted }
}

/** Whether an entry counts as an attempt that has no known end. */
const isCounted = (entry: Entry): boolean =>
  entry.state === "unresolved" && entry.stopped !== true && entry.rowMissing !== true

// -----------------------------------------------------------------------------
// The file
// -----------------------------------------------------------------------------

/**
 * A journal that is open.
 *
 * @since 0.1.0
 * @category models
 */
export interface Journal {
  /** By rollout; what is on disk or on its way there. */
  readonly standings: ReadonlyMap<string, Standing>
  /** On disk when it returns `true`; nothing is written and it is `false` where the entry is not accepted. */
  readonly append: (entry: Entry) => Effect.Effect<boolean, CollectError>
}

const decode = Schema.decodeUnknownEither(Entry)

const standingsOf = (fs: FileSystem.FileSystem, path: string): Effect.Effect<Map<string, Standing>, PlatformError> =>
  Effect.gen(function* () {
    const standings = new Map<string, Standing>()
    if (!(yield* fs.exists(path))) return standings
    yield* Stream.runForEach(readNumberedLines(fs, path), ({ number, value }) => {
      const entry = Option.getOrUndefined(Option.flatMap(value, (json) => Either.getRight(decode(json))))
      if (entry === undefined) return Effect.logWarning(`${path}:${number}: no entry of a journal; passed over`)
      const before = standings.get(entry.rollout)
      if (accepts(before, entry)) standings.set(entry.rollout, next(before, entry))
      return Effect.void
    })
    return standings
  })

/**
 * Where the rollouts of a run stand, by its journal, which is left as it is. None where there is no journal.
 *
 * @since 0.1.0
 * @category operations
 */
export const read = (path: string): Effect.Effect<ReadonlyMap<string, Standing>, CollectError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.mapError(
      standingsOf(fs, path),
      ({ message }) => new CollectError({ path, reason: message, remedy: "Check that the file may be read" })
    )
  )

/**
 * Opens a journal, or makes it. A torn end is cut off, lines that are no entries are passed over; both are told.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open = (path: string): Effect.Effect<Journal, CollectError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const failed = (cause: { readonly message: string }) =>
      new CollectError({
        path,
        reason: cause.message,
        remedy: "Check that the folder is writable and the disk has space, then go on with --resume"
      })
    const cut = yield* Effect.mapError(repairTail(fs, path), failed)
    if (cut > 0) yield* Effect.logWarning(`${path}: the last line was torn by a crash; ${cut} bytes were cut off`)
    const standings = yield* Effect.mapError(standingsOf(fs, path), failed)
    const lines = yield* Effect.mapError(openJsonLines(fs, path), failed)
    return {
      standings,
      append: (entry) =>
        Effect.suspend(() => {
          const before = standings.get(entry.rollout)
          if (!accepts(before, entry)) return Effect.succeed(false)
          standings.set(entry.rollout, next(before, entry))
          return Effect.as(Effect.mapError(lines.append(entry), failed), true)
        })
    }
  })
