/**
 * Makes the journal and the rows of a folder say the same. A program that is killed leaves at most a row without its line
 * in the journal; copies, merges and lost files leave the rest.
 */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { CollectError } from "../CollectError.js"
import type { Entry, Journal, Standing } from "../Journal.js"
import { decodeRow, entryOf, keyOf } from "./earlierRows.js"
import { readNumberedLines, withoutLines } from "./jsonLines.js"

/** Where a row is that counts so far. */
interface Place {
  readonly line: number
  readonly attempt: number
  readonly entry: Entry
}

const told = (at: string, what: string) => Effect.logWarning(`${at}: ${what}`)

/** Whether the journal names the attempt whose row this is as the one that counts. */
const isNewest = (standing: Standing | undefined, attempt: number): boolean =>
  standing === undefined || attempt >= standing.last.attempt

/**
 * Each rollout keeps one scored row: that of its newest attempt, the first of them where there are several. The others
 * go to a file beside it.
 */
export const mendRollouts = (
  fs: FileSystem.FileSystem,
  path: string,
  journal: Journal
): Effect.Effect<void, PlatformError | CollectError> =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const kept = new Map<string, Place>()
    const removed = new Set<number>()
    if (yield* fs.exists(path)) {
      yield* Stream.runForEach(readNumberedLines(fs, path), ({ number, value }) =>
        Effect.gen(function* () {
          const row = Option.getOrUndefined(Option.flatMap(value, (json) => Either.getRight(decodeRow(json))))
          if (row === undefined || row.reward === null) {
            return yield* told(`${path}:${number}`, "a line that is no scored row was passed over")
          }
          const key = keyOf(row)
          const attempt = row._ng_attempt_index
          const other = kept.get(key)
          if (!isNewest(journal.standings.get(key), attempt) || (other !== undefined && other.attempt >= attempt)) {
            removed.add(number)
            return yield* told(
              `${path}:${number}`,
              `another row of rollout ${key} than the one that counts was put aside`
            )
          }
          if (other !== undefined) {
            removed.add(other.line)
            yield* told(
              `${path}:${other.line}`,
              `attempt ${other.attempt} of rollout ${key} has a newer one and was put aside`
            )
          }
          const entry = entryOf(row, now)
          kept.set(key, { line: number, attempt, entry })
          // The program was stopped between the row and the journal's line of it.
          yield* journal.append(entry)
        })
      )
    }
    if (removed.size > 0) yield* withoutLines(fs, path, removed, path.replace(/\.jsonl$/, ".superseded.jsonl"))
    for (const [rollout, { last }] of Array.from(journal.standings)) {
      const common = { v: 1, at: now, rollout, attempt: last.attempt, state: "unresolved" } as const
      const row = kept.get(rollout)
      if (last.state === "finished" && row?.attempt !== last.attempt) {
        const instead = row === undefined ? "it runs again" : `that of attempt ${row.attempt} counts`
        yield* told(path, `the row of rollout ${rollout}, attempt ${last.attempt}, is missing; ${instead}`)
        yield* journal.append({ ...common, cause: "its row is missing", rowMissing: true })
        if (row !== undefined) yield* journal.append(row.entry)
      }
    }
  })

/** Failures that the journal does not know are entered; a second row of one attempt is put aside. */
export const mendFailures = (
  fs: FileSystem.FileSystem,
  path: string,
  journal: Journal
): Effect.Effect<void, PlatformError | CollectError> =>
  Effect.gen(function* () {
    if (!(yield* fs.exists(path))) return
    const now = yield* Clock.currentTimeMillis
    const seen = new Set<string>()
    const removed = new Set<number>()
    yield* Stream.runForEach(readNumberedLines(fs, path), ({ number, value }) =>
      Effect.gen(function* () {
        const row = Option.getOrUndefined(Option.flatMap(value, (json) => Either.getRight(decodeRow(json))))
        if (row === undefined || row.reward !== null) {
          return yield* told(`${path}:${number}`, "a line that is no row of a failure was passed over")
        }
        const attempt = `${keyOf(row)} ${row._ng_attempt_index}`
        if (seen.has(attempt)) {
          removed.add(number)
          return yield* told(
            `${path}:${number}`,
            `a second row of attempt ${row._ng_attempt_index} of ${keyOf(row)} was put aside`
          )
        }
        seen.add(attempt)
        yield* journal.append(entryOf(row, now))
      })
    )
    if (removed.size > 0) yield* withoutLines(fs, path, removed, path.replace(/\.jsonl$/, ".superseded.jsonl"))
  })

/** What is still under way in the journal of a program that is gone has no end that anybody knows. */
export const closeDispatched = (journal: Journal): Effect.Effect<number, CollectError> =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const open = Array.from(journal.standings).filter(([, { last }]) => last.state === "dispatched")
    yield* Effect.forEach(
      open,
      ([rollout, { last }]) =>
        journal.append({
          v: 1,
          at: now,
          rollout,
          attempt: last.attempt,
          state: "unresolved",
          cause: "the program was stopped in the middle of it"
        }),
      // All of them in one write.
      { concurrency: "unbounded", discard: true }
    )
    return open.length
  })
