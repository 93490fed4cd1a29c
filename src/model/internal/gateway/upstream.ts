/**
 * The upstream behind a gateway: one model at one or several addresses.
 */
import type { IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Endpoints from "../../Endpoints.js"
import { isObject, type JsonObject } from "../streams/streamError.js"
import { Refusal } from "./refusal.js"
import * as Wire from "./wire.js"

export interface UpstreamOptions {
  /** Base addresses, such as `http://127.0.0.1:8000/v1`. */
  readonly urls: readonly [string, ...Array<string>]
  readonly connectMillis: number
  readonly silenceMillis: number
}

export interface UpstreamCall {
  readonly method: string
  /** What follows the base address. */
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
  readonly headers: Record<string, string | Array<string>>
  readonly body?: Uint8Array
  /** Calls of one key go to one address. */
  readonly key: string
  /** Runs when the request has left. */
  readonly whenSent?: Effect.Effect<void>
  /** Runs before the request leaves, with the address that it goes to. */
  readonly before?: (url: string) => Effect.Effect<void>
}

export interface UpstreamReply {
  readonly message: IncomingMessage
  /** The base address that replied. */
  readonly base: string
}

export interface Upstream {
  /** The reply's head, whatever its status. An address that cannot be reached is passed over for another. */
  readonly call: (call: UpstreamCall) => Effect.Effect<UpstreamReply, Refusal, Scope.Scope>
  /** The tokens of a chat request's prompt, as vLLM's `/tokenize` beside the API counts them. */
  readonly tokenize: (
    base: string,
    body: JsonObject,
    headers: Record<string, string | Array<string>>
  ) => Effect.Effect<ReadonlyArray<number>, Refusal | Wire.UpstreamFailure | TokenizeError>
}

export class TokenizeError extends Schema.TaggedError<TokenizeError>("deskhand/TokenizeError")("TokenizeError", {
  detail: Schema.String
}) {
  override get message() {
    return `the upstream did not tell the prompt's tokens: ${this.detail}. Ask for ids instead (--tokens ids)`
  }
}

/** Where a call goes: the base address, its own query kept, and what the client asked for behind it. */
export const addressOf = (base: string, path: string, query: string): URL => {
  const url = new URL(base)
  url.pathname = url.pathname.replace(/\/+$/, "") + path
  if (query.length > 1) url.search = url.search === "" ? query : `${url.search}&${query.slice(1)}`
  return url
}

/** An answer for an upstream that gave none. */
export const refusalOf = (failure: Wire.UpstreamFailure): Refusal => {
  switch (failure.reason) {
    case "connect":
      return new Refusal({
        status: 502,
        code: "upstream_unreachable",
        detail: `the upstream cannot be reached: ${failure.detail}. Check that it runs and that --upstream is right`
      })
    case "timeout":
      return new Refusal({
        status: 504,
        code: "upstream_timeout",
        detail: `the upstream did not answer in time: ${failure.detail}. It may be overloaded; --silence-seconds says how long is waited`
      })
    case "connection":
      return new Refusal({
        status: 502,
        code: "upstream_broke",
        detail: `the upstream broke the connection: ${failure.detail}. Whether it did what was asked is not known`
      })
  }
}

const unavailable = new Set([502, 503, 504])

/** What `/tokenize` wants of a chat request. */
const tokenizeFields = [
  "model",
  "messages",
  "tools",
  "chat_template_kwargs",
  "mm_processor_kwargs",
  "required_prefix_token_ids"
]

const tokenizeLimit = 64 * 1024 * 1024

export const makeUpstream = (options: UpstreamOptions): Effect.Effect<Upstream, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { connectMillis, silenceMillis, urls } = options
    const agents = yield* Wire.makeAgents
    const clock = yield* Effect.clock
    let state = Endpoints.make(urls)
    const now = () => clock.unsafeCurrentTimeMillis()

    const call = (request: UpstreamCall) =>
      Effect.gen(function* () {
        const { body, headers, key, method, path, query } = request
        const tried = new Set<string>()
        while (true) {
          const base = Endpoints.choose(state, key, now())
          tried.add(base)
          if (request.before !== undefined) yield* request.before(base)
          const exchange = yield* Wire.send(agents, {
            url: addressOf(base, path, query),
            method,
            headers,
            ...(body === undefined ? {} : { body }),
            connectMillis,
            silenceMillis
          })
          if (request.whenSent !== undefined) yield* Effect.zipRight(exchange.sent, request.whenSent)
          const reply = yield* Effect.either(exchange.reply)
          if (reply._tag === "Right") {
            const message = reply.right
            state = unavailable.has(message.statusCode ?? 0)
              ? Endpoints.markDown(state, base, now())
              : Endpoints.markUp(state, base)
            return { message, base }
          }
          state = Endpoints.markDown(state, base, now())
          // Nothing was sent, so another may be asked; else the call may have been answered for all that is known.
          const again = reply.left.reason === "connect" && !tried.has(Endpoints.choose(state, key, now()))
          if (!again) return yield* refusalOf(reply.left)
        }
      })

    return {
      call,
      tokenize: (base, body, headers) =>
        Effect.scoped(
          Effect.gen(function* () {
            const url = new URL(base)
            url.pathname = `${url.pathname.replace(/\/+$/, "").replace(/\/v1$/, "")}/tokenize`
            const wanted = Object.fromEntries(
              tokenizeFields.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]]))
            )
            const bytes = Buffer.from(JSON.stringify(wanted))
            const exchange = yield* Wire.send(agents, {
              url,
              method: "POST",
              headers: { ...headers, "content-type": "application/json", "content-length": String(bytes.length) },
              body: bytes,
              connectMillis,
              silenceMillis
            })
            const message = yield* exchange.reply
            const text = (yield* Wire.readReply(message, tokenizeLimit)).toString("utf8")
            if (message.statusCode !== 200) {
              return yield* new TokenizeError({ detail: `${url.pathname} answered ${message.statusCode}` })
            }
            const reply = yield* Effect.try({
              try: (): unknown => JSON.parse(text),
              catch: () => new TokenizeError({ detail: `${url.pathname} answered with no JSON` })
            })
            const tokens = isObject(reply) ? reply["tokens"] : undefined
            if (!Array.isArray(tokens)) {
              return yield* new TokenizeError({ detail: `${url.pathname} answered without tokens` })
            }
            // Whether they are ids is for the reader of the reply to say.
            return tokens
          })
        )
    }
  })
