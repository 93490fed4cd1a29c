/** How a program comes to its end once it is told to: by itself, by interruption, or at once. */
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { next, type Phase, type Signal } from "./signals.js"

/** What is done instead of an interruption when the first signal comes. */
export interface Drain {
  readonly begin: () => void
  readonly seconds: number
}

export interface Stopped {
  /** Tells whoever watches. */
  readonly say: (text: string) => void
  /** What the program does first, where it asked for that. */
  readonly drain: () => Drain | undefined
  /** Begins to close all that is open. */
  readonly interrupt: () => void
  /** Ends the process, whatever is open. */
  readonly leave: (signal: Signal) => void
}

export const closeSeconds = 300

/** What hears signals, by the clock of the effect that makes it. Both bounds are from the moment of the signal. */
export const makeStop = ({ drain, interrupt, leave, say }: Stopped): Effect.Effect<(signal: Signal) => void> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<never>()
    const clock = yield* Effect.clock
    let phase: Phase = "running"
    let last = Number.NEGATIVE_INFINITY

    // The process that outlives it ends by `exit`, so that no timer keeps it.
    const after = (seconds: number, act: () => void) =>
      Runtime.runFork(runtime)(Effect.zipRight(Effect.sleep(seconds * 1000), Effect.sync(act)))

    const leaving = (signal: Signal, why: string) => {
      say(`${why} To remove what is left of the desktops: deskhand sweep`)
      leave(signal)
    }
    const stopping = (signal: Signal) => {
      phase = "stopping"
      after(closeSeconds, () => leaving(signal, `Not all could be closed in ${closeSeconds} seconds.`))
      interrupt()
    }

    return (signal) => {
      const now = Number(clock.unsafeCurrentTimeNanos() / 1_000_000n)
      const mine = drain()
      const [then, act] = next(phase, { drains: mine !== undefined, since: now - last })
      phase = then
      switch (act) {
        case "nothing":
          return
        case "leave":
          return leaving(signal, "Left at once.")
        case "interrupt":
          last = now
          say(`\n${signal}: stopping; what is open is being closed. Once more to leave at once.`)
          return stopping(signal)
        case "drain": {
          last = now
          const seconds = mine?.seconds ?? 0
          say(`\n${signal}: nothing more starts; what runs has ${seconds} seconds to end. Once more to stop it.`)
          mine?.begin()
          after(seconds, () => {
            if (phase !== "draining") return
            say(`${seconds} seconds are over: stopping; what is open is being closed. Once more to leave at once.`)
            stopping(signal)
          })
          return
        }
      }
    }
  })
