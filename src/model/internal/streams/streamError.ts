/**
 * Why a streamed reply is no reply.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A JSON object as it is on the wire.
 *
 * @since 0.1.0
 * @category models
 */
export type JsonObject = Readonly<Record<string, unknown>>

/**
 * - `truncated`: the stream ended before its end was told
 * - `malformed`: an event is not what the wire's dialect has
 * - `upstream`: the server reported an error after it had begun to reply
 *
 * @since 0.1.0
 * @category errors
 */
export class StreamError extends Schema.TaggedError<StreamError>("deskhand/model/StreamError")("StreamError", {
  reason: Schema.Literal("truncated", "malformed", "upstream"),
  detail: Schema.String,
  /** The data of the event behind it, as it came. */
  data: Schema.optionalWith(Schema.String, { exact: true }),
  /** HTTP status that the server gave to its error, where it gave one. */
  status: Schema.optionalWith(Schema.Int, { exact: true })
}) {
  override get message() {
    return `${told[this.reason]}: ${this.detail}`
  }
}

const told = {
  truncated: "the streamed reply broke off",
  malformed: "the streamed reply is malformed",
  upstream: "the server failed while it streamed its reply"
}

/**
 * A JSON object: no list, no null.
 *
 * @since 0.1.0
 * @category guards
 */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/**
 * Text that is there: not absent, not null, not empty.
 *
 * @since 0.1.0
 * @category guards
 */
export const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

/**
 * The error, with the data of the event that it came from.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withData = ({ detail, reason }: StreamError, data: string): StreamError =>
  new StreamError({ reason, detail, data })
