/**
 * How many model calls may be under way at a time. It has nothing to do with how many desktops may be open.
 *
 * @since 0.1.0
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Adaptive from "./AdaptiveConcurrency.js"
import { fetchText, rootOf } from "./internal/call/fetchText.js"
import type { ModelError } from "./ModelError.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface Permits {
  /**
   * Runs one try of a call when there is a permit for it, and tells it how many milliseconds it has waited for that.
   * Waits between tries hold no permit.
   */
  readonly withPermit: <A, R>(
    call: (waitedMilliseconds: number) => Effect.Effect<A, ModelError, R>
  ) => Effect.Effect<A, ModelError, R>
  /** Calls that may be under way now; `undefined` without a limit. */
  readonly limit: Effect.Effect<number | undefined>
}

const unlimited: Permits = { withPermit: (call) => call(0), limit: Effect.succeed(undefined) }

/**
 * Where permits come from. Without a layer there is no limit.
 *
 * @since 0.1.0
 * @category context
 */
export class Limits extends Context.Reference<Limits>()("deskhand/model/Limits", {
  defaultValue: (): Permits => unlimited
}) {}

const held = <A, R>(
  semaphore: Effect.Semaphore,
  call: (waitedMilliseconds: number) => Effect.Effect<A, ModelError, R>
): Effect.Effect<A, ModelError, R> =>
  Effect.flatMap(Clock.currentTimeMillis, (asked) =>
    semaphore.withPermits(1)(Effect.flatMap(Clock.currentTimeMillis, (now) => call(now - asked)))
  )

/**
 * So many calls at a time, over all servers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (permits: number): Effect.Effect<Permits> =>
  Effect.map(Effect.makeSemaphore(permits), (semaphore) => ({
    withPermit: (call) => held(semaphore, call),
    limit: Effect.succeed(permits)
  }))

/**
 * So many calls at a time, shared by all clients of the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (permits: number): Layer.Layer<Limits> => Layer.effect(Limits, make(permits))

/**
 * @since 0.1.0
 * @category models
 */
export interface AdaptiveLimitOptions {
  readonly adaptive: Adaptive.AdaptiveOptions
  /** Base addresses of vLLM servers, such as `http://127.0.0.1:8000/v1`, whose `/metrics` are read; none unless given. */
  readonly servers?: ReadonlyArray<string>
  /** How often they are read; every 2 seconds unless given. */
  readonly every?: Duration.DurationInput
}

/**
 * As many calls as the servers keep up with: one more at a time while replies come, fewer after a 429 and when a server
 * throws requests out or its queue grows. A server whose metrics cannot be read counts as one that says nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeAdaptive = ({
  adaptive,
  every = "2 seconds",
  servers = []
}: AdaptiveLimitOptions): Effect.Effect<Permits, never, NodeHttpClient.Dispatcher | Scope.Scope> =>
  Effect.gen(function* () {
    const dispatcher = yield* NodeHttpClient.Dispatcher
    let state = Adaptive.make(adaptive)
    let inFlight = 0
    const semaphore = yield* Effect.makeSemaphore(Adaptive.permits(state))
    const on = (signal: Adaptive.Signal) =>
      Effect.suspend(() => {
        const before = Adaptive.permits(state)
        state = Adaptive.next(adaptive, state, signal)
        const after = Adaptive.permits(state)
        return after === before ? Effect.void : semaphore.resize(after)
      })
    const look = (server: string) =>
      fetchText(dispatcher, `${rootOf(server)}/metrics`, "5 seconds").pipe(
        Effect.map((text) => (text === undefined ? undefined : Adaptive.parseLoad(text))),
        Effect.zip(Clock.currentTimeMillis),
        Effect.flatMap(([load, now]) =>
          on(load === undefined ? { _tag: "Unobserved", server } : { _tag: "Observed", server, load, now })
        )
      )
    yield* Effect.forEach(servers, (server) => Effect.forkScoped(Effect.repeat(look(server), Schedule.spaced(every))), {
      discard: true
    })
    return {
      withPermit: (call) =>
        held(semaphore, (waited) =>
          Effect.gen(function* () {
            const sentAt = yield* Clock.currentTimeMillis
            inFlight += 1
            return yield* call(waited).pipe(
              Effect.tap(() => on({ _tag: "Succeeded", inFlight })),
              Effect.tapError(({ reason }) =>
                reason === "rate_limited"
                  ? Effect.flatMap(Clock.currentTimeMillis, (now) => on({ _tag: "Refused", sentAt, now }))
                  : Effect.void
              ),
              Effect.ensuring(
                Effect.sync(() => {
                  inFlight -= 1
                })
              )
            )
          })
        ),
      limit: Effect.sync(() => Adaptive.permits(state))
    } satisfies Permits
  })

/**
 * As many calls at a time as the server's engines bear, by what they say of their load and by refusals.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerAdaptive = (options: AdaptiveLimitOptions): Layer.Layer<Limits, never, NodeHttpClient.Dispatcher> =>
  Layer.scoped(Limits, makeAdaptive(options))
