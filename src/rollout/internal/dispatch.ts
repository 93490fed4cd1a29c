/** One rollout of a collection: its waits, its attempts, and what is kept of them. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
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
import { andThen, type Restore } from "./andThen.js"
import { millisecondsOf, monotonic, type SharedBreaker } from "./breaker.js"
import { attemptOf } from "./earlierRows.js"
import { Ending, firstOf } from "./firstOf.js"
import type { Gate } from "./gate.js"
import * as Tally from "./tally.js"

type Disposition = "retryable" | "terminal"

/** What the rollouts of a collection share. */
export interface Shared<R> {
  readonly program: RolloutProgram<R>
  readonly journal: Journal
  /** Puts the row of an outcome on disk. */
  readonly keep: (
    outcome: RolloutOutcome,
    row: TaskRow,
    failure: readonly [FailurePolicy.Failure, Disposition] | undefined
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
  disposition: Disposition,
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
    ? { ...common, state: "unresolved", cause: "the program says so" }
    : { ...common, state: "failed", ...failure, disposition }
}

/** The episode that was called off has no outcome of its own. */
const calledOff = (identity: RolloutIdentity, milliseconds: number): Failed =>
  new Failed({ identity, fault: "cancelled", detail: "it was called off while it ran", milliseconds })

/** For the rest of the fiber, which is the program's own: no region gives back what was there before. */
const provided = (admissions: typeof Admissions.Service): Effect.Effect<void> =>
  FiberRef.update(FiberRef.currentContext, Context.add(Admissions, admissions))

const isCancelled = (failure: FailurePolicy.Failure | undefined): boolean => failure?.class === "cancelled"

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
  const begun = Effect.fnUntraced(function* (logical: Logical, probe: boolean, opened: () => void, restore: Restore) {
    const { row } = logical
    const attemptIndex = nextAttempt(journal, row, logical.first.rolloutKey)
    // All but the number has been checked, and that is one.
    const identity = new RolloutIdentity({ ...logical.first, attemptIndex }, true)
    const { rolloutId, rolloutKey } = identity
    const clock = yield* Effect.clock
    const now = () => millisecondsOf(clock)
    const entry = () => ({ v: 1, at: clock.unsafeCurrentTimeMillis(), ...attemptOf(identity) }) as const
    yield* journal.append({ ...entry(), state: "dispatched", task: identity.taskId })
    const started = now()
    const since = () => Math.max(0, now() - started)
    const ends = new Ending<RolloutOutcome>()
    const cancel = Effect.sync(() => ends.settle(Exit.succeed(calledOff(identity, since()))))
    attempts.set(rolloutId, cancel)
    yield* Progress.emit(Progress.ProgressEvent.Dispatched({ identity, row }))
    const heard: typeof Admissions.Service = {
      opening: (open) => Effect.ensuring(open, Effect.sync(opened)),
      spent: (usage) => Effect.sync(() => Tally.spent(tally, usage))
    }
    const attempted = Effect.zipRight(provided(heard), shared.program(row, identity))
    const outcome = yield* andThen(firstOf(restore, [attempted], ends), (exit) => {
      attempts.delete(rolloutId)
      if (Exit.isSuccess(exit)) return exit
      if (Cause.isInterruptedOnly(exit.cause)) {
        const stopped = { cause: "the run was stopped in the middle of it", stopped: true } as const
        return Effect.suspend(() => journal.append({ ...entry(), state: "unresolved", ...stopped })).pipe(
          Effect.catchAll((error) => Effect.logError(error.message)),
          Effect.zipRight(probe ? breaker.probeLost : Effect.void),
          Effect.zipRight(exit)
        )
      }
      // A defect is a bug of the program's, and costs one rollout, not the run.
      const detail = Cause.pretty(exit.cause)
      return Effect.succeed(new Failed({ identity, fault: "defect", detail, milliseconds: since() }))
    })
    const failure = outcome._tag === "Masked" || outcome._tag === "Failed" ? FailurePolicy.classify(outcome) : undefined
    // What somebody called off says nothing of how long attempts take, nor of what they come to.
    const tells = outcome._tag !== "Unresolved" && !isCancelled(failure)
    if (tells) tally.durations.add(now() - started)
    const before = journal.standings.get(rolloutKey)?.failures ?? {}
    const terminal =
      failure !== undefined && !FailurePolicy.mayTryAgain(policy, FailurePolicy.count(before, failure), failure.class)
    const disposition = terminal ? "terminal" : "retryable"
    // The row first: what the journal calls finished is there.
    yield* shared.keep(outcome, row, failure === undefined ? undefined : [failure, disposition])
    yield* journal.append(entryOf(outcome, failure, disposition, clock.unsafeCurrentTimeMillis()))
    if (tells) yield* breaker.report(kindOf(failure), probe)
    else if (probe) yield* breaker.probeLost
    return { _tag: "Ended", outcome, failure } satisfies Ended
  })

  /** What may wait before an attempt begins: the pace, the breaker, the budget. */
  const admitted = (logical: Logical, opened: () => void): Effect.Effect<Ended | NotStarted, CollectError, R> =>
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
              { ...tally.own, milliseconds: (yield* monotonic) - shared.began },
              budget.milliseconds === undefined ? [] : tally.durations.ascending
            )
      if (over !== undefined) {
        if (pass.probe) yield* breaker.probeLost
        yield* close(over)
        return notStarted(over)
      }
      return yield* Effect.uninterruptibleMask((restore) => begun(logical, pass.probe, opened, restore))
    })

  const waitsForNothing = () => shared.pace === undefined && budget === undefined && breaker.isClosed()

  /** With a place to run in and the permit to create. */
  const permitted = (logical: Logical, restore: Restore): Effect.Effect<Ended | NotStarted, CollectError, R> => {
    let creates = true
    const opened = () => {
      if (creates) creating.release(logical.row.taskIndex)
      creates = false
    }
    const then = waitsForNothing() ? begun(logical, false, opened, restore) : restore(admitted(logical, opened))
    return andThen(then, (exit) => {
      opened()
      return exit
    })
  }

  /** With a place of the gate, or why there is none. */
  const placed = (
    gate: Gate<NotStartedReason>,
    { row, weight }: Logical,
    restore: Restore,
    then: () => Effect.Effect<Ended | NotStarted, CollectError, R>
  ): Effect.Effect<Ended | NotStarted, CollectError, R> =>
    gate.grant(row.taskIndex)
      ? then()
      : Effect.flatMap(restore(gate.take(row.taskIndex, weight)), (none) =>
          none === undefined ? then() : Effect.succeed(notStarted(none))
        )

  const attempt = (logical: Logical): Effect.Effect<Ended | NotStarted, CollectError, R> =>
    Effect.uninterruptibleMask((restore) =>
      placed(running, logical, restore, () =>
        andThen(
          placed(creating, logical, restore, () => permitted(logical, restore)),
          (exit) => {
            running.release(logical.row.taskIndex)
            return exit
          }
        )
      )
    )

  /**
   * Whether no run tries a rollout again: it is scored, or failed for good. One whose attempts without a known end are
   * too many gets its row now, which says so.
   */
  const isOver = ({ first, row }: Logical): Effect.Effect<boolean, CollectError> =>
    Effect.suspend(() => {
      const standing = journal.standings.get(first.rolloutKey)
      if (standing === undefined || standing.last.state === "dispatched") return Effect.succeed(false)
      const { failures, last } = standing
      if (last.state === "finished") return Effect.succeed(true)
      const whose = last.state === "failed" ? last.class : "unresolved"
      if (FailurePolicy.mayTryAgain(policy, failures, whose)) return Effect.succeed(false)
      if (last.state === "failed") return Effect.succeed(true)
      const failure = FailurePolicy.withoutEnd(failures.unresolved ?? 0)
      const outcome = new Unresolved(
        { identity: new RolloutIdentity({ ...first, attemptIndex: last.attempt }, true) },
        true
      )
      return Effect.gen(function* () {
        yield* shared.keep(outcome, row, [failure, "terminal"])
        yield* journal.append(entryOf(outcome, failure, "terminal", yield* Clock.currentTimeMillis))
        yield* Effect.logWarning(
          `rollout ${first.rolloutId} of ${row.taskId} is given up: ${failure.cause}. To try it again, raise unresolved.inAll in the failure policy`
        )
        return true
      })
    })

  const finish = ({ outcome }: Ended, row: TaskRow) =>
    Effect.zipRight(
      Effect.sync(() => {
        if (outcome._tag === "Scored") Tally.count(tally, "finished")
        else Tally.count(tally, outcome._tag === "Unresolved" ? "unresolved" : "failed")
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
        Tally.count(tally, "retried")
        return Progress.emit(
          Progress.ProgressEvent.Retrying({ outcome, row, milliseconds: decision.afterMilliseconds })
        ).pipe(
          Effect.zipRight(unlessClosing(Effect.sleep(decision.afterMilliseconds))),
          Effect.zipRight(go(now, tallies.inRun))
        )
      })
    return go(undefined, {})
  }

  return { rollout, close, isOver }
}
