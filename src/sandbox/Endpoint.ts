/**
 * Where a port of a sandbox is reached from this host.
 *
 * @since 0.1.0
 */

import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/**
 * `Tcp` is an absolute URL and the headers that its gateway wants; `Unix` is a socket on this host's disk.
 *
 * @since 0.1.0
 * @category models
 */
export type Endpoint = Data.TaggedEnum<{
  Tcp: { readonly url: string; readonly headers: Readonly<Record<string, string>> }
  Unix: { readonly socketPath: string }
}>

/**
 * Constructors of endpoints, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Endpoint = Data.taggedEnum<Endpoint>()

/**
 * An HTTP client that speaks to this endpoint and to nothing else: request paths are relative to it. Its connections
 * are kept alive and closed with the scope. It has no time limits of its own; callers set theirs.
 *
 * @since 0.1.0
 * @category clients
 */
export const httpClient = (endpoint: Endpoint): Effect.Effect<HttpClient.HttpClient, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(
        () =>
          new Undici.Agent({
            headersTimeout: 0,
            bodyTimeout: 0,
            connect: endpoint._tag === "Unix" ? { socketPath: endpoint.socketPath } : {}
          })
      ),
      (agent) => Effect.promise(() => agent.destroy())
    ),
    (agent) =>
      HttpClient.mapRequest(NodeHttpClient.makeUndici(agent), (request) =>
        endpoint._tag === "Unix"
          ? HttpClientRequest.prependUrl(request, "http://127.0.0.1")
          : HttpClientRequest.setHeaders(HttpClientRequest.prependUrl(request, endpoint.url), endpoint.headers)
      )
  )
