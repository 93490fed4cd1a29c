import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

/** A door that work goes through, that can be shut, and that knows when nobody is inside any more. */
export interface Door {
  /** Waits while the door is closed; then runs inside. */
  readonly through: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly close: Effect.Effect<void>
  readonly open: Effect.Effect<void>
  /** Waits until nobody is inside. Only of use on a closed door. */
  readonly idle: Effect.Effect<void>
  readonly inside: () => number
  readonly isClosed: () => boolean
}

export const makeDoor = (): Door => {
  let inside = 0
  /** There while the door is closed; done when it opens. */
  let opened: Deferred.Deferred<void> | undefined
  /** There while somebody waits for the last one to leave. */
  let left: Deferred.Deferred<void> | undefined

  const leave = Effect.suspend(() => {
    inside -= 1
    if (inside > 0 || left === undefined) return Effect.void
    const waiting = left
    left = undefined
    return Effect.asVoid(Deferred.succeed(waiting, undefined))
  })

  const through = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => {
        // Counted in the same breath as it is seen to be open, so that whoever closes it misses nobody.
        if (opened === undefined) {
          inside += 1
          return Effect.ensuring(restore(work), leave)
        }
        return Effect.zipRight(restore(Deferred.await(opened)), restore(through(work)))
      })
    )

  return {
    through,
    close: Effect.flatMap(Deferred.make<void>(), (closed) =>
      Effect.sync(() => {
        opened ??= closed
      })
    ),
    open: Effect.suspend(() => {
      const waiting = opened
      opened = undefined
      return waiting === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(waiting, undefined))
    }),
    idle: Effect.flatMap(Deferred.make<void>(), (last) =>
      Effect.suspend(() => {
        if (inside === 0) return Effect.void
        left ??= last
        return Deferred.await(left)
      })
    ),
    inside: () => inside,
    isClosed: () => opened !== undefined
  }
}
