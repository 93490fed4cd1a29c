/** Attempts that a run's journal says were begun and not how they ended. */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Entry } from "../../Metrics.js"
import type { TaskNames } from "./rowFacts.js"
import { rowScanner, type Selection } from "./rowScan.js"

/** As much of a line as is read; lines of other kinds are passed over. */
const Line = Schema.Struct({
  rollout: Schema.String.pipe(Schema.pattern(/^\d+-\d+$/)),
  attempt: Schema.NonNegativeInt,
  state: Schema.Literal("dispatched", "finished", "failed", "unresolved")
})

const decode = Schema.decodeUnknownEither(Line)

const selection: Selection = { values: Object.keys(Line.fields), lengths: [] }

/** The newest attempt of each rollout that has no end. Nothing where there is no journal. */
export const unfinished = (
  fs: FileSystem.FileSystem,
  path: string,
  names: TaskNames
): Effect.Effect<ReadonlyArray<Entry>, PlatformError> =>
  Effect.gen(function* () {
    const scanner = rowScanner(selection)
    const open = new Map<string, typeof Line.Type>()
    const take = (bytes: Uint8Array) => {
      for (const { row } of scanner.feed(bytes)) {
        if (typeof row === "string") continue
        const decoded = decode(Object.fromEntries(row))
        if (Either.isLeft(decoded)) continue
        const line = decoded.right
        const newest = open.get(line.rollout)
        if (newest !== undefined && newest.attempt > line.attempt) continue
        open.set(line.rollout, line)
      }
    }
    yield* Stream.runForEach(fs.stream(path), (bytes) => Effect.sync(() => take(bytes))).pipe(
      Effect.catchAll((error) =>
        error._tag === "SystemError" && error.reason === "NotFound" ? Effect.void : Effect.fail(error)
      )
    )
    return Array.from(open.values())
      .filter(({ state }) => state === "dispatched" || state === "unresolved")
      .map(({ attempt, rollout }) => {
        const [taskIndex = 0, rolloutIndex = 0] = rollout.split("-").map(Number)
        const known = names(taskIndex)
        return {
          taskIndex,
          rolloutIndex,
          taskId: known?.taskId ?? `task number ${taskIndex}`,
          domain: known?.domain ?? "unknown",
          attempt,
          earlier: false,
          result: { _tag: "Unresolved" as const }
        }
      })
  })
