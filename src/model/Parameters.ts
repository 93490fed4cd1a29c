/**
 * What goes on the wire beside the messages: which value wins when a config, a request and a row's metadata disagree.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { JsonObject } from "./Convert.js"

const Fields = Schema.Record({ key: Schema.String, value: Schema.Unknown })

const fieldsOr = Schema.optionalWith(Fields, { exact: true, default: () => ({}) })

/**
 * What a config says about every call of one model.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelParameters extends Schema.Class<ModelParameters>("deskhand/model/ModelParameters")({
  /** The name that the upstream knows the model by; absent: the caller's name goes through. */
  model: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  /** Win over everything, on every path, also over what nobody set. Keys as on the wire. */
  samplingOverrides: fieldsOr,
  /** Fill fields that the request lacks. Keys as on the wire. */
  extraBody: fieldsOr,
  /** For the chat template; a request's own win, key by key. */
  chatTemplateKwargs: fieldsOr,
  /** What the upstream is asked to tell of its tokens: nothing, log-probabilities with ids in them, or ids beside them. */
  tokens: Schema.optionalWith(Schema.Literal("none", "logprobs", "ids"), { exact: true, default: () => "none" }),
  /** The API that the upstream is called by. */
  dialect: Schema.optionalWith(Schema.Literal("chat", "responses", "completions", "messages"), {
    exact: true,
    default: () => "chat"
  })
}) {}

/**
 * A request whose parameters cannot go to this upstream.
 *
 * @since 0.1.0
 * @category errors
 */
export class ParameterError extends Schema.TaggedError<ParameterError>("deskhand/model/ParameterError")(
  "ParameterError",
  {
    /** The field on the wire, dotted where it is nested. */
    parameter: Schema.String,
    /** What is wrong with it, and what to do. */
    what: Schema.String
  }
) {
  override get message() {
    return `${this.parameter}: ${this.what}`
  }
}

// -----------------------------------------------------------------------------
// Layers of fields
// -----------------------------------------------------------------------------

/** Names of one and the same limit: whoever sets one of them has set the others. */
const aliases: ReadonlyArray<string> = ["max_tokens", "max_completion_tokens", "max_output_tokens"]

const has = (fields: JsonObject, key: string): boolean => fields[key] !== undefined && Object.hasOwn(fields, key)

const settles = (fields: JsonObject): ((key: string) => boolean) => {
  const limited = aliases.some((alias) => has(fields, alias))
  return (key) => has(fields, key) || (limited && aliases.includes(key))
}

const pick = (fields: JsonObject, keep: (key: string) => boolean): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([key, value]) => value !== undefined && keep(key)))

/** `higher` wins; `lower` gives what it does not settle. */
const over = (lower: JsonObject, higher: JsonObject): JsonObject => {
  const settled = settles(higher)
  return { ...pick(lower, (key) => !settled(key)), ...pick(higher, () => true) }
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const parse = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/** A reserved value of `metadata`: a string that holds a JSON object. */
const reserved = (
  metadata: unknown,
  key: "extra_body" | "chat_template_kwargs"
): Either.Either<JsonObject, ParameterError> => {
  if (!isObject(metadata) || !has(metadata, key) || metadata[key] === null) return Either.right({})
  const text = metadata[key]
  const value = typeof text === "string" ? Option.getOrUndefined(parse(text)) : undefined
  return isObject(value)
    ? Either.right(value)
    : Either.left(
        new ParameterError({ parameter: `metadata.${key}`, what: "it must be a string that holds a JSON object" })
      )
}

const templateKwargs = (
  config: JsonObject,
  body: JsonObject,
  row: JsonObject
): Either.Either<JsonObject, ParameterError> => {
  const own = body["chat_template_kwargs"]
  if (own !== undefined && own !== null && !isObject(own)) {
    return Either.left(new ParameterError({ parameter: "chat_template_kwargs", what: "it must be a JSON object" }))
  }
  const merged = { ...config, ...(isObject(own) ? own : {}), ...row }
  return Either.right(Object.keys(merged).length === 0 ? {} : { chat_template_kwargs: merged })
}

// -----------------------------------------------------------------------------
// The completions API
// -----------------------------------------------------------------------------

/** What a caller may say to a completions API; what else a chat request holds has no place there. */
const completionsFields: ReadonlySet<string> = new Set([
  "model",
  "prompt",
  "stream",
  "stream_options",
  "max_tokens",
  "temperature",
  "top_p",
  "n",
  "seed",
  "stop",
  "frequency_penalty",
  "presence_penalty",
  "logit_bias",
  "response_format",
  "user"
])

const completionsBody = (
  body: JsonObject,
  tokens: ModelParameters["tokens"]
): Either.Either<JsonObject, ParameterError> => {
  const { logprobs, max_completion_tokens, max_tokens, prompt, tools, top_logprobs } = body
  if (Array.isArray(tools) && tools.length > 0) {
    return Either.left(
      new ParameterError({ parameter: "tools", what: "a completions API has none: use an upstream that speaks chat" })
    )
  }
  if (prompt === undefined) {
    return Either.left(
      new ParameterError({ parameter: "prompt", what: "a completions API needs it: render the messages first" })
    )
  }
  const limit = max_tokens ?? max_completion_tokens
  // In this API `logprobs` is the number that chat calls `top_logprobs`.
  const wanted =
    typeof logprobs === "number"
      ? logprobs
      : logprobs === true || tokens !== "none" || (top_logprobs !== undefined && top_logprobs !== null)
        ? (top_logprobs ?? 0)
        : undefined
  return Either.right({
    ...pick(body, (key) => completionsFields.has(key)),
    ...(limit === undefined ? {} : { max_tokens: limit }),
    ...(wanted === undefined ? {} : { logprobs: wanted })
  })
}

// -----------------------------------------------------------------------------
// Resolving
// -----------------------------------------------------------------------------

/** Fields that make a server tell its tokens. */
const tokenFields = ({ dialect, tokens }: ModelParameters): JsonObject =>
  tokens === "none"
    ? {}
    : {
        ...(dialect === "completions" ? {} : { logprobs: true, top_logprobs: 0 }),
        return_tokens_as_token_ids: true,
        ...(tokens === "ids" ? { return_token_ids: true } : {})
      }

/** What a caller asked for, as far as the dialect has a place for it. */
const askedFields = (
  config: ModelParameters,
  body: JsonObject,
  rowKwargs: JsonObject
): Either.Either<JsonObject, ParameterError> => {
  switch (config.dialect) {
    case "completions":
      return completionsBody(body, config.tokens)
    case "messages":
      return Either.right(body)
    default:
      return Either.map(templateKwargs(config.chatTemplateKwargs, body, rowKwargs), (kwargs) => over(body, kwargs))
  }
}

/**
 * The fields to send, from those that a caller set. Highest first:
 *
 * 1. the config's `samplingOverrides`;
 * 2. the fields that ask for tokens, when the config wants them;
 * 3. the config's `model`;
 * 4. the fields of `body`;
 * 5. `metadata.extra_body` of `body`, a string of JSON, and below it the config's `extraBody`: both only fill gaps.
 *
 * `chat_template_kwargs` merge key by key: the config's, below `body`'s, below those of `metadata.chat_template_kwargs`.
 * `max_tokens`, `max_completion_tokens` and `max_output_tokens` are one limit: the highest layer that names one of them
 * drops the others, since servers differ in which they obey. `metadata` itself goes through as it is.
 *
 * A completions API gets only what it knows of `body`; it and a Messages API get no `chat_template_kwargs`. With tokens,
 * `n` must be absent or 1, and a Responses or Messages API is refused. A `null` for `top_logprobs` is not sent when no tokens are wanted.
 *
 * @since 0.1.0
 * @category decisions
 */
export const resolve = ({
  body,
  config
}: {
  readonly config: ModelParameters
  readonly body: JsonObject
}): Either.Either<JsonObject, ParameterError> => {
  const { dialect, tokens } = config
  if (tokens !== "none" && (dialect === "responses" || dialect === "messages")) {
    return Either.left(
      new ParameterError({
        parameter: "tokens",
        what: `an API of ${dialect} tells no token ids: use an upstream that speaks chat`
      })
    )
  }
  const { metadata } = body
  const rowBody = reserved(metadata, "extra_body")
  if (Either.isLeft(rowBody)) return rowBody
  const rowKwargs = reserved(metadata, "chat_template_kwargs")
  if (Either.isLeft(rowKwargs)) return rowKwargs
  const asked = askedFields(config, body, rowKwargs.right)
  if (Either.isLeft(asked)) return asked
  const told =
    tokens === "none" && asked.right["top_logprobs"] === null
      ? pick(asked.right, (key) => key !== "top_logprobs")
      : asked.right
  const named = over(told, {
    ...(config.model === undefined ? {} : { model: config.model }),
    ...tokenFields(config)
  })
  const sent = over(over(over(config.extraBody, rowBody.right), named), config.samplingOverrides)
  const { n } = sent
  if (tokens !== "none" && n !== undefined && n !== null && n !== 1) {
    return Either.left(
      new ParameterError({
        parameter: "n",
        what: `it is ${JSON.stringify(n)}, and token capture needs one reply a call`
      })
    )
  }
  return Either.right(sent)
}

/** How a reply is drawn, in the names of the chat, Responses and completions wires and of vLLM. */
const samplingFields: ReadonlySet<string> = new Set([
  ...aliases,
  "chat_template_kwargs",
  "frequency_penalty",
  "ignore_eos",
  "length_penalty",
  "logit_bias",
  "min_p",
  "min_tokens",
  "n",
  "presence_penalty",
  "reasoning",
  "reasoning_effort",
  "repetition_penalty",
  "response_format",
  "seed",
  "stop",
  "stop_sequences",
  "stop_token_ids",
  "temperature",
  "thinking",
  "top_k",
  "top_p"
])

/**
 * Of the fields that were sent, those that say how a reply is drawn: for logs and rows.
 *
 * @since 0.1.0
 * @category queries
 */
export const samplingOf = (sent: JsonObject): JsonObject => pick(sent, (key) => samplingFields.has(key))
