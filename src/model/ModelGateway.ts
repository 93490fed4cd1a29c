/**
 * A server that stands between harnesses and a model: it speaks their dialects, keeps what was said and its tokens, and
 * never changes what the upstream answered.
 *
 * @since 0.1.0
 */
import * as Http from "node:http"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { ReasoningMode } from "./Convert.js"
import { isLoopback, makeVerifier } from "./internal/gateway/auth.js"
import { makeCalls } from "./internal/gateway/calls.js"
import * as Refusals from "./internal/gateway/refusal.js"
import * as Route from "./internal/gateway/route.js"
import { makeUpstream } from "./internal/gateway/upstream.js"
import { ModelCallCapture } from "./ModelCallCapture.js"
import { ModelParameters } from "./Parameters.js"
import { TokenCapture } from "./TokenCapture.js"

/**
 * A wire that harnesses and upstreams speak: OpenAI's Chat Completions and Responses, Anthropic's Messages.
 *
 * @since 0.1.0
 * @category models
 */
export const GatewayDialect = Refusals.Dialect

/**
 * @since 0.1.0
 * @category models
 */
export type GatewayDialect = typeof GatewayDialect.Type

/**
 * @since 0.1.0
 * @category models
 */
export interface ModelGatewayOptions {
  /** Base addresses of one model's API, such as `http://127.0.0.1:8000/v1`. A rollout stays with one while that is up. */
  readonly upstreams: readonly [string, ...Array<string>]
  /** What the upstream speaks; chat unless given. Responses and Messages are translated to chat where they are not here. */
  readonly speaks?: ReadonlyArray<GatewayDialect>
  /** What is sent whatever clients say; nothing unless given. */
  readonly parameters?: ModelParameters
  /** The upstream's key. Without it, and without a `token`, what clients show goes to the upstream. */
  readonly apiKey?: Redacted.Redacted
  /** What clients must show, as a bearer token or in `x-api-key`. It may be left out on a loopback address alone. */
  readonly token?: Redacted.Redacted
  /** 127.0.0.1 unless given. */
  readonly host?: string
  /** A free one unless given. */
  readonly port?: number
  /** The model server's name in captured calls; `policy_model` unless given. */
  readonly name?: string
  /** Whether `<think>` spans of a chat upstream's text are reasoning to clients of other dialects; yes unless given. */
  readonly thinkTags?: boolean
  /** How such clients' earlier reasoning is sent to a chat upstream; `inline` unless given. */
  readonly reasoning?: ReasoningMode
  /** How long a connection to the upstream may take; 30 seconds unless given. */
  readonly connectTimeout?: Duration.DurationInput
  /** How long the upstream, or a client that reads, may be silent; 15 minutes unless given. */
  readonly silence?: Duration.DurationInput
  /** Bytes of a request at most; 128 MiB unless given. */
  readonly requestLimit?: number
  /** Bytes of a reply that are translated or kept at most; 64 MiB unless given. Others are passed on, and not kept. */
  readonly replyLimit?: number
}

/**
 * The gateway does not serve: what it was told makes no sense, or it cannot listen there.
 *
 * @since 0.1.0
 * @category errors
 */
export class ModelGatewayError extends Schema.TaggedError<ModelGatewayError>("deskhand/ModelGatewayError")(
  "ModelGatewayError",
  {
    kind: Schema.Literal("options", "listen"),
    reason: Schema.String
  }
) {
  override get message() {
    return `the gateway does not start: ${this.reason}`
  }
}

/**
 * A gateway that listens, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class ModelGateway extends Context.Tag("deskhand/model/ModelGateway")<
  ModelGateway,
  {
    /** Its address, such as `http://127.0.0.1:40123`. Clients of OpenAI's add `/v1`, Anthropic's do so by themselves. */
    readonly url: string
    readonly port: number
  }
>() {}

const mebibyte = 1024 * 1024

const keepAliveMillis = 75_000

const checked = (options: ModelGatewayOptions): Either.Either<void, ModelGatewayError> => {
  const wrong = (reason: string) => Either.left(new ModelGatewayError({ kind: "options", reason }))
  const address = options.upstreams.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url))
  if (address !== undefined) return wrong("an upstream is no http address. Give it as http://host:port/v1")
  if (options.speaks?.length === 0)
    return wrong("the upstream speaks no dialect. Name one of chat, responses, messages")
  const host = options.host ?? "127.0.0.1"
  if (options.token === undefined && !isLoopback(host)) {
    return wrong(`everybody who reaches ${host} could use the model. Give a token, or listen on 127.0.0.1`)
  }
  return options.token !== undefined && Redacted.value(options.token) === "" ? wrong("the token is empty") : Either.void
}

const sendJson = (
  request: Http.IncomingMessage,
  response: Http.ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {}
): void => {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": String(bytes.length),
    // What is left of a request that was not read would be taken for the next.
    ...(request.complete ? {} : { connection: "close" }),
    ...headers
  })
  response.end(request.method === "HEAD" ? undefined : bytes)
}

const refuse = (request: Http.IncomingMessage, response: Http.ServerResponse, refusal: Refusals.Refusal): void =>
  sendJson(request, response, refusal.status, Refusals.refusalBody(Route.dialectOf(request.url ?? ""), refusal), {
    [Refusals.refusalHeader]: refusal.code,
    ...(refusal.status === 401 ? { "www-authenticate": "Bearer" } : {})
  })

const listen = (
  server: Http.Server,
  host: string,
  port: number
): Effect.Effect<number, ModelGatewayError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.async<void, ModelGatewayError>((resume) => {
      server.once("error", (error) =>
        resume(Effect.fail(new ModelGatewayError({ kind: "listen", reason: error.message })))
      )
      server.listen(port, host, () => resume(Effect.void))
    }),
    () =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  ).pipe(
    Effect.map(() => {
      const address = server.address()
      return typeof address === "object" && address !== null ? address.port : port
    })
  )

/**
 * Serves for as long as the scope is open. Calls that are under way when it closes are put on record as broken off.
 *
 * Routes: `POST /v1/chat/completions`, `/v1/responses`, `/v1/messages`, `GET /v1/models`, each also under
 * `/ng-rollout/<id>/`, where calls are captured as that rollout's, and `/ng-rollout/<id>/training-token-capture/`, where
 * the `TokenCapture` that is there keeps their tokens, too (without one such calls are refused); `GET /` says that it is
 * there. What it answers by itself has the header `x-deskhand-gateway-error`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: ModelGatewayOptions
): Effect.Effect<ModelGateway["Type"], ModelGatewayError, ModelCallCapture | Scope.Scope> =>
  Effect.gen(function* () {
    yield* checked(options)
    const capture = yield* ModelCallCapture
    const tokens = yield* Effect.serviceOption(TokenCapture)
    const host = options.host ?? "127.0.0.1"
    const silenceMillis = Duration.toMillis(options.silence ?? "15 minutes")
    const upstream = yield* makeUpstream({
      urls: options.upstreams,
      connectMillis: Duration.toMillis(options.connectTimeout ?? "30 seconds"),
      silenceMillis
    })
    const calls = makeCalls({
      upstream,
      urls: options.upstreams,
      speaks: new Set(options.speaks ?? ["chat"]),
      parameters: options.parameters ?? new ModelParameters({}),
      apiKey: options.apiKey,
      passCredentials: options.token === undefined,
      capture,
      tokens: tokens._tag === "Some" ? tokens.value : undefined,
      modelName: options.name ?? "policy_model",
      thinkTags: options.thinkTags ?? true,
      reasoning: options.reasoning ?? "inline",
      requestLimit: options.requestLimit ?? 128 * mebibyte,
      replyLimit: options.replyLimit ?? 64 * mebibyte,
      stallMillis: silenceMillis
    })
    const mayCall = options.token === undefined ? () => true : makeVerifier(Redacted.value(options.token))

    const handle = (request: Http.IncomingMessage, response: Http.ServerResponse) =>
      Effect.gen(function* () {
        const route = yield* Route.parse(request.method ?? "GET", request.url ?? "/")
        if (route._tag === "Health") return sendJson(request, response, 200, { status: "ok" })
        if (!mayCall(request.headers)) {
          return yield* new Refusals.Refusal({
            status: 401,
            code: "unauthorised",
            detail: "this gateway wants its token, as Authorization: Bearer or as x-api-key"
          })
        }
        yield* route._tag === "Call" ? calls.call(route, request, response) : calls.plain(route, request, response)
      }).pipe(
        Effect.scoped,
        Effect.catchTags({
          GatewayRefusal: (refusal) => Effect.sync(() => refuse(request, response, refusal)),
          ClientGone: () => Effect.sync(() => response.destroy())
        }),
        Effect.catchAllDefect((defect) =>
          Effect.zipRight(
            Effect.logError("the gateway failed", defect),
            Effect.sync(() =>
              refuse(
                request,
                response,
                new Refusals.Refusal({
                  status: 500,
                  code: "gateway_bug",
                  detail: "the gateway failed; its log says more. This is a bug of ours, please report it"
                })
              )
            )
          )
        )
      )

    const run = yield* FiberSet.makeRuntime<never>()
    const server = Http.createServer((request, response) => {
      const fiber = run(handle(request, response))
      // Whoever writes looks at whether the client is still there.
      response.on("error", () => {})
      response.on("close", () => {
        if (!response.writableFinished) fiber.unsafeInterruptAsFork(FiberId.none)
      })
    })
    // A long thought is no silence of the client's: only what outlasts the upstream's own limit is cut.
    server.setTimeout(silenceMillis + 60_000)
    // Longer than clients keep a connection, so that none asks on one that is being closed.
    server.keepAliveTimeout = keepAliveMillis
    const port = yield* listen(server, host, options.port ?? 0)
    const shown = host.includes(":") ? `[${host}]` : host
    return { url: `http://${shown}:${port}`, port }
  })

/**
 * A gateway that listens as long as the layer is there.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: ModelGatewayOptions): Layer.Layer<ModelGateway, ModelGatewayError, ModelCallCapture> =>
  Layer.scoped(ModelGateway, make(options))
