/**
 * Keeps the tokens of every model call of a rollout until what trains was built from them. What may be missing is said,
 * and stays said.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as ProcessLock from "../artifact/ProcessLock.js"
import type { Refusal } from "./internal/tokens/records.js"
import { type Kept, openRollout, type Rollout, suffixes } from "./internal/tokens/rolloutFiles.js"
import type { TokenEntry } from "./TokenEntry.js"

/**
 * - `unsafe_id`: the rollout's id cannot be a file name
 * - `frozen`, `retired`: nothing can be added any more
 * - `conflict`: the call has other tokens already, or was abandoned
 * - `unreadable`: a kept entry is no entry
 * - `newer`: a kept entry is of a form that this version does not know
 * - `locked`: another process holds the rollout
 * - `disk`: the folder cannot be read or written
 *
 * @since 0.1.0
 * @category models
 */
export const TokenCaptureReason = Schema.Literal(
  "unsafe_id",
  "frozen",
  "retired",
  "conflict",
  "unreadable",
  "newer",
  "locked",
  "disk"
)

/**
 * Tokens could not be kept or read.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenCaptureError extends Schema.TaggedError<TokenCaptureError>("deskhand/TokenCaptureError")(
  "TokenCaptureError",
  {
    reason: TokenCaptureReason,
    operation: Schema.String,
    rolloutId: Schema.String,
    detail: Schema.String
  }
) {
  override get message() {
    return `the tokens of rollout ${this.rolloutId} are not safe (${this.operation}): ${this.detail}. ${remedy(this.reason)}`
  }
}

const remedy = (reason: typeof TokenCaptureReason.Type): string => {
  switch (reason) {
    case "unsafe_id":
      return "Use letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 200"
    case "frozen":
    case "retired":
      return "Make no calls under an id whose rollout has ended; give a new attempt its own"
    case "conflict":
      return "Give every model call an id of its own"
    case "unreadable":
      return "The file was changed by another program; the rollout cannot train"
    case "newer":
      return "Read it with the version of deskhand that wrote it"
    case "locked":
      return "If no process uses it, remove that file"
    case "disk":
      return "Check the folder's permissions and the disk's space"
  }
}

/**
 * What is kept of a rollout at one moment.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenSnapshot {
  readonly rolloutId: string
  /** In the order in which they became durable. */
  readonly entries: ReadonlyArray<TokenEntry>
  /** Whether tokens may be missing. */
  readonly incomplete: boolean
  /** Why, one sentence each. */
  readonly gaps: ReadonlyArray<string>
  /** Grows with every change. */
  readonly version: number
}

/**
 * What is kept of a rollout to which nothing can be added any more.
 *
 * @since 0.1.0
 * @category models
 */
export interface FrozenTokens extends TokenSnapshot {
  readonly snapshotId: string
}

/**
 * Every operation is durable when it returns, cannot be interrupted half-way, and may be asked for by several fibers and
 * processes at a time.
 *
 * @since 0.1.0
 * @category context
 */
export class TokenCapture extends Context.Tag("deskhand/model/TokenCapture")<
  TokenCapture,
  {
    /** Says, before a call is made, that it will be. If this fails, the call must not be made. */
    readonly begin: (rolloutId: string, modelCallId: string) => Effect.Effect<void, TokenCaptureError>
    /**
     * Keeps a call's tokens, before its reply is given on. The same entry again changes nothing; other tokens for the
     * same call, and tokens that come after the freeze, fail and make the rollout incomplete.
     */
    readonly put: (entry: TokenEntry) => Effect.Effect<void, TokenCaptureError>
    /**
     * Says that a call that was begun gave its caller no word of the model's, so that its tokens leave no hole: the
     * server refused it, or the reply was kept back. A reply of which a part was given on is no such call.
     */
    readonly abandon: (rolloutId: string, modelCallId: string, why: string) => Effect.Effect<void, TokenCaptureError>
    /** Says that tokens are missing. It cannot be unsaid. */
    readonly markIncomplete: (rolloutId: string, why: string) => Effect.Effect<void, TokenCaptureError>
    /** What is there now. Calls that are under way are no gap yet. */
    readonly snapshot: (rolloutId: string) => Effect.Effect<TokenSnapshot, TokenCaptureError>
    /**
     * Ends the rollout's capture. A call that was begun and neither put nor abandoned is a gap: somebody may still be
     * writing. Freezing again gives the same, with the gaps that came to light since.
     */
    readonly freeze: (rolloutId: string) => Effect.Effect<FrozenTokens, TokenCaptureError>
    /**
     * Forgets a frozen rollout whose tokens are safe elsewhere, and leaves a mark, so that late writers still fail.
     * False, and nothing happens, unless it is what was read.
     */
    readonly drop: (read: {
      readonly rolloutId: string
      readonly snapshotId: string
      readonly version: number
    }) => Effect.Effect<boolean, TokenCaptureError>
    /** Removes the marks of rollouts dropped that long ago; how many. */
    readonly sweepRetired: (age: Duration.DurationInput) => Effect.Effect<number, TokenCaptureError>
    /** Removes everything of a rollout, whatever its state: before an id is used anew. */
    readonly remove: (rolloutId: string) => Effect.Effect<void, TokenCaptureError>
  }
>() {}

const safeId = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/

/** Whoever holds a lock does so for one write, so this long means that something is wrong. */
const patience = Schedule.spaced("5 millis").pipe(Schedule.upTo("10 seconds"))

/** Rollouts that are remembered between operations; others are read from the disk again. */
const remembered = 1024

/**
 * A store in a folder, made if it is missing: for each rollout `<id>.tokens.jsonl`, and beside it its intents, its gaps
 * and its state.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly directory: string
}): Layer.Layer<TokenCapture, TokenCaptureError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(TokenCapture, make(options))

/**
 * Tokens of rollouts in files below `directory`, which is made where it does not exist.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: {
  readonly directory: string
}): Effect.Effect<TokenCapture["Type"], TokenCaptureError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.resolve(options.directory)
    const failed =
      (operation: string, rolloutId: string) =>
      (cause: PlatformError | Refusal | ProcessLock.LockBusy): TokenCaptureError => {
        const of = (reason: typeof TokenCaptureReason.Type, detail: string) =>
          new TokenCaptureError({ reason, operation, rolloutId, detail })
        switch (cause._tag) {
          case "Refusal":
            return of(cause.reason, cause.detail)
          case "LockBusy": {
            const { holder, path } = cause
            const owner = holder === null ? "is no lock" : `stayed with process ${holder.pid} on ${holder.host}`
            return of("locked", `${path} ${owner}`)
          }
          default:
            return of("disk", cause.message)
        }
      }
    yield* fs
      .makeDirectory(directory, { recursive: true, mode: 0o700 })
      .pipe(
        Effect.zipRight(fs.access(directory, { readable: true, writable: true })),
        Effect.mapError(failed("open", "*"))
      )

    const me = yield* ProcessLock.self

    /** Turns are taken within the store by a semaphore, among stores and processes by the lock. */
    interface Cell {
      readonly rollout: Rollout
      readonly turn: Effect.Semaphore
      users: number
    }
    const cells = new Map<string, Cell>()
    const cellOf = (rolloutId: string): Cell => {
      const found = cells.get(rolloutId) ?? {
        rollout: openRollout(fs, directory, path.join(directory, rolloutId), rolloutId),
        turn: Effect.unsafeMakeSemaphore(1),
        users: 0
      }
      // The last used is the last in the map.
      cells.delete(rolloutId)
      cells.set(rolloutId, found)
      return found
    }
    const leave = (cell: Cell): void => {
      cell.users--
      for (const [id, { rollout, users }] of cells) {
        if (cells.size <= remembered) return
        if (users === 0 && rollout.settled()) cells.delete(id)
      }
    }

    const operation = <A>(
      name: string,
      rolloutId: string,
      use: (rollout: Rollout) => Effect.Effect<A, PlatformError | Refusal>
    ): Effect.Effect<A, TokenCaptureError> =>
      Effect.suspend(() => {
        if (!safeId.test(rolloutId)) {
          return Effect.fail(
            new TokenCaptureError({ reason: "unsafe_id", operation: name, rolloutId, detail: "its id is no file name" })
          )
        }
        const cell = cellOf(rolloutId)
        cell.users++
        return ProcessLock.hold(path.join(directory, `${rolloutId}${suffixes.lock}`), me).pipe(
          Effect.retry({ schedule: patience, while: ({ _tag }) => _tag === "LockBusy" }),
          Effect.provideService(FileSystem.FileSystem, fs),
          Effect.zipRight(Effect.suspend(() => use(cell.rollout))),
          Effect.scoped,
          cell.turn.withPermits(1),
          Effect.mapError(failed(name, rolloutId)),
          Effect.ensuring(Effect.sync(() => leave(cell)))
        )
      }).pipe(Effect.uninterruptible)

    const snapshotOf = (rolloutId: string, kept: Kept): TokenSnapshot => ({
      rolloutId,
      entries: kept.entries,
      incomplete: kept.gaps.length > 0,
      gaps: kept.gaps,
      version: kept.version
    })

    return TokenCapture.of({
      begin: (rolloutId, modelCallId) => operation("begin", rolloutId, (rollout) => rollout.begin(modelCallId)),
      put: (entry) => operation("put", entry.rolloutId, (rollout) => rollout.put(entry)),
      abandon: (rolloutId, modelCallId, why) =>
        operation("abandon", rolloutId, (rollout) => rollout.abandon(modelCallId, why)),
      markIncomplete: (rolloutId, why) => operation("markIncomplete", rolloutId, (rollout) => rollout.gap(why)),
      snapshot: (rolloutId) =>
        operation("snapshot", rolloutId, (rollout) => Effect.map(rollout.read, (kept) => snapshotOf(rolloutId, kept))),
      freeze: (rolloutId) =>
        operation("freeze", rolloutId, (rollout) =>
          Effect.map(rollout.freeze, (kept) => ({ ...snapshotOf(rolloutId, kept), snapshotId: kept.snapshotId }))
        ),
      drop: ({ rolloutId, snapshotId, version }) =>
        operation("drop", rolloutId, (rollout) => rollout.drop(snapshotId, version)),
      remove: (rolloutId) => operation("remove", rolloutId, (rollout) => rollout.remove),
      sweepRetired: (age) =>
        Effect.gen(function* () {
          const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(age)
          const names = yield* Effect.mapError(fs.readDirectory(directory), failed("sweepRetired", "*"))
          const swept = yield* Effect.forEach(
            names
              .flatMap((name) => (name.endsWith(suffixes.state) ? [name.slice(0, -suffixes.state.length)] : []))
              .filter((rolloutId) => safeId.test(rolloutId)),
            (rolloutId) => operation("sweepRetired", rolloutId, (rollout) => rollout.sweep(before))
          )
          return swept.filter(Boolean).length
        })
    })
  })
