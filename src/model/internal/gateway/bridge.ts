/**
 * Tells a chat reply in the dialect that the client speaks, whole or as it comes.
 */
import type * as Http from "node:http"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Convert from "../../Convert.js"
import { withoutTokens } from "../../TokenSources.js"
import * as Sse from "../sse.js"
import * as Chat from "../streams/chatAccumulator.js"
import * as ChatToMessages from "../streams/chatToMessages.js"
import * as ChatToResponses from "../streams/chatToResponses.js"
import { isObject, type JsonObject, StreamError } from "../streams/streamError.js"
import * as category from "./category.js"
import { toClientOfBridge } from "./headers.js"
import { makeAccumulator } from "./observe.js"
import { type Dialect, Refusal } from "./refusal.js"
import { brokenBy, clientGone } from "./relay.js"
import { refusalOf } from "./upstream.js"
import * as Wire from "./wire.js"
import type { Outcome, Witness } from "./witness.js"

/** Dialects that a chat upstream can be asked in. */
export type Bridged = Exclude<Dialect, "chat">

export interface BridgeOptions {
  readonly dialect: Bridged
  /** As the client sent it. */
  readonly request: JsonObject
  readonly witness: Witness
  /** What the reply's ids are made of. */
  readonly id: string
  /** Unix time in seconds. */
  readonly createdAt: number
  readonly thinkTags: boolean
  /** Whether the reply's tokens were asked for by the gateway alone, and so are not the client's. */
  readonly training: boolean
  /** Bytes of the upstream's reply that are read at most. */
  readonly replyLimit: number
  readonly stallMillis: number
}

const excerpt = (bytes: Buffer): string => {
  const text = bytes.subarray(0, 1000).toString("utf8").replace(/\s+/g, " ").trim()
  return text === "" ? "an empty body" : text.length > 300 ? `${text.slice(0, 300)}…` : text
}

const malformed = (detail: string) => new Refusal({ status: 502, code: "upstream_malformed", detail })

const asked = (value: Wire.UpstreamFailure | Refusal): Refusal =>
  value._tag === "UpstreamFailure" ? refusalOf(value) : value

// -----------------------------------------------------------------------------
// Whole replies
// -----------------------------------------------------------------------------

const completionOf = (bytes: Buffer): Either.Either<JsonObject, Refusal> =>
  Either.try({
    try: (): unknown => JSON.parse(bytes.toString("utf8")),
    catch: () => malformed(`the upstream's reply is no JSON: ${excerpt(bytes)}`)
  }).pipe(
    Either.filterOrLeft(isObject, () => malformed(`the upstream's reply is no chat completion: ${excerpt(bytes)}`))
  )

const told = (completion: JsonObject, { createdAt, dialect, id, request, thinkTags, training }: BridgeOptions) => {
  const reply = training ? withoutTokens(completion) : completion
  const options = { id, createdAt, thinkTags }
  return Either.mapLeft(
    dialect === "responses"
      ? Convert.chatReplyToResponses(reply, request, options)
      : Convert.chatReplyToMessages(reply, request, options),
    (error) => malformed(`the upstream's reply cannot be told as ${dialect}: ${error.message}`)
  )
}

/** Reads the whole completion, and answers with what it says. */
export const bridgeWhole = (
  message: Http.IncomingMessage,
  response: Http.ServerResponse,
  options: BridgeOptions
): Effect.Effect<void, Refusal> =>
  Effect.gen(function* () {
    const { dialect, replyLimit, witness } = options
    const bytes = yield* Effect.mapError(Wire.readReply(message, replyLimit), asked)
    yield* witness.firstByte
    const completion = yield* completionOf(bytes)
    const reply = yield* told(completion, options)
    const body = Buffer.from(JSON.stringify(reply))
    const status = message.statusCode ?? 200
    yield* witness.given
    yield* witness.settle({
      status,
      category: category.ofReply(dialect, reply),
      response: reply,
      lossy: false,
      completion
    })
    response.writeHead(status, [
      ...toClientOfBridge(message.rawHeaders),
      "content-type",
      "application/json",
      "content-length",
      String(body.length)
    ])
    yield* Wire.end(response, body)
  })

// -----------------------------------------------------------------------------
// Streams
// -----------------------------------------------------------------------------

interface Told {
  readonly events: ReadonlyArray<Sse.SseOutput>
  /** Whether the upstream said that this is all. */
  readonly done: boolean
}

/** A translation that remembers where it is. */
interface Translator {
  readonly add: (event: Sse.SseEvent) => Either.Either<Told, StreamError>
  readonly finish: () => Either.Either<ReadonlyArray<Sse.SseOutput>, StreamError>
  readonly failure: (error: StreamError) => ReadonlyArray<Sse.SseOutput>
}

const translator = <State extends { readonly facts: { readonly done: boolean } }>(
  initial: State,
  addEvent: (
    state: State,
    event: Sse.SseEvent
  ) => Either.Either<readonly [State, ReadonlyArray<Sse.SseOutput>], StreamError>,
  finish: (state: State) => Either.Either<readonly [State, ReadonlyArray<Sse.SseOutput>], StreamError>,
  failure: (state: State, error: StreamError) => ReadonlyArray<Sse.SseOutput>
): Translator => {
  let state = initial
  return {
    add: (event) =>
      Either.map(addEvent(state, event), ([next, events]) => {
        state = next
        return { events, done: next.facts.done }
      }),
    finish: () =>
      Either.map(finish(state), ([next, events]) => {
        state = next
        return events
      }),
    failure: (error) => failure(state, error)
  }
}

const makeTranslator = ({ createdAt, dialect, id, request, thinkTags }: BridgeOptions): Translator => {
  const options = { request, id, createdAt, thinkTags }
  return dialect === "responses"
    ? translator(
        ChatToResponses.initial(options),
        ChatToResponses.addEvent,
        ChatToResponses.finish,
        (state, { message }) => ChatToResponses.failure(state, { message })
      )
    : translator(ChatToMessages.initial(options), ChatToMessages.addEvent, ChatToMessages.finish, (_, { message }) => [
        ChatToMessages.failure(message)
      ])
}

/** A chunk without the tokens that the client has not asked for. */
const stripped = (event: Sse.SseEvent): Sse.SseEvent => {
  if (event.data.trim() === "[DONE]") return event
  const chunk = Either.try((): unknown => JSON.parse(event.data))
  return Either.isRight(chunk) && isObject(chunk.right)
    ? { ...event, data: JSON.stringify(withoutTokens(chunk.right)) }
    : event
}

const streamCategory = ({ reason }: StreamError) =>
  reason === "truncated" ? "stream_truncated" : reason === "upstream" ? "upstream_error" : "capture_parse_error"

/** How long a connection whose stream has said its last is read on, so that it can be used again. */
const drainMillis = 500

/** Tells the chunks as they come. What goes wrong before the first of them is an error to answer with. */
export const bridgeStream = (
  message: Http.IncomingMessage,
  response: Http.ServerResponse,
  options: BridgeOptions
): Effect.Effect<void, Refusal | Wire.ClientGone> =>
  Effect.gen(function* () {
    const { dialect, replyLimit, stallMillis, training, witness } = options
    const type = message.headers["content-type"] ?? "nothing"
    if (!/^text\/event-stream\b/i.test(type)) {
      const bytes = yield* Effect.mapError(Wire.readReply(message, replyLimit), asked)
      return yield* malformed(`the upstream was asked for a stream and sent ${type}: ${excerpt(bytes)}`)
    }
    const status = message.statusCode ?? 200
    const translation = makeTranslator(options)
    const shown = makeAccumulator(dialect)
    const raw: Array<Buffer> = []
    let chat = Chat.empty
    let decoder = Sse.initial()
    let size = 0

    const write = (events: ReadonlyArray<Sse.SseOutput>) =>
      Effect.suspend(() => {
        if (events.length === 0) return Effect.void
        head()
        return Effect.zipRight(witness.given, Wire.write(response, note(events), stallMillis))
      })

    const head = () => {
      if (response.headersSent) return
      response.writeHead(status, [
        ...toClientOfBridge(message.rawHeaders),
        "content-type",
        "text/event-stream; charset=utf-8"
      ])
    }

    /** Remembers what goes out, and gives it as bytes. */
    const note = (events: ReadonlyArray<Sse.SseOutput>): Buffer => {
      const bytes = Buffer.from(events.map(Sse.encode).join(""))
      if (witness.observing()) {
        raw.push(bytes)
        for (const { data, event = "message" } of events) shown.add({ event, data })
      }
      return bytes
    }

    const outcome = (rest: Omit<Outcome, "status" | "raw" | "lossy">): Outcome => ({
      ...rest,
      status,
      raw: Buffer.concat(raw),
      lossy: false
    })

    /** Says in the stream that it has no good end, and ends it. */
    const fail = (error: StreamError, why: Pick<Outcome, "category" | "detail">): Effect.Effect<void, Refusal> => {
      if (!response.headersSent) {
        return new Refusal({
          status: error.status ?? (why.category === "timeout" ? 504 : 502),
          code: error.reason === "malformed" ? "upstream_malformed" : "upstream_broke",
          detail: error.message
        })
      }
      const bytes = note(translation.failure(error))
      return Effect.zipRight(witness.settle(outcome({ ...why, response: null })), Wire.end(response, bytes))
    }

    const failStream = (error: StreamError) => fail(error, { category: streamCategory(error), detail: error.message })

    /** The last events go out once the call is on record. */
    const conclude = Effect.gen(function* () {
      const last = translation.finish()
      if (Either.isLeft(last)) return yield* failStream(last.left)
      const bytes = note(last.right)
      yield* witness.given
      const reply = shown.finish()
      const completion = Chat.finish(chat)
      yield* witness.settle(
        outcome({
          category: Either.isRight(reply) ? category.ofReply(dialect, reply.right) : "capture_parse_error",
          response: Either.isRight(reply) ? reply.right : null,
          ...(Either.isRight(completion) ? { completion: completion.right } : {})
        })
      )
      head()
      yield* Wire.end(response, bytes)
    })

    const gone = Effect.suspend(() =>
      witness.settle({
        ...outcome({ ...clientGone, response: null }),
        status: response.headersSent ? status : null
      })
    )

    const loop = Effect.gen(function* () {
      while (true) {
        const next = yield* Effect.either(Wire.nextChunk(message))
        if (Either.isLeft(next)) {
          const broken = brokenBy(next.left)
          return yield* fail(new StreamError({ reason: "truncated", detail: broken.detail }), broken)
        }
        if (next.right === undefined) return yield* conclude
        yield* witness.firstByte
        size += next.right.length
        if (size > replyLimit) {
          return yield* failStream(
            new StreamError({ reason: "malformed", detail: `the upstream's reply is larger than ${replyLimit} bytes` })
          )
        }
        const fed = Sse.feed(decoder, next.right)
        for (const event of fed.events) {
          if (witness.observing()) chat = Either.getOrElse(Chat.addEvent(chat, event), () => chat)
          const step = translation.add(training ? stripped(event) : event)
          if (Either.isLeft(step)) return yield* failStream(step.left)
          yield* write(step.right.events)
          if (step.right.done) {
            yield* conclude
            return yield* drain(message)
          }
        }
        if (Either.isLeft(fed.next)) {
          return yield* failStream(new StreamError({ reason: "malformed", detail: fed.next.left.message }))
        }
        decoder = fed.next.right
      }
    })
    yield* loop.pipe(
      Effect.onInterrupt(() => gone),
      Effect.tapErrorTag("ClientGone", () => gone)
    )
  })

const drain = (message: Http.IncomingMessage): Effect.Effect<void> =>
  Wire.nextChunk(message).pipe(
    Effect.repeat({ while: (chunk) => chunk !== undefined }),
    Effect.timeout(drainMillis),
    // Whatever comes after the end is nobody's.
    Effect.catchAll(() => Effect.void),
    Effect.asVoid
  )
