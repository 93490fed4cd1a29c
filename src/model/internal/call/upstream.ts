/**
 * Asks a server for a JSON object, whole or as a stream of events, and makes an error of whatever else it says.
 */
import type * as Undici from "@effect/platform-node/Undici"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type { JsonObject } from "../../Convert.js"
import { ModelError } from "../../ModelError.js"
import { mark, redactText, redactUrl } from "../../Redaction.js"
import { isObject, isText, StreamError } from "../streams/streamError.js"
import { addressOf } from "./address.js"
import { exchange, type RequestBody } from "./exchange.js"
import { bodyFields, broken, excerpt, refusalReason, reportedReason, retryAfterOf } from "./failure.js"
import { type Accumulator, type Incoming, incoming } from "./reply.js"
import { watchdog } from "./watchdog.js"

/** The headers that carry a key. */
export type Authorise = (key: string) => Readonly<Record<string, string>>

export const bearer: Authorise = (key) => ({ authorization: `Bearer ${key}` })

export interface UpstreamOptions {
  readonly dispatcher: Undici.Dispatcher
  readonly apiKey: Redacted.Redacted | undefined
  readonly authorise: Authorise
  /** Bytes that a reply may have. */
  readonly replyLimit: number
  /** In milliseconds: for a reply as a whole, and between two pieces of a stream. */
  readonly times: { readonly timeout: number; readonly idle: number }
}

export interface Question {
  readonly base: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: RequestBody
  /** Puts a stream together, if one comes. */
  readonly accumulator: Accumulator
  /** Which try it is, from 1. */
  readonly attempts: number
}

export interface Answer {
  readonly json: JsonObject
  readonly status: number
  /** From asking to the first byte of the body, in milliseconds; undefined where it has none. */
  readonly firstByte: number | undefined
  /** An error that keeps this answer. */
  readonly error: (reason: ModelError["reason"], detail: string) => ModelError
}

export interface Upstream {
  readonly ask: (question: Question) => Effect.Effect<Answer, ModelError>
  /** An address without what is secret in it. */
  readonly shown: (url: string) => string
}

/** For replies that no server sends as streams. */
export const noStream: Accumulator = {
  add: () => Either.left(new StreamError({ reason: "malformed", detail: "it is a stream of events" })),
  isDone: () => false,
  finish: () => Either.left(new StreamError({ reason: "malformed", detail: "it is a stream of events" }))
}

/** The error that some servers report with a 200, in an object like that of a refusal. */
const errorOf = (json: JsonObject): { readonly message: string; readonly status?: number } | undefined => {
  const { error } = json
  if (isText(error)) return { message: error }
  if (!isObject(error) || "choices" in json || "output" in json) return undefined
  const status = [error["code"], error["status"]].find((code) => typeof code === "number")
  return { message: JSON.stringify(error), ...(typeof status === "number" ? { status } : {}) }
}

export const makeUpstream = ({ apiKey, authorise, dispatcher, replyLimit, times }: UpstreamOptions): Upstream => {
  const secrets = apiKey === undefined ? [] : [apiKey]
  const key = apiKey === undefined ? "" : Redacted.value(apiKey)
  // A body is kept as it came, save that no server may make us write down our own key.
  const hide = (text: string) => (key === "" ? text : text.replaceAll(key, mark))
  const shown = (url: string) => redactUrl(url, secrets)

  const understand = (
    into: Incoming,
    error: (reason: ModelError["reason"], detail: string) => ModelError
  ): Either.Either<JsonObject, ModelError> => {
    const status = into.status() ?? 0
    const said = () => excerpt(into.bytes().subarray(0, 4_096).toString())
    if (status < 200 || status >= 300) {
      const reason = refusalReason(status, into.bytes().toString())
      return Either.left(error(reason, `the server refused the request: ${said()}`))
    }
    return Either.match(into.json(), {
      onLeft: ({ detail, reason, status: code, told }) =>
        Either.left(
          reason === "upstream"
            ? error(reportedReason(told ?? detail, code), `the server broke its reply off with an error: ${detail}`)
            : reason === "truncated"
              ? error("truncated", `the reply broke off: ${detail}`)
              : error("malformed_reply", `the reply cannot be read, ${detail}: ${said()}`)
        ),
      onRight: (json) => {
        const reported = errorOf(json)
        return reported === undefined
          ? Either.right(json)
          : Either.left(
              error(
                reportedReason(reported.message, reported.status),
                `the server replied with an error: ${excerpt(reported.message)}`
              )
            )
      }
    })
  }

  return {
    shown,
    ask: ({ accumulator, attempts, base, body, headers, path }) =>
      Effect.suspend(() => {
        const address = addressOf(base, path)
        if (address === undefined) {
          return new ModelError({
            reason: "transport",
            url: shown(base),
            delivered: false,
            attempts,
            detail: "it is no http or https address"
          })
        }
        const { authorization, url } = address
        const own = key !== "" ? authorise(key) : authorization === undefined ? {} : { authorization }
        const into = incoming({ accumulator, limit: replyLimit })
        const began = performance.now()
        const answered = Effect.flatMap(Clock.currentTimeMillis, (now) => {
          const status = into.status() ?? 0
          const error = (reason: ModelError["reason"], detail: string) => {
            const wait = retryAfterOf(into.headers(), now)
            return new ModelError({
              reason,
              url: shown(url.href),
              status,
              ...bodyFields(into.bytes(), hide),
              ...(wait === undefined ? {} : { retryAfter: wait }),
              attempts,
              detail: redactText(detail, secrets)
            })
          }
          const firstByteAt = into.firstByteAt()
          const firstByte = firstByteAt === undefined ? undefined : firstByteAt - began
          return Either.map(understand(into, error), (json) => ({ json, status, error, firstByte }))
        })
        const failed = (told: Pick<ModelError, "reason" | "detail"> & { readonly delivered?: false }) => {
          // A server that ends its stream in words and then cuts the line has said all the same.
          if (into.isDone()) return answered
          const status = into.status()
          return Effect.fail(
            new ModelError({
              ...told,
              detail: redactText(told.detail, secrets),
              url: shown(url.href),
              attempts,
              ...(status === undefined ? {} : { status, ...bodyFields(into.bytes(), hide) })
            })
          )
        }
        const request = { method: "POST", url, headers: { ...headers, ...own }, body } as const
        return Effect.matchEffect(exchange(dispatcher, request, into, watchdog(into, times)), {
          onFailure: (failure) =>
            failed(failure._tag === "Expired" ? { reason: "timeout", detail: failure.detail } : broken(failure)),
          onSuccess: () => answered
        })
      })
  }
}
