import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Incoming } from "./reply.js"

/** A reply took too long. */
export class Expired {
  readonly _tag = "Expired"
  constructor(readonly detail: string) {}
}

/**
 * Fails when a try has taken too long as a whole, or its stream has been silent for too long since it began. Succeeds
 * when a stream has said that it is over and its connection stays open all the same. Limits in milliseconds.
 */
export const watchdog = (
  into: Incoming,
  { idle, timeout }: { readonly timeout: number; readonly idle: number }
): Effect.Effect<void, Expired> =>
  Effect.suspend(() => {
    const deadline = performance.now() + timeout
    // One timer in a while, and none for each piece of a stream.
    const tick = Math.min(1_000, idle)
    const look: Effect.Effect<void, Expired> = Effect.suspend(() => {
      const now = performance.now()
      if (now >= deadline) return expired("no whole reply within", timeout)
      if (into.isStream()) {
        const silent = now - into.lastByteAt()
        if (into.isDone() && silent >= tick) return Effect.void
        if (silent >= idle) return expired("the stream began and then said nothing for", idle)
      }
      return Effect.zipRight(Effect.sleep(Duration.millis(Math.max(1, Math.min(tick, deadline - now)))), look)
    })
    return look
  })

const expired = (what: string, milliseconds: number) =>
  Effect.fail(new Expired(`${what} ${Duration.format(Duration.millis(milliseconds))}`))
