/** One rollout of a collection: its waits, its attempts, and what is kept of them. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RolloutIdentity } from "../../identity/Identity.js"
import { Admissions } from "../Admissions.js"
import { kindOf } from "../CircuitBreaker.js"
import type { CollectError } from "../CollectError.js"
import { type DispatchBudget, type NotStartedReason, refuses } from "../DispatchBudget.js"
import type { RolloutProgram } from "../Episode.js"
import * as FailurePolicy from "../FailurePolicy.js"
import type { Entry, Journal } from "../Journal.js"
import { Failed, type RolloutOutcome, Unresolved } from "../Outcome.js"
import * as Progress from "../Progress.js"
import type { TaskRow } from "../TaskRow.js"
import { reason } from "../Termination.js"
import { monotonic, type SharedBreaker } from "./breaker.js"
import { attemptOf } from "./earlierRows.js"
import { firstOf } from "./firstOf.js"
import type { Gate } from "./gate.js"
import * as Tally from "./tally.js"

/** What the rollouts of a collection share. */
export interface Shared<R> {
  readonly program: RolloutProgram<R>
  readonly journal: Journal
  /** Puts the row of an outcome on disk. */
  readonly keep: (
    outcome: RolloutOutcome,
    row: TaskRow,
    failure: readonly [FailurePolicy.Failure, "retryable" | "terminal"] | undefined
  ) => Effect.Effect<void, CollectError>
  readonly policy: FailurePolicy.FailurePolicy
  readonly budget: DispatchBudget | undefined
  readonly breaker: SharedBreaker
  readonly running: Gate<NotStartedReason>
  readonly creating: Gate<NotStartedReason>
  /** Waits for the moment at which the next environment may begin to open. */
  readonly pace: Effect.Effect<void> | undefined
  /** Is done when nothing more is to be started, with why. */
  readonly closing: Deferred.Deferred<NotStartedReason>
  readonly tally: Tally.Tally
  /** When the collection began, by `monotonic`. */
  readonly began: number
  /** By rollout id, what stops an attempt that is under way; false where it has ended just before. */
  readonly attempts: Map<string, Effect.Effect<boolean>>
}

/** One rollout, whatever the attempt. */
export interface Logical {
  readonly row: TaskRow
  /** Of its attempt 0. */
  readonly first: RolloutIdentity
  readonly weight: number
}

interface NotStarted {
  readonly _tag: "NotStarted"
  readonly reason: NotStartedReason
}

interface Ended {
  readonly _tag: "Ended"
  readonly outcome: RolloutOutcome
  readonly failure: FailurePolicy.Failure | undefined
}

const notStarted = (reason: NotStartedReason): NotStarted => ({ _tag: "NotStarted", reason })

/** The attempt that comes next, given what the journal knows. */
export const nextAttempt = (journal: Journal, row: TaskRow, key: string): number => {
  const standing = journal.standings.get(key)
  return Math.max(row.attemptIndex ?? 0, standing === undefined ? 0 : standing.last.attempt + 1)
}

const entryOf = (
  outcome: RolloutOutcome,
  failure: FailurePolicy.Failure | undefined,
  disposition: "retryable" | "terminal",
  at: number
): Entry => {
  const common = { v: 1, at, ...attemptOf(outcome.identity) } as const
  if (outcome._tag === "Scored") {
    const { evaluation, milliseconds, reward, steps, termination } = outcome
    const facts = {
      reward,
      score: evaluation.score,
      steps: steps.length,
      termination: reason(termination),
      milliseconds
    }
    return { ...common, state: "finished", ...facts }
  }
  return failure === undefined
    ? { ...common, state: "unresolved", cause: "it was called off" }
    : { ...common, state: "failed", ...failure, disposition }
}

export const make = <R>(shared: Shared<R>) => {
  const { attempts, breaker, budget, closing, creating, journal, policy, running, tally } = shared

  /** Nothing more starts in this collection. */
  const close = (reason: NotStartedReason) =>
    Effect.zipRight(
      Effect.sync(() => {
        running.close(reason)
        creating.close(reason)
      }),
      Deferred.succeed(closing, reason)
    )

  const unlessClosing = <A>(wait: Effect.Effect<A>): Effect.Effect<A | NotStarted> =>
    Effect.raceFirst(wait, Effect.map(Deferred.await(closing), notStarted))

  /** Begins an attempt that has all its permits, and ends it. Interrupted, it leaves word in the journal. */
  const begun = (
    logical: Logical,
    probe: boolean,
    opened: Effect.Effect<void>
  ): Effect.Effect<Ended, CollectError, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const { row } = logical
        const attemptIndex = nextAttempt(journal, row, logical.first.rolloutKey)
        // All but the number has been checked, and that is one.
        const identity = new RolloutIdentity({ ...logical.first, attemptIndex }, true)
        const entry = Effect.map(Clock.currentTimeMillis, (at) => ({ v: 1, at, ...attemptOf(identity) }) as const)
        yield* journal.append({ ...(yield* entry), state: "dispatched", task: identity.taskId })
        const started = yield* monotonic
        const ends = yield* Deferred.make<RolloutOutcome>()
        attempts.set(identity.rolloutId, Deferred.succeed(ends, new Unresolved({ identity })))
        yield* Progress.emit(Progress.ProgressEvent.Dispatched({ identity, row }))
        const attempted = shared.program(row, identity).pipe(
          Effect.provideService(Admissions, {
            opening: (open) => Effect.ensuring(open, opened),
            spent: (usage) => Effect.sync(() => Tally.spent(tally, usage))
          }),
          Effect.catchAllDefect((defect) =>
            Effect.map(
              monotonic,
              (now) =>
                new Failed({
                  identity,
                  fault: "defect",
                  detail: Cause.pretty(Cause.die(defect)),
                  milliseconds: Math.max(0, now - started)
                })
            )
          )
        )
        const outcome = yield* restore(firstOf([attempted], ends)).pipe(
          Effect.onInterrupt(() =>
            entry.pipe(
              Effect.flatMap((entry) =>
                journal.append({ ...entry, state: "unresolved", cause: "the run was stopped in the middle of it" })
              ),
              Effect.catchAll((error) => Effect.logError(error.message)),
              Effect.zipRight(probe ? breaker.probeLost : Effect.void)
            )
          ),
          Effect.ensuring(Effect.sync(() => attempts.delete(identity.rolloutId)))
        )
        const ended = yield* monotonic
        if (outcome._tag !== "Unresolved") tally.durations.add(ended - started)
        const failure =
          outcome._tag === "Masked" || outcome._tag === "Failed" ? FailurePolicy.classify(outcome) : undefined
        const before = journal.standings.get(identity.rolloutKey)?.failures ?? {}
        const terminal =
          failure !== undefined &&
          !FailurePolicy.mayTryAgain(policy, FailurePolicy.count(before, failure), failure.class)
        const disposition = terminal ? "terminal" : "retryable"
        // The row first: what the journal calls finished is there.
        yield* shared.keep(outcome, row, failure === undefined ? undefined : [failure, disposition])
        yield* journal.append(entryOf(outcome, failure, disposition, yield* Clock.currentTimeMillis))
        if (outcome._tag !== "Unresolved") yield* breaker.report(kindOf(failure), probe)
        else if (probe) yield* breaker.probeLost
        return { _tag: "Ended", outcome, failure } satisfies Ended
      })
    )

  /** With a place to run in: the permit to create, the pace, the breaker, the budget; then the attempt. */
  const placed = (logical: Logical): Effect.Effect<Ended | NotStarted, CollectError, R> => {
    const { taskIndex } = logical.row
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const none = yield* restore(creating.take(taskIndex, logical.weight))
        if (none !== undefined) return notStarted(none)
        let creates = true
        const opened = Effect.sync(() => {
          if (creates) creating.release(taskIndex)
          creates = false
        })
        return yield* restore(
          Effect.gen(function* () {
            if (shared.pace !== undefined) {
              const paced = yield* unlessClosing(shared.pace)
              if (paced !== undefined) return paced
            }
            const pass = breaker.isClosed() ? { probe: false } : yield* unlessClosing(breaker.pass)
            if ("reason" in pass) return pass
            if ("givenUp" in pass) {
              yield* close("circuit_open")
              return notStarted("circuit_open")
            }
            const over =
              budget === undefined
                ? undefined
                : refuses(
                    budget,
                    { ...tally, milliseconds: (yield* monotonic) - shared.began },
                    tally.durations.ascending
                  )
            if (over !== undefined) {
              if (pass.probe) yield* breaker.probeLost
              yield* close(over)
              return notStarted(over)
            }
            return yield* begun(logical, pass.probe, opened)
          })
        ).pipe(Effect.ensuring(opened))
      })
    )
  }

  const attempt = (logical: Logical): Effect.Effect<Ended | NotStarted, CollectError, R> => {
    const { taskIndex } = logical.row
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(running.take(taskIndex, logical.weight)), (none) =>
        none !== undefined
          ? Effect.succeed(notStarted(none))
          : restore(placed(logical)).pipe(Effect.ensuring(Effect.sync(() => running.release(taskIndex))))
      )
    )
  }

  const finish = ({ outcome }: Ended, row: TaskRow) =>
    Effect.zipRight(
      Effect.sync(() => {
        if (outcome._tag === "Scored") tally.finished += 1
        else if (outcome._tag === "Unresolved") tally.unresolved += 1
        else tally.failed += 1
      }),
      Effect.as(Progress.emit(Progress.ProgressEvent.Finished({ outcome, row })), Option.some(outcome))
    )

  /** The outcome of the last attempt of this run; none for a rollout that was not started. */
  const rollout = (logical: Logical): Effect.Effect<Option.Option<RolloutOutcome>, CollectError, R> => {
    const { row } = logical
    const go = (
      last: Ended | undefined,
      inRun: FailurePolicy.Tally
    ): Effect.Effect<Option.Option<RolloutOutcome>, CollectError, R> =>
      Effect.flatMap(attempt(logical), (now) => {
        if (now._tag === "NotStarted") {
          if (last !== undefined) return finish(last, row)
          Tally.notStarted(tally, now.reason)
          return Effect.succeed(Option.none())
        }
        const { failure, outcome } = now
        if (failure === undefined) return finish(now, row)
        const tallies = {
          inRun: FailurePolicy.count(inRun, failure),
          inAll: journal.standings.get(outcome.identity.rolloutKey)?.failures ?? {}
        }
        const decision = FailurePolicy.decide(policy, tallies, failure)
        if (decision._tag === "GiveUp") return finish(now, row)
        tally.retried += 1
        return Progress.emit(
          Progress.ProgressEvent.Retrying({ outcome, row, milliseconds: decision.afterMilliseconds })
        ).pipe(
          Effect.zipRight(unlessClosing(Effect.sleep(decision.afterMilliseconds))),
          Effect.zipRight(go(now, tallies.inRun))
        )
      })
    return go(undefined, {})
  }

  return { rollout, close }
}
