/**
 * The files of one rollout's tokens. Every function here wants the rollout's lock held.
 */
import { randomUUID } from "node:crypto"
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TokenEntry } from "../../TokenEntry.js"
import {
  appendLine,
  type Cursor,
  readLines,
  readTail,
  replaceFile,
  start,
  syncDirectory,
  unlessMissing
} from "./journal.js"
import {
  digestOf,
  encodeEntry,
  Gap,
  Intent,
  type Refusal,
  readEntry,
  refuse,
  type State,
  StateText,
  unreadable
} from "./records.js"

export const suffixes = {
  entries: ".tokens.jsonl",
  intents: ".tokens.intents",
  incomplete: ".tokens.incomplete",
  state: ".tokens.state.json",
  lock: ".tokens.lock"
} as const

/** What is kept of a rollout at one moment. */
export interface Kept {
  readonly entries: ReadonlyArray<TokenEntry>
  readonly gaps: ReadonlyArray<string>
  readonly version: number
}

/** Every operation wants the rollout's lock held. */
export interface Rollout {
  /** Whether all that is known is on the disk, so that this object may be forgotten. */
  readonly settled: () => boolean
  readonly begin: (callId: string) => Effect.Effect<void, PlatformError | Refusal>
  readonly put: (entry: TokenEntry) => Effect.Effect<void, PlatformError | Refusal>
  readonly abandon: (callId: string, why: string) => Effect.Effect<void, PlatformError | Refusal>
  readonly gap: (why: string) => Effect.Effect<void, PlatformError | Refusal>
  readonly read: Effect.Effect<Kept, PlatformError | Refusal>
  readonly freeze: Effect.Effect<Kept & { readonly snapshotId: string }, PlatformError | Refusal>
  readonly drop: (snapshotId: string, version: number) => Effect.Effect<boolean, PlatformError | Refusal>
  readonly remove: Effect.Effect<void, PlatformError>
  /** Removes the mark of a rollout that was dropped at `before` (milliseconds since 1970) or earlier. */
  readonly sweep: (before: number) => Effect.Effect<boolean, PlatformError | Refusal>
}

/** `stem` is the path of the rollout's files without their endings. */
export const openRollout = (fs: FileSystem.FileSystem, directory: string, stem: string, rolloutId: string): Rollout => {
  const paths = {
    entries: `${stem}${suffixes.entries}`,
    intents: `${stem}${suffixes.intents}`,
    incomplete: `${stem}${suffixes.incomplete}`,
    state: `${stem}${suffixes.state}`
  }
  /** By call: what stands for its line. */
  const digests = new Map<string, string>()
  const intents = new Map<string, "begun" | "abandoned">()
  const gaps: Array<string> = []
  /** Gaps that could not be written down yet. */
  const unwritten: Array<string> = []
  let cursors: Readonly<Record<"entries" | "intents" | "incomplete", Cursor>> = {
    entries: start,
    intents: start,
    incomplete: start
  }
  let changes = 0

  const forget = () => {
    digests.clear()
    intents.clear()
    gaps.length = 0
    cursors = { entries: start, intents: start, incomplete: start }
    changes = 0
  }

  /** Adds a line and knows it: `refresh` need not read it again. */
  const append = (kind: keyof typeof cursors, line: string, know: () => void): Effect.Effect<void, PlatformError> =>
    Effect.map(appendLine(fs, directory, paths[kind], line), (cursor) => {
      cursors = { ...cursors, [kind]: cursor }
      changes++
      know()
    })

  const state: Effect.Effect<State | undefined, PlatformError | Refusal> = Effect.gen(function* () {
    const text = yield* unlessMissing(fs.readFileString(paths.state))
    return text === undefined
      ? undefined
      : yield* Effect.mapError(Schema.decode(StateText)(text), unreadable(paths.state))
  })

  const writeState = (next: Omit<State, "rollout_id" | "changed_at">) =>
    Effect.flatMap(Clock.currentTimeMillis, (changed_at) =>
      replaceFile(fs, directory, paths.state, JSON.stringify({ rollout_id: rolloutId, ...next, changed_at }))
    )

  /** Takes in what came to the files since: after a start all of it, otherwise what other processes wrote. */
  const refresh: Effect.Effect<void, PlatformError | Refusal> = Effect.gen(function* () {
    const read = yield* Effect.all(
      {
        entries: readTail(fs, paths.entries, cursors.entries),
        intents: readTail(fs, paths.intents, cursors.intents),
        incomplete: readTail(fs, paths.incomplete, cursors.incomplete)
      },
      { concurrency: "unbounded" }
    )
    if (read.entries.fresh || read.intents.fresh || read.incomplete.fresh) {
      // Somebody removed the rollout and its id is in use again.
      forget()
      return yield* refresh
    }
    for (const line of read.entries.lines) {
      digests.set((yield* readEntry(paths.entries, line)).modelCallId, digestOf(line))
    }
    for (const line of read.intents.lines) {
      const intent = yield* Effect.mapError(Schema.decode(Intent)(line), unreadable(paths.intents))
      if ("begun" in intent) intents.set(intent.begun, "begun")
      else intents.set(intent.abandoned, "abandoned")
    }
    for (const line of read.incomplete.lines) {
      gaps.push((yield* Effect.mapError(Schema.decode(Gap)(line), unreadable(paths.incomplete))).why)
    }
    cursors = {
      entries: read.entries.cursor,
      intents: read.intents.cursor,
      incomplete: read.incomplete.cursor
    }
    changes += read.entries.lines.length + read.intents.lines.length + read.incomplete.lines.length
    if (read.entries.torn > 0) {
      const why = `the end of an entry was lost: ${read.entries.torn} bytes without a line's end were cut off ${paths.entries}`
      yield* Effect.logWarning(why)
      yield* writeGap(why)
    }
    if (read.intents.torn > 0) {
      // What it announced was not begun.
      yield* Effect.logWarning(`${read.intents.torn} bytes without a line's end were cut off ${paths.intents}`)
    }
  })

  /** Puts a gap down. Where that fails it is remembered, and written with the next. */
  const writeGap = (why: string): Effect.Effect<void, PlatformError | Refusal> =>
    Effect.suspend(() => {
      if (!gaps.includes(why) && !unwritten.includes(why)) unwritten.push(why)
      return flush
    })

  const flush: Effect.Effect<void, PlatformError | Refusal> = Effect.suspend(() => {
    const [why] = unwritten
    return why === undefined
      ? Effect.void
      : Clock.currentTimeMillis.pipe(
          Effect.flatMap((at) =>
            append("incomplete", JSON.stringify({ why, at }), () => {
              unwritten.shift()
              gaps.push(why)
            })
          ),
          Effect.zipRight(Effect.suspend(() => flush))
        )
  })

  const current = Effect.zipRight(refresh, state, { concurrent: true })

  /** Fails unless the rollout can still grow. What comes too late is a gap in what was frozen. */
  const growing = (late: string | undefined): Effect.Effect<void, PlatformError | Refusal> =>
    Effect.gen(function* () {
      const found = yield* current
      if (found?.retired === true) return yield* refuse("retired", "it was built and dropped already")
      if (found?.frozen === true) {
        if (late !== undefined) yield* writeGap(late)
        return yield* refuse("frozen", "it was frozen already")
      }
    })

  const contradiction = (why: string) => Effect.zipRight(writeGap(why), refuse("conflict", why))

  const read: Rollout["read"] = Effect.gen(function* () {
    yield* refresh
    yield* flush
    const entries = yield* Effect.forEach(yield* readLines(fs, paths.entries), (line) => readEntry(paths.entries, line))
    return { entries, gaps: [...gaps], version: changes }
  })

  const removeAll = (kinds: ReadonlyArray<keyof typeof paths>) =>
    Effect.forEach(
      kinds.map((kind) => paths[kind]).concat(`${paths.state}.partial`),
      (path) => fs.remove(path, { force: true }),
      { discard: true }
    )

  return {
    settled: () => unwritten.length === 0,
    begin: (callId) =>
      Effect.gen(function* () {
        yield* growing(undefined)
        if (intents.get(callId) === "begun" && !digests.has(callId)) return
        if (intents.has(callId) || digests.has(callId)) {
          return yield* refuse("conflict", `call ${callId} was made before`)
        }
        const at = yield* Clock.currentTimeMillis
        yield* append("intents", JSON.stringify({ begun: callId, at }), () => intents.set(callId, "begun"))
      }),
    put: (entry) =>
      Effect.gen(function* () {
        const callId = entry.modelCallId
        const line = yield* Effect.mapError(encodeEntry(entry), unreadable(`the entry of call ${callId}`))
        yield* growing(`call ${callId} ended after the freeze`)
        const before = digests.get(callId)
        const digest = digestOf(line)
        if (before === digest) return
        if (before !== undefined) return yield* contradiction(`call ${callId} has other tokens already`)
        if (intents.get(callId) === "abandoned") {
          return yield* contradiction(`call ${callId} was said to have given nothing, and has tokens`)
        }
        yield* append("entries", line, () => digests.set(callId, digest))
      }),
    abandon: (callId, why) =>
      Effect.gen(function* () {
        yield* growing(undefined)
        if (intents.get(callId) === "abandoned") return
        if (digests.has(callId)) {
          return yield* contradiction(`call ${callId} has tokens, and was said to have given nothing`)
        }
        const at = yield* Clock.currentTimeMillis
        yield* append("intents", JSON.stringify({ abandoned: callId, why, at }), () => intents.set(callId, "abandoned"))
      }),
    gap: (why) =>
      Effect.gen(function* () {
        // Remembered first: if the disk is full it still holds in this process.
        if (!gaps.includes(why) && !unwritten.includes(why)) unwritten.push(why)
        const found = yield* current
        if (found?.retired === true) {
          unwritten.length = 0
          return yield* refuse("retired", "it was built and dropped already")
        }
        yield* flush
      }),
    read: Effect.gen(function* () {
      if ((yield* state)?.retired === true) return yield* refuse("retired", "it was built and dropped already")
      return yield* read
    }),
    freeze: Effect.gen(function* () {
      const found = yield* current
      if (found?.retired === true) return yield* refuse("retired", "it was built and dropped already")
      if (found?.frozen !== true) {
        for (const [callId, intent] of intents) {
          if (intent === "begun" && !digests.has(callId)) {
            yield* writeGap(`call ${callId} was begun, and what it gave is not known`)
          }
        }
      }
      const kept = yield* read
      const snapshotId = found?.snapshot_id ?? randomUUID()
      if (found?.frozen !== true || found.version !== kept.version) {
        yield* writeState({
          snapshot_id: snapshotId,
          frozen: true,
          retired: false,
          version: kept.version,
          incomplete: kept.gaps.length > 0
        })
      }
      return { ...kept, snapshotId }
    }),
    drop: (snapshotId, version) =>
      Effect.gen(function* () {
        const found = yield* current
        if (found?.frozen !== true || found.snapshot_id !== snapshotId) return false
        if (found.retired) return found.version === version
        if (changes !== version || unwritten.length > 0) return false
        // The mark comes first: who opens the files while they go finds it.
        yield* writeState({ ...pick(found), retired: true })
        yield* removeAll(["entries", "intents", "incomplete"])
        yield* syncDirectory(fs, directory)
        forget()
        return true
      }),
    remove: Effect.gen(function* () {
      yield* removeAll(["entries", "intents", "incomplete", "state"])
      yield* syncDirectory(fs, directory)
      forget()
      unwritten.length = 0
    }),
    sweep: (before) =>
      Effect.gen(function* () {
        const found = yield* state
        if (found?.retired !== true || found.changed_at > before) return false
        yield* removeAll(["entries", "intents", "incomplete", "state"])
        forget()
        return true
      })
  }
}

const pick = ({ frozen, incomplete, snapshot_id, version }: State) => ({ frozen, incomplete, snapshot_id, version })
