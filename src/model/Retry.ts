/**
 * When a call that failed is made again: how often, how long after, and whether at all.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleInterval from "effect/ScheduleInterval"
import * as Schema from "effect/Schema"
import type { ModelError } from "./ModelError.js"

const withDefault = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Schema.optionalWith(schema, { exact: true, default: () => value })

const Milliseconds = Schema.Finite.pipe(Schema.nonNegative())

/**
 * A policy as data, so that a run's manifest can declare it. Every value has a default.
 *
 * @since 0.1.0
 * @category models
 */
export class RetryPolicy extends Schema.Class<RetryPolicy>("deskhand/model/RetryPolicy")({
  /** Tries of one call, the first included; 4. */
  attempts: withDefault(Schema.Int.pipe(Schema.positive()), 4),
  /** No try is begun later than this after the first failure; 5 minutes. */
  totalMilliseconds: withDefault(Milliseconds, 300_000),
  /** The wait after the first failure; half a second. */
  baseMilliseconds: withDefault(Milliseconds, 500),
  /** By how much each wait is longer than the one before it; 2. */
  factor: withDefault(Schema.Finite.pipe(Schema.greaterThanOrEqualTo(1)), 2),
  /** The longest wait that we choose; 8 seconds. */
  capMilliseconds: withDefault(Milliseconds, 8_000),
  /** By which part of itself, at most, a wait is stretched or shrunk at random; 0.2. */
  jitter: withDefault(Schema.Finite.pipe(Schema.between(0, 1)), 0.2),
  /** A server that asks for a longer wait than this is asked again after this; 1 minute. */
  retryAfterCapMilliseconds: withDefault(Milliseconds, 60_000)
}) {}

/**
 * What is known after a failure.
 *
 * @since 0.1.0
 * @category models
 */
export interface Failures {
  /** Tries that have failed, from 1. */
  readonly count: number
  /** Since the first of them, in milliseconds. */
  readonly elapsed: number
  /** At least 0, below 1. */
  readonly random: number
  /** What the server asked for, in milliseconds. */
  readonly retryAfter?: number | undefined
}

/**
 * How long to wait before the next try, in milliseconds; `undefined` when there is none. It is never sooner than the
 * server asks, up to the cap.
 *
 * @since 0.1.0
 * @category decisions
 */
export const wait = (policy: RetryPolicy, { count, elapsed, random, retryAfter = 0 }: Failures): number | undefined => {
  if (count >= policy.attempts) return undefined
  const chosen = Math.min(policy.capMilliseconds, policy.baseMilliseconds * policy.factor ** (count - 1))
  const spread = chosen * (1 + policy.jitter * (2 * random - 1))
  const delay = Math.max(spread, Math.min(retryAfter, policy.retryAfterCapMilliseconds))
  return elapsed + delay > policy.totalMilliseconds ? undefined : delay
}

/**
 * Whether the same call may be made again after this error. What the server refused outright may; what it may have
 * carried out only where that does no harm, which `safe` says: it is true of everything that only asks for a reply.
 *
 * @since 0.1.0
 * @category decisions
 */
export const isRepeatable = (error: ModelError, { safe = true }: { readonly safe?: boolean } = {}): boolean => {
  switch (error.reason) {
    case "rate_limited":
      return true
    case "transport":
      return safe || error.delivered === false
    case "unavailable":
      // 501 and 505 say what the server cannot do at all.
      return safe && error.status !== 501 && error.status !== 505
    case "truncated":
      return safe
    // A timeout is not: the server may still be at work on the first one, and would be at two then.
    case "timeout":
    case "context_overflow":
    case "unauthorised":
    case "bad_request":
    case "malformed_reply":
    case "refused":
    case "artifact":
      return false
  }
}

interface State {
  readonly count: number
  readonly since: number
}

/**
 * The policy as a schedule: it goes on for as long as the policy has another wait, and its output is the number of
 * failures. It does not look at what failed: see `isRepeatable`.
 *
 * @since 0.1.0
 * @category schedules
 */
export const schedule = (policy: RetryPolicy): Schedule.Schedule<number, ModelError> =>
  Schedule.makeWithState<State, ModelError, number>({ count: 0, since: 0 }, (now, { retryAfter }, before) =>
    Effect.map(Random.next, (random) => {
      const state = before.count === 0 ? { count: 1, since: now } : { ...before, count: before.count + 1 }
      const delay = wait(policy, { count: state.count, elapsed: now - state.since, random, retryAfter })
      return [
        state,
        state.count,
        delay === undefined ? ScheduleDecision.done : ScheduleDecision.continueWith(ScheduleInterval.after(now + delay))
      ] as const
    })
  )

/**
 * As `Effect.retry`, told of each failure, without a schedule that runs before the first of them: most calls have none.
 *
 * @since 0.1.0
 * @category schedules
 */
export const onFailure = <A, E, R, Out, R2>(
  once: Effect.Effect<A, E, R>,
  schedule: Schedule.Schedule<Out, E, R2>,
  failed: (error: E) => void
): Effect.Effect<A, E, R | R2> =>
  Effect.catchAll(once, (first) =>
    Effect.flatMap(Schedule.driver(schedule), (driver) => {
      const again = (error: E): Effect.Effect<A, E, R | R2> => {
        failed(error)
        return Effect.matchEffect(driver.next(error), {
          onFailure: () => Effect.fail(error),
          onSuccess: () => Effect.catchAll(once, again)
        })
      }
      return again(first)
    })
  )
