/**
 * A trainer that runs elsewhere, behind four HTTP routes of JSON. `jsonSchemas` describes every body.
 *
 * | route | asks | answers |
 * |---|---|---|
 * | `GET /v1/version` | | `VersionReply` |
 * | `POST /v1/score` | `ScoreRequest` | `ScoreReply` |
 * | `POST /v1/update` | `UpdateRequest` | `UpdateReply` |
 * | `POST /v1/publish` | `PublishRequest` | `VersionReply` |
 *
 * A token goes as `Authorization: Bearer`. 408, 429 and every status from 500 on mean that the same request may be sent
 * again, and it is; 409 that the trainer is at another version than `version`; 401 and 403 that the token is wrong. What a
 * refusal says belongs in `{"error": "..."}`.
 *
 * An answer may be lost, so `POST /v1/update` comes again with the same `batch_id`; a trainer that has taken that step
 * answers as it did the first time, and takes no second one.
 *
 * @since 0.1.0
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as JSONSchema from "effect/JSONSchema"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { Trainer, TrainerError, type UpdateBatch, UpdateReport } from "./Trainer.js"

// -----------------------------------------------------------------------------
// The wire
// -----------------------------------------------------------------------------

const LogProb = Schema.Finite.pipe(Schema.lessThanOrEqualTo(0))
const Numbers = Schema.Array(Schema.Finite)
const TokenIds = Schema.Array(Schema.NonNegativeInt)

/**
 * The version of the weights that the trainer has.
 *
 * @since 0.1.0
 * @category wire
 */
export const VersionReply = Schema.Struct({ version: Schema.NonNegativeInt })

/**
 * Sequences whose tokens are to be scored.
 *
 * @since 0.1.0
 * @category wire
 */
export const ScoreRequest = Schema.Struct({
  rows: Schema.Array(Schema.Struct({ id: Schema.String, token_ids: TokenIds }))
})

/**
 * Rows in the order of the request; log-probabilities of all tokens but the first, natural logarithms.
 *
 * @since 0.1.0
 * @category wire
 */
export const ScoreReply = Schema.Struct({
  rows: Schema.Array(Schema.Struct({ id: Schema.String, logprobs: Schema.Array(LogProb) }))
})

const Clips = { clip_low: Schema.Finite, clip_high: Schema.Finite }

/**
 * The loss of one token, see `Trainer.TokenLoss`.
 *
 * @since 0.1.0
 * @category wire
 */
export const LossName = Schema.Union(
  Schema.Struct({
    name: Schema.Literal("ppo"),
    ...Clips,
    dual_clip: Schema.optionalWith(Schema.Finite, { exact: true })
  }),
  Schema.Struct({ name: Schema.Literal("on_policy") }),
  Schema.Struct({ name: Schema.Literal("reinforce") }),
  Schema.Struct({ name: Schema.Literal("cispo"), ...Clips })
)

/**
 * One step. `weights` and `previous_logprobs` have one number less than `token_ids`: they are about all tokens but the
 * first. What is minimised is the sum of `weights[t] * loss(current[t], previous_logprobs[t], advantage)` over all rows.
 *
 * @since 0.1.0
 * @category wire
 */
export const UpdateRequest = Schema.Struct({
  batch_id: Schema.NonEmptyString,
  version: Schema.NonNegativeInt,
  loss: LossName,
  rows: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      token_ids: TokenIds,
      weights: Numbers,
      previous_logprobs: Schema.Array(LogProb),
      advantage: Schema.Finite
    })
  )
})

/**
 * What came of an update.
 *
 * @since 0.1.0
 * @category wire
 */
export const UpdateReply = Schema.Struct({
  version: Schema.NonNegativeInt,
  loss: Schema.Finite,
  gradient_norm: Schema.Finite.pipe(Schema.nonNegative())
})

/**
 * The version of the weights that is to be published.
 *
 * @since 0.1.0
 * @category wire
 */
export const PublishRequest = Schema.Struct({ version: Schema.NonNegativeInt })

/**
 * Every body of the wire as JSON Schema (draft 7), by name: for whoever writes the other side in another language.
 *
 * @since 0.1.0
 * @category wire
 */
export const jsonSchemas = (): Readonly<Record<string, JSONSchema.JsonSchema7Root>> => ({
  VersionReply: JSONSchema.make(VersionReply),
  ScoreRequest: JSONSchema.make(ScoreRequest),
  ScoreReply: JSONSchema.make(ScoreReply),
  UpdateRequest: JSONSchema.make(UpdateRequest),
  UpdateReply: JSONSchema.make(UpdateReply),
  PublishRequest: JSONSchema.make(PublishRequest)
})

const onWire = ({ loss }: UpdateBatch): typeof LossName.Type => {
  switch (loss.name) {
    case "ppo":
      return {
        name: "ppo",
        clip_low: loss.clipLow,
        clip_high: loss.clipHigh,
        ...(loss.dualClip === undefined ? {} : { dual_clip: loss.dualClip })
      }
    case "cispo":
      return { name: "cispo", clip_low: loss.clipLow, clip_high: loss.clipHigh }
    default:
      return { name: loss.name }
  }
}

// -----------------------------------------------------------------------------
// The client
// -----------------------------------------------------------------------------

/**
 * @since 0.1.0
 * @category models
 */
export interface HttpTrainerOptions {
  /** Such as `http://127.0.0.1:8600`; routes are added to it. */
  readonly url: string
  readonly token?: Redacted.Redacted
  /** How long one try of `score` and `version` may take; 10 minutes unless given. */
  readonly timeout?: Duration.DurationInput
  /** How long one try of `update` and `publish` may take; an hour unless given. */
  readonly stepTimeout?: Duration.DurationInput
  /** When what may go better is tried again; five times, from one second doubling to 30, unless given. */
  readonly retry?: Schedule.Schedule<unknown>
}

const standardRetry = Schedule.exponential("1 second").pipe(
  Schedule.modifyDelay((_, delay) => Duration.min(delay, Duration.seconds(30))),
  Schedule.intersect(Schedule.recurs(5))
)

/** How much of an answer that is none is shown. */
const shownLength = 300

const reasonOf = (status: number): TrainerError["reason"] => {
  if (status === 401 || status === 403) return "unauthorised"
  if (status === 409) return "conflict"
  return status === 408 || status === 429 || status >= 500 ? "unavailable" : "refused"
}

const Refusal = Schema.parseJson(Schema.Struct({ error: Schema.String }))

const saidOf = (body: string): string =>
  Either.match(Schema.decodeUnknownEither(Refusal)(body), {
    onLeft: () => body.trim().slice(0, shownLength),
    onRight: ({ error }) => error
  })

/** The first thing that is wrong, at its place. A tree of what a step may be would fill a screen. */
const firstIssue = (error: ParseResult.ParseError): string => {
  const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
  return issue === undefined
    ? error.message
    : `${issue.path.map(String).join(".")}: ${issue.message}`.slice(0, shownLength)
}

/**
 * A trainer that is asked over HTTP. Nothing is sent before the first call.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: HttpTrainerOptions): Effect.Effect<Trainer["Type"], never, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const base = options.url.replace(/\/+$/, "")
    const { retry = standardRetry, stepTimeout = "1 hour", timeout = "10 minutes", token } = options

    const ask = <A, I>(
      operation: TrainerError["operation"],
      route: string,
      body: Effect.Effect<unknown, ParseResult.ParseError> | undefined,
      reply: Schema.Schema<A, I>
    ): Effect.Effect<A, TrainerError> =>
      Effect.gen(function* () {
        const tries = yield* Ref.make(0)
        const failed = (reason: TrainerError["reason"], detail: string) =>
          Effect.flatMap(
            Ref.get(tries),
            (attempts) => new TrainerError({ reason, operation, trainer: base, detail, attempts })
          )
        const authorise =
          token === undefined ? (_: HttpClientRequest.HttpClientRequest) => _ : HttpClientRequest.bearerToken(token)
        const request =
          body === undefined
            ? HttpClientRequest.get(`${base}${route}`)
            : HttpClientRequest.post(`${base}${route}`).pipe(
                HttpClientRequest.bodyUnsafeJson(
                  yield* Effect.catchAll(body, (error) => failed("refused", `it was not sent: ${firstIssue(error)}`))
                )
              )
        const read = (response: HttpClientResponse.HttpClientResponse) =>
          Effect.gen(function* () {
            const text = yield* response.text
            if (response.status !== 200) {
              return yield* failed(reasonOf(response.status), `it answered ${response.status}: ${saidOf(text)}`)
            }
            return yield* Effect.catchTag(Schema.decodeUnknown(Schema.parseJson(reply))(text), "ParseError", (error) =>
              failed("reply", `${firstIssue(error)}. The answer should follow the schema of HttpTrainer`)
            )
          })
        return yield* Ref.update(tries, (count) => count + 1).pipe(
          Effect.zipRight(client.execute(authorise(request))),
          Effect.flatMap(read),
          Effect.scoped,
          Effect.catchTags({
            RequestError: ({ message }) => failed("unavailable", message),
            ResponseError: ({ message }) => failed("unavailable", message)
          }),
          Effect.timeoutTo({
            duration: operation === "score" || operation === "version" ? timeout : stepTimeout,
            onSuccess: Effect.succeed,
            onTimeout: () => failed("unavailable", "it did not answer in time")
          }),
          Effect.flatten,
          Effect.retry({ schedule: retry, while: ({ reason }) => reason === "unavailable" })
        )
      }).pipe(Effect.withSpan(`HttpTrainer.${operation}`, { captureStackTrace: false }))

    const wrong = (operation: TrainerError["operation"], detail: string) =>
      new TrainerError({ reason: "reply", operation, trainer: base, detail, attempts: 1 })

    return Trainer.of({
      version: Effect.map(ask("version", "/v1/version", undefined, VersionReply), ({ version }) => version),
      score: (rows) =>
        Effect.gen(function* () {
          if (rows.length === 0) return []
          const body = { rows: rows.map(({ id, tokenIds }) => ({ id, token_ids: Array.from(tokenIds) })) }
          const scored = yield* ask("score", "/v1/score", Schema.encode(ScoreRequest)(body), ScoreReply)
          if (scored.rows.length !== rows.length) {
            return yield* wrong("score", `it was asked for ${rows.length} rows and answered ${scored.rows.length}`)
          }
          return yield* Effect.forEach(rows, ({ id, tokenIds }, index) => {
            const row = scored.rows[index]
            if (row?.id !== id) return wrong("score", `row ${id} was asked for, and ${row?.id} is in its place`)
            return row.logprobs.length === tokenIds.length - 1
              ? Effect.succeed(Float64Array.from(row.logprobs))
              : wrong(
                  "score",
                  `row ${id} has ${tokenIds.length} tokens, and ${row.logprobs.length} log-probabilities came: one less than tokens is right`
                )
          })
        }),
      update: (batch) =>
        Effect.gen(function* () {
          const body = {
            batch_id: batch.id,
            version: batch.version,
            loss: onWire(batch),
            rows: batch.rows.map(({ advantage, id, previous, tokenIds, weight }) => ({
              id,
              token_ids: Array.from(tokenIds),
              weights: Array.from(weight),
              previous_logprobs: Array.from(previous),
              advantage
            }))
          }
          const { gradient_norm, loss, version } = yield* ask(
            "update",
            "/v1/update",
            Schema.encode(UpdateRequest)(body),
            UpdateReply
          )
          return version === batch.version + 1
            ? new UpdateReport({ version, loss, gradientNorm: gradient_norm })
            : yield* wrong(
                "update",
                `a step from version ${batch.version} gives ${batch.version + 1}, and it says ${version}`
              )
        }),
      publish: (version) =>
        Effect.gen(function* () {
          const published = yield* ask(
            "publish",
            "/v1/publish",
            Schema.encode(PublishRequest)({ version }),
            VersionReply
          )
          if (published.version !== version) {
            return yield* wrong("publish", `version ${version} was to be published, and it says ${published.version}`)
          }
        })
    })
  })

/**
 * A trainer that is asked over HTTP, over a client of its own.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: HttpTrainerOptions): Layer.Layer<Trainer, never, HttpClient.HttpClient> =>
  Layer.effect(Trainer, make(options))

/**
 * From `DESKHAND_TRAINER_URL` and, where the trainer wants one, `DESKHAND_TRAINER_TOKEN`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<Trainer, ConfigError, HttpClient.HttpClient> = Layer.effect(
  Trainer,
  Effect.gen(function* () {
    const url = yield* Config.nonEmptyString("DESKHAND_TRAINER_URL")
    const token = yield* Config.option(Config.redacted(Config.nonEmptyString("DESKHAND_TRAINER_TOKEN")))
    return yield* make({ url, ...(Option.isSome(token) ? { token: token.value } : {}) })
  })
)
