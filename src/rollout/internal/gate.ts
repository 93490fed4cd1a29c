/** Places that are given out fairly over groups, and whose number may change while they are taken. */
import * as Effect from "effect/Effect"

/** `undefined` is a place; else why there is none any more. */
export type Granted<Closed> = Closed | undefined

export interface Gate<Closed> {
  /**
   * Waits for a place, which `release` gives back. Among those that wait, the greatest weight comes first; then the
   * group that has the fewest places, so that no group waits for another to end; then who came first.
   */
  readonly take: (group: number, weight: number) => Effect.Effect<Granted<Closed>>
  /** A place at once, where one is free and nobody waits; `release` gives it back. */
  readonly grant: (group: number) => boolean
  readonly release: (group: number) => void
  /** Fewer than are taken takes none away: it waits until they come back. */
  readonly resize: (places: number) => void
  readonly pause: (paused: boolean) => void
  /** Whoever waits, and whoever comes later, is told why there is no place. What is taken stays so. */
  readonly close: (reason: Closed) => void
  readonly state: () => { readonly taken: number; readonly waiting: number; readonly places: number }
}

interface Waiter<Closed> {
  readonly group: number
  readonly weight: number
  granted: boolean
  readonly resume: (effect: Effect.Effect<Granted<Closed>>) => void
}

export const make = <Closed>(initial: number): Gate<Closed> => {
  let places = initial
  let paused = false
  let closed: Granted<Closed>
  let taken = 0
  /** In the order in which they came. */
  const waiting = new Set<Waiter<Closed>>()
  const byGroup = new Map<number, number>()
  /** No waiter's weight is above it. */
  let heaviest = Number.NEGATIVE_INFINITY

  const held = (group: number) => byGroup.get(group) ?? 0

  const first = (): Waiter<Closed> | undefined => {
    let best: Waiter<Closed> | undefined
    for (const waiter of waiting) {
      if (
        best === undefined ||
        waiter.weight > best.weight ||
        (waiter.weight === best.weight && held(waiter.group) < held(best.group))
      ) {
        best = waiter
        // None that came later can be better than that.
        if (waiter.weight >= heaviest && held(waiter.group) === 0) return best
      }
    }
    return best
  }

  const give = () => {
    while (!paused && taken < places) {
      const waiter = first()
      if (waiter === undefined) return
      waiting.delete(waiter)
      waiter.granted = true
      taken += 1
      byGroup.set(waiter.group, held(waiter.group) + 1)
      waiter.resume(Effect.succeed(undefined))
    }
  }

  const release = (group: number) => {
    taken -= 1
    const left = held(group) - 1
    if (left > 0) byGroup.set(group, left)
    else byGroup.delete(group)
    give()
  }

  return {
    take: (group, weight) =>
      Effect.async((resume) => {
        if (closed !== undefined) return resume(Effect.succeed(closed))
        const waiter: Waiter<Closed> = { group, weight, granted: false, resume }
        waiting.add(waiter)
        heaviest = Math.max(heaviest, weight)
        give()
        return Effect.sync(() => {
          // Interrupted between the grant and its use: the place goes on to the next.
          if (waiter.granted) release(group)
          else waiting.delete(waiter)
        })
      }),
    grant: (group) => {
      if (closed !== undefined || paused || taken >= places || waiting.size > 0) return false
      taken += 1
      byGroup.set(group, held(group) + 1)
      return true
    },
    release,
    resize: (count) => {
      places = count
      give()
    },
    pause: (now) => {
      paused = now
      give()
    },
    close: (reason) => {
      closed ??= reason
      for (const { resume } of waiting) resume(Effect.succeed(closed))
      waiting.clear()
    },
    state: () => ({ taken, waiting: waiting.size, places })
  }
}
