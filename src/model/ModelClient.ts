/**
 * One request to a policy model, one reply.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RolloutIdentity } from "../identity/Identity.js"
import { Message } from "./Conversation.js"
import type { ModelError } from "./ModelError.js"
import { Sampling } from "./Sampling.js"

/**
 * @since 0.1.0
 * @category models
 */
export class ModelRequest extends Schema.Class<ModelRequest>("deskhand/model/ModelRequest")({
  messages: Schema.NonEmptyArray(Message),
  sampling: Sampling,
  /** Whose call this is: sent as headers, for logs and for servers that replay. */
  identity: RolloutIdentity,
  /** The environment step that the call decides, from 0. */
  step: Schema.NonNegativeInt
}) {}

/**
 * Tokens as the server counted them.
 *
 * @since 0.1.0
 * @category models
 */
export class Usage extends Schema.Class<Usage>("deskhand/model/Usage")({
  promptTokens: Schema.NonNegativeInt,
  completionTokens: Schema.NonNegativeInt
}) {}

/**
 * @since 0.1.0
 * @category models
 */
export class ModelReply extends Schema.Class<ModelReply>("deskhand/model/ModelReply")({
  /** The visible text, as the server sent it; empty when it sent none. */
  text: Schema.String,
  /** Reasoning that the server reported apart from the text. */
  reasoning: Schema.optionalWith(Schema.String, { exact: true }),
  /** The server's word: `stop`, `length`, `tool_calls`. */
  finishReason: Schema.String,
  /** The model that the server says replied. */
  model: Schema.String,
  usage: Schema.optionalWith(Usage, { exact: true }),
  /** From sending to the last byte, retries and waits included. */
  milliseconds: Schema.Finite.pipe(Schema.nonNegative())
}) {}

/**
 * @since 0.1.0
 * @category context
 */
export class ModelClient extends Context.Tag("deskhand/model/ModelClient")<
  ModelClient,
  {
    /** The model's name, as it is asked for. */
    readonly model: string
    readonly complete: (request: ModelRequest) => Effect.Effect<ModelReply, ModelError>
  }
>() {}
