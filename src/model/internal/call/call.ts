/**
 * A model call, whatever wire it speaks: what is asked, tries at one server or another, and what came of them.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import { ArtifactStore, type BlobRef, type Lent } from "../../../artifact/ArtifactStore.js"
import { spanned } from "../../../trace/Span.js"
import type { ClientOptions } from "../../ClientOptions.js"
import type { AssistantMessage, ImagePart } from "../../Conversation.js"
import type { ConversionError, JsonObject } from "../../Convert.js"
import * as Endpoints from "../../Endpoints.js"
import { Limits } from "../../Limits.js"
import { type ModelClient, ModelReply, type ModelRequest, type Usage } from "../../ModelClient.js"
import { ModelError } from "../../ModelError.js"
import * as Parameters from "../../Parameters.js"
import * as Retry from "../../Retry.js"
import * as Telemetry from "../../Telemetry.js"
import { type CallLog, TransportLog } from "../../TransportLog.js"
import { type Placeholders, placeholders } from "./body.js"
import type { RequestBody } from "./exchange.js"
import { rootOf } from "./fetchText.js"
import { headersOf, idsOf } from "./identity.js"
import type { Accumulator } from "./reply.js"
import { type Answer, type Authorise, bearer, makeUpstream, noStream } from "./upstream.js"

/** What a reply says, read. */
export interface ReplyFacts {
  readonly message: AssistantMessage
  readonly finishReason: string
  readonly model?: string | undefined
  readonly id?: string | undefined
  readonly usage?: Usage | undefined
}

/** Why a JSON object is no reply of a model. */
export interface ReplyProblem {
  readonly reason: ModelError["reason"]
  readonly detail: string
}

/** What differs from one wire to another. */
export interface Wire {
  readonly dialect: "chat" | "responses" | "messages"
  /** Added to the base address: `/chat/completions`. */
  readonly path: string
  readonly tokens: Parameters.ModelParameters["tokens"]
  /** How the key is sent; as a bearer token unless given. */
  readonly authorise?: Authorise
  /** What else the wire wants among the headers. */
  readonly headers?: (request: ModelRequest) => Readonly<Record<string, string>>
  /** The request's fields, before any override. */
  readonly fields: (
    request: ModelRequest,
    image: (part: ImagePart) => string
  ) => Either.Either<JsonObject, ConversionError>
  readonly accumulator: () => Accumulator
  /** Whether the prompt's tokens have to be asked for separately. */
  readonly needsTokenize: (reply: JsonObject) => boolean
  readonly read: (
    reply: JsonObject,
    promptTokens: ReadonlyArray<number> | undefined
  ) => Either.Either<ReplyFacts, ReplyProblem>
  /** Whether a call with these fields does no harm when it is carried out twice. */
  readonly isSafe: (sent: JsonObject) => boolean
}

/** A request that can be sent as often as it takes. */
interface Prepared {
  readonly request: ModelRequest
  readonly json: JsonObject
  readonly images: Placeholders
  readonly body: RequestBody
  readonly headers: Readonly<Record<string, string>>
}

/** The log of the try that is under way. */
interface OpenLog {
  log: CallLog | undefined
}

/** What `/tokenize` has to be told, so that it renders the same prompt. */
const tokenizeFields = [
  "model",
  "messages",
  "tools",
  "chat_template_kwargs",
  "mm_processor_kwargs",
  "required_prefix_token_ids"
]

/** A client of the wire, at the addresses of `options`. */
export const makeClient = (
  options: ClientOptions,
  wire: Wire
): Effect.Effect<ModelClient["Type"], never, NodeHttpClient.Dispatcher | ArtifactStore> =>
  Effect.gen(function* () {
    const store = yield* ArtifactStore
    const limits = yield* Limits
    const log = yield* TransportLog
    const run = Runtime.runPromise(yield* Effect.runtime<never>())
    const urls: Endpoints.Endpoints["urls"] = typeof options.url === "string" ? [options.url] : options.url
    const policy = options.retry ?? new Retry.RetryPolicy({})
    const recorder = Telemetry.recorder(options.model)
    const secrets = options.apiKey === undefined ? [] : [options.apiKey]
    const upstream = makeUpstream({
      dispatcher: yield* NodeHttpClient.Dispatcher,
      apiKey: options.apiKey,
      authorise: wire.authorise ?? bearer,
      replyLimit: options.replyLimit ?? 64 * 1024 * 1024,
      times: {
        timeout: Duration.toMillis(options.timeout ?? "15 minutes"),
        idle: Duration.toMillis(options.idleTimeout ?? "5 minutes")
      }
    })
    const parameters = new Parameters.ModelParameters({
      model: options.model,
      samplingOverrides: options.samplingOverrides ?? {},
      extraBody: options.extraBody ?? {},
      chatTemplateKwargs: options.chatTemplateKwargs ?? {},
      tokens: wire.tokens,
      dialect: wire.dialect
    })
    const accept = options.stream === true ? "text/event-stream, application/json" : "application/json"
    let endpoints = Endpoints.make(urls)
    const repeating = (safe: boolean) =>
      Schedule.whileInput(Retry.schedule(policy), (error: ModelError) => Retry.isRepeatable(error, { safe }))
    const again = { safe: repeating(true), unsafe: repeating(false) }

    const read = (blob: BlobRef): Promise<Lent> =>
      run(Effect.either(store.lend(blob))).then((either) => {
        if (Either.isLeft(either)) throw either.left
        return either.right
      })

    const prepare = (request: ModelRequest): Either.Either<Prepared, ModelError> => {
      const images = placeholders()
      return Either.mapBoth(
        Either.flatMap(wire.fields(request, images.image), (body) => Parameters.resolve({ config: parameters, body })),
        {
          onLeft: ({ message }) =>
            new ModelError({
              reason: "bad_request",
              url: upstream.shown(urls[0]),
              delivered: false,
              detail: `the request cannot be sent: ${message}`
            }),
          onRight: (json) => ({
            request,
            json,
            images,
            headers: { "content-type": "application/json", accept, ...wire.headers?.(request), ...headersOf(request) },
            body: images.body(json, read)
          })
        }
      )
    }

    const tokenize = (base: string, { headers, images, json }: Prepared, attempts: number) =>
      Effect.gen(function* () {
        const fields = tokenizeFields.flatMap((name) => (json[name] === undefined ? [] : [[name, json[name]] as const]))
        const body = images.body(Object.fromEntries(fields), read)
        const question = { base: rootOf(base), path: "/tokenize", headers, body, accumulator: noStream, attempts }
        const { error, json: answer } = yield* upstream.ask(question)
        const { tokens } = answer
        return Array.isArray(tokens) && tokens.every((token): token is number => typeof token === "number")
          ? tokens
          : yield* error("malformed_reply", "the answer of /tokenize holds no list of tokens")
      })

    const logged = (log: CallLog, error: ModelError): Effect.Effect<void> =>
      error.status === undefined || (error.status >= 200 && error.status < 300)
        ? log.error({ type: error.reason, error: error.detail })
        : log.errorResponse({ status: error.status, body: error.body ?? error.bodyBase64 ?? "", error: error.detail })

    /** Remembers whether an address can be reached; only where there is another to go to. */
    const remember = (base: string, error?: ModelError): Effect.Effect<void> =>
      urls.length === 1
        ? Effect.void
        : Effect.map(Clock.currentTimeMillis, (now) => {
            endpoints =
              error !== undefined && isOut(error)
                ? Endpoints.markDown(endpoints, base, now)
                : Endpoints.markUp(endpoints, base)
          })

    /** What is made of an answer. */
    const understood = Effect.fnUntraced(function* (
      prepared: Prepared,
      base: string,
      attempts: number,
      call: CallLog,
      { error, firstByte, json, status }: Answer
    ) {
      yield* call.response(() => json, { status })
      const prompt = wire.needsTokenize(json) ? yield* tokenize(base, prepared, attempts) : undefined
      const facts = yield* Either.mapLeft(wire.read(json, prompt), ({ detail, reason }) => error(reason, detail))
      yield* remember(base)
      return { ...facts, attempts, firstByte }
    })

    /** What a try asks, and its log, which is open from now on. */
    const opened = Effect.fnUntraced(function* (prepared: Prepared, attempts: number, open: OpenLog) {
      const { body, headers, images, json: sent, request } = prepared
      const base = Endpoints.choose(endpoints, request.identity.rolloutId, yield* Clock.currentTimeMillis)
      const call = yield* log.request({
        ids: idsOf(request),
        baseUrls: urls,
        url: `${base.replace(/\/+$/, "")}${wire.path}`,
        dialect: wire.dialect,
        payload: () => images.referenced(sent),
        attempt: attempts,
        secrets
      })
      open.log = call
      return {
        base,
        call,
        question: { base, path: wire.path, headers, body, accumulator: wire.accumulator(), attempts }
      }
    })

    /** One try, which leaves its log where the call ends it if nobody waits for it any more. */
    const attempt = (prepared: Prepared, attempts: number, open: OpenLog) =>
      opened(prepared, attempts, open).pipe(
        // Not in the generator: what is on the stack while a model thinks is there a thousand times.
        Effect.flatMap(({ base, call, question }) =>
          Effect.matchEffect(upstream.ask(question), {
            onFailure: (error) => Effect.fail({ base, call, error }),
            onSuccess: (answer) =>
              Effect.mapError(understood(prepared, base, attempts, call, answer), (error) => ({ base, call, error }))
          })
        ),
        Effect.catchAll(({ base, call, error }) => {
          open.log = undefined
          return Effect.zipRight(Effect.zipRight(remember(base, error), logged(call, error)), Effect.fail(error))
        })
      )

    const replyOf = (
      { json }: Prepared,
      facts: ReplyFacts & { readonly attempts: number; readonly firstByte: number | undefined },
      milliseconds: number
    ) =>
      new ModelReply(
        {
          message: facts.message,
          finishReason: facts.finishReason,
          model: facts.model ?? options.model,
          ...(facts.id === undefined ? {} : { id: facts.id }),
          ...(facts.usage === undefined ? {} : { usage: facts.usage }),
          sent: Parameters.samplingOf(json),
          attempts: facts.attempts,
          milliseconds,
          ...(facts.firstByte === undefined ? {} : { firstByteMilliseconds: facts.firstByte })
        },
        // Its parts are valid already, and a bundle of tokens is long.
        { disableValidation: true }
      )

    const complete = (request: ModelRequest, started: number, open: OpenLog) => {
      const prepared = prepare(request)
      if (Either.isLeft(prepared)) return Effect.fail(prepared.left)
      let attempts = 0
      let failed: ModelError["reason"] | undefined
      const once = Effect.suspend(() =>
        limits.withPermit((waited) => {
          attempts += 1
          const told = recorder.waitedForPermit(waited)
          return Effect.zipRight(
            failed === undefined ? told : Effect.zipRight(told, recorder.retried(failed)),
            attempt(prepared.right, attempts, open)
          )
        })
      )
      const schedule = wire.isSafe(prepared.right.json) ? again.safe : again.unsafe
      return Effect.flatMap(
        Retry.onFailure(once, schedule, ({ reason }) => {
          failed = reason
        }),
        (facts) =>
          Effect.map(Clock.currentTimeMillis, (ended) => replyOf(prepared.right, facts, Math.max(0, ended - started)))
      )
    }

    const recorded = (exit: Exit.Exit<ModelReply, ModelError>, started: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (ended) =>
        recorder.ended({
          milliseconds: Math.max(0, ended - started),
          ...(Exit.isSuccess(exit)
            ? { outcome: "ok", firstByteMilliseconds: exit.value.firstByteMilliseconds, usage: exit.value.usage }
            : {
                outcome: Option.match(Cause.failureOption(exit.cause), {
                  onNone: () => "interrupted",
                  onSome: ({ reason }) => reason
                })
              })
        })
      )

    /** All that is left to do when a call has ended, however it did: the one region that every call under way costs. */
    const ended = (exit: Exit.Exit<ModelReply, ModelError>, started: number, { log }: OpenLog) =>
      Exit.isInterrupted(exit) && log !== undefined
        ? Effect.zipRight(
            log.error({ type: "interrupted", error: "the caller did not wait for the reply" }),
            recorded(exit, started)
          )
        : recorded(exit, started)

    return {
      model: options.model,
      complete: (request: ModelRequest) =>
        Effect.flatMap(Clock.currentTimeMillis, (started) => {
          const open: OpenLog = { log: undefined }
          return Effect.onExit(
            Effect.suspend(() => complete(request, started, open)),
            (exit) => ended(exit, started, open)
          )
        }).pipe(spanned("ModelClient.complete"))
    }
  })

/** Whether the address is out of reach, for whatever is asked of it. */
const isOut = ({ reason, status }: ModelError): boolean =>
  reason === "transport" || reason === "truncated" || status === 502 || status === 503 || status === 504
