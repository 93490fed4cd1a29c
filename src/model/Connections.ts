/**
 * Connections to model servers: kept open between calls, limited by destination, closed with the scope that opened them.
 *
 * @since 0.1.0
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

/**
 * @since 0.1.0
 * @category models
 */
export interface ConnectionOptions {
  /** Connections to one origin at a time; a request beyond them waits. 1,024 unless given. */
  readonly perOrigin?: number
  /** How long opening one may take; 10 seconds unless given. */
  readonly connectTimeout?: Duration.DurationInput
  /** How long an unused one is kept; 15 seconds unless given, which is shorter than most servers keep theirs. */
  readonly keepAlive?: Duration.DurationInput
}

/**
 * Connections for as long as the scope is open. TCP asks an idle peer for a sign of life after a minute, so that a
 * server that went away without a word is found out.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: ConnectionOptions = {}): Effect.Effect<Undici.Dispatcher, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      return new Undici.Agent({
        connections: options.perOrigin ?? 1024,
        pipelining: 1,
        keepAliveTimeout: Duration.toMillis(options.keepAlive ?? "15 seconds"),
        // Who waits, and for how long, is decided by the call.
        headersTimeout: 0,
        bodyTimeout: 0,
        connect: {
          timeout: Duration.toMillis(options.connectTimeout ?? "10 seconds"),
          keepAlive: true,
          keepAliveInitialDelay: 60_000
        }
      })
    }),
    (agent) => Effect.promise(() => agent.destroy())
  )

/**
 * With `NodeHttpClient.layerUndiciWithoutDispatcher` the same connections serve an `HttpClient`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: ConnectionOptions): Layer.Layer<NodeHttpClient.Dispatcher> =>
  Layer.scoped(NodeHttpClient.Dispatcher, make(options))
