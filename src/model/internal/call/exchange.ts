/**
 * One HTTP request and its reply, on a dispatcher of undici. Its handlers are called as bytes come, so a reply costs no
 * stream and no promise for each piece.
 */
import type { IncomingHttpHeaders } from "node:http"
import type { Readable } from "node:stream"
import type * as Undici from "@effect/platform-node/Undici"
import * as Effect from "effect/Effect"
import { unsafeWaitedForConnection } from "../../Telemetry.js"

/** A body that is made while it is sent, each time that it is. */
export interface RequestBody {
  readonly open: () => OpenBody
}

export interface OpenBody {
  /** In bytes. */
  readonly length: number
  readonly stream: Readable
}

export interface ExchangeRequest {
  readonly method: "GET" | "POST"
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: RequestBody
}

/** What is done with a reply as it comes. */
export interface Receiver {
  readonly head: (status: number, headers: IncomingHttpHeaders) => void
  /** Whether the rest is wanted: if not, the exchange ends, and so does its connection. */
  readonly data: (chunk: Uint8Array) => boolean
}

/** The exchange broke off. */
export class ExchangeFailure {
  readonly _tag = "ExchangeFailure"
  constructor(
    readonly cause: Error,
    /** How far it was: before a byte was sent, before the reply's head, or in its body. */
    readonly phase: "waiting" | "sent" | "replying"
  ) {}
}

/**
 * Looks after an exchange from outside and may end it: as a failure, or as a success where nothing is given. It starts a
 * watch, which is told of the reply's head and is stopped when the exchange is over.
 */
export type Watch<E> = (end: (failure: E | undefined) => void) => {
  readonly head: () => void
  readonly stop: () => void
}

const unwatched: Watch<never> = () => ({ head: () => {}, stop: () => {} })

class Stopped extends Error {}

const toError = (cause: unknown): Error => (cause instanceof Error ? cause : new Error(String(cause)))

/**
 * Succeeds when the reply has ended or the receiver wants no more of it. Interruption aborts the request, also one that
 * still waits for a connection.
 */
export const exchange = <E = never>(
  dispatcher: Undici.Dispatcher,
  { body, headers, method, url }: ExchangeRequest,
  receiver: Receiver,
  watch: Watch<E> = unwatched
): Effect.Effect<void, ExchangeFailure | E> =>
  Effect.async((resume) => {
    const began = performance.now()
    let phase: ExchangeFailure["phase"] = "waiting"
    let over = false
    let connection: Undici.Dispatcher.DispatchController | undefined
    const end = (result: Effect.Effect<void, ExchangeFailure | E>) => {
      if (over) return
      over = true
      watching.stop()
      resume(result)
    }
    const watching = watch((failure) => {
      end(failure === undefined ? Effect.void : Effect.fail(failure))
      connection?.abort(new Stopped("nobody waits for the reply any more"))
    })
    const failed = (cause: unknown) => end(Effect.fail(new ExchangeFailure(toError(cause), phase)))
    const handler: Undici.Dispatcher.DispatchHandler = {
      onRequestStart: (controller) => {
        if (over) return controller.abort(new Stopped("nobody waits for the reply"))
        connection = controller
        if (phase !== "waiting") return
        phase = "sent"
        unsafeWaitedForConnection(url.origin, performance.now() - began)
      },
      onResponseStart: (controller, status, replyHeaders) => {
        // They lie in the memory of the body's first piece, and would keep it until the next large collection.
        controller.rawHeaders = null
        // 1xx says that a head will come.
        if (over || status < 200) return
        phase = "replying"
        receiver.head(status, replyHeaders)
        watching.head()
      },
      onResponseData: (controller, chunk) => {
        if (over || receiver.data(chunk)) return
        end(Effect.void)
        controller.abort(new Stopped("the rest of the reply is not wanted"))
      },
      onResponseEnd: () => end(Effect.void),
      onResponseError: (_, cause) => failed(cause)
    }
    try {
      const opened = body?.open()
      dispatcher.dispatch(
        {
          origin: url.origin,
          path: url.pathname + url.search,
          method,
          headers: opened === undefined ? headers : { ...headers, "content-length": String(opened.length) },
          body: opened?.stream ?? null,
          headersTimeout: 0,
          bodyTimeout: 0
        },
        handler
      )
    } catch (cause) {
      failed(cause)
    }
    return Effect.sync(() => {
      over = true
      watching.stop()
      connection?.abort(new Stopped("the call was interrupted"))
    })
  })
