/** The circuit breaker of a run: the state that all its rollouts share, and their waits for it. */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Breaker from "../CircuitBreaker.js"

/** Milliseconds of a clock that does not jump. */
export const monotonic: Effect.Effect<number> = Effect.map(Effect.clock, (clock) => millisecondsOf(clock))

/** The same, at once. */
export const millisecondsOf = (clock: Clock.Clock): number => Number(clock.unsafeCurrentTimeNanos() / 1_000n) / 1_000

export type Pass = { readonly probe: boolean } | { readonly givenUp: string }

export interface SharedBreaker {
  /** Waits until a rollout may start, and whether it is the probe then. Interruptible at any moment. */
  readonly pass: Effect.Effect<Pass>
  /** An attempt is over; tells when that opens or closes the breaker. */
  readonly report: (kind: string | undefined, probe: boolean) => Effect.Effect<void>
  /** The probe came to no end of its own. */
  readonly probeLost: Effect.Effect<void>
  /** Whether `pass` lets everything through at once. */
  readonly isClosed: () => boolean
}

export const off: SharedBreaker = {
  pass: Effect.succeed({ probe: false }),
  report: () => Effect.void,
  probeLost: Effect.void,
  isClosed: () => true
}

const seconds = (milliseconds: number) => `${Math.round(milliseconds / 100) / 10} s`

export const make = (options: Breaker.BreakerOptions): SharedBreaker => {
  let breaker = Breaker.closed
  const waiting = new Set<(effect: Effect.Effect<void>) => void>()

  const become = (now: Breaker.Breaker) => {
    breaker = now
    for (const resume of waiting) resume(Effect.void)
    waiting.clear()
  }

  const change = Effect.async<void>((resume) => {
    waiting.add(resume)
    return Effect.sync(() => void waiting.delete(resume))
  })

  const say = (before: Breaker.Breaker, after: Breaker.Breaker, now: number): Effect.Effect<void> => {
    if (before._tag === after._tag) return Effect.void
    switch (after._tag) {
      case "Open": {
        const failed =
          after.failedProbes === 0
            ? `${options.failures} failures in a row: ${after.kind}`
            : `the probe failed too: ${after.kind}`
        const wait = seconds(Math.max(0, after.until - now))
        return Effect.logWarning(
          `${failed}. Nothing new is started for ${wait}; then one rollout goes first as a probe`
        )
      }
      case "Closed":
        return before._tag === "Probing"
          ? Effect.logInfo("The probe went well: rollouts are started again")
          : Effect.void
      case "GivenUp":
        return Effect.logError(
          `${options.probes} probes failed in a row: ${after.kind}. What is not started stays so; see to it, then go on with --resume`
        )
      case "Probing":
        return Effect.void
    }
  }

  const pass: Effect.Effect<Pass> = Effect.flatMap(monotonic, (now): Effect.Effect<Pass> => {
    const admit = Breaker.admit(breaker, now)
    switch (admit._tag) {
      case "Go":
        return Effect.succeed({ probe: false })
      case "Probe":
        become(Breaker.probing(breaker))
        return Effect.succeed({ probe: true })
      case "Later":
        return Effect.zipRight(Effect.raceFirst(Effect.sleep(admit.milliseconds), change), pass)
      case "AfterProbe":
        return Effect.zipRight(change, pass)
      case "Never":
        return Effect.succeed({ givenUp: admit.kind })
    }
  })

  return {
    pass,
    report: (kind, probe) => {
      // What goes well changes nothing where nothing went wrong.
      if (kind === undefined && breaker._tag === "Closed" && breaker.kind === undefined) return Effect.void
      return Effect.flatMap(monotonic, (now) => {
        const before = breaker
        const after = Breaker.next(options, before, { kind, probe, now })
        if (after !== before) become(after)
        return say(before, after, now)
      })
    },
    probeLost: Effect.map(monotonic, (now) => become(Breaker.probeLost(breaker, now))),
    isClosed: () => breaker._tag === "Closed"
  }
}
