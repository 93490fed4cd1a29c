/**
 * Why a model gave no reply, as a fact: what the server said is kept byte for byte.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * - `context_overflow`: the prompt is longer than the model takes
 * - `rate_limited`, `unavailable`: the server says so (429; 500 and above)
 * - `timeout`: no reply within the call's time limit
 * - `unauthorised`: the key is missing or wrong (401, 403)
 * - `bad_request`: any other refusal by the server (4xx)
 * - `malformed_reply`: a reply that is no chat completion
 * - `refused`: the model declined (a content filter)
 * - `truncated`: the reply broke off before its end
 * - `transport`: the server could not be reached, or the connection broke
 * - `artifact`: an image of the prompt could not be read from disk
 *
 * @since 0.1.0
 * @category models
 */
export const ModelErrorReason = Schema.Literal(
  "context_overflow",
  "rate_limited",
  "unavailable",
  "timeout",
  "unauthorised",
  "bad_request",
  "malformed_reply",
  "refused",
  "truncated",
  "transport",
  "artifact"
)

/**
 * A model gave no reply that can be used.
 *
 * @since 0.1.0
 * @category errors
 */
export class ModelError extends Schema.TaggedError<ModelError>("deskhand/ModelError")("ModelError", {
  reason: ModelErrorReason,
  /** The address that was called, without credentials. */
  url: Schema.String,
  /** HTTP status, where there was one. */
  status: Schema.optionalWith(Schema.Int, { exact: true }),
  /** What the server answered, as it was, where that is UTF-8; at most 1 MiB of it. */
  body: Schema.optionalWith(Schema.String, { exact: true }),
  /** What the server answered, where that is no UTF-8: base64 of at most 1 MiB of it. */
  bodyBase64: Schema.optionalWith(Schema.String, { exact: true }),
  /** How long the server asked to wait, in milliseconds. */
  retryAfter: Schema.optionalWith(Schema.Number, { exact: true }),
  /** `false` when no byte of the request went out, so that the server cannot have acted on it; else absent. */
  delivered: Schema.optionalWith(Schema.Boolean, { exact: true }),
  /** Tries that were made. */
  attempts: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { exact: true }),
  detail: Schema.String
}) {
  override get message() {
    const status = this.status === undefined ? "" : ` (HTTP ${this.status})`
    return `the model at ${this.url} gave no reply: ${this.detail}${status}. ${remedy(this.reason)}`
  }
}

const remedy = (reason: typeof ModelErrorReason.Type): string => {
  switch (reason) {
    case "transport":
      return "Check that the server runs and that --model-url is right"
    case "unauthorised":
      return "Check the key: --api-key-env names the environment variable that holds it"
    case "timeout":
      return "The server may be overloaded: lower --concurrency or --max-tokens"
    case "rate_limited":
    case "unavailable":
      return "Lower --concurrency or try again later"
    case "context_overflow":
      return "Lower --max-steps or serve the model with a longer context"
    case "bad_request":
      return "Check --model and the sampling options against what the server takes"
    case "truncated":
      return "The server or a proxy before it closed the connection: try again, and see its log"
    case "malformed_reply":
      return "Check that --model-url ends in the path of an OpenAI-compatible API, usually /v1"
    case "refused":
      return "The model's provider declined this prompt"
    case "artifact":
      return "Check the disk that holds the run's folder"
  }
}
