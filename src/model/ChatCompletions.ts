/**
 * The chat-completions wire: OpenAI, vLLM, NIM, SGLang, llama.cpp and whatever else speaks it.
 *
 * @since 0.1.0
 */
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { ArtifactError, ArtifactStore } from "../artifact/ArtifactStore.js"
import { chatBody } from "./internal/chatBody.js"
import { ModelClient, ModelReply, type ModelRequest, Usage } from "./ModelClient.js"
import { ModelError } from "./ModelError.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ChatCompletionsOptions {
  /** The API's base address, such as `http://127.0.0.1:8000/v1`; `/chat/completions` is added. */
  readonly url: string
  readonly model: string
  readonly apiKey?: Redacted.Redacted
  /** How long one try may take; 15 minutes unless given. */
  readonly timeout?: Duration.DurationInput
}

const Completion = Schema.Struct({
  model: Schema.optional(Schema.NullOr(Schema.String)),
  choices: Schema.NonEmptyArray(
    Schema.Struct({
      finish_reason: Schema.optional(Schema.NullOr(Schema.String)),
      message: Schema.Struct({
        content: Schema.optional(Schema.NullOr(Schema.String)),
        reasoning_content: Schema.optional(Schema.NullOr(Schema.String)),
        reasoning: Schema.optional(Schema.NullOr(Schema.String)),
        refusal: Schema.optional(Schema.NullOr(Schema.String))
      })
    })
  ),
  usage: Schema.optional(
    Schema.NullOr(Schema.Struct({ prompt_tokens: Schema.Number, completion_tokens: Schema.optional(Schema.Number) }))
  )
})

const decodeCompletion = Schema.decodeUnknown(Schema.parseJson(Completion))

/** Repeating a completion is safe: it changes nothing but the bill. */
const isTransient = (error: ModelError): boolean =>
  error.reason === "rate_limited" || error.reason === "unavailable" || error.reason === "transport"

/**
 * Up to three more tries after half a second, one and two, each stretched or shrunk by up to a fifth, and never sooner
 * than the server asks, up to a minute.
 *
 * @since 0.1.0
 * @category retries
 */
export const retrySchedule: Schedule.Schedule<ModelError, ModelError> = Schedule.exponential("500 millis").pipe(
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(3)),
  Schedule.passthrough<[Duration.Duration, number], ModelError, never>,
  Schedule.modifyDelay((error, delay) => Duration.max(delay, Duration.millis(Math.min(error.retryAfter ?? 0, 60_000))))
)

const withoutCredentials = (url: string): string => {
  if (!URL.canParse(url)) return url
  const parsed = new URL(url)
  parsed.username = ""
  parsed.password = ""
  parsed.search = ""
  return parsed.toString()
}

const overflow = /maximum context length|context_length_exceeded|prompt is too long|context window/i

const refusalReason = (status: number, body: string): typeof ModelError.Type.reason => {
  if (status === 401 || status === 403) return "unauthorised"
  if (status === 429) return "rate_limited"
  if (status >= 500) return "unavailable"
  return overflow.test(body) ? "context_overflow" : "bad_request"
}

/** `Retry-After` in milliseconds: seconds, or a date. */
const retryAfter = (value: string | undefined, now: number): number | undefined => {
  if (value === undefined) return undefined
  const seconds = Number(value)
  const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(value) - now
  return Number.isFinite(wait) && wait > 0 ? wait : undefined
}

/**
 * A client of one model at one address. It asks for whole replies, not for streams.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: ChatCompletionsOptions
): Effect.Effect<ModelClient["Type"], never, HttpClient.HttpClient | ArtifactStore> =>
  Effect.gen(function* () {
    const http = yield* HttpClient.HttpClient
    const store = yield* ArtifactStore
    const endpoint = `${options.url.replace(/\/+$/, "")}/chat/completions`
    const url = withoutCredentials(endpoint)
    const timeout = options.timeout ?? "15 minutes"
    const failed = (reason: typeof ModelError.Type.reason, detail: string) => new ModelError({ reason, url, detail })

    const wireRequest = (request: ModelRequest) => {
      const { temperature, topP, maxTokens } = request.sampling
      const fields = {
        model: options.model,
        ...(temperature === undefined ? {} : { temperature }),
        ...(topP === undefined ? {} : { top_p: topP }),
        ...(maxTokens === undefined ? {} : { max_tokens: maxTokens })
      }
      return HttpClientRequest.post(endpoint).pipe(
        HttpClientRequest.setHeaders({
          "x-deskhand-run-id": request.identity.runId,
          "x-deskhand-rollout-id": request.identity.rolloutId,
          "x-deskhand-task-id": encodeURIComponent(request.identity.taskId),
          "x-deskhand-step": String(request.step)
        }),
        options.apiKey === undefined ? (same) => same : HttpClientRequest.bearerToken(options.apiKey),
        HttpClientRequest.setBody(chatBody(request.messages, fields, store))
      )
    }

    const fromHttp = (error: HttpClientError.HttpClientError): ModelError => {
      const causes = causesOf(error)
      const artifact = causes.find((cause) => cause instanceof ArtifactError)
      return artifact === undefined
        ? failed("transport", innermost(causes))
        : failed("artifact", `a picture of the prompt could not be sent: ${artifact.message}`)
    }

    const read = (response: HttpClientResponse.HttpClientResponse) =>
      Effect.gen(function* () {
        const body = yield* Effect.mapError(response.text, fromHttp)
        if (response.status < 200 || response.status >= 300) {
          const now = yield* Clock.currentTimeMillis
          const wait = retryAfter(response.headers["retry-after"], now)
          return yield* new ModelError({
            reason: refusalReason(response.status, body),
            url,
            status: response.status,
            body,
            ...(wait === undefined ? {} : { retryAfter: wait }),
            detail: `the server refused the request: ${excerpt(body)}`
          })
        }
        const completion = yield* Effect.mapError(
          decodeCompletion(body),
          () =>
            new ModelError({
              reason: "malformed_reply",
              url,
              status: response.status,
              body,
              detail: `the reply is no chat completion: ${excerpt(body)}`
            })
        )
        const { message, finish_reason } = completion.choices[0]
        if (finish_reason === "content_filter" || (message.refusal ?? "") !== "") {
          return yield* new ModelError({
            reason: "refused",
            url,
            status: response.status,
            body,
            detail: `the model declined: ${message.refusal ?? "content filter"}`
          })
        }
        return { completion, message, finishReason: finish_reason ?? "stop" }
      })

    const attempt = (request: HttpClientRequest.HttpClientRequest) =>
      http.execute(request).pipe(
        Effect.mapError(fromHttp),
        Effect.flatMap(read),
        Effect.timeoutFail({
          duration: timeout,
          onTimeout: () => failed("timeout", `no reply within ${Duration.format(Duration.decode(timeout))}`)
        })
      )

    return ModelClient.of({
      model: options.model,
      complete: Effect.fn("ModelClient.complete", { captureStackTrace: false })(function* (request) {
        const started = yield* Clock.currentTimeMillis
        const reply = yield* Effect.retry(
          attempt(wireRequest(request)),
          Schedule.whileInput(retrySchedule, isTransient)
        )
        const ended = yield* Clock.currentTimeMillis
        const { completion, message, finishReason } = reply
        const reasoning = message.reasoning_content ?? message.reasoning ?? undefined
        return new ModelReply({
          text: message.content ?? "",
          ...(reasoning === undefined ? {} : { reasoning }),
          finishReason,
          model: completion.model ?? options.model,
          ...(completion.usage == null
            ? {}
            : {
                usage: new Usage({
                  promptTokens: completion.usage.prompt_tokens,
                  completionTokens: completion.usage.completion_tokens ?? 0
                })
              }),
          milliseconds: ended - started
        })
      })
    })
  })

const excerpt = (body: string): string => {
  const line = body.replace(/\s+/g, " ").trim()
  return line === "" ? "an empty body" : line.length > 300 ? `${line.slice(0, 300)}…` : line
}

const causesOf = (error: Error): ReadonlyArray<Error> => {
  const causes: Array<Error> = []
  for (let cause: unknown = error; cause instanceof Error && causes.length < 8; cause = cause.cause) causes.push(cause)
  return causes
}

/** `connect ECONNREFUSED 127.0.0.1:8000` says more than "Transport error". */
const innermost = (causes: ReadonlyArray<Error>): string =>
  causes.findLast(({ message }) => message !== "")?.message ?? "the connection broke"

/**
 * Asks the server for its list of models, so that a wrong address or key is told before anything depends on it. Servers
 * that have no such list pass.
 *
 * @since 0.1.0
 * @category queries
 */
export const reach = ({
  apiKey,
  url
}: Pick<ChatCompletionsOptions, "url" | "apiKey">): Effect.Effect<void, ModelError, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const http = yield* HttpClient.HttpClient
    const address = `${url.replace(/\/+$/, "")}/models`
    const failed = (reason: ModelError["reason"], detail: string, status?: number) =>
      new ModelError({ reason, url: withoutCredentials(url), detail, ...(status === undefined ? {} : { status }) })
    const request = HttpClientRequest.get(address)
    const response = yield* http
      .execute(apiKey === undefined ? request : HttpClientRequest.bearerToken(request, apiKey))
      .pipe(
        Effect.mapError((error) => failed("transport", innermost(causesOf(error)))),
        Effect.timeoutFail({
          duration: "30 seconds",
          onTimeout: () => failed("transport", "no answer within 30 seconds")
        })
      )
    if (response.status === 401 || response.status === 403) {
      return yield* failed("unauthorised", "it wants a key", response.status)
    }
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: ChatCompletionsOptions
): Layer.Layer<ModelClient, never, HttpClient.HttpClient | ArtifactStore> => Layer.effect(ModelClient, make(options))

/**
 * From `DESKHAND_MODEL_URL`, `DESKHAND_MODEL` and, where the server wants one, `DESKHAND_API_KEY`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<ModelClient, ConfigError, HttpClient.HttpClient | ArtifactStore> = Layer.effect(
  ModelClient,
  Effect.gen(function* () {
    const url = yield* Config.nonEmptyString("DESKHAND_MODEL_URL")
    const model = yield* Config.nonEmptyString("DESKHAND_MODEL")
    const apiKey = yield* Config.option(Config.redacted(Config.nonEmptyString("DESKHAND_API_KEY")))
    return yield* make({ url, model, ...(Option.isSome(apiKey) ? { apiKey: apiKey.value } : {}) })
  })
)
