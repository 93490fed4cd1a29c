/**
 * One call of a model: asked as the upstream wants it, answered as the client does.
 */
import { randomUUID } from "node:crypto"
import type * as Http from "node:http"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Convert from "../../Convert.js"
import { type ModelCallCapture, uncorrelated } from "../../ModelCallCapture.js"
import { ModelParameters, resolve } from "../../Parameters.js"
import type { TokenCapture } from "../../TokenCapture.js"
import * as TransportLog from "../../TransportLog.js"
import { isObject, type JsonObject } from "../streams/streamError.js"
import { bridgeStream, bridgeWhole } from "./bridge.js"
import * as category from "./category.js"
import { toUpstream } from "./headers.js"
import { type Dialect, Refusal, refusalBody } from "./refusal.js"
import { clientGone, relay } from "./relay.js"
import type { Correlation, Route } from "./route.js"
import { makeTokenKeeper } from "./tokens.js"
import { refusalOf, type Upstream } from "./upstream.js"
import * as Wire from "./wire.js"
import { type CallLogging, makeWitness } from "./witness.js"

export interface CallsOptions {
  readonly upstream: Upstream
  readonly urls: ReadonlyArray<string>
  /** The wires that the upstream speaks. */
  readonly speaks: ReadonlySet<Dialect>
  /** What is sent whatever a client says; its `tokens` are asked for where tokens are kept. */
  readonly parameters: ModelParameters
  readonly apiKey: Redacted.Redacted | undefined
  /** Whether what clients show is meant for the upstream. */
  readonly passCredentials: boolean
  readonly capture: ModelCallCapture["Type"]
  readonly tokens: TokenCapture["Type"] | undefined
  readonly modelName: string
  readonly thinkTags: boolean
  readonly reasoning: Convert.ReasoningMode
  readonly requestLimit: number
  readonly replyLimit: number
  readonly stallMillis: number
}

type Call = Extract<Route, { readonly _tag: "Call" }>

const isConfigured = ({ chatTemplateKwargs, extraBody, model, samplingOverrides }: ModelParameters): boolean =>
  model !== undefined ||
  [chatTemplateKwargs, extraBody, samplingOverrides].some((fields) => Object.keys(fields).length > 0)

/** What a row's metadata says to the upstream; looked for in the bytes, so that most requests need no reading. */
const reserved = [Buffer.from('"extra_body"'), Buffer.from('"chat_template_kwargs"')]

const parseObject = (bytes: Buffer): Either.Either<JsonObject, Refusal> =>
  Either.try({
    try: (): unknown => JSON.parse(bytes.toString("utf8")),
    catch: (error) =>
      invalid(`the request's body is no JSON: ${error instanceof Error ? error.message : String(error)}`)
  }).pipe(Either.filterOrLeft(isObject, () => invalid("the request's body is no JSON object")))

const invalid = (detail: string) => new Refusal({ status: 400, code: "invalid_request", detail })

/** The wire that the upstream is asked on: the client's own, else chat. Tokens are told on chat alone. */
const upstreamDialect = (
  { dialect }: Call,
  training: boolean,
  speaks: ReadonlySet<Dialect>
): Either.Either<Dialect, Refusal> => {
  if (training && speaks.has("chat")) return Either.right("chat")
  if (speaks.has(dialect)) return Either.right(dialect)
  if (dialect !== "chat" && speaks.has("chat")) return Either.right("chat")
  const others = Array.from(speaks).join(" and ")
  return Either.left(
    new Refusal({
      status: 400,
      code: "unsupported_dialect",
      detail: `the upstream speaks ${others}, and ${dialect} is not translated to it: ask in ${others}, or name --dialect ${dialect} if the upstream speaks it`
    })
  )
}

const paths: Readonly<Record<Dialect, string>> = {
  chat: "/chat/completions",
  responses: "/responses",
  messages: "/messages"
}

/** Headers and query of another dialect mean nothing to the upstream. */
const foreignHeader = /^anthropic-/i

export const makeCalls = (options: CallsOptions) => {
  const { capture, parameters, speaks, upstream } = options

  const headersFor = (request: Http.IncomingMessage, dialect: Dialect | undefined, body: Uint8Array | undefined) =>
    toUpstream(request.rawHeaders, {
      dialect,
      passCredentials: options.passCredentials,
      ...(options.apiKey === undefined ? {} : { apiKey: Redacted.value(options.apiKey) }),
      ...(body === undefined ? {} : { length: body.length })
    })

  /** The request as the upstream gets it; as it came, where nothing has to be changed. */
  const outbound = (body: Buffer, asked: Dialect, dialect: Dialect, training: boolean) =>
    Either.gen(function* () {
      const untouched =
        asked === dialect && !training && !isConfigured(parameters) && !reserved.some((name) => body.includes(name))
      if (untouched) return { bytes: body, request: undefined, sent: undefined }
      const request = yield* parseObject(body)
      const translated = yield* asked === dialect ? Either.right(request) : translate(request, asked)
      const config = new ModelParameters({
        ...parameters,
        dialect,
        tokens: training ? (parameters.tokens === "none" ? "ids" : parameters.tokens) : "none"
      })
      const sent = yield* Either.mapLeft(resolve({ config, body: translated }), (error) => invalid(error.message))
      return { bytes: Buffer.from(JSON.stringify(sent)), request, sent }
    })

  const translate = (request: JsonObject, asked: Dialect): Either.Either<JsonObject, Refusal> =>
    Either.mapLeft(
      asked === "responses"
        ? Convert.responsesRequestToChat(request, { reasoning: options.reasoning })
        : Convert.messagesRequestToChat(request, { reasoning: options.reasoning }),
      (error) => new Refusal({ status: 400, code: "unsupported_by_bridge", detail: error.message })
    )

  const keeperFor = ({ rolloutId, training }: Correlation) =>
    Either.gen(function* () {
      if (!training || rolloutId === undefined) return undefined
      if (options.tokens === undefined) {
        return yield* Either.left(
          new Refusal({
            status: 400,
            code: "no_token_capture",
            detail:
              "this gateway keeps no tokens, so it serves nothing under training-token-capture: start it with --capture"
          })
        )
      }
      return { capture: options.tokens, rolloutId }
    })

  /** Passes on what generates nothing. */
  const plain = (
    route: Extract<Route, { readonly _tag: "Plain" }>,
    request: Http.IncomingMessage,
    response: Http.ServerResponse
  ) =>
    Effect.gen(function* () {
      if (route.dialect !== undefined && !speaks.has(route.dialect)) {
        return yield* new Refusal({
          status: 404,
          code: "unsupported_dialect",
          detail: `${route.path} is of ${route.dialect}, which the upstream does not speak, and there is no translation of it`
        })
      }
      const body = request.method === "GET" ? undefined : yield* Wire.readBody(request, options.requestLimit)
      const dialect = route.dialect ?? (speaks.has("chat") || speaks.has("responses") ? "chat" : "messages")
      const { message } = yield* upstream.call({
        method: request.method ?? "GET",
        path: route.path,
        query: route.query,
        headers: headersFor(request, dialect, body),
        ...(body === undefined ? {} : { body }),
        key: route.correlation.rolloutId ?? randomUUID()
      })
      yield* Effect.catchTag(pass(message, response, dialect, silent), "UpstreamFailure", refusalOf)
    })

  const silent = {
    observing: () => false,
    prepare: Effect.void,
    firstByte: Effect.void,
    given: Effect.void,
    settle: () => Effect.void
  }

  const pass = (
    message: Http.IncomingMessage,
    response: Http.ServerResponse,
    dialect: Dialect,
    witness: Parameters<typeof relay>[2]["witness"]
  ) => relay(message, response, { dialect, witness, keepLimit: options.replyLimit, stallMillis: options.stallMillis })

  /** Asks a model. */
  const call = (
    route: Call,
    request: Http.IncomingMessage,
    response: Http.ServerResponse
  ): Effect.Effect<void, Refusal | Wire.ClientGone, Scope.Scope> =>
    Effect.gen(function* () {
      const body = yield* Wire.readBody(request, options.requestLimit)
      const transport = yield* TransportLog.TransportLog
      const clock = yield* Effect.clock
      const modelCallId = randomUUID().replaceAll("-", "")
      const createdAt = clock.unsafeCurrentTimeMillis() / 1000
      const { dialect: asked, correlation, path, query } = route
      const kept = yield* keeperFor(correlation)
      const dialect = yield* upstreamDialect(route, kept !== undefined, speaks)
      const logging: CallLogging = { log: undefined, wanted: false }
      let base = ""
      let sent: JsonObject = {}
      const headers = (bytes: Uint8Array | undefined) => {
        const all = headersFor(request, dialect, bytes)
        return asked === dialect
          ? all
          : Object.fromEntries(Object.entries(all).filter(([name]) => !foreignHeader.test(name)))
      }
      const keeper =
        kept === undefined
          ? undefined
          : makeTokenKeeper({
              ...kept,
              modelCallId,
              createdAt,
              tokenize: Effect.suspend(() => upstream.tokenize(base, sent, tokenizeHeaders(headers(undefined))))
            })
      const witness = yield* makeWitness({
        capture,
        owner: correlation.rolloutId ?? uncorrelated,
        modelCallId,
        modelName: options.modelName,
        dialect: asked,
        upstreamDialect: dialect,
        body,
        tokens: keeper,
        logging
      })

      const started = (bytes: Buffer) => (url: string) =>
        Effect.gen(function* () {
          if (logging.log !== undefined) {
            yield* logging.log.error({ type: "connection", error: `${base} could not be reached` })
          }
          base = url
          logging.log = yield* transport.request({
            ids: idsOf(request.headers, correlation, modelCallId),
            baseUrls: options.urls,
            url: `${url.replace(/\/+$/, "")}${paths[dialect]}`,
            dialect,
            payload: () => {
              logging.wanted = true
              return Either.getOrElse(parseObject(bytes), () => ({ unreadable: bytes.toString("utf8") }))
            },
            ...(options.apiKey === undefined ? {} : { secrets: [options.apiKey] })
          })
        })

      const asking = Effect.gen(function* () {
        const out = yield* outbound(body, asked, dialect, kept !== undefined)
        sent = out.sent ?? {}
        if (keeper !== undefined) yield* keeper.begin
        const { message } = yield* upstream.call({
          method: "POST",
          path: asked === dialect ? path : paths[dialect],
          query: asked === dialect ? query : "",
          headers: headers(out.bytes),
          body: out.bytes,
          key: correlation.rolloutId ?? modelCallId,
          before: started(out.bytes),
          whenSent: witness.prepare
        })
        const status = message.statusCode ?? 502
        if (asked === dialect || asked === "chat" || out.request === undefined || status < 200 || status >= 300) {
          return yield* Effect.catchTag(pass(message, response, dialect, witness), "UpstreamFailure", refusalOf)
        }
        const bridging = {
          dialect: asked,
          request: out.request,
          witness,
          id: modelCallId,
          createdAt: Math.floor(createdAt),
          thinkTags: options.thinkTags,
          training: kept !== undefined,
          replyLimit: options.replyLimit,
          stallMillis: options.stallMillis
        }
        yield* out.request["stream"] === true
          ? bridgeStream(message, response, bridging)
          : bridgeWhole(message, response, bridging)
      })

      const gone = Effect.suspend(() =>
        witness.settle({
          status: response.headersSent ? response.statusCode : null,
          ...clientGone,
          response: null,
          lossy: false
        })
      )

      yield* asking.pipe(
        Effect.tapErrorTag("GatewayRefusal", (refusal) =>
          witness.settle({
            own: true,
            status: refusal.status,
            category: category.ofRefusal(refusal.code),
            detail: refusal.detail,
            response: refusalBody(asked, refusal),
            lossy: false
          })
        ),
        Effect.tapErrorTag("ClientGone", () => gone),
        Effect.onInterrupt(() => gone),
        Effect.tapDefect(() =>
          witness.settle({
            own: true,
            status: response.headersSent ? response.statusCode : 500,
            category: "exception",
            detail: "a fault of the gateway",
            response: null,
            lossy: false
          })
        )
      )
    })

  return { call, plain }
}

/** `/tokenize` is called for the gateway's own ends: as whoever asked, and without what describes their request. */
const tokenizeHeaders = (headers: Record<string, string | Array<string>>): Record<string, string | Array<string>> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name === "authorization" || name === "x-api-key"))

const idsOf = (
  headers: Http.IncomingHttpHeaders,
  { rolloutId }: Correlation,
  modelCallId: string
): TransportLog.CallIds => ({
  ...TransportLog.idsOf(
    Object.fromEntries(
      Object.entries(headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : []))
    )
  ),
  ...(rolloutId === undefined ? {} : { rolloutId }),
  modelCallId
})
