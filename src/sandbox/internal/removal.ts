/**
 * Asks for a removal until it is certain.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Driver } from "./driver.js"

/** Between the two looks that have to agree that a sandbox is gone. */
const secondLook = "150 millis"

/**
 * Asks for the removal and looks until nothing is there. Neither an answer nor a failed look is taken for a removal.
 * Answers with the reason why something may be left.
 */
export const removed = <Handle extends { readonly id: string }>(
  driver: Driver<Handle>,
  sandbox: { readonly id: string; readonly attemptKey: string },
  asked: Effect.Effect<void>,
  limit: Duration.Duration
): Effect.Effect<string | undefined> =>
  Effect.gen(function* () {
    const { attemptKey, id } = sandbox
    let last = "the service did not answer"
    const noted = yield* Effect.once(asked)
    const stillThere = Effect.fail({ message: "it is still there" })
    const look = Effect.flatMap(driver.exists(id), (there) => (there ? stillThere : Effect.void))
    const listed = Effect.flatMap(driver.find(attemptKey), (found) =>
      found.some((each) => each.id === id) ? stillThere : Effect.void
    )
    // A gateway that answers "not found" for a service that it cannot reach does so for a moment, and has no list.
    const twice = Effect.zipRight(look, Effect.delay(Effect.zipRight(look, listed), secondLook))
    const gone = yield* driver.remove(id).pipe(
      Effect.zipRight(noted),
      Effect.zipRight(
        Effect.retry(twice, Schedule.intersect(Schedule.exponential("50 millis", 1.5), Schedule.recurs(8)))
      ),
      Effect.tapError((error) =>
        Effect.sync(() => {
          last = error.message
        })
      ),
      Effect.sandbox,
      Effect.tapError((cause) =>
        Cause.isDie(cause)
          ? Effect.sync(() => {
              last = Cause.pretty(cause)
            })
          : Effect.void
      ),
      Effect.retryOrElse(
        Schedule.exponential("100 millis", 1.5).pipe(Schedule.union(Schedule.spaced("2 seconds"))),
        () => Effect.never
      ),
      Effect.timeoutOption(limit)
    )
    return Option.isSome(gone) ? undefined : `${last} after ${Duration.format(limit)}`
  })
