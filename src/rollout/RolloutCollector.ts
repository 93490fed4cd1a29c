/**
 * Runs rollouts, so many at a time, and makes every outcome durable before anybody sees it.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { RolloutIdentity } from "../identity/Identity.js"
import { limitAt, residentRows } from "./Admissions.js"
import { BreakerOptions } from "./CircuitBreaker.js"
import { CollectError } from "./CollectError.js"
import type { CollectOptions, CollectStatus, CollectSummary, Finished } from "./Collection.js"
import { costOf, type DispatchBudget, isUnlimited, type NotStartedReason } from "./DispatchBudget.js"
import type { RolloutProgram } from "./Episode.js"
import * as FailurePolicy from "./FailurePolicy.js"
import * as Breaker from "./internal/breaker.js"
import { concurrently } from "./internal/concurrently.js"
import { makeControl } from "./internal/control.js"
import * as Dispatch from "./internal/dispatch.js"
import { failureKeys } from "./internal/earlierRows.js"
import { failed, openFolder } from "./internal/folder.js"
import * as Gate from "./internal/gate.js"
import { openJsonLines } from "./internal/jsonLines.js"
import { pacer, rampUp } from "./internal/pace.js"
import * as PassedOver from "./internal/passedOver.js"
import * as Tally from "./internal/tally.js"
import type { RolloutOutcome } from "./Outcome.js"
import * as Row from "./Row.js"
import { namesItsRollout, type TaskRow } from "./TaskRow.js"

export {
  /**
   * @since 0.1.0
   * @category errors
   */
  CollectError
} from "./CollectError.js"

export type {
  /**
   * @since 0.1.0
   * @category models
   */
  CollectOptions,
  /**
   * @since 0.1.0
   * @category models
   */
  CollectStatus,
  /**
   * @since 0.1.0
   * @category models
   */
  CollectSummary,
  /**
   * @since 0.1.0
   * @category models
   */
  FailedBefore,
  /**
   * @since 0.1.0
   * @category models
   */
  Finished,
  /**
   * @since 0.1.0
   * @category models
   */
  ScoredBefore
} from "./Collection.js"

// -----------------------------------------------------------------------------
// The service
// -----------------------------------------------------------------------------

/**
 * Runs rollouts and writes their rows, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class RolloutCollector extends Context.Tag("deskhand/rollout/RolloutCollector")<
  RolloutCollector,
  {
    /** What was there when the collector was made; empty unless it resumes. */
    readonly finished: Finished
    /**
     * Runs the program for each rollout that has no score yet and emits what its last attempt came to, once that is on
     * disk: scored ones in `rollouts.jsonl`, every attempt that failed in `failures.jsonl`. Outcomes come as they end;
     * nothing is kept, and rows are read no further ahead than `maxResident`. A rollout that is not started is not emitted;
     * the summary counts it.
     *
     * A rollout is known by its task index and its repeat, in this folder and whatever the run's id. One that is over, of an
     * earlier run or an earlier collection of this collector, is passed over: a line in the log says how many, and whose. A
     * trainer that collects the same tasks once a step gives the rows of each step task indices of their own, and one that
     * goes on in the middle of a step has the outcomes of what was passed over from `TrainingInput.recorded`.
     */
    readonly collect: <E, R>(
      rows: Stream.Stream<TaskRow, E>,
      program: RolloutProgram<R>,
      options: CollectOptions
    ) => Stream.Stream<RolloutOutcome, E | CollectError, R>
    readonly summary: Effect.Effect<CollectSummary>
    /** For whoever watches over a run while it runs. All of it is at once; nothing waits. */
    readonly control: {
      readonly status: Effect.Effect<CollectStatus>
      /** Starts nothing new until `resume`. */
      readonly pause: Effect.Effect<void>
      readonly resume: Effect.Effect<void>
      /** From now on so many run; those that are too many come to their end. */
      readonly concurrency: (places: number) => Effect.Effect<void>
      /** Starts nothing new any more: the stream ends when what runs does. */
      readonly drain: Effect.Effect<void>
      /**
       * Stops one attempt, by its id; `false` where none of this id is under way. Its outcome is a failure whose
       * fault is `cancelled`: this run does not try the rollout again, and another only if its policy says so.
       */
      readonly cancel: (rolloutId: string) => Effect.Effect<boolean>
    }
  }
>() {}

/**
 * Holds the run's folder for as long as it is there: no other collector of any process writes in it.
 *
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

      const { finished, journal } = yield* openFolder(out, { rolloutsPath, failuresPath }, options.resume === true)
      const rollouts = yield* Effect.mapError(openJsonLines(fs, rolloutsPath), failed(rolloutsPath))
      const failures = yield* Effect.mapError(openJsonLines(fs, failuresPath), failed(failuresPath))

      const durations = new Tally.Durations()
      const all = Tally.counts()
      const { control, enter } = makeControl()
      let prices: DispatchBudget | undefined

      return RolloutCollector.of({
        finished,
        collect: (rows, program, collect) =>
          Stream.unwrapScoped(
            Effect.gen(function* () {
              const { admission, budget, concurrency, groupSize = 1, model = "none", contract, runId } = collect
              yield* wholeNumber(out, "the number of rollouts at a time", concurrency)
              yield* wholeNumber(out, "the number of rollouts of each task", groupSize)
              const about: Row.About = { model, ...(contract === undefined ? {} : { contract }) }
              const policy = collect.failures ?? FailurePolicy.standard
              prices = budget ?? prices
              const tally: Tally.Tally = { own: Tally.counts(), collector: all, durations }

              const began = yield* Breaker.monotonic
              const running = Gate.make<NotStartedReason>(limitAt(concurrency, admission?.rampUp, 0))
              const creating = Gate.make<NotStartedReason>(admission?.creates ?? Number.POSITIVE_INFINITY)
              const attempts = new Map<string, Effect.Effect<boolean>>()
              const { close, isOver, rollout } = Dispatch.make({
                program,
                journal,
                keep: (outcome, row, failure) => {
                  const encoded = Row.encode(outcome, row, about)
                  return outcome._tag === "Scored"
                    ? Effect.mapError(rollouts.append(encoded), failed(rolloutsPath))
                    : Effect.mapError(
                        failures.append({ ...encoded, ...(failure === undefined ? {} : failureKeys(...failure)) }),
                        failed(failuresPath)
                      )
                },
                policy,
                budget: budget === undefined || isUnlimited(budget) ? undefined : budget,
                breaker:
                  collect.breaker === "off" ? Breaker.off : Breaker.make(collect.breaker ?? new BreakerOptions({})),
                running,
                creating,
                pace: pacer(admission?.createsPerSecond),
                closing: yield* Deferred.make<NotStartedReason>(),
                tally,
                began,
                attempts
              })
              yield* enter({ running, attempts, close })
              yield* Effect.addFinalizer(() => tellNotStarted(tally.own))
              yield* Effect.forkScoped(rampUp(running, concurrency, admission, began))

              const passed = PassedOver.make()
              yield* Effect.addFinalizer(() => PassedOver.tell(passed))
              const seen = new Set<string>()
              const isNew = (logical: Dispatch.Logical): Effect.Effect<boolean, CollectError> => {
                const { rolloutId, rolloutKey } = logical.first
                if (seen.has(rolloutKey) || seen.has(rolloutId)) {
                  Tally.count(tally, "duplicates")
                  const at = logical.row.source ?? logical.row.taskId
                  return Effect.as(
                    Effect.logWarning(`${at}: another row is for rollout ${rolloutId}; passed over`),
                    false
                  )
                }
                seen.add(rolloutKey)
                seen.add(rolloutId)
                return Effect.map(isOver(logical), (over) => {
                  if (over) {
                    Tally.count(tally, "earlier")
                    const standing = journal.standings.get(rolloutKey)
                    if (standing !== undefined) PassedOver.add(passed, runId, finished, rolloutKey, standing)
                  }
                  return !over
                })
              }

              const logical = (row: TaskRow, repeat: number): Dispatch.Logical => {
                const { groupId, rolloutId, taskId, taskIndex, trajectory } = row
                // A row and a run's id have been checked, and a repeat is a number.
                const first = new RolloutIdentity(
                  {
                    runId,
                    taskId,
                    taskIndex,
                    rolloutIndex: row.rolloutIndex ?? repeat,
                    attemptIndex: 0,
                    ...(rolloutId === undefined ? {} : { callerId: rolloutId }),
                    ...(groupId === undefined ? {} : { groupId }),
                    ...(trajectory === undefined ? {} : { trajectory })
                  },
                  true
                )
                return { row, first, weight: collect.longestFirst?.(row) ?? 0 }
              }
              const toRun = (row: TaskRow) =>
                Effect.flatMap(ownNames(row, groupSize), (row) =>
                  Effect.filter(
                    Array.from({ length: groupSize }, (_, repeat) => logical(row, repeat)),
                    isNew
                  )
                )
              const maxResident = Math.max(concurrency, admission?.maxResident ?? residentRows(concurrency))
              return rows.pipe(concurrently(toRun, rollout, maxResident))
            })
          ),
        summary: Effect.sync(() => ({
          ...all,
          notStarted: new Map(all.notStarted),
          latency: durations.latency,
          cost: prices === undefined ? 0 : costOf(prices, all)
        })),
        control
      })
    })
  )

const wholeNumber = (out: string, what: string, value: number): Effect.Effect<void, CollectError> =>
  Number.isInteger(value) && value > 0
    ? Effect.void
    : new CollectError({ path: out, reason: `${what} is ${value}`, remedy: "It has to be a whole number above 0" })

/** A row that names its rollout has one rollout: two of the same name could not be told apart. */
const ownNames = (row: TaskRow, groupSize: number): Effect.Effect<TaskRow, CollectError> =>
  groupSize > 1 && namesItsRollout(row)
    ? new CollectError({
        path: row.source ?? row.taskId,
        reason: `the row of ${row.taskId} names its rollout, so it cannot have ${groupSize} of them`,
        remedy: "Give one row for each rollout, or leave their names to this run"
      })
    : Effect.succeed(row)

/** Rows that were not started are no failures, and are not silent either. */
const tellNotStarted = ({ notStarted }: Tally.Counts): Effect.Effect<void> =>
  notStarted.size === 0
    ? Effect.void
    : Effect.logWarning(
        `not started: ${Array.from(notStarted, ([reason, rollouts]) => `${rollouts} (${reason})`).join(", ")}; go on with --resume`
      )
