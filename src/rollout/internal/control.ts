/** What a collector can be told while it runs. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { CollectStatus } from "../Collection.js"
import type { NotStartedReason } from "../DispatchBudget.js"
import type { Gate } from "./gate.js"

/** A collection that is under way. */
export interface Active {
  readonly running: Gate<NotStartedReason>
  /** By rollout id, what stops an attempt. */
  readonly attempts: ReadonlyMap<string, Effect.Effect<boolean>>
  readonly close: (reason: NotStartedReason) => Effect.Effect<unknown>
}

/** What is told holds for the collections that are under way, and a pause and a drain for those that begin later too. */
export const makeControl = () => {
  const active = new Set<Active>()
  let paused = false
  let draining = false

  const enter = (collection: Active): Effect.Effect<void, never, Scope.Scope> =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        active.add(collection)
        collection.running.pause(paused)
        return draining ? collection.close("drained") : Effect.void
      }),
      () => Effect.sync(() => active.delete(collection))
    )

  const pause = (now: boolean) =>
    Effect.sync(() => {
      paused = now
      for (const { running } of active) running.pause(now)
    })

  const status = Effect.sync((): CollectStatus => {
    const gates = Array.from(active, ({ running }) => running.state())
    const sum = (of: (gate: (typeof gates)[number]) => number) => gates.reduce((total, gate) => total + of(gate), 0)
    return {
      running: sum(({ taken }) => taken),
      waiting: sum(({ waiting }) => waiting),
      concurrency: sum(({ places }) => places),
      paused,
      draining,
      rollouts: Array.from(active).flatMap(({ attempts }) => Array.from(attempts.keys()))
    }
  })

  return {
    enter,
    control: {
      status,
      pause: pause(true),
      resume: pause(false),
      concurrency: (places: number) =>
        Effect.sync(() => {
          for (const { running } of active) running.resize(Math.max(0, Math.floor(places)))
        }),
      drain: Effect.suspend(() => {
        draining = true
        return Effect.forEach(Array.from(active), ({ close }) => close("drained"), { discard: true })
      }),
      cancel: (rolloutId: string): Effect.Effect<boolean> =>
        Effect.suspend(() =>
          Option.getOrElse(
            Option.firstSomeOf(Array.from(active, ({ attempts }) => Option.fromNullable(attempts.get(rolloutId)))),
            () => Effect.succeed(false)
          )
        )
    }
  }
}
