/**
 * The Messages wire: Anthropic's API, and whatever else speaks it. The whole conversation is sent each time, with thinking
 * and its signatures as they came.
 *
 * @since 0.1.0
 */
import type * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { ClientOptions } from "./ClientOptions.js"
import { makeClient } from "./internal/call/call.js"
import { apiKeyHeader, messagesWire } from "./internal/call/messagesWire.js"
import { reach as reachAll } from "./internal/call/reach.js"
import { ModelClient } from "./ModelClient.js"
import type { ModelError } from "./ModelError.js"

/**
 * The key is sent as `x-api-key`. `extraBody` is the place for `thinking` and `cache_control`.
 *
 * @since 0.1.0
 * @category models
 */
export interface AnthropicMessagesOptions extends ClientOptions {
  /** Whether reasoning of earlier turns is sent, as blocks; so unless it is `omit`. */
  readonly reasoning?: "blocks" | "omit"
  /** `anthropic-version`; `2023-06-01` unless given. */
  readonly version?: string
  /** Names for `anthropic-beta`; the one of a computer tool that a request offers goes along by itself. */
  readonly betas?: ReadonlyArray<string>
}

/**
 * Tokens that a reply may have where a request says nothing of it: the wire wants a number.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultMaxTokens = 8192

/**
 * `anthropic-version` unless another is given. The one after it, `2026-10-21`, takes no `temperature`, `top_p` and `top_k`.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultVersion = "2023-06-01"

/**
 * A client of one model, at one address or several. It asks for whole replies unless `stream` is true. Why a reply ended
 * is told in the words of the chat wire: `stop`, `length`, `tool_calls`. A seed cannot be sent, and is an error.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: AnthropicMessagesOptions
): Effect.Effect<ModelClient["Type"], never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  makeClient(
    { ...options, extraBody: { max_tokens: defaultMaxTokens, ...options.extraBody } },
    messagesWire({
      stream: options.stream === true,
      reasoning: options.reasoning ?? "blocks",
      version: options.version ?? defaultVersion,
      betas: options.betas ?? []
    })
  )

/**
 * Asks each server for its list of models, so that a wrong address or key is told before anything depends on it. Servers
 * that have no such list pass.
 *
 * @since 0.1.0
 * @category queries
 */
export const reach = (
  options: Pick<AnthropicMessagesOptions, "url" | "apiKey" | "version"> & { readonly keyName?: string }
): Effect.Effect<void, ModelError, NodeHttpClient.Dispatcher> =>
  reachAll(options, {
    authorise: apiKeyHeader,
    headers: { "anthropic-version": options.version ?? defaultVersion }
  })

/**
 * A client of a server that speaks the messages API.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: AnthropicMessagesOptions
): Layer.Layer<ModelClient, never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  Layer.effect(ModelClient, make(options))
