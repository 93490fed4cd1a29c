/** How fast rollouts are let in: so many a second, and more of them as time goes on. */
import * as Effect from "effect/Effect"
import { type AdmissionOptions, growsAt } from "../Admissions.js"
import type { NotStartedReason } from "../DispatchBudget.js"
import { monotonic } from "./breaker.js"
import type { Gate } from "./gate.js"

/** Lets one go now and the next no sooner than its share of a second later. */
export const pacer = (perSecond: number | undefined): Effect.Effect<void> | undefined => {
  if (perSecond === undefined) return undefined
  let free = 0
  return Effect.flatMap(monotonic, (now) => {
    const mine = Math.max(now, free)
    free = mine + 1_000 / perSecond
    return mine > now ? Effect.sleep(mine - now) : Effect.void
  })
}

/** Raises the number of places until all are there, or somebody else changes it. */
export const rampUp = (
  running: Gate<NotStartedReason>,
  concurrency: number,
  admission: AdmissionOptions | undefined,
  began: number
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { places } = running.state()
    const at = growsAt(concurrency, admission?.rampUp, places)
    if (at === undefined) return Effect.void
    return Effect.flatMap(monotonic, (now) => Effect.sleep(Math.max(0, began + at - now))).pipe(
      Effect.zipRight(
        Effect.suspend(() => {
          // Somebody else has set it meanwhile: now it is theirs.
          if (running.state().places !== places) return Effect.void
          running.resize(places + 1)
          return rampUp(running, concurrency, admission, began)
        })
      )
    )
  })
