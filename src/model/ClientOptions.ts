/**
 * What a client of a model server is made from, whichever wire it speaks.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Redacted from "effect/Redacted"
import type { JsonObject } from "./Convert.js"
import type { RetryPolicy } from "./Retry.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ClientOptions {
  /**
   * The API's base address, such as `http://127.0.0.1:8000/v1`, to which the wire's path is added; or several of one
   * model. Each rollout keeps to one of them, so that its prompt stays in one cache, and moves only while that is down.
   */
  readonly url: string | readonly [string, ...Array<string>]
  /** The name that the server knows the model by. */
  readonly model: string
  /** Sent as a bearer token, or as the wire wants it. */
  readonly apiKey?: Redacted.Redacted
  /** Fields that win over everything that a request says; keys as on the wire. */
  readonly samplingOverrides?: JsonObject
  /** Fields that a request lacks; keys as on the wire. */
  readonly extraBody?: JsonObject
  /** For the chat template of vLLM and its kin. */
  readonly chatTemplateKwargs?: JsonObject
  /** Whether replies are asked for as streams, so that the first byte comes early and a stalled server is found out. */
  readonly stream?: boolean
  /** How long one try may take, permits not counted; 15 minutes unless given. */
  readonly timeout?: Duration.DurationInput
  /** How long a stream may say nothing once it has begun; 5 minutes unless given. */
  readonly idleTimeout?: Duration.DurationInput
  /** Bytes that one reply may have; 64 MiB unless given. */
  readonly replyLimit?: number
  readonly retry?: RetryPolicy
}
