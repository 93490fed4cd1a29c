/** What comes after work that nothing may interrupt in between, at the price of one frame of the stack. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** Makes interruptible, inside of what is not, what was so outside. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Goes on when the work has ended, however it did. To be run where nothing interrupts; there it is one frame, in the place
 * of the four of a finalizer.
 */
export const andThen = <A, E, R, B, E2, R2>(
  work: Effect.Effect<A, E, R>,
  next: (exit: Exit.Exit<A, E>) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E2, R | R2> =>
  Effect.matchCauseEffect(work, {
    onFailure: (cause) => next(Exit.failCause(cause)),
    onSuccess: (value) => next(Exit.succeed(value))
  })
