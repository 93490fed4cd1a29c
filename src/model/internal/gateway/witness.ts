/**
 * Puts one call on record: its tokens and its evidence, before the client can take the reply for whole. Nothing that goes
 * wrong here changes a reply.
 */
import { isUtf8 } from "node:buffer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { ModelCallCapture, ModelCallLine } from "../../ModelCallCapture.js"
import { redactJson } from "../../Redaction.js"
import type { CallLog } from "../../TransportLog.js"
import type { JsonObject } from "../streams/streamError.js"
import type { Observed } from "./observe.js"
import type { Dialect } from "./refusal.js"
import type { TokenKeeper } from "./tokens.js"

/** How a call ended. */
export interface Outcome extends Observed {
  /** Whether the answer is the gateway's own, because there is none of the upstream's to give. */
  readonly own?: true
  /** What the client gets; null when it gets nothing. */
  readonly status: number | null
  /** The whole chat completion behind it, where there is one. */
  readonly completion?: JsonObject
}

export interface Witness {
  /** Whether anybody wants to know what the reply says. */
  readonly observing: () => boolean
  /** Makes the request ready to be kept: to be run while the upstream thinks. */
  readonly prepare: Effect.Effect<void>
  /** The reply's body begins. */
  readonly firstByte: Effect.Effect<void>
  /** The client gets a part of a successful reply. */
  readonly given: Effect.Effect<void>
  /** Puts the call on record, the first time alone. */
  readonly settle: (outcome: Outcome) => Effect.Effect<void>
}

/** The transport log of a call, once it is on its way. */
export interface CallLogging {
  log: CallLog | undefined
  /** Whether the log wants to have the reply. */
  wanted: boolean
}

export interface WitnessOptions {
  readonly capture: ModelCallCapture["Type"]
  /** The name of the file. */
  readonly owner: string
  readonly modelCallId: string
  readonly modelName: string
  readonly dialect: Dialect
  readonly upstreamDialect: Dialect
  readonly body: Buffer
  readonly tokens: TokenKeeper | undefined
  readonly logging: CallLogging
}

const rounded = (nanos: bigint): number => Math.round(Number(nanos) / 10_000) / 100

const parsed = (body: Buffer): Either.Either<unknown, undefined> =>
  Either.try({ try: (): unknown => JSON.parse(body.toString("utf8")), catch: () => undefined })

const rawReply = (raw: Buffer | undefined) => {
  if (raw === undefined) return {}
  return isUtf8(raw) ? { response_raw: raw.toString("utf8") } : { response_raw_base64: raw.toString("base64") }
}

const textOf = ({ completion, raw, response }: Outcome): unknown =>
  completion ?? response ?? raw?.toString("utf8") ?? null

const logReply = (log: CallLog | undefined, outcome: Outcome): Effect.Effect<void> => {
  if (log === undefined) return Effect.void
  const { category, detail, own, status } = outcome
  const error = detail ?? category ?? "an error"
  if (own === true || status === null) return log.error({ type: category ?? "exception", error })
  if (status < 400) return log.response(() => textOf(outcome), { status })
  const body = textOf(outcome)
  return log.errorResponse({ status, body: typeof body === "string" ? body : JSON.stringify(body), error })
}

export const makeWitness = (options: WitnessOptions): Effect.Effect<Witness> =>
  Effect.gen(function* () {
    const { body, capture, dialect, modelCallId, owner, tokens, upstreamDialect } = options
    const clock = yield* Effect.clock
    const startedAt = clock.unsafeCurrentTimeMillis() / 1000
    const started = clock.unsafeCurrentTimeNanos()
    let first: bigint | undefined
    let given = false
    let settled = false
    let request: { readonly json: string; readonly isJson: boolean } | undefined

    const prepared = () => {
      request ??= Either.match(parsed(body), {
        onLeft: () => ({ json: "null", isJson: false }),
        onRight: (value) => ({ json: JSON.stringify(redactJson(value)), isJson: true })
      })
      return request
    }

    const line = (outcome: Outcome): ModelCallLine => {
      const { isJson, json } = prepared()
      return {
        request: json,
        record: {
          model_call_id: modelCallId,
          dialect,
          ...(upstreamDialect === dialect ? {} : { upstream_dialect: upstreamDialect }),
          model_ref: { type: "responses_api_models", name: options.modelName },
          started_at: startedAt,
          completed_at: clock.unsafeCurrentTimeMillis() / 1000,
          latency_ms: rounded(clock.unsafeCurrentTimeNanos() - started),
          latency_ttft_ms: first === undefined ? null : rounded(first - started),
          status_code: outcome.status,
          error_category: outcome.category,
          ...(outcome.detail === undefined ? {} : { error_detail: outcome.detail }),
          response: outcome.response,
          ...(isJson ? {} : { request_raw: body.toString("utf8") }),
          ...rawReply(outcome.raw)
        }
      }
    }

    const mark = (why: string) =>
      Effect.catchAll(capture.markIncomplete(owner, why), (error) =>
        Effect.logError(`rollout ${owner} lacks a call (${why}), and that could not be noted: ${error.message}`)
      )

    const keepTokens = (keeper: TokenKeeper, { category, completion, detail, lossy }: Outcome) => {
      const why = detail ?? category ?? "there is no whole reply"
      if (completion !== undefined && !lossy) return keeper.keep(completion)
      return given ? keeper.lose(why) : keeper.abandon(why)
    }

    const keepRecord = (outcome: Outcome) =>
      Effect.gen(function* () {
        yield* Effect.catchAll(
          Effect.suspend(() => capture.put(owner, line(outcome))),
          (error) => mark(`call ${modelCallId}: ${error.message}`)
        )
        if (outcome.lossy) yield* mark(`call ${modelCallId}: ${outcome.detail ?? "its reply was not kept whole"}`)
      })

    return {
      observing: () => capture.enabled || tokens !== undefined || options.logging.wanted,
      prepare: Effect.sync(() => {
        if (capture.enabled) prepared()
      }),
      firstByte: Effect.sync(() => {
        first ??= clock.unsafeCurrentTimeNanos()
      }),
      given: Effect.sync(() => {
        given = true
      }),
      settle: (outcome) =>
        Effect.suspend(() => {
          if (settled) return Effect.void
          settled = true
          if (tokens === undefined && !options.logging.wanted) {
            // Fibers for things that have nothing to wait for would take longer than they do.
            return Effect.zipLeft(
              capture.enabled ? keepRecord(outcome) : Effect.void,
              logReply(options.logging.log, outcome)
            )
          }
          return Effect.all(
            [
              tokens === undefined ? Effect.void : keepTokens(tokens, outcome),
              capture.enabled ? keepRecord(outcome) : Effect.void,
              logReply(options.logging.log, outcome)
            ],
            { concurrency: "unbounded", discard: true }
          )
        }).pipe(
          Effect.catchAllDefect((defect) =>
            Effect.zipRight(
              Effect.logError(`call ${modelCallId} could not be put on record`, defect),
              Effect.all([
                mark(`call ${modelCallId}: a fault of the gateway`),
                tokens?.lose("a fault of the gateway") ?? Effect.void
              ])
            )
          ),
          Effect.uninterruptible
        )
    }
  })
