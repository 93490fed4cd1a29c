/**
 * Runs rollouts, so many at a time, and makes every outcome durable before anybody sees it.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { RolloutIdentity, type RunId } from "../identity/Identity.js"
import type { AgentContract } from "./Contract.js"
import type { RolloutProgram } from "./Episode.js"
import { openJsonLines, readJsonLines, repairTail } from "./internal/jsonLines.js"
import type { RolloutOutcome } from "./Outcome.js"
import * as Progress from "./Progress.js"
import * as Row from "./Row.js"
import { namesItsRollout, type TaskRow } from "./TaskRow.js"

/**
 * The run's own files could not be read or written. The run stops: rows that cannot be kept are not worth making.
 *
 * @since 0.1.0
 * @category errors
 */
export class CollectError extends Schema.TaggedError<CollectError>("deskhand/CollectError")("CollectError", {
  path: Schema.String,
  reason: Schema.String,
  remedy: Schema.String
}) {
  override get message() {
    return `${this.path}: ${this.reason}. ${this.remedy}`
  }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface CollectOptions {
  readonly runId: RunId
  /** Rollouts that run at the same time. */
  readonly concurrency: number
  /** Rollouts of each task; 1 unless given. */
  readonly groupSize?: number
  /** The model's name, for the rows; `none` unless given. */
  readonly model?: string
  /** The agent's contract, for the rows; none unless given. */
  readonly contract?: AgentContract
}

/**
 * What is kept of a row that an earlier run scored.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScoredBefore {
  readonly reward: number
  readonly score: number
  /** How many steps were taken. */
  readonly steps: number
  /** The field's word for the termination. */
  readonly termination: string
  readonly milliseconds: number
}

/**
 * What an earlier run in the same folder left: rollouts that are scored, and how often others were tried.
 *
 * @since 0.1.0
 * @category models
 */
export interface Finished {
  /** By rollout key (`{task}-{rollout}`). */
  readonly scored: ReadonlyMap<string, ScoredBefore>
  readonly attempts: ReadonlyMap<string, number>
}

/**
 * @since 0.1.0
 * @category context
 */
export class RolloutCollector extends Context.Tag("deskhand/rollout/RolloutCollector")<
  RolloutCollector,
  {
    /** What was there when the collector was made; empty unless it resumes. */
    readonly finished: Finished
    /**
     * Runs the program for each row that has no score yet and emits each outcome once it is on disk: scored ones in
     * `rollouts.jsonl`, all others in `failures.jsonl`. Outcomes come as they finish; nothing is kept.
     */
    readonly collect: <E, R>(
      rows: Stream.Stream<TaskRow, E>,
      program: RolloutProgram<R>,
      options: CollectOptions
    ) => Stream.Stream<RolloutOutcome, E | CollectError, R>
  }
>() {}

const indices = { _ng_task_index: Schema.NonNegativeInt, _ng_rollout_index: Schema.NonNegativeInt }

/** As much of a row as `Row.encode` wrote it as a resumed run needs. */
const EarlierRow = Schema.Union(
  Schema.Struct({ ...indices, reward: Schema.Null }),
  Schema.Struct({
    ...indices,
    reward: Schema.Number,
    milliseconds: Schema.Number,
    verifier_metadata: Schema.Struct({
      osworld_score: Schema.Number,
      osworld_steps: Schema.Array(Schema.Unknown),
      osworld_termination_reason: Schema.String
    })
  })
)

const decodeRow = Schema.decodeUnknownEither(EarlierRow)

const scoredBefore = (row: Extract<typeof EarlierRow.Type, { readonly reward: number }>): ScoredBefore => ({
  reward: row.reward,
  score: row.verifier_metadata.osworld_score,
  steps: row.verifier_metadata.osworld_steps.length,
  termination: row.verifier_metadata.osworld_termination_reason,
  milliseconds: row.milliseconds
})

/** A row that names its rollout has one rollout: two of the same name could not be told apart. */
const ownNames = (row: TaskRow, groupSize: number): Effect.Effect<TaskRow, CollectError> =>
  groupSize > 1 && namesItsRollout(row)
    ? new CollectError({
        path: row.source ?? row.taskId,
        reason: `the row of ${row.taskId} names its rollout, so it cannot have ${groupSize} of them`,
        remedy: "Give one row for each rollout, or leave their names to this run"
      })
    : Effect.succeed(row)

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  /** The run's folder, made if it is missing. */
  readonly out: string
  /** Go on with the rows that an earlier run left there; without it, a folder that holds rows is refused. */
  readonly resume?: boolean
}): Layer.Layer<RolloutCollector, CollectError, FileSystem.FileSystem | Path.Path> =>
  Layer.scoped(
    RolloutCollector,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const out = path.resolve(options.out)
      const rolloutsPath = path.join(out, "rollouts.jsonl")
      const failuresPath = path.join(out, "failures.jsonl")
      const failed = (at: string) => (cause: { readonly message: string }) =>
        new CollectError({
          path: at,
          reason: cause.message,
          remedy: "Check that the folder is writable and the disk has space, then go on with --resume"
        })

      yield* Effect.mapError(fs.makeDirectory(out, { recursive: true }), failed(out))
      const scored = new Map<string, ScoredBefore>()
      const attempts = new Map<string, number>()
      for (const file of [rolloutsPath, failuresPath]) {
        if (!(yield* Effect.mapError(fs.exists(file), failed(file)))) continue
        const { size } = yield* Effect.mapError(fs.stat(file), failed(file))
        if (size === 0n) continue
        if (options.resume !== true) {
          return yield* new CollectError({
            path: file,
            reason: "this folder already holds a run",
            remedy: "Go on with it by --resume, or choose another folder with --out"
          })
        }
        const cut = yield* Effect.mapError(repairTail(fs, file), failed(file))
        if (cut > 0) yield* Effect.logWarning(`${file}: the last line was torn by a crash; ${cut} bytes were cut off`)
        yield* Effect.mapError(
          Stream.runForEach(readJsonLines(fs, file), (line) => {
            const row = Option.getOrUndefined(Option.flatMap(line, (json) => Either.getRight(decodeRow(json))))
            if (row === undefined) return Effect.logWarning(`${file}: a line that is no row was passed over`)
            const key = `${row._ng_task_index}-${row._ng_rollout_index}`
            if (row.reward === null) attempts.set(key, (attempts.get(key) ?? 0) + 1)
            else scored.set(key, scoredBefore(row))
            return Effect.void
          }),
          failed(file)
        )
      }
      const rollouts = yield* Effect.mapError(openJsonLines(fs, rolloutsPath), failed(rolloutsPath))
      const failures = yield* Effect.mapError(openJsonLines(fs, failuresPath), failed(failuresPath))

      const keep = (outcome: RolloutOutcome, row: TaskRow, about: Row.About) => {
        const encoded = Row.encode(outcome, row, about)
        return outcome._tag === "Scored"
          ? Effect.mapError(rollouts.append(encoded), failed(rolloutsPath))
          : Effect.mapError(failures.append(encoded), failed(failuresPath))
      }

      return RolloutCollector.of({
        finished: { scored, attempts },
        collect: (rows, program, { concurrency, groupSize = 1, model = "none", contract, runId }) =>
          rows.pipe(
            Stream.mapEffect((row) => ownNames(row, groupSize)),
            Stream.flatMap((row) =>
              Stream.range(0, groupSize - 1).pipe(
                Stream.map((repeat) => {
                  const rolloutIndex = row.rolloutIndex ?? repeat
                  const key = `${row.taskIndex}-${rolloutIndex}`
                  const { rolloutId, taskId, taskIndex, trajectory } = row
                  return {
                    row,
                    identity: new RolloutIdentity({
                      runId,
                      taskId,
                      taskIndex,
                      rolloutIndex,
                      attemptIndex: (row.attemptIndex ?? 0) + (attempts.get(key) ?? 0),
                      ...(rolloutId === undefined ? {} : { callerId: rolloutId }),
                      ...(trajectory === undefined ? {} : { trajectory })
                    })
                  }
                })
              )
            ),
            Stream.filter(({ identity }) => !scored.has(identity.rolloutKey)),
            Stream.mapEffect(
              Effect.fnUntraced(function* ({ row, identity }) {
                yield* Progress.emit(Progress.ProgressEvent.Dispatched({ identity, row }))
                const outcome = yield* program(row, identity)
                yield* keep(outcome, row, { model, ...(contract === undefined ? {} : { contract }) })
                yield* Progress.emit(Progress.ProgressEvent.Finished({ outcome, row }))
                return outcome
              }),
              { concurrency, unordered: true }
            )
          )
      })
    })
  )
