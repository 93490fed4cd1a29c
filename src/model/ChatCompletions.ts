/**
 * The chat-completions wire: OpenAI, vLLM, NIM, SGLang, llama.cpp and whatever else speaks it.
 *
 * @since 0.1.0
 */
import type * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { ClientOptions } from "./ClientOptions.js"
import type { ReasoningMode } from "./Convert.js"
import { makeClient } from "./internal/call/call.js"
import { chatWire } from "./internal/call/chatWire.js"
import { reach as reachAll } from "./internal/call/reach.js"
import { bearer } from "./internal/call/upstream.js"
import { ModelClient } from "./ModelClient.js"
import type { ModelError } from "./ModelError.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ChatCompletionsOptions extends ClientOptions {
  /**
   * What the server is asked to tell of a reply's tokens: nothing unless given; `logprobs` whose tokens are written as
   * ids, with the prompt's from `/tokenize`; or `ids` beside the message. A reply without them is an error then.
   */
  readonly tokens?: "none" | "logprobs" | "ids"
  /** Whether `<think>` spans in a reply's text are its reasoning; they are text unless this is true. */
  readonly thinkTags?: boolean
  /** How reasoning of earlier turns is sent; `inline`, as `<think>` spans at their places, unless given. */
  readonly reasoning?: ReasoningMode
}

/**
 * A client of one model, at one address or several. It asks for whole replies unless `stream` is true.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: ChatCompletionsOptions
): Effect.Effect<ModelClient["Type"], never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  makeClient(
    options,
    chatWire({
      stream: options.stream === true,
      tokens: options.tokens ?? "none",
      thinkTags: options.thinkTags === true,
      reasoning: options.reasoning ?? "inline"
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
  options: Pick<ClientOptions, "url" | "apiKey"> & { readonly keyName?: string }
): Effect.Effect<void, ModelError, NodeHttpClient.Dispatcher> => reachAll(options, { authorise: bearer, headers: {} })

/**
 * A client of a server that speaks the chat-completions API.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: ChatCompletionsOptions
): Layer.Layer<ModelClient, never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  Layer.effect(ModelClient, make(options))

/**
 * From `DESKHAND_MODEL_URL`, `DESKHAND_MODEL` and, where the server wants one, `DESKHAND_API_KEY`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<ModelClient, ConfigError, NodeHttpClient.Dispatcher | ArtifactStore> =
  Layer.effect(
    ModelClient,
    Effect.gen(function* () {
      const url = yield* Config.nonEmptyString("DESKHAND_MODEL_URL")
      const model = yield* Config.nonEmptyString("DESKHAND_MODEL")
      const apiKey = yield* Config.option(Config.redacted(Config.nonEmptyString("DESKHAND_API_KEY")))
      return yield* make({ url, model, ...(Option.isSome(apiKey) ? { apiKey: apiKey.value } : {}) })
    })
  )
