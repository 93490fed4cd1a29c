import * as Duration from "effect/Duration"
import type { Watch } from "./exchange.js"
import type { Incoming } from "./reply.js"

/** A reply took too long. */
export class Expired {
  readonly _tag = "Expired"
  constructor(readonly detail: string) {}
}

/** The longest that a timer of Node's can be set to, in milliseconds: it takes a longer one for none at all. */
const longestTimer = 2 ** 31 - 1

/**
 * Fails when a try has taken too long as a whole, or its stream has been silent for too long since it began. Succeeds
 * when a stream has said that it is over and its connection stays open all the same. Limits in milliseconds.
 *
 * One timer waits for a reply that comes whole, whatever the number of calls under way; a stream is looked at once in a
 * while, and not at each piece.
 */
export const watchdog =
  (into: Incoming, { idle, timeout }: { readonly timeout: number; readonly idle: number }): Watch<Expired> =>
  (end) => {
    const deadline = setTimeout(() => end(expired("no whole reply within", timeout)), Math.min(timeout, longestTimer))
    let stream: NodeJS.Timeout | undefined
    const look = () => {
      const silent = performance.now() - into.lastByteAt()
      if (into.isDone() && silent >= tick) end(undefined)
      else if (silent >= idle) end(expired("the stream began and then said nothing for", idle))
    }
    const tick = Math.max(1, Math.min(1_000, idle))
    return {
      head: () => {
        if (into.isStream()) stream ??= setInterval(look, tick)
      },
      stop: () => {
        clearTimeout(deadline)
        clearInterval(stream)
      }
    }
  }

const expired = (what: string, milliseconds: number) =>
  new Expired(`${what} ${Duration.format(Duration.millis(milliseconds))}`)
