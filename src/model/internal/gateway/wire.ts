/**
 * Requests and replies in Node's own terms: headers keep their order and case, and bytes are nobody's but the sender's.
 */
import * as Http from "node:http"
import * as Https from "node:https"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { Refusal } from "./refusal.js"

/**
 * - `connect`: no connection came about, so nothing was sent
 * - `timeout`: the upstream was silent for too long
 * - `connection`: the connection broke
 */
export class UpstreamFailure extends Schema.TaggedError<UpstreamFailure>("deskhand/UpstreamFailure")(
  "UpstreamFailure",
  { reason: Schema.Literal("connect", "timeout", "connection"), detail: Schema.String }
) {
  override get message() {
    return this.detail
  }
}

/** The client is gone, or takes nothing any more. */
export class ClientGone extends Schema.TaggedError<ClientGone>("deskhand/ClientGone")("ClientGone", {}) {}

// -----------------------------------------------------------------------------
// The client's side
// -----------------------------------------------------------------------------

/** The request's body, whole. A body that is too large is not read to its end. */
export const readBody = (request: Http.IncomingMessage, limit: number): Effect.Effect<Buffer, Refusal | ClientGone> =>
  Effect.async((resume) => {
    const parts: Array<Buffer> = []
    let size = 0
    const tooLarge = () => {
      request.pause()
      resume(
        Effect.fail(
          new Refusal({
            status: 413,
            code: "request_too_large",
            detail: `the request is larger than ${limit} bytes, which is what this gateway takes: show the model less, or raise --max-request-mib`
          })
        )
      )
    }
    if (Number(request.headers["content-length"] ?? 0) > limit) return tooLarge()
    request.on("data", (part: Buffer) => {
      size += part.length
      if (size > limit) return tooLarge()
      parts.push(part)
    })
    request.on("end", () =>
      resume(Effect.succeed(parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)))
    )
    request.on("error", () => resume(Effect.fail(new ClientGone())))
    request.on("close", () => resume(Effect.fail(new ClientGone())))
  })

/** Writes, and waits for a client that reads slowly, though not for ever. */
export const write = (
  response: Http.ServerResponse,
  bytes: Uint8Array,
  stallMillis: number
): Effect.Effect<void, ClientGone> =>
  Effect.async((resume) => {
    if (response.destroyed) return resume(Effect.fail(new ClientGone()))
    if (response.write(bytes)) return resume(Effect.void)
    const settle = (effect: Effect.Effect<void, ClientGone>) => {
      clearTimeout(timer)
      response.off("drain", onDrain)
      response.off("close", onClose)
      resume(effect)
    }
    const onDrain = () => settle(Effect.void)
    const onClose = () => settle(Effect.fail(new ClientGone()))
    const timer = setTimeout(onClose, stallMillis)
    response.on("drain", onDrain)
    response.on("close", onClose)
    return Effect.sync(() => clearTimeout(timer))
  })

/** Ends the reply, with these bytes as its last. */
export const end = (response: Http.ServerResponse, bytes?: Uint8Array): Effect.Effect<void> =>
  Effect.sync(() => {
    if (response.destroyed) return
    if (bytes === undefined) response.end()
    else response.end(bytes)
  })

/** How long the last bytes of a broken reply may take to leave. */
const flushMillis = 10_000

/** Breaks the reply off after these bytes, so that nobody takes it for whole. */
export const cut = (response: Http.ServerResponse, bytes?: Uint8Array): Effect.Effect<void> =>
  Effect.async((resume) => {
    const destroy = () => {
      clearTimeout(timer)
      response.destroy()
      resume(Effect.void)
    }
    const timer = setTimeout(destroy, flushMillis)
    if (response.destroyed || bytes === undefined) return destroy()
    response.on("close", destroy)
    response.write(bytes, destroy)
  })

// -----------------------------------------------------------------------------
// The upstream's side
// -----------------------------------------------------------------------------

export interface Agents {
  readonly http: Http.Agent
  readonly https: Https.Agent
}

/** Connections to upstreams, kept for the next call; closed with the scope. */
export const makeAgents: Effect.Effect<Agents, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => ({
    http: new Http.Agent({ keepAlive: true, scheduling: "lifo" }),
    https: new Https.Agent({ keepAlive: true, scheduling: "lifo" })
  })),
  ({ http, https }) =>
    Effect.sync(() => {
      http.destroy()
      https.destroy()
    })
)

export interface UpstreamRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Record<string, string | Array<string>>
  readonly body?: Uint8Array
  readonly connectMillis: number
  /** How long the upstream may be silent, before its reply and within it. */
  readonly silenceMillis: number
}

/** A request that is on its way. */
export interface Exchange {
  /** Whether the whole request has left. */
  readonly sent: Effect.Effect<void>
  /** The reply's head. */
  readonly reply: Effect.Effect<Http.IncomingMessage, UpstreamFailure>
}

const withoutQuery = (url: URL): string => `${url.origin}${url.pathname}`

const failure = (error: NodeJS.ErrnoException, connected: boolean, url: URL): UpstreamFailure => {
  if (error instanceof UpstreamFailure) return error
  const what = error.message === "" ? (error.code ?? "the connection broke") : error.message
  return new UpstreamFailure({
    reason: connected ? "connection" : "connect",
    detail: `${withoutQuery(url)}: ${what}`
  })
}

/** A kept connection that the upstream closed as the request left: the upstream has seen nothing of it. */
const isStale = (request: Http.ClientRequest, error: NodeJS.ErrnoException): boolean =>
  request.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE")

/** Sends a request. The scope's end closes its connection, unless its reply has been read to the end. */
export const send = (agents: Agents, options: UpstreamRequest): Effect.Effect<Exchange, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => start(agents, options, true)),
      (exchange) => Effect.sync(() => exchange.abandon())
    ),
    (exchange) => ({
      sent: Effect.promise(() => exchange.sent),
      reply: Effect.async((resume) => {
        exchange.reply.then(
          (message) => resume(Effect.succeed(message)),
          (error: UpstreamFailure) => resume(Effect.fail(error))
        )
      })
    })
  )

const start = (agents: Agents, options: UpstreamRequest, mayRepeat: boolean) => {
  const { body, connectMillis, headers, method, silenceMillis, url } = options
  let current: Http.ClientRequest | undefined
  let message: Http.IncomingMessage | undefined
  let whenSent: () => void = () => {}
  const sent = new Promise<void>((resolve) => {
    whenSent = resolve
  })
  const reply = new Promise<Http.IncomingMessage>((resolve, reject) => {
    const attempt = (again: boolean) => {
      const secure = url.protocol === "https:"
      const request = (secure ? Https : Http).request(url, {
        agent: secure ? agents.https : agents.http,
        method,
        headers
      })
      current = request
      let connected = false
      const connecting = setTimeout(
        () =>
          request.destroy(
            new UpstreamFailure({
              reason: "connect",
              detail: `${withoutQuery(url)}: no connection within ${connectMillis} ms`
            })
          ),
        connectMillis
      )
      const onConnect = () => {
        connected = true
        clearTimeout(connecting)
      }
      request.on("socket", (socket) => {
        if (socket.connecting) socket.once(secure ? "secureConnect" : "connect", onConnect)
        else onConnect()
      })
      request.setTimeout(silenceMillis, () => {
        const failed = new UpstreamFailure({
          reason: "timeout",
          detail: `${withoutQuery(url)} was silent for ${silenceMillis} ms`
        })
        if (message === undefined) request.destroy(failed)
        else message.destroy(failed)
      })
      request.on("finish", whenSent)
      request.on("response", (answer) => {
        message = answer
        // Whoever reads it hears of it; until then it must not be an uncaught one.
        answer.on("error", () => {})
        whenSent()
        resolve(answer)
      })
      request.on("error", (error: NodeJS.ErrnoException) => {
        clearTimeout(connecting)
        if (again && message === undefined && isStale(request, error)) return attempt(false)
        whenSent()
        reject(failure(error, connected, url))
      })
      request.on("close", () => clearTimeout(connecting))
      request.end(body)
    }
    attempt(mayRepeat)
  })
  // It is read where the reply is waited for, and a request that was given up has no reader.
  reply.catch(() => {})
  return {
    sent,
    reply,
    abandon: () => {
      if (message?.complete !== true) current?.destroy()
    }
  }
}

/** The next bytes of a reply's body, as they come; undefined at its end. */
export const nextChunk = (message: Http.IncomingMessage): Effect.Effect<Buffer | undefined, UpstreamFailure> =>
  Effect.async((resume) => {
    const clear = () => {
      message.off("readable", look)
      message.off("end", look)
      message.off("error", onError)
      message.off("close", onClose)
    }
    const settle = (effect: Effect.Effect<Buffer | undefined, UpstreamFailure>) => {
      clear()
      resume(effect)
    }
    const broke = (detail: string) =>
      settle(
        Effect.fail(new UpstreamFailure({ reason: "connection", detail: `the upstream's reply broke off: ${detail}` }))
      )
    const onError = (error: Error) =>
      error instanceof UpstreamFailure ? settle(Effect.fail(error)) : broke(error.message)
    const onClose = () =>
      message.readableEnded && message.complete ? settle(Effect.succeed(undefined)) : broke("the connection was closed")
    const look = () => {
      if (message.errored != null) return onError(message.errored)
      const chunk: Buffer | null = message.read()
      if (chunk !== null) settle(Effect.succeed(chunk))
      else if (message.readableEnded) onClose()
      else if (message.closed) onClose()
    }
    message.on("readable", look)
    message.on("end", look)
    message.on("error", onError)
    message.on("close", onClose)
    look()
    return Effect.sync(clear)
  })

/** A reply's body, whole, unless it is larger than the limit. */
export const readReply = (
  message: Http.IncomingMessage,
  limit: number
): Effect.Effect<Buffer, UpstreamFailure | Refusal> =>
  Effect.gen(function* () {
    const parts: Array<Buffer> = []
    let size = 0
    while (true) {
      const chunk = yield* nextChunk(message)
      if (chunk === undefined) return Buffer.concat(parts)
      size += chunk.length
      if (size > limit) {
        return yield* new Refusal({
          status: 502,
          code: "upstream_too_large",
          detail: `the upstream's reply is larger than ${limit} bytes, which is what this gateway converts: lower max_tokens, or raise --max-reply-mib`
        })
      }
      parts.push(chunk)
    }
  })
