/** The client of a run's model, by the wire that its agent speaks. */
import type * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Dialect } from "../../agents/Protocol.js"
import type { ArtifactStore } from "../../artifact/ArtifactStore.js"
import * as AnthropicMessages from "../../model/AnthropicMessages.js"
import * as ChatCompletions from "../../model/ChatCompletions.js"
import type { ClientOptions } from "../../model/ClientOptions.js"
import type { ModelClient } from "../../model/ModelClient.js"
import type { ModelError } from "../../model/ModelError.js"
import * as Responses from "../../model/Responses.js"
import { RetryPolicy } from "../../model/Retry.js"

export const clientOf = (
  dialect: Dialect,
  options: ClientOptions
): Layer.Layer<ModelClient, never, NodeHttpClient.Dispatcher | ArtifactStore> => {
  switch (dialect) {
    case "chat":
      return ChatCompletions.layer(options)
    case "responses":
      return Responses.layer(options)
    case "messages":
      return AnthropicMessages.layer(options)
  }
}

/** Whether the server is there and takes the key; only Messages has a key of another kind. */
export const reach = (
  dialect: Dialect,
  address: Pick<ClientOptions, "url" | "apiKey"> & { readonly keyName?: string }
): Effect.Effect<void, ModelError, NodeHttpClient.Dispatcher> =>
  dialect === "messages" ? AnthropicMessages.reach(address) : ChatCompletions.reach(address)

/**
 * Gives up before a call's own time is over, which would hide what the server said the last time: that a quota is spent,
 * and that it wants to be asked again tomorrow.
 */
export const retryWithin = (policy: RetryPolicy, seconds: number): RetryPolicy =>
  new RetryPolicy({ ...policy, totalMilliseconds: Math.min(policy.totalMilliseconds, seconds * 1000 - 1) })
