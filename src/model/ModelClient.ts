/**
 * One request to a policy model, one reply.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RolloutIdentity } from "../identity/Identity.js"
import { AssistantMessage, Message, OfferedTool } from "./Conversation.js"
import type { ModelError } from "./ModelError.js"
import { Sampling } from "./Sampling.js"

/**
 * Which tools the model may or must call: `auto` unless given.
 *
 * @since 0.1.0
 * @category models
 */
export const ToolChoice = Schema.Union(
  Schema.Literal("auto", "none", "required"),
  Schema.Struct({ name: Schema.NonEmptyString })
)

const requestFields = {
  messages: Schema.NonEmptyArray(Message),
  tools: Schema.optionalWith(Schema.Array(OfferedTool), { exact: true }),
  toolChoice: Schema.optionalWith(ToolChoice, { exact: true }),
  sampling: Sampling,
  /** Whose call this is: sent as headers, for logs and for servers that replay. */
  identity: RolloutIdentity,
  /** The environment step that the call decides, from 0. */
  step: Schema.NonNegativeInt,
  /** Which try of this step it is after replies that could not be read, from 0; 0 when absent. */
  parseAttempt: Schema.optionalWith(Schema.NonNegativeInt, { exact: true })
}

// Made once. The class would make it anew for each request, which costs more than sending a small one.
const isRequest = Schema.is(Schema.Struct(requestFields), { onExcessProperty: "error" })

/**
 * What a model is asked.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelRequest extends Schema.Class<ModelRequest>("deskhand/model/ModelRequest")(requestFields) {
  constructor(fields: Schema.Struct.Constructor<typeof requestFields>, options?: Schema.MakeOptions) {
    // What is not as it should be is left to the class, which says what is wrong.
    if (options === undefined && isRequest(fields)) {
      const [first, ...others] = fields.messages
      super({ ...fields, messages: [first, ...others] }, true)
    } else {
      super(fields, options)
    }
  }
}

/**
 * Tokens as the server counted them; what it did not tell is absent, never 0.
 *
 * @since 0.1.0
 * @category models
 */
export class Usage extends Schema.Class<Usage>("deskhand/model/Usage")({
  promptTokens: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  completionTokens: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  /** Of the prompt's, those that a cache had. */
  cachedTokens: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  /** Of the reply's, those that were reasoning. */
  reasoningTokens: Schema.optionalWith(Schema.NonNegativeInt, { exact: true })
}) {}

/**
 * What a model answered.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelReply extends Schema.Class<ModelReply>("deskhand/model/ModelReply")({
  /** What the model said, parts in order, with its tokens where the server told them. */
  message: AssistantMessage,
  /** The server's word: `stop`, `length`, `tool_calls`. */
  finishReason: Schema.String,
  /** The model that the server says replied. */
  model: Schema.String,
  /** The server's id of the reply. */
  id: Schema.optionalWith(Schema.String, { exact: true }),
  usage: Schema.optionalWith(Usage, { exact: true }),
  /** Values that went on the wire for sampling, after every override; keys as on the wire. */
  sent: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  /** Tries that it took, 1 when the first succeeded. */
  attempts: Schema.Int.pipe(Schema.positive()),
  /** From sending to the last byte, retries and waits included. */
  milliseconds: Schema.Finite.pipe(Schema.nonNegative()),
  /** From sending the try that succeeded to the first byte of its reply's body. */
  firstByteMilliseconds: Schema.optionalWith(Schema.Finite.pipe(Schema.nonNegative()), { exact: true })
}) {
  /** The words of the message, joined. */
  get text(): string {
    return this.message.text
  }
}

/**
 * A model that can be asked, as a service.
 *
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
