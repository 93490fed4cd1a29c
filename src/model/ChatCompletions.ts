/**
 * The chat-completions wire: OpenAI, vLLM, NIM, SGLang, llama.cpp and whatever else speaks it.
 *
 * @since 0.1.0
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { ClientOptions } from "./ClientOptions.js"
import type { ReasoningMode } from "./Convert.js"
import { addressOf } from "./internal/call/address.js"
import { makeClient } from "./internal/call/call.js"
import { chatWire } from "./internal/call/chatWire.js"
import { exchange } from "./internal/call/exchange.js"
import { broken } from "./internal/call/failure.js"
import { ModelClient } from "./ModelClient.js"
import { ModelError } from "./ModelError.js"
import { redactUrl } from "./Redaction.js"

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
export const reach = ({
  apiKey,
  url
}: Pick<ClientOptions, "url" | "apiKey">): Effect.Effect<void, ModelError, NodeHttpClient.Dispatcher> =>
  Effect.flatMap(NodeHttpClient.Dispatcher, (dispatcher) =>
    Effect.forEach(typeof url === "string" ? [url] : url, (base) => reachOne(dispatcher, base, apiKey), {
      discard: true,
      concurrency: "unbounded"
    })
  )

const reachOne = (
  dispatcher: Parameters<typeof exchange>[0],
  base: string,
  apiKey: Redacted.Redacted | undefined
): Effect.Effect<void, ModelError> =>
  Effect.suspend(() => {
    const failed = (reason: ModelError["reason"], detail: string, status?: number) =>
      new ModelError({
        reason,
        url: redactUrl(base, apiKey === undefined ? [] : [apiKey]),
        detail,
        ...(status === undefined ? {} : { status })
      })
    const address = addressOf(base, "/models")
    if (address === undefined) return Effect.fail(failed("transport", "it is no http or https address"))
    const { authorization, url } = address
    const secret = apiKey === undefined ? authorization : `Bearer ${Redacted.value(apiKey)}`
    let status = 0
    return exchange(
      dispatcher,
      { method: "GET", url, headers: secret === undefined ? {} : { authorization: secret } },
      {
        head: (code) => {
          status = code
        },
        // What the list holds is of no account here.
        data: () => false
      }
    ).pipe(
      Effect.mapError((failure) => failed("transport", broken(failure).detail)),
      Effect.timeoutFail({
        duration: "30 seconds",
        onTimeout: () => failed("transport", "no answer within 30 seconds")
      }),
      Effect.flatMap(() =>
        status === 401 || status === 403 ? Effect.fail(failed("unauthorised", "it wants a key", status)) : Effect.void
      )
    )
  })

/**
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
