/**
 * What an event of a Chat Completions stream says.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { SseEvent } from "../sse.js"
import { isObject, isText, type JsonObject, StreamError } from "./streamError.js"

/**
 * A `chat.completion.chunk`, or the end of the stream.
 *
 * @since 0.1.0
 * @category models
 */
export type ChatEvent = { readonly _tag: "Chunk"; readonly chunk: JsonObject } | { readonly _tag: "Done" }

/**
 * The JSON object that an event's data is.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parseObject = ({ data }: SseEvent): Either.Either<JsonObject, StreamError> => {
  const malformed = (detail: string) => Either.left(new StreamError({ reason: "malformed", detail, data }))
  try {
    const value: unknown = JSON.parse(data)
    return isObject(value) ? Either.right(value) : malformed("an event's data is JSON, but no object")
  } catch {
    return malformed("an event's data is no JSON")
  }
}

/**
 * The error that a server sends in the midst of a reply, kept as it came.
 *
 * @since 0.1.0
 * @category constructors
 */
export const upstreamError = (error: unknown, data: string): StreamError => {
  const message = isObject(error) ? error["message"] : error
  const status = isObject(error) ? [error["code"], error["status"]].find(isStatus) : undefined
  return new StreamError({
    reason: "upstream",
    detail: isText(message) ? message : "it gave no message",
    data,
    ...(status === undefined ? {} : { status })
  })
}

const isStatus = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 400 && value < 600

/**
 * Reads an event. An error comes as an event of that name, as an object with an `error`, or, from some servers, as an
 * object that says that it is one; each is a `StreamError` of reason `upstream`.
 *
 * @since 0.1.0
 * @category parsing
 */
export const chatEvent = (event: SseEvent): Either.Either<ChatEvent, StreamError> => {
  if (event.data.trim() === "[DONE]") return Either.right({ _tag: "Done" })
  const parsed = parseObject(event)
  if (Either.isLeft(parsed)) {
    return event.event === "error" ? Either.left(upstreamError(event.data, event.data)) : Either.left(parsed.left)
  }
  const chunk = parsed.right
  const error = chunk["error"]
  if (error !== undefined && error !== null) return Either.left(upstreamError(error, event.data))
  if (event.event === "error" || chunk["object"] === "error") return Either.left(upstreamError(chunk, event.data))
  return Either.right({ _tag: "Chunk", chunk })
}
