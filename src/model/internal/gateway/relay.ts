/**
 * Passes a reply on as it is: status, headers and bytes.
 */
import type * as Http from "node:http"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { isObject } from "../streams/streamError.js"
import { toClient } from "./headers.js"
import { makeObserver, type Observed } from "./observe.js"
import type { Dialect } from "./refusal.js"
import * as Wire from "./wire.js"
import type { Outcome, Witness } from "./witness.js"

export interface RelayOptions {
  /** The wire that the upstream speaks. */
  readonly dialect: Dialect
  readonly witness: Witness
  /** Bytes of a reply that are kept at most; more are passed on all the same. */
  readonly keepLimit: number
  readonly stallMillis: number
}

const isEventStream = (message: Http.IncomingMessage): boolean =>
  /^text\/event-stream\b/i.test(message.headers["content-type"] ?? "")

const isEncoded = (message: Http.IncomingMessage): boolean =>
  !/^(identity)?$/i.test(message.headers["content-encoding"] ?? "")

const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** Why an upstream failed, as a record has it. */
export const brokenBy = (
  failure: Wire.UpstreamFailure
): { readonly category: "timeout" | "connection"; readonly detail: string } => ({
  category: failure.reason === "timeout" ? "timeout" : "connection",
  detail: failure.detail
})

/** Why a reply is not whole when whoever asked has left. */
export const clientGone = {
  category: "client_disconnected",
  detail: "whoever asked went away before the reply's end"
} as const

/**
 * Passes `message` on. Where the upstream breaks off before the client was told anything, that is an error to answer
 * with; later, the client's connection is cut, so that it does not take a part for the whole.
 */
export const relay = (
  message: Http.IncomingMessage,
  response: Http.ServerResponse,
  { dialect, keepLimit, stallMillis, witness }: RelayOptions
): Effect.Effect<void, Wire.ClientGone | Wire.UpstreamFailure> =>
  Effect.gen(function* () {
    const status = message.statusCode ?? 502
    const stream = isEventStream(message)
    let observer = witness.observing()
      ? makeObserver({ dialect, status, stream, encoded: isEncoded(message), limit: keepLimit })
      : undefined
    const head = Effect.sync(() => {
      if (!response.headersSent) response.writeHead(status, message.statusMessage, toClient(message.rawHeaders))
    })
    const outcome = (observed: Observed): Outcome => ({
      ...observed,
      status,
      ...(dialect === "chat" && isSuccess(status) && isObject(observed.response)
        ? { completion: observed.response }
        : {})
    })
    const settle = (observed: Observed) =>
      Effect.zipRight(isSuccess(status) ? witness.given : Effect.void, witness.settle(outcome(observed)))
    const give = (bytes: Uint8Array) =>
      Effect.gen(function* () {
        yield* head
        if (isSuccess(status)) yield* witness.given
        yield* Wire.write(response, bytes, stallMillis)
      })
    /** What was heard until then is kept. */
    const gone = Effect.suspend(() =>
      observer === undefined
        ? Effect.void
        : witness.settle({ ...outcome(observer.finish(clientGone)), status: response.headersSent ? status : null })
    )
    if (stream) {
      yield* head
      response.flushHeaders()
    }
    let held: Buffer | undefined
    const loop = Effect.gen(function* () {
      while (true) {
        const next = yield* Effect.either(Wire.nextChunk(message))
        if (Either.isLeft(next)) {
          if (!response.headersSent) return yield* next.left
          if (observer !== undefined) yield* settle(observer.finish(brokenBy(next.left)))
          return yield* Wire.cut(response, held)
        }
        const chunk = next.right
        if (chunk === undefined) {
          if (observer !== undefined) yield* settle(observer.finish())
          yield* head
          return yield* Wire.end(response, held)
        }
        yield* witness.firstByte
        if (isSuccess(status) && response.headersSent) yield* witness.given
        const verdict = observer === undefined ? "pass" : observer.push(chunk)
        if (held !== undefined) yield* give(held)
        held = undefined
        if (verdict === "last" && observer !== undefined) {
          yield* settle(observer.finish())
          observer = undefined
        }
        if (verdict === "unsure") held = chunk
        else yield* give(chunk)
      }
    })
    yield* loop.pipe(
      Effect.onInterrupt(() => gone),
      Effect.tapErrorTag("ClientGone", () => gone)
    )
  })
