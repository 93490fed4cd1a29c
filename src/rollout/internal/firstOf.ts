/**
 * Several things at once, of which the first that ends counts: a fiber for each, and none besides. What waits here does so
 * for as long as an episode goes on, a thousand times over, so it takes as few frames of the stack as it can.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { andThen, type Restore } from "./andThen.js"

/** How something ends, said once: by itself or by somebody else. */
export class Ending<A, E = never> {
  #exit: Exit.Exit<A, E> | undefined
  #resume: ((exit: Exit.Exit<A, E>) => void) | undefined

  /** Whether this was the first to say it. */
  settle(exit: Exit.Exit<A, E>): boolean {
    if (this.#exit !== undefined) return false
    this.#exit = exit
    this.#resume?.(exit)
    return true
  }

  /** For one that waits: nothing is left behind when it is interrupted, as nobody else knows of it. */
  readonly wait: Effect.Effect<A, E> = Effect.async((resume) => {
    if (this.#exit === undefined) this.#resume = resume
    else resume(this.#exit)
  })
}

/**
 * Ends as the first of them ends, or as `first` does when somebody else settles it before, and answers when all have been
 * ended. To be run where nothing interrupts but `restore`.
 */
export const firstOf = <A, E, R>(
  restore: Restore,
  effects: ReadonlyArray<Effect.Effect<A, E, R>>,
  first: Ending<A, E>
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const fibers: Array<Fiber.RuntimeFiber<A, E>> = []
    const endAll = Effect.suspend(() => {
      const left = fibers.filter((fiber) => fiber.unsafePoll() === null)
      return left.length === 0 ? Effect.void : Fiber.interruptAll(left)
    })
    const from = (at: number): Effect.Effect<A, E, R> => {
      const effect = effects[at]
      if (effect === undefined) return andThen(restore(first.wait), (exit) => Effect.zipRight(endAll, exit))
      return Effect.flatMap(Effect.fork(restore(effect)), (fiber) => {
        fiber.addObserver((exit) => void first.settle(exit))
        fibers.push(fiber)
        return from(at + 1)
      })
    }
    return from(0)
  })
