/**
 * A reply as it comes in: kept whole, or read event by event, but never more of it than its limit.
 */
import type { IncomingHttpHeaders } from "node:http"
import * as Either from "effect/Either"
import type { JsonObject } from "../../Convert.js"
import * as Sse from "../sse.js"
import { isObject, type StreamError } from "../streams/streamError.js"
import type { Receiver } from "./exchange.js"

/** Puts a streamed reply together. */
export interface Accumulator {
  /** Left when the stream cannot become a reply any more. */
  readonly add: (event: Sse.SseEvent) => Either.Either<void, StreamError>
  /** Whether the server has said that nothing more comes. */
  readonly isDone: () => boolean
  readonly finish: () => Either.Either<JsonObject, StreamError>
}

/** Why bytes are no reply. */
export interface Unreadable {
  readonly reason: "malformed" | "truncated" | "upstream"
  readonly detail: string
  /** What the server said of an error that came in mid-stream. */
  readonly told?: string
  readonly status?: number
}

export interface Incoming extends Receiver {
  /** Undefined before the reply's head. */
  readonly status: () => number | undefined
  readonly headers: () => IncomingHttpHeaders
  /** `performance.now()` when the first byte of the body came. */
  readonly firstByteAt: () => number | undefined
  /** `performance.now()` when the last byte came, of the head or the body. */
  readonly lastByteAt: () => number
  /** The body's bytes, of a stream at most the first of them. */
  readonly bytes: () => Buffer
  /** Whether it comes as a stream of events. */
  readonly isStream: () => boolean
  /** Whether a stream is complete though its connection is still open. */
  readonly isDone: () => boolean
  /** The reply, once all of it has come. */
  readonly json: () => Either.Either<JsonObject, Unreadable>
}

/** Bytes of a stream, and of an error's body, that are kept to be shown. */
export const keptBytes = 1024 * 1024

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** Undefined where it is no UTF-8. */
export const decodeUtf8 = (bytes: Uint8Array): string | undefined => {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

const parse = (text: string): Either.Either<JsonObject, Unreadable> => {
  try {
    const json: unknown = JSON.parse(text)
    return isObject(json) ? Either.right(json) : Either.left({ reason: "malformed", detail: "it is no JSON object" })
  } catch {
    return Either.left({ reason: "malformed", detail: "it is no JSON" })
  }
}

const unreadable = ({ data, detail, reason, status }: StreamError): Unreadable => ({
  reason,
  detail,
  ...(data === undefined ? {} : { told: data }),
  ...(status === undefined ? {} : { status })
})

const isSuccess = (status: number) => status >= 200 && status < 300

/** A class, because there is one for each model that thinks, and what it can do is no different from one to the next. */
class Reply implements Incoming {
  #status: number | undefined
  #headers: IncomingHttpHeaders = {}
  #streaming = false
  #firstByteAt: number | undefined
  #lastByteAt = performance.now()
  #length = 0
  #kept = 0
  #problem: Unreadable | undefined
  readonly #chunks: Array<Uint8Array> = []
  /** Of a stream. */
  #sse: Sse.SseState | undefined

  constructor(
    private readonly accumulator: Accumulator,
    private readonly limit: number
  ) {}

  #stop(unreadable: Unreadable): false {
    this.#problem = unreadable
    return false
  }

  #feed(chunk: Uint8Array): boolean {
    this.#sse ??= Sse.initial({ maxEventBytes: Math.min(this.limit, Sse.defaultMaxEventBytes) })
    const { events, next } = Sse.feed(this.#sse, chunk)
    for (const event of events) {
      const added = this.accumulator.add(event)
      if (Either.isLeft(added)) return this.#stop(unreadable(added.left))
    }
    if (Either.isLeft(next)) return this.#stop({ reason: "malformed", detail: next.left.message })
    this.#sse = next.right
    return true
  }

  status() {
    return this.#status
  }

  headers() {
    return this.#headers
  }

  firstByteAt() {
    return this.#firstByteAt
  }

  lastByteAt() {
    return this.#lastByteAt
  }

  bytes() {
    return Buffer.concat(this.#chunks)
  }

  isStream() {
    return this.#streaming
  }

  isDone() {
    return this.#streaming && this.#problem === undefined && this.accumulator.isDone()
  }

  head(code: number, told: IncomingHttpHeaders) {
    this.#lastByteAt = performance.now()
    this.#status = code
    this.#headers = told
    this.#streaming = isSuccess(code) && /^text\/event-stream\b/i.test(told["content-type"] ?? "")
  }

  data(chunk: Uint8Array) {
    this.#lastByteAt = performance.now()
    this.#firstByteAt ??= this.#lastByteAt
    this.#length += chunk.length
    const isOver = this.#length > this.limit
    const room = this.#streaming || isOver ? Math.max(0, keptBytes - this.#kept) : chunk.length
    if (room > 0) this.#chunks.push(room < chunk.length ? chunk.subarray(0, room) : chunk)
    this.#kept += Math.min(room, chunk.length)
    if (isOver) return this.#stop({ reason: "malformed", detail: `it has more than ${this.limit} bytes` })
    return this.#streaming ? this.#feed(chunk) : true
  }

  json(): Either.Either<JsonObject, Unreadable> {
    if (this.#problem !== undefined) return Either.left(this.#problem)
    if (this.#streaming) return Either.mapLeft(this.accumulator.finish(), unreadable)
    const text = decodeUtf8(this.bytes())
    return text === undefined ? Either.left({ reason: "malformed", detail: "it is no UTF-8" }) : parse(text)
  }
}

export const incoming = (options: {
  readonly accumulator: Accumulator
  /** Bytes that the body may have. */
  readonly limit: number
}): Incoming => new Reply(options.accumulator, options.limit)
