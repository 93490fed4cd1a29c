/**
 * OpenSandbox over HTTP. Two clients that know nothing of each other: the lifecycle's, which carries the key, and a
 * sandbox's own, which speaks to whatever runs in there and never has it.
 */
import * as HttpBody from "@effect/platform/HttpBody"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Endpoint, httpClient } from "../Endpoint.js"
import { type ApiFailure, ofTransport, retryAfter } from "./openSandboxErrors.js"
import { CommandStatus, Event, payload } from "./openSandboxExec.js"

export type { Event } from "./openSandboxExec.js"

/** Where execd listens in every sandbox. */
export const execdPort = 44772

export const keyHeader = "open-sandbox-api-key"

export const tokenHeader = "x-execd-access-token"

const Text = Schema.optional(Schema.NullOr(Schema.String))

const StringMap = Schema.Record({ key: Schema.String, value: Schema.String })

const Status = Schema.Struct({ state: Schema.String, reason: Text, message: Text })

/** What the service says of a sandbox. States that are not known yet are just text. */
export class Sandbox extends Schema.Class<Sandbox>("deskhand/sandbox/OpenSandboxSandbox")({
  id: Schema.NonEmptyString,
  status: Status,
  metadata: Schema.optional(Schema.NullOr(StringMap)),
  createdAt: Text,
  expiresAt: Text
}) {}

export class Page extends Schema.Class<Page>("deskhand/sandbox/OpenSandboxPage")({
  items: Schema.Array(Sandbox),
  pagination: Schema.Struct({ page: Schema.Int, hasNextPage: Schema.Boolean })
}) {}

export class Place extends Schema.Class<Place>("deskhand/sandbox/OpenSandboxPlace")({
  endpoint: Schema.String,
  headers: Schema.optional(Schema.NullOr(StringMap))
}) {}

export class Snapshot extends Schema.Class<Snapshot>("deskhand/sandbox/OpenSandboxSnapshot")({
  id: Schema.NonEmptyString,
  status: Status
}) {}

const Problem = Schema.Struct({ code: Text, message: Text })

/** The body of a create, as the service wants it. */
export interface CreateRequest {
  readonly image?: { readonly uri: string }
  readonly snapshotId?: string
  readonly timeout: number | null
  readonly resourceLimits?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, string>>
  readonly entrypoint?: ReadonlyArray<string>
  readonly networkPolicy?: { readonly defaultAction: "deny" | "allow"; readonly egress: ReadonlyArray<never> }
  readonly extensions?: Readonly<Record<string, string>>
}

type Call<A> = Effect.Effect<A, ApiFailure>

/** A longer text of an error than this helps nobody. */
const bodyLimit = 16 * 1024

const limitedText = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<string> =>
  response.stream.pipe(
    Stream.runFoldWhile(
      Buffer.alloc(0),
      (seen) => seen.length < bodyLimit,
      (seen, part) => Buffer.concat([seen, part])
    ),
    Effect.map((seen) => seen.toString("utf8", 0, bodyLimit)),
    Effect.orElseSucceed(() => ""),
    Effect.timeoutTo({ duration: "5 seconds", onSuccess: (text) => text, onTimeout: () => "" })
  )

/** An answer that is no success, with what it says of itself. */
const refusal = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<ApiFailure> =>
  Effect.gen(function* () {
    const text = yield* limitedText(response)
    const problem = yield* Effect.option(Schema.decode(Schema.parseJson(Problem))(text))
    return {
      _tag: "Status" as const,
      status: response.status,
      code: Option.match(problem, { onNone: () => "", onSome: ({ code }) => code ?? "" }),
      message: Option.match(problem, {
        onNone: () => text.trim().slice(0, 300),
        onSome: ({ message }) => message ?? ""
      }),
      retryAfter: retryAfter(response.headers["retry-after"], yield* Clock.currentTimeMillis)
    }
  })

const ofClient = (error: HttpClientError.HttpClientError): ApiFailure =>
  error._tag === "RequestError" && error.reason === "Transport"
    ? ofTransport(error.cause)
    : { _tag: "Lost", reason: error.message }

const late = (limit: Duration.Duration): ApiFailure => ({
  _tag: "Lost",
  reason: `no answer came within ${Duration.format(limit)}`
})

/** Sends a request and takes the answer for a success only when it is a 2xx; redirects are not followed. */
const sent = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest
): Call<HttpClientResponse.HttpClientResponse> =>
  client.execute(request).pipe(
    Effect.mapError(ofClient),
    Effect.flatMap((response) =>
      response.status >= 200 && response.status < 300
        ? Effect.succeed(response)
        : Effect.flatMap(refusal(response), Effect.fail)
    )
  )

/** A request whose answer is of this form. */
const decoded =
  <A, I>(schema: Schema.Schema<A, I>, limit: Duration.Duration) =>
  (client: HttpClient.HttpClient, request: HttpClientRequest.HttpClientRequest): Call<A> =>
    sent(client, request).pipe(
      Effect.flatMap((response) =>
        response.text.pipe(
          Effect.mapError((error): ApiFailure => ({ _tag: "Lost", reason: error.message })),
          Effect.flatMap((text) =>
            Effect.mapError(
              Schema.decode(Schema.parseJson(schema))(text),
              (error): ApiFailure => ({
                _tag: "Malformed",
                status: response.status,
                reason: ParseResult.TreeFormatter.formatErrorSync(error).slice(0, 500)
              })
            )
          )
        )
      ),
      Effect.timeoutFail({ duration: limit, onTimeout: () => late(limit) })
    )

/** A request whose answer is of no interest. */
const done = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  limit: Duration.Duration
): Call<void> =>
  sent(client, request).pipe(
    Effect.flatMap((response) => Effect.asVoid(limitedText(response))),
    Effect.timeoutFail({ duration: limit, onTimeout: () => late(limit) })
  )

/** The lifecycle's side of the service. */
export interface Lifecycle {
  readonly create: (request: CreateRequest) => Call<Sandbox>
  readonly get: (id: string) => Call<Sandbox>
  readonly remove: (id: string) => Call<void>
  /** One page, counted from 1; `metadata` is what the service is asked to filter by. */
  readonly list: (page: number, metadata: Readonly<Record<string, string>>) => Call<Page>
  readonly pause: (id: string) => Call<void>
  readonly resume: (id: string) => Call<void>
  readonly renew: (id: string, expiresAt: Date) => Call<{ readonly expiresAt: string }>
  readonly place: (id: string, port: number, useServerProxy: boolean) => Call<Place>
  readonly snapshot: (id: string, name: string | undefined) => Call<Snapshot>
  readonly getSnapshot: (id: string) => Call<Snapshot>
  readonly removeSnapshot: (id: string) => Call<void>
}

export const lifecycle = (options: {
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted | undefined
  readonly limit: Duration.Duration
  readonly createLimit: Duration.Duration
}): Effect.Effect<Lifecycle, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { limit } = options
    const client = yield* httpClient(
      Endpoint.Tcp({
        url: options.baseUrl.replace(/\/+$/, ""),
        headers: options.apiKey === undefined ? {} : { [keyHeader]: Redacted.value(options.apiKey) }
      })
    )
    const json = (request: HttpClientRequest.HttpClientRequest, body: unknown) =>
      HttpClientRequest.bodyUnsafeJson(request, body)
    const of = (id: string, rest = "") => `/sandboxes/${encodeURIComponent(id)}${rest}`
    return {
      create: (request) =>
        decoded(Sandbox, options.createLimit)(client, json(HttpClientRequest.post("/sandboxes"), request)),
      get: (id) => decoded(Sandbox, limit)(client, HttpClientRequest.get(of(id))),
      remove: (id) => done(client, HttpClientRequest.del(of(id)), limit),
      list: (page, metadata) =>
        decoded(Page, limit)(
          client,
          HttpClientRequest.get("/sandboxes").pipe(
            HttpClientRequest.setUrlParams([
              ...(Object.keys(metadata).length === 0
                ? []
                : [["metadata", new URLSearchParams(metadata).toString()] as const]),
              ["page", String(page)],
              ["pageSize", "100"]
            ])
          )
        ),
      pause: (id) => done(client, HttpClientRequest.post(of(id, "/pause")), limit),
      resume: (id) => done(client, HttpClientRequest.post(of(id, "/resume")), limit),
      renew: (id, expiresAt) =>
        decoded(Schema.Struct({ expiresAt: Schema.String }), limit)(
          client,
          json(HttpClientRequest.post(of(id, "/renew-expiration")), { expiresAt: expiresAt.toISOString() })
        ),
      place: (id, port, useServerProxy) =>
        decoded(Place, limit)(
          client,
          HttpClientRequest.get(of(id, `/endpoints/${port}`)).pipe(
            HttpClientRequest.setUrlParams(useServerProxy ? [["use_server_proxy", "true"]] : [])
          )
        ),
      snapshot: (id, name) =>
        decoded(Snapshot, limit)(
          client,
          json(HttpClientRequest.post(of(id, "/snapshots")), name === undefined ? {} : { name })
        ),
      getSnapshot: (id) =>
        decoded(Snapshot, limit)(client, HttpClientRequest.get(`/snapshots/${encodeURIComponent(id)}`)),
      removeSnapshot: (id) => done(client, HttpClientRequest.del(`/snapshots/${encodeURIComponent(id)}`), limit)
    }
  })

export interface CommandRequest {
  readonly command: string
  readonly cwd?: string
  readonly envs: Readonly<Record<string, string>>
  /** Milliseconds. */
  readonly timeout: number
}

const parseEvent = Schema.decodeEither(Schema.parseJson(Event))

/** execd in one sandbox. */
export interface Execd {
  readonly ping: Call<void>
  /** What a command says; the first event is `init`, and its text is the command's id. */
  readonly run: (request: CommandRequest) => Stream.Stream<Event, ApiFailure>
  readonly interrupt: (commandId: string) => Call<void>
  readonly status: (commandId: string) => Call<CommandStatus>
  /** `mode` is in octal digits, read as a decimal number: 644. */
  readonly upload: <E>(
    path: string,
    mode: number,
    bytes: Stream.Stream<Uint8Array, E>
  ) => Effect.Effect<void, ApiFailure | E>
  readonly download: (path: string) => Stream.Stream<Uint8Array, ApiFailure>
}

const encoder = new TextEncoder()

/** A character may come in two pieces. */
const text = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<string, E> =>
  Stream.suspend(() => {
    const decoder = new TextDecoder()
    return Stream.map(bytes, (piece) => decoder.decode(piece, { stream: true }))
  })

/** A multipart body of execd's two parts, streamed. */
const multipart = <E>(path: string, mode: number, bytes: Stream.Stream<Uint8Array, E>, boundary: string) =>
  Stream.make(
    encoder.encode(
      `--${boundary}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\nContent-Type: application/json\r\n\r\n${JSON.stringify({ path, mode })}\r\n--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\n`
    )
  ).pipe(Stream.concat(bytes), Stream.concat(Stream.make(encoder.encode(`\r\n--${boundary}--\r\n`))))

/**
 * `client` is for sandboxes alone. It follows no redirects, so a sandbox cannot send the token of its route elsewhere.
 */
export const execd = (options: {
  readonly client: HttpClient.HttpClient
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly limit: Duration.Duration
  readonly boundary: string
}): Execd => {
  const { client, limit } = options
  const to = (request: HttpClientRequest.HttpClientRequest) =>
    HttpClientRequest.setHeaders(HttpClientRequest.prependUrl(request, options.url), options.headers)
  return {
    ping: done(client, to(HttpClientRequest.get("/ping")), limit),
    run: (request) =>
      Stream.unwrap(
        Effect.map(
          sent(
            client,
            to(HttpClientRequest.post("/command")).pipe(
              HttpClientRequest.accept("text/event-stream"),
              HttpClientRequest.bodyUnsafeJson({ ...request, background: false })
            )
          ),
          (response) =>
            response.stream.pipe(
              Stream.mapError((error): ApiFailure => ({ _tag: "Lost", reason: error.message })),
              text,
              Stream.splitLines,
              Stream.filterMap((line) => Option.fromNullable(payload(line))),
              // A chunk at a time: a command can print very many lines.
              Stream.mapChunksEffect((chunk) =>
                Either.mapLeft(
                  Either.all(Chunk.toReadonlyArray(chunk).map((line) => parseEvent(line))),
                  (error): ApiFailure => ({
                    _tag: "Malformed",
                    status: response.status,
                    reason: ParseResult.TreeFormatter.formatErrorSync(error).slice(0, 500)
                  })
                ).pipe(Either.map(Chunk.unsafeFromArray))
              )
            )
        )
      ),
    interrupt: (id) => done(client, to(HttpClientRequest.del(`/command?id=${encodeURIComponent(id)}`)), limit),
    status: (id) =>
      decoded(CommandStatus, limit)(client, to(HttpClientRequest.get(`/command/status/${encodeURIComponent(id)}`))),
    upload: <E>(path: string, mode: number, bytes: Stream.Stream<Uint8Array, E>) =>
      Effect.gen(function* () {
        // The transport knows only that the body broke; why is remembered here.
        let broken = Option.none<E>()
        const body = multipart(
          path,
          mode,
          Stream.mapError(bytes, (error) => {
            broken = Option.some(error)
            return new Error("what was to be uploaded broke off")
          }),
          options.boundary
        )
        const answer = yield* Effect.either(
          sent(
            client,
            HttpClientRequest.setBody(
              to(HttpClientRequest.post("/files/upload")),
              HttpBody.stream(body, `multipart/form-data; boundary=${options.boundary}`)
            )
          ).pipe(Effect.flatMap(limitedText))
        )
        if (answer._tag === "Left") {
          return yield* Effect.fail<ApiFailure | E>(Option.getOrElse(broken, () => answer.left))
        }
      }),
    download: (path) =>
      Stream.unwrap(
        Effect.map(
          sent(client, HttpClientRequest.setUrlParams(to(HttpClientRequest.get("/files/download")), { path })),
          (response) =>
            Stream.mapError(response.stream, (error): ApiFailure => ({ _tag: "Lost", reason: error.message }))
        )
      )
  }
}
