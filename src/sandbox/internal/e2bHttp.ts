/**
 * The few calls to an E2B service that the SDK cannot make: the older create and connect routes, and what preflight asks.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Settings } from "./e2bOptions.js"

/** An answer that is none of the wanted ones, in the form that `e2bErrors.of` reads. */
class HttpFailure extends Error {
  readonly statusCode: number
  constructor(statusCode: number, text: string) {
    super(`${statusCode}: ${text}`)
    this.name = "HttpFailure"
    this.statusCode = statusCode
  }
}

export interface Answer {
  readonly status: number
  readonly text: string
  readonly date: string | null
}

/** Follows no redirect: the key goes to the address that was configured, and nowhere else. */
export const request = (
  settings: Settings,
  method: string,
  path: string,
  options: {
    readonly body?: string
    readonly timeoutMs?: number
    readonly base?: string
    readonly headers?: Readonly<Record<string, string>>
  } = {}
): Effect.Effect<Answer, unknown> =>
  Effect.tryPromise({
    try: async (signal) => {
      const answer = await fetch(`${options.base ?? settings.apiUrl}${path}`, {
        method,
        redirect: "manual",
        headers: {
          ...(options.headers ?? { "x-api-key": settings.connection.apiKey }),
          ...(options.body === undefined ? {} : { "content-type": "application/json" })
        },
        ...(options.body === undefined ? {} : { body: options.body }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(options.timeoutMs ?? settings.requestTimeoutMs)])
      })
      return { status: answer.status, text: await answer.text(), date: answer.headers.get("date") }
    },
    catch: (thrown) => thrown
  })

/** What a create, a connect and a child of a fork come back with. */
export class Opened extends Schema.Class<Opened>("deskhand/sandbox/internal/Opened")({
  sandboxID: Schema.NonEmptyString,
  envdVersion: Schema.NonEmptyString,
  envdAccessToken: Schema.optional(Schema.NullOr(Schema.String)),
  trafficAccessToken: Schema.optional(Schema.NullOr(Schema.String)),
  domain: Schema.optional(Schema.NullOr(Schema.String))
}) {}

const decode = Schema.decodeUnknown(Schema.parseJson(Opened))

const open = (settings: Settings, path: string, body: unknown, timeoutMs: number): Effect.Effect<Opened, unknown> =>
  Effect.flatMap(
    request(settings, "POST", path, { body: JSON.stringify(body), timeoutMs }),
    (answer): Effect.Effect<Opened, unknown> =>
      answer.status === 200 || answer.status === 201
        ? decode(answer.text)
        : Effect.fail(new HttpFailure(answer.status, answer.text))
  )

/** The create of services from before the second version of the route. */
export const createV1 = (
  settings: Settings,
  body: {
    readonly templateID: string
    readonly metadata: Readonly<Record<string, string>>
    readonly envVars: Readonly<Record<string, string>>
    readonly timeout: number
    readonly allow_internet_access: boolean
  }
): Effect.Effect<Opened, unknown> =>
  open(settings, "/sandboxes", { ...body, secure: true, autoPause: false }, settings.createTimeoutMs)

export const connectV1 = (settings: Settings, id: string, timeout: number): Effect.Effect<Opened, unknown> =>
  open(settings, `/sandboxes/${encodeURIComponent(id)}/connect`, { timeout }, settings.requestTimeoutMs)
