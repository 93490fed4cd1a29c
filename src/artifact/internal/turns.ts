/**
 * Turns of the event loop, shared out: a crowd that comes at once passes one after another. If all of it went on side by
 * side, each would be done when the last is, and the crowd would still be one the next time it comes.
 */
import * as Effect from "effect/Effect"

/** An effect that waits until fewer than `perTurn` have passed in this turn of the event loop, first come first served. */
export const make = (perTurn: number): Effect.Effect<void> => {
  const waiting = new Set<() => void>()
  let passed = 0
  /** Called at the end of each turn, from the first that passes until one in which nobody did. */
  const next = () => {
    passed = 0
    for (const go of waiting) {
      if (passed === perTurn) break
      waiting.delete(go)
      passed += 1
      go()
    }
    if (passed > 0) setImmediate(next)
  }
  return Effect.suspend(() => {
    // Nobody is overtaken: as long as somebody waits, all of the turn is taken.
    if (passed < perTurn) {
      if (passed === 0) setImmediate(next)
      passed += 1
      return Effect.void
    }
    return Effect.async<void>((resume) => {
      const go = () => resume(Effect.void)
      waiting.add(go)
      return Effect.sync(() => void waiting.delete(go))
    })
  })
}
