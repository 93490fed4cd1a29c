/** Whether servers can be reached and take the key, asked before anything depends on it. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { ClientOptions } from "../../ClientOptions.js"
import { ModelError } from "../../ModelError.js"
import { redactUrl } from "../../Redaction.js"
import { addressOf } from "./address.js"
import { exchange } from "./exchange.js"
import { broken } from "./failure.js"
import type { Authorise } from "./upstream.js"

export interface Asking {
  readonly authorise: Authorise
  readonly headers: Readonly<Record<string, string>>
}

/** Asks each server for its list of models. Servers that have no such list pass. */
export const reach = (
  { apiKey, url }: Pick<ClientOptions, "url" | "apiKey">,
  asking: Asking
): Effect.Effect<void, ModelError, NodeHttpClient.Dispatcher> =>
  Effect.flatMap(NodeHttpClient.Dispatcher, (dispatcher) =>
    Effect.forEach(typeof url === "string" ? [url] : url, (base) => reachOne(dispatcher, base, apiKey, asking), {
      discard: true,
      concurrency: "unbounded"
    })
  )

const reachOne = (
  dispatcher: Parameters<typeof exchange>[0],
  base: string,
  apiKey: Redacted.Redacted | undefined,
  { authorise, headers }: Asking
): Effect.Effect<void, ModelError> =>
  Effect.suspend(() => {
    const failed = (reason: ModelError["reason"], detail: string, status?: number) =>
      new ModelError({
        reason,
        url: redactUrl(base, apiKey === undefined ? [] : [apiKey]),
        detail,
        ...(status === undefined ? {} : { status })
      })
    const address = addressOf(base, "/models")
    if (address === undefined) return Effect.fail(failed("transport", "it is no http or https address"))
    const { authorization, url } = address
    const secret =
      apiKey === undefined ? (authorization === undefined ? {} : { authorization }) : authorise(Redacted.value(apiKey))
    let status = 0
    return exchange(
      dispatcher,
      { method: "GET", url, headers: { ...headers, ...secret } },
      {
        head: (code) => {
          status = code
        },
        // What the list holds is of no account here.
        data: () => false
      }
    ).pipe(
      Effect.mapError((failure) => failed("transport", broken(failure).detail)),
      Effect.timeoutFail({
        duration: "30 seconds",
        onTimeout: () => failed("transport", "no answer within 30 seconds")
      }),
      Effect.flatMap(() =>
        status === 401 || status === 403 ? Effect.fail(failed("unauthorised", "it wants a key", status)) : Effect.void
      )
    )
  })
