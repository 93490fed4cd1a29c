/**
 * Follows creates that nobody waits for any more, or whose answer left it open what happened.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Ledger } from "../Ledger.js"
import type { Driver } from "./driver.js"
import { type CreateFailure, detached, isDefinite, type Owned, type Ownership } from "./ownership.js"
import { removed } from "./removal.js"
import type { Settled } from "./settle.js"

export interface Reaper<Handle> {
  /** Takes an attempt over. `source` is the sandbox that was forked, when it was one. */
  readonly reap: (
    attemptKey: string,
    creating: Fiber.Fiber<Handle, CreateFailure>,
    source: Owned<Handle> | undefined
  ) => Effect.Effect<void>
  /** Waits, bounded, for what is still followed, and leaves the rest. */
  readonly end: Effect.Effect<void>
}

export const make = <Handle extends { readonly id: string }>(options: {
  readonly driver: Driver<Handle>
  readonly ledger: Ledger["Type"]
  readonly ownership: Ownership<Handle>
  readonly settle: Settled
}): Reaper<Handle> => {
  const { driver, ledger, settle } = options
  const { active, forget, leave, note, owned } = options.ownership
  /** Children of forks that were met here. */
  const children = new Set<string>()
  const reapers = new Set<Fiber.RuntimeFiber<void>>()

  /**
   * Waits for a late answer, removes what the service shows, and counts it as gone after enough looks in a row that found
   * nothing, the create not being under way any more.
   */
  const follow = (
    attemptKey: string,
    creating: Fiber.Fiber<Handle, CreateFailure>,
    source: Owned<Handle> | undefined
  ) =>
    Effect.gen(function* () {
      let looks = 0
      let last = "it was not looked for yet"
      const removeFound = (id: string) =>
        Effect.gen(function* () {
          // The children of one unclear fork cannot be told apart: each is counted once, for whichever attempt.
          if (source === undefined || !children.has(id)) {
            yield* note(ledger.created(attemptKey, id))
          }
          if (source !== undefined) {
            children.add(id)
          }
          return yield* removed(driver, { id, attemptKey }, note(ledger.removed(attemptKey)), settle.removal)
        })
      const find = Effect.gen(function* () {
        const found = yield* driver.find(attemptKey)
        if (source === undefined) {
          return found.map(({ id }) => id)
        }
        // Services copy a source's labels to its children.
        const related = yield* driver.find(source.attemptKey)
        const known = new Set([source.handle.id, ...[...owned.values()].map(({ handle }) => handle.id)])
        return [...new Set([...found, ...related].map(({ id }) => id))].filter((id) => !known.has(id))
      })
      const lock = source === undefined ? <A, E>(effect: Effect.Effect<A, E>) => effect : source.forking.withPermits(1)
      const look = lock(
        Effect.gen(function* () {
          const answer = Option.getOrUndefined(yield* Fiber.poll(creating))
          if (answer !== undefined && Exit.isSuccess(answer)) {
            const reason = yield* removeFound(answer.value.id)
            last = reason ?? last
            return reason === undefined
          }
          if (answer !== undefined && Exit.isFailure(answer)) {
            const failure = Cause.failureOption(answer.cause)
            if (Option.isSome(failure) && isDefinite(failure.value)) {
              return true
            }
          }
          const found = yield* find
          if (found.length > 0) {
            looks = 0
            const reasons = yield* Effect.forEach(found, removeFound)
            last = reasons.find((reason) => reason !== undefined) ?? "it was there at the last look"
            return false
          }
          last = answer === undefined ? "the create has not been answered" : "it was looked for too few times"
          looks = answer === undefined ? 0 : looks + 1
          return looks >= settle.looks
        })
      ).pipe(
        Effect.catchAll((error) =>
          Effect.sync(() => {
            looks = 0
            last = error.message
            return false
          })
        )
      )
      const gone = Effect.repeat(look, { until: (done) => done, schedule: Schedule.spaced(settle.spacing) })
      const first = yield* Effect.timeoutOption(gone, settle.limit)
      // A create without an answer is given up, and looked for once more, on time of its own.
      const second = Option.isSome(first)
        ? first
        : yield* Fiber.interrupt(creating).pipe(
            Effect.timeoutOption(settle.removal),
            Effect.zipRight(Effect.timeoutOption(gone, settle.limit))
          )
      yield* Option.isSome(second)
        ? forget(attemptKey)
        : leave(attemptKey, `what came of the create ${attemptKey}`, last)
    })

  const reap: Reaper<Handle>["reap"] = (attemptKey, creating, source) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkDaemon(
        Effect.interruptible(
          follow(attemptKey, creating, source).pipe(
            Effect.onInterrupt(() => Fiber.interruptFork(creating)),
            Effect.catchAllCause((cause) => leave(attemptKey, `the create ${attemptKey}`, Cause.pretty(cause)))
          )
        )
      )
      reapers.add(fiber)
      fiber.addObserver(() => reapers.delete(fiber))
    })

  const end = Effect.gen(function* () {
    const waited = yield* Effect.suspend(() => Fiber.awaitAll([...reapers])).pipe(
      Effect.repeat({ until: () => reapers.size === 0 }),
      Effect.timeoutOption(settle.close),
      Effect.interruptible,
      detached
    )
    if (Option.isNone(waited)) {
      yield* Effect.forEach(
        [...active],
        (key) => leave(key, `what came of the create ${key}`, "the program ended before that was known"),
        { discard: true }
      )
      yield* Effect.forEach(reapers, Fiber.interruptFork, { discard: true })
    }
  })

  return { reap, end }
}
