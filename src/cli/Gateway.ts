/**
 * `deskhand gateway`: harnesses that speak OpenAI's or Anthropic's wires, before a model of one's own.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as ModelCallCapture from "../model/ModelCallCapture.js"
import * as ModelGateway from "../model/ModelGateway.js"
import { ModelParameters } from "../model/Parameters.js"
import * as TokenCapture from "../model/TokenCapture.js"
import * as TransportLog from "../model/TransportLog.js"
import { notListening } from "./internal/listening.js"
import { UsageError } from "./Run.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface GatewayOptions {
  readonly upstreams: ReadonlyArray<string>
  readonly dialects: ReadonlyArray<ModelGateway.GatewayDialect>
  readonly model: Option.Option<string>
  /** The names of environment variables, never secrets themselves. */
  readonly apiKeyEnv: Option.Option<string>
  readonly tokenEnv: Option.Option<string>
  readonly host: string
  readonly port: Option.Option<number>
  /** A folder; nothing is captured without it. */
  readonly capture: Option.Option<string>
  readonly tokens: "ids" | "logprobs"
  /** JSON objects. */
  readonly samplingOverrides: Option.Option<string>
  readonly extraBody: Option.Option<string>
  readonly silenceSeconds: number
  readonly maxRequestMib: number
  readonly maxReplyMib: number
}

const usage = (reason: string) => new UsageError({ reason })

const secret = (
  option: string,
  name: Option.Option<string>
): Effect.Effect<Redacted.Redacted | undefined, UsageError> =>
  Option.match(name, {
    onNone: () => Effect.succeed(undefined),
    onSome: (variable) =>
      Effect.mapError(Config.redacted(Config.nonEmptyString(variable)), () =>
        usage(`${option} names ${variable}, which is not set`)
      )
  })

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const fields = (option: string, text: Option.Option<string>) =>
  Option.match(text, {
    onNone: () => Effect.succeed({}),
    onSome: (json) =>
      Effect.try((): unknown => JSON.parse(json)).pipe(
        Effect.filterOrFail(isObject),
        Effect.mapError(() => usage(`${option} is no JSON object`))
      )
  })

const mebibyte = 1024 * 1024

const gatewayOptions = (options: GatewayOptions): Effect.Effect<ModelGateway.ModelGatewayOptions, UsageError> =>
  Effect.gen(function* () {
    const [first, ...others] = options.upstreams
    if (first === undefined) return yield* usage("no upstream: give --upstream, such as http://127.0.0.1:8000/v1")
    const apiKey = yield* secret("--api-key-env", options.apiKeyEnv)
    const token = yield* secret("--token-env", options.tokenEnv)
    return {
      upstreams: [first, ...others],
      speaks: options.dialects.length === 0 ? ["chat"] : options.dialects,
      parameters: new ModelParameters({
        tokens: options.tokens,
        samplingOverrides: yield* fields("--sampling-overrides", options.samplingOverrides),
        extraBody: yield* fields("--extra-body", options.extraBody),
        ...Option.match(options.model, { onNone: () => ({}), onSome: (model) => ({ model }) })
      }),
      host: options.host,
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(token === undefined ? {} : { token }),
      ...Option.match(options.port, { onNone: () => ({}), onSome: (port) => ({ port }) }),
      silence: Duration.seconds(options.silenceSeconds),
      requestLimit: options.maxRequestMib * mebibyte,
      replyLimit: options.maxReplyMib * mebibyte
    }
  })

const captured = (
  gateway: Layer.Layer<ModelGateway.ModelGateway, ModelGateway.ModelGatewayError, ModelCallCapture.ModelCallCapture>,
  folder: Option.Option<string>
): Layer.Layer<
  ModelGateway.ModelGateway,
  ModelGateway.ModelGatewayError | ModelCallCapture.CaptureError | TokenCapture.TokenCaptureError,
  FileSystem.FileSystem | Path.Path
> => {
  if (Option.isNone(folder)) return Layer.provide(gateway, ModelCallCapture.layerDisabled)
  const directory = folder.value
  return Layer.provide(gateway, Layer.merge(ModelCallCapture.layer({ directory }), TokenCapture.layer({ directory })))
}

/** The log goes beside what is printed for people and programs to read. */
const logToStandardError = Logger.replace(Logger.defaultLogger, Logger.withConsoleError(Logger.logfmtLogger))

/**
 * Serves until it is interrupted.
 *
 * @since 0.1.0
 * @category operations
 */
export const serve = (options: GatewayOptions) =>
  Effect.gen(function* () {
    const settings = yield* gatewayOptions(options)
    const running = captured(ModelGateway.layer(settings), options.capture).pipe(
      Layer.provide(TransportLog.layerConfig),
      Layer.provide(logToStandardError)
    )
    return yield* Effect.gen(function* () {
      const { url } = yield* ModelGateway.ModelGateway
      yield* Console.log(
        [
          `The gateway is at ${url}. For clients:`,
          `  OPENAI_BASE_URL=${url}/v1   ANTHROPIC_BASE_URL=${url}`,
          `Of a rollout: ${url}/ng-rollout/<id>/v1, and with its tokens ${url}/ng-rollout/<id>/training-token-capture/v1`,
          Option.match(options.capture, {
            onNone: () => "Nothing is captured: --capture FOLDER does.",
            onSome: (directory) => `Calls are captured in ${directory}`
          })
        ].join("\n")
      )
      return yield* Effect.never
    }).pipe(
      Effect.provide(running),
      Effect.mapError((error) =>
        error._tag === "ModelGatewayError"
          ? error.kind === "options"
            ? usage(error.reason)
            : notListening(error.reason)
          : error
      )
    )
  })
