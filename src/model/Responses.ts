/**
 * The Responses wire: OpenAI, vLLM and whatever else speaks it. The whole conversation is sent each time; nothing is left
 * to a server's memory.
 *
 * @since 0.1.0
 */
import type * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { ClientOptions } from "./ClientOptions.js"
import { makeClient } from "./internal/call/call.js"
import { responsesWire } from "./internal/call/responsesWire.js"
import { ModelClient } from "./ModelClient.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ResponsesOptions extends ClientOptions {
  /** Whether reasoning of earlier turns is sent, as items; so unless it is `omit`. */
  readonly reasoning?: "items" | "omit"
}

/**
 * A client of one model, at one address or several. It asks for whole replies unless `stream` is true. Why a reply ended
 * is told in the words of the chat wire: `stop`, `length`, `tool_calls`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: ResponsesOptions
): Effect.Effect<ModelClient["Type"], never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  makeClient(options, responsesWire({ stream: options.stream === true, reasoning: options.reasoning ?? "items" }))

/**
 * A client of a server that speaks the responses API.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: ResponsesOptions
): Layer.Layer<ModelClient, never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  Layer.effect(ModelClient, make(options))
