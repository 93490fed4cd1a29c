/** Several things at once, of which the first that ends counts: a fiber for each, and none besides. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

/**
 * Ends as the first of them ends, or as `first` does when somebody else completes it before, and answers when all have
 * been ended.
 */
export const firstOf = <A, E, R>(
  effects: ReadonlyArray<Effect.Effect<A, E, R>>,
  first: Deferred.Deferred<A, E>
): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const fibers: Array<Fiber.RuntimeFiber<A, E>> = []
      for (const effect of effects) {
        const fiber = yield* Effect.fork(restore(effect))
        fiber.addObserver((exit) => Deferred.unsafeDone(first, exit))
        fibers.push(fiber)
      }
      return yield* Effect.ensuring(restore(Deferred.await(first)), Fiber.interruptAll(fibers))
    })
  )
