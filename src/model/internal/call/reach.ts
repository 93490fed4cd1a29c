/** Whether servers can be reached and take the key, asked before anything depends on it. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { ClientOptions } from "../../ClientOptions.js"
import { ModelError } from "../../ModelError.js"
import { redactText, redactUrl } from "../../Redaction.js"
import { isObject, isText } from "../streams/streamError.js"
import { addressOf } from "./address.js"
import { exchange } from "./exchange.js"
import { broken, excerpt } from "./failure.js"
import type { Authorise } from "./upstream.js"

export interface Asking {
  readonly authorise: Authorise
  readonly headers: Readonly<Record<string, string>>
}

export interface Reaching extends Pick<ClientOptions, "url" | "apiKey"> {
  /** What people know the key by, such as the variable that holds it. */
  readonly keyName?: string
}

/** Asks each server for its list of models. Servers that have no such list pass. */
export const reach = (
  { apiKey, keyName, url }: Reaching,
  asking: Asking
): Effect.Effect<void, ModelError, NodeHttpClient.Dispatcher> =>
  Effect.flatMap(NodeHttpClient.Dispatcher, (dispatcher) =>
    Effect.forEach(
      typeof url === "string" ? [url] : url,
      (base) => reachOne(dispatcher, base, { apiKey, keyName }, asking),
      {
        discard: true,
        concurrency: "unbounded"
      }
    )
  )

/** So much of a refusal is read. */
const saidBytes = 4_096

/** What a refusal says to people: the message in it, or all of it where it has none. */
const words = (body: string): string => {
  if (body.trim() === "") return ""
  const message = Option.flatMap(parsed(body), (json) => {
    const error = isObject(json) ? (json["error"] ?? json) : json
    const text = isObject(error) ? (error["message"] ?? error["detail"]) : error
    return isText(text) && text !== "" ? Option.some(text) : Option.none()
  })
  return excerpt(Option.getOrElse(message, () => body))
}

const parsed = Option.liftThrowable((text: string): unknown => JSON.parse(text))

const reachOne = (
  dispatcher: Parameters<typeof exchange>[0],
  base: string,
  { apiKey, keyName }: { readonly apiKey: Redacted.Redacted | undefined; readonly keyName: string | undefined },
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
    const refused = () => status === 401 || status === 403
    const said: Array<Uint8Array> = []
    let bytes = 0
    const refusal = () => {
      if (apiKey === undefined && authorization === undefined) return "it wants a key, and none was given"
      const text = words(Buffer.concat(said).toString())
      const key = keyName === undefined ? "the key" : `the key in ${keyName}`
      const what = status === 401 ? `it refuses ${key}` : `${key} may not use it`
      return text === "" ? what : `${what}, and it says: ${redactText(text, apiKey === undefined ? [] : [apiKey])}`
    }
    return exchange(
      dispatcher,
      { method: "GET", url, headers: { ...headers, ...secret } },
      {
        head: (code) => {
          status = code
        },
        // What the list holds is of no account here; why a key is refused is.
        data: (chunk) => {
          if (!refused()) return false
          said.push(chunk)
          bytes += chunk.length
          return bytes < saidBytes
        }
      }
    ).pipe(
      Effect.mapError((failure) => failed("transport", broken(failure).detail)),
      Effect.timeoutFail({
        duration: "30 seconds",
        onTimeout: () => failed("transport", "no answer within 30 seconds")
      }),
      // A refusal is one however its text ends.
      Effect.catchIf(refused, () => Effect.void),
      Effect.flatMap(() => (refused() ? Effect.fail(failed("unauthorised", refusal(), status)) : Effect.void))
    )
  })
