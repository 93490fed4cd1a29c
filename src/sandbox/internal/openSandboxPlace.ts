/** Where a sandbox's ports are, and the connection to execd in it. */
import { randomBytes } from "node:crypto"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import { Endpoint, httpClient } from "../Endpoint.js"
import * as Api from "./openSandboxApi.js"
import { type Resolved, resolve } from "./openSandboxEndpoint.js"
import type { ApiFailure } from "./openSandboxErrors.js"
import type { OpenSandboxOptions } from "./openSandboxOptions.js"

/** execd of one sandbox. */
export interface Connection {
  readonly get: Effect.Effect<Api.Execd, ApiFailure>
  /** The next `get` asks for its place anew. */
  readonly forget: Effect.Effect<void>
}

export interface Places {
  readonly place: (id: string, port: number) => Effect.Effect<Resolved, ApiFailure>
  readonly connectExecd: (id: string) => Effect.Effect<Connection, never, Scope.Scope>
}

export const make = (options: OpenSandboxOptions, api: Api.Lifecycle, limit: Duration.Duration): Places => {
  const useServerProxy = options.useServerProxy ?? false

  /** Where a port is. The key goes along only where the service itself passes requests on. */
  const place = (id: string, port: number): Effect.Effect<Resolved, ApiFailure> =>
    Effect.flatMap(api.place(id, port, useServerProxy), ({ endpoint, headers }) =>
      Either.match(
        resolve({ baseUrl: options.baseUrl, protocol: options.protocol, endpoint, headers: headers ?? {} }),
        {
          onLeft: (reason) => Effect.fail<ApiFailure>({ _tag: "Malformed", status: 200, reason }),
          onRight: (resolved) =>
            Effect.succeed(
              useServerProxy && resolved.proxied && options.apiKey !== undefined
                ? { ...resolved, headers: { ...resolved.headers, [Api.keyHeader]: Redacted.value(options.apiKey) } }
                : resolved
            )
        }
      )
    )

  /** execd of one sandbox; its place is asked for once, and again after it could not be reached. */
  const connectExecd = (id: string) =>
    Effect.gen(function* () {
      // Absolute addresses: the place may change, the connections are this scope's.
      const client = yield* httpClient(Endpoint.Tcp({ url: "", headers: {} }))
      const known = yield* Ref.make(Option.none<Api.Execd>())
      const token = options.execdToken === undefined ? {} : { [Api.tokenHeader]: Redacted.value(options.execdToken) }
      const get = Effect.flatMap(
        Ref.get(known),
        Option.match({
          onSome: Effect.succeed,
          onNone: () =>
            place(id, Api.execdPort).pipe(
              Effect.map(({ headers, url }) =>
                Api.execd({
                  client,
                  url,
                  headers: { ...token, ...headers },
                  limit,
                  boundary: `deskhand-${randomBytes(12).toString("hex")}`
                })
              ),
              Effect.tap((execd) => Ref.set(known, Option.some(execd)))
            )
        })
      )
      return { get, forget: Ref.set(known, Option.none()) }
    })

  return { place, connectExecd }
}
