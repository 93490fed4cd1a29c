/**
 * Looks at a reply's bytes as they go by: what they say as a whole, and when a client could take them for the whole.
 */
import * as Either from "effect/Either"
import type { ErrorCategory } from "../../ModelCallCapture.js"
import * as Sse from "../sse.js"
import * as Chat from "../streams/chatAccumulator.js"
import * as Messages from "../streams/messagesAccumulator.js"
import * as Responses from "../streams/responsesAccumulator.js"
import { isObject, type JsonObject, StreamError } from "../streams/streamError.js"
import * as category from "./category.js"
import type { Dialect } from "./refusal.js"

/** What a reply came to. */
export interface Observed {
  readonly category: ErrorCategory | null
  readonly detail?: string
  /** The reply as JSON, a stream's events put together; null when they make none. */
  readonly response: unknown
  /** Of streams, and of what is no JSON. */
  readonly raw?: Buffer
  /** Whether the reply could not be kept whole. */
  readonly lossy: boolean
}

/** Puts the events of a stream together. */
export interface Accumulator {
  /** Whether this event is the last that clients wait for. Left: the stream cannot go on to make a reply. */
  readonly add: (event: Sse.SseEvent) => Either.Either<boolean, StreamError>
  readonly finish: () => Either.Either<JsonObject, StreamError>
}

const accumulator = <State>(
  initial: State,
  add: (state: State, event: Sse.SseEvent) => Either.Either<State, StreamError>,
  isEnd: (state: State) => boolean,
  finish: (state: State) => Either.Either<JsonObject, StreamError>
): Accumulator => {
  let state = initial
  return {
    add: (event) =>
      Either.map(add(state, event), (next) => {
        state = next
        return isEnd(next)
      }),
    finish: () => finish(state)
  }
}

/** For a stream of this dialect. */
export const makeAccumulator = (dialect: Dialect): Accumulator => {
  switch (dialect) {
    case "chat":
      return accumulator(Chat.empty, Chat.addEvent, ({ done }) => done, Chat.finish)
    case "responses":
      return accumulator(
        Responses.empty,
        Responses.addEvent,
        ({ response }) => response !== undefined,
        Responses.finish
      )
    case "messages":
      return accumulator(Messages.empty, Messages.addEvent, ({ done }) => done, Messages.finish)
  }
}

/**
 * What to do with bytes that came:
 *
 * - `pass`: more will come
 * - `unsure`: they may be the last, so they wait until more come or the end does
 * - `last`: a client may take the reply for whole with them, so the call goes on record first
 */
export type Verdict = "pass" | "unsure" | "last"

export interface Observer {
  readonly push: (chunk: Uint8Array) => Verdict
  /** What came, once the reply has ended or has nothing more to say; `broke` says why it did not end by itself. */
  readonly finish: (broke?: { readonly category: ErrorCategory; readonly detail: string }) => Observed
}

export interface ObserverOptions {
  readonly dialect: Dialect
  readonly status: number
  readonly stream: boolean
  /** Whether the body has an encoding that hides it. */
  readonly encoded: boolean
  /** Bytes that are kept at most. */
  readonly limit: number
}

/** Bytes that are kept, until there are too many. */
const makeBuffer = (limit: number) => {
  let parts: Array<Uint8Array> = []
  let size = 0
  return {
    add: (chunk: Uint8Array): void => {
      size += chunk.length
      if (size <= limit) parts.push(chunk)
      else parts = []
    },
    isFull: () => size > limit,
    bytes: (): Buffer => Buffer.concat(parts)
  }
}

const tooLarge = (limit: number): Observed => ({
  category: "capture_parse_error",
  detail: `the reply is larger than ${limit} bytes and was passed on without being kept`,
  response: null,
  lossy: true
})

const parseJson = (bytes: Buffer): Either.Either<unknown, undefined> =>
  Either.try({ try: (): unknown => JSON.parse(bytes.toString("utf8")), catch: () => undefined })

const observeWhole = (options: ObserverOptions): Observer => {
  const buffer = makeBuffer(options.limit)
  return {
    push: (chunk) => {
      buffer.add(chunk)
      return buffer.isFull() ? "last" : "unsure"
    },
    finish: (broke) => {
      if (buffer.isFull()) return tooLarge(options.limit)
      const raw = buffer.bytes()
      if (broke !== undefined) return { ...broke, response: null, raw, lossy: false }
      const byStatus = category.ofStatus(options.status)
      const parsed = parseJson(raw)
      if (Either.isLeft(parsed)) {
        const detail = options.encoded ? "the reply is encoded" : "the reply is no JSON"
        return byStatus === null
          ? { category: "capture_parse_error", detail, response: null, raw, lossy: options.encoded }
          : { category: byStatus, response: null, raw, lossy: false }
      }
      if (byStatus !== null) return { category: byStatus, response: parsed.right, lossy: false }
      return isObject(parsed.right)
        ? { category: category.ofReply(options.dialect, parsed.right), response: parsed.right, lossy: false }
        : { category: "capture_parse_error", detail: "the reply is no object", response: parsed.right, lossy: false }
    }
  }
}

const ofStreamError = ({ detail, reason }: StreamError): Pick<Observed, "category" | "detail"> => {
  switch (reason) {
    case "truncated":
      return { category: "stream_truncated", detail }
    case "malformed":
      return { category: "capture_parse_error", detail }
    case "upstream":
      return { category: "upstream_error", detail }
  }
}

const observeStream = (options: ObserverOptions): Observer => {
  const buffer = makeBuffer(options.limit)
  const reply = makeAccumulator(options.dialect)
  let decoder: Sse.SseState | undefined = Sse.initial()
  let failure: StreamError | undefined
  let ended = false
  return {
    push: (chunk) => {
      buffer.add(chunk)
      if (buffer.isFull()) return "last"
      if (decoder === undefined) return "unsure"
      const { events, next } = Sse.feed(decoder, chunk)
      for (const event of events) {
        if (failure !== undefined) continue
        const added = reply.add(event)
        if (Either.isLeft(added)) failure = added.left
        // A client ends at an error, too.
        if (Either.isLeft(added) ? added.left.reason === "upstream" : added.right) ended = true
      }
      if (Either.isLeft(next)) {
        failure ??= new StreamError({ reason: "malformed", detail: next.left.message })
        decoder = undefined
      } else {
        decoder = next.right
      }
      if (ended) return "last"
      // What cannot be read any more does not say where its end is.
      return failure === undefined ? "pass" : "unsure"
    },
    finish: (broke) => {
      if (buffer.isFull()) return tooLarge(options.limit)
      const raw = buffer.bytes()
      const whole = failure === undefined ? reply.finish() : Either.left(failure)
      if (Either.isRight(whole)) {
        const response = whole.right
        return { category: category.ofReply(options.dialect, response), response, raw, lossy: false }
      }
      const { reason } = whole.left
      const told = broke !== undefined && reason === "truncated" ? broke : ofStreamError(whole.left)
      return { ...told, response: null, raw, lossy: false }
    }
  }
}

/** Watches one reply. */
export const makeObserver = (options: ObserverOptions): Observer =>
  options.stream && !options.encoded ? observeStream(options) : observeWhole(options)
