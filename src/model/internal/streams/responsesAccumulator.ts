/**
 * From the events of a Responses stream to the response that a call without `stream` would have given.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { SseEvent } from "../sse.js"
import { parseObject, upstreamError } from "./chatEvents.js"
import { isObject, isText, type JsonObject, StreamError, withData } from "./streamError.js"

/**
 * What has come so far. It is a value: adding to it leaves it as it was.
 *
 * @since 0.1.0
 * @category models
 */
export interface ResponsesAccumulation {
  /** The response as it ended; nothing before that. */
  readonly response: JsonObject | undefined
  /** Items that are whole, by their `output_index`. */
  readonly items: ReadonlyMap<number, unknown>
}

/**
 * Nothing yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: ResponsesAccumulation = { response: undefined, items: new Map() }

const endings: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete", "response.failed"])

/**
 * Adds an event. Left is a `StreamError`: `malformed`, or `upstream` where the server reports an error outside of a
 * response. A response that failed is a response: its `status` and `error` say so.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const addEvent = (
  before: ResponsesAccumulation,
  event: SseEvent
): Either.Either<ResponsesAccumulation, StreamError> => {
  if (event.data.trim() === "[DONE]") return Either.right(before)
  return Either.flatMap(parseObject(event), (body) => {
    const malformed = (detail: string) =>
      Either.left(withData(new StreamError({ reason: "malformed", detail }), event.data))
    // The type is told twice, and some servers tell it in one place alone.
    const type = isText(body["type"]) ? body["type"] : event.event
    if (endings.has(type)) {
      const { response } = body
      if (before.response !== undefined) return malformed("the response ended twice")
      return isObject(response) ? Either.right({ ...before, response }) : malformed(`${type} holds no response`)
    }
    if (type === "response.output_item.done") {
      const { item, output_index: index } = body
      if (!isObject(item) || typeof index !== "number") return malformed("an item that is done has no item or no index")
      return Either.right({ ...before, items: new Map(before.items).set(index, item) })
    }
    if (type === "error") return Either.left(upstreamError(isObject(body["error"]) ? body["error"] : body, event.data))
    // A server or a proxy that knows Chat Completions alone reports its errors so on every route.
    const error = body["error"]
    if (event.event === "message" && body["type"] === undefined && error !== undefined && error !== null) {
      return Either.left(upstreamError(error, event.data))
    }
    return Either.right(before)
  })
}

/**
 * The response as it ended. Where the server left its `output` empty though it sent items, they are its output. A stream
 * without `response.completed`, `response.incomplete` or `response.failed` is `truncated`.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const finish = ({ items, response }: ResponsesAccumulation): Either.Either<JsonObject, StreamError> => {
  if (response === undefined) {
    return Either.left(
      new StreamError({
        reason: "truncated",
        detail: "it ended before the response was completed, incomplete or failed"
      })
    )
  }
  const output = response["output"] ?? []
  if (!Array.isArray(output)) {
    return Either.left(new StreamError({ reason: "malformed", detail: "the output of the response is no list" }))
  }
  if (output.length > 0 || items.size === 0) return Either.right(response)
  const sent = Array.from(items).sort(([first], [second]) => first - second)
  return Either.right({ ...response, output: sent.map(([, item]) => item) })
}

/**
 * The response of these events.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const accumulate = (events: Iterable<SseEvent>): Either.Either<JsonObject, StreamError> =>
  Either.gen(function* () {
    let state = empty
    for (const event of events) state = yield* addEvent(state, event)
    return yield* finish(state)
  })
