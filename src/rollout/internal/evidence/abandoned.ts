/** Attempts that were stopped in their middle, and in whose place a later attempt of the same rollout came to its end. */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { fileStem } from "../../Evidence.js"
import * as Journal from "../../Journal.js"
import { readNumberedLines } from "../jsonLines.js"
import type { RowFacts } from "./rows.js"

/** The newest attempt of a rollout that has a row which says how it ended. */
export interface Successor {
  readonly taskId: string
  /** Its rollout's id without the attempt. */
  readonly logicalId: string
  readonly attempt: number
}

/** By rollout key. */
export type Successors = Map<string, Successor>

/** Takes a row into account. One that says that nothing is known of its end succeeds nobody. */
export const succeed = (successors: Successors, row: RowFacts): void => {
  const { _ng_attempt_index: attempt, _ng_rollout_id: id, _ng_rollout_index: rollout, _ng_task_index: task } = row
  if (attempt === undefined || rollout === undefined || task === undefined || row.outcome === "unresolved") return
  const key = `${task}-${rollout}`
  if ((successors.get(key)?.attempt ?? -1) >= attempt) return
  const suffix = attempt === 0 ? "" : `-a${attempt}`
  if (!id.endsWith(suffix)) return
  const logicalId = id.slice(0, id.length - suffix.length)
  successors.set(key, { taskId: row.verifier_metadata.task_id, logicalId, attempt })
}

const decode = Schema.decodeUnknownEither(Journal.Entry)

/** By rollout key, the attempts that the journal says have no known end. One whose row was lost has had an end. */
const unresolved = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<ReadonlyMap<string, ReadonlySet<number>>, PlatformError> =>
  Effect.gen(function* () {
    const found = new Map<string, Set<number>>()
    const ended = new Set<string>()
    if (!(yield* fs.exists(path))) return found
    yield* Stream.runForEach(readNumberedLines(fs, path), ({ value }) =>
      Effect.sync(() => {
        const entry = Option.getOrUndefined(Option.flatMap(value, (json) => Either.getRight(decode(json))))
        if (entry === undefined || entry.state === "dispatched") return
        const { attempt, rollout, state } = entry
        const attempts = found.get(rollout) ?? new Set()
        if (state !== "unresolved") {
          ended.add(`${rollout} ${attempt}`)
          attempts.delete(attempt)
        } else if (!ended.has(`${rollout} ${attempt}`)) {
          found.set(rollout, attempts.add(attempt))
        }
      })
    )
    return found
  })

/**
 * By the name of its files, the attempt that came in the place of each abandoned one. A journal that cannot be read
 * excuses nothing.
 */
export const abandoned = (
  fs: FileSystem.FileSystem,
  journal: string,
  successors: Successors
): Effect.Effect<ReadonlyMap<string, number>> =>
  unresolved(fs, journal).pipe(
    Effect.map((open) => {
      const stems = new Map<string, number>()
      for (const [key, { attempt: later, logicalId, taskId }] of successors) {
        for (const attempt of open.get(key) ?? []) {
          if (attempt >= later) continue
          const rolloutId = attempt === 0 ? logicalId : `${logicalId}-a${attempt}`
          stems.set(fileStem({ taskId, rolloutId }), later)
        }
      }
      return stems
    }),
    Effect.orElseSucceed(() => new Map())
  )
