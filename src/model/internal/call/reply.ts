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

export const incoming = (options: {
  readonly accumulator: Accumulator
  /** Bytes that the body may have. */
  readonly limit: number
}): Incoming => {
  const { accumulator, limit } = options
  let status: number | undefined
  let headers: IncomingHttpHeaders = {}
  let streaming = false
  let firstByteAt: number | undefined
  let lastByteAt = performance.now()
  let length = 0
  let kept = 0
  let problem: Unreadable | undefined
  const chunks: Array<Uint8Array> = []
  let sse = Sse.initial({ maxEventBytes: Math.min(limit, Sse.defaultMaxEventBytes) })

  const stop = (unreadable: Unreadable): false => {
    problem = unreadable
    return false
  }
  const feed = (chunk: Uint8Array): boolean => {
    const { events, next } = Sse.feed(sse, chunk)
    for (const event of events) {
      const added = accumulator.add(event)
      if (Either.isLeft(added)) return stop(unreadable(added.left))
    }
    if (Either.isLeft(next)) return stop({ reason: "malformed", detail: next.left.message })
    sse = next.right
    return true
  }
  return {
    status: () => status,
    headers: () => headers,
    firstByteAt: () => firstByteAt,
    lastByteAt: () => lastByteAt,
    bytes: () => Buffer.concat(chunks),
    isStream: () => streaming,
    isDone: () => streaming && problem === undefined && accumulator.isDone(),
    head: (code, told) => {
      lastByteAt = performance.now()
      status = code
      headers = told
      streaming = isSuccess(code) && /^text\/event-stream\b/i.test(told["content-type"] ?? "")
    },
    data: (chunk) => {
      lastByteAt = performance.now()
      firstByteAt ??= lastByteAt
      length += chunk.length
      const room = streaming || length > limit ? Math.max(0, keptBytes - kept) : chunk.length
      if (room > 0) chunks.push(room < chunk.length ? chunk.subarray(0, room) : chunk)
      kept += Math.min(room, chunk.length)
      if (length > limit) return stop({ reason: "malformed", detail: `it has more than ${limit} bytes` })
      return streaming ? feed(chunk) : true
    },
    json: () => {
      if (problem !== undefined) return Either.left(problem)
      if (streaming) return Either.mapLeft(accumulator.finish(), unreadable)
      const text = decodeUtf8(Buffer.concat(chunks))
      return text === undefined ? Either.left({ reason: "malformed", detail: "it is no UTF-8" }) : parse(text)
    }
  }
}
