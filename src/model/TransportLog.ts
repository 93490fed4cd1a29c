/**
 * What went over the wire to a model, call by call, as JSON Lines; for people who look for the cause of something. Off
 * unless an environment variable names its file.
 *
 * Each call is a `transport_request` and one of `transport_response`, `transport_error_response` and `transport_error`.
 * Lines have `schema_version` 2, `pid`, `call_index` (from 0; unique within a process), `timestamp_unix_ns` and the ids
 * that are known. Images stand as the SHA-256 of their bytes, secrets as `<redacted>`.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { LazyArg } from "effect/Function"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { JsonObject } from "./Convert.js"
import { type Append, openAppend } from "./internal/transport/file.js"
import { fromHeaders, toFields, toHeaders } from "./internal/transport/ids.js"
import { withoutPixels } from "./internal/transport/images.js"
import { sortedJson } from "./internal/transport/line.js"
import { samplingOf } from "./Parameters.js"
import { redactJson, redactText, redactUrl, type Secrets } from "./Redaction.js"

/**
 * Whose call it is, as far as anybody knows; what is absent is not logged.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallIds {
  readonly runId?: string
  readonly taskId?: string
  readonly domain?: string
  readonly adapter?: string
  readonly rolloutId?: string
  readonly groupId?: string
  readonly sourceGroupId?: string
  readonly samplingEventId?: string
  readonly modelCallId?: string
  readonly rolloutIndex?: number
  readonly attemptIndex?: number
  readonly taskAttempt?: number
  readonly step?: number
  readonly parseAttempt?: number
}

/**
 * A request as it goes out.
 *
 * @since 0.1.0
 * @category models
 */
export interface RequestFacts {
  readonly ids: CallIds
  /** Every base address that the model has. */
  readonly baseUrls: ReadonlyArray<string>
  /** The address that is called. */
  readonly url: string
  readonly dialect: "chat" | "responses" | "completions" | "messages"
  /**
   * What is sent, after every override; only asked for when it is written. A `BlobRef` may stand anywhere where the wire
   * has the text of an image (its address, its base64), so that no image is encoded for the log.
   */
  readonly payload: LazyArg<JsonObject>
  /** Which try of the call it is, from 1. */
  readonly attempt?: number
  /** Secrets that the caller knows, such as its key. */
  readonly secrets?: Secrets
}

/**
 * The rest of a call's log. Each returns when its line is on the disk, or has been found impossible to write.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallLog {
  /** A reply, as the server gave it, before tokens are taken out of it: its JSON, or its text where it has none. */
  readonly response: (reply: LazyArg<unknown>, facts?: { readonly status?: number }) => Effect.Effect<void>
  /** A refusal by the server. */
  readonly errorResponse: (facts: {
    readonly status: number
    readonly body: string
    readonly error: string
  }) => Effect.Effect<void>
  /** No answer, or only a part of one. */
  readonly error: (facts: { readonly type: string; readonly error: string }) => Effect.Effect<void>
}

const silent: CallLog = { response: () => Effect.void, errorResponse: () => Effect.void, error: () => Effect.void }

const off: { readonly request: (facts: RequestFacts) => Effect.Effect<CallLog> } = {
  request: () => Effect.succeed(silent)
}

/**
 * Where calls are logged. Without a layer it is a log that keeps nothing.
 *
 * @since 0.1.0
 * @category context
 */
export class TransportLog extends Context.Reference<TransportLog>()("deskhand/model/TransportLog", {
  defaultValue: () => off
}) {}

// -----------------------------------------------------------------------------
// Ids in headers
// -----------------------------------------------------------------------------

/**
 * The ids as headers `x-nemo-gym-log-*`: without line breaks, at most 1,024 characters each, what is not ASCII
 * percent-encoded.
 *
 * @since 0.1.0
 * @category headers
 */
export const headersOf = (ids: CallIds): Readonly<Record<string, string>> => toHeaders(ids)

/**
 * The ids that a request's headers (names in lower case) tell: `x-nemo-gym-log-*`, else `x-nemo-gym-*`, else
 * `x-deskhand-*`. An empty one, and an index that is no whole number from 0, is ignored.
 *
 * @since 0.1.0
 * @category headers
 */
export const idsOf = (headers: Readonly<Record<string, string | undefined>>): CallIds => fromHeaders(headers)

// -----------------------------------------------------------------------------
// Writing
// -----------------------------------------------------------------------------

/**
 * @since 0.1.0
 * @category models
 */
export interface TransportLogOptions {
  /** The file that lines are appended to, its owner's alone when it is made; absent: none is written. */
  readonly path?: string
  /** Whether each request and its end is summed up in the program's own log, without what it holds; not unless asked for. */
  readonly debug?: boolean
}

/**
 * A log in a file. It never fails: a file that cannot be opened, a full disk or a payload that cannot be written is told
 * once as a warning, and calls go on without their lines.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: TransportLogOptions
): Effect.Effect<TransportLog["Type"], never, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const { debug = false, path } = options
    const warned = (file: string) => {
      let told = false
      return (cause: Cause.Cause<unknown>) =>
        Effect.suspend(() => {
          if (told) return Effect.void
          told = true
          return Effect.logWarning(`the transport log ${file} misses lines: ${Cause.pretty(cause).split("\n", 1)[0]}`)
        })
    }
    const file = path === undefined ? undefined : yield* opened(path, warned(path))
    if (file === undefined && !debug) return off
    let calls = 0
    return {
      request: (facts) =>
        Effect.suspend(() => {
          const call = calls
          calls += 1
          return started({ ...facts, call, file, debug })
        })
    }
  })

interface Sink {
  readonly append: Append
  readonly warn: (cause: Cause.Cause<unknown>) => Effect.Effect<void>
}

const opened = (
  path: string,
  warn: Sink["warn"]
): Effect.Effect<Sink | undefined, never, FileSystem.FileSystem | Scope.Scope> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => openAppend(fs, path)).pipe(
    Effect.map((append) => ({ append, warn })),
    Effect.catchAllCause((cause) => Effect.as(warn(cause), undefined))
  )

const started = (
  facts: RequestFacts & { readonly call: number; readonly file: Sink | undefined; readonly debug: boolean }
): Effect.Effect<CallLog> =>
  Effect.gen(function* () {
    const { call, debug, file, secrets = [] } = facts
    const begin = yield* Clock.currentTimeNanos
    const url = redactUrl(facts.url, secrets)
    const common = {
      schema_version: 2,
      pid: process.pid,
      call_index: call,
      dialect: facts.dialect,
      url,
      ...(facts.attempt === undefined ? {} : { attempt: facts.attempt }),
      ...redactJson(toFields(facts.ids), secrets)
    }
    const write = (event: string, now: bigint, fields: () => JsonObject) =>
      file === undefined
        ? Effect.void
        : Effect.try({
            try: () => sortedJson({ ...common, event, timestamp_unix_ns: now, ...fields() }),
            catch: (cause) => cause
          }).pipe(Effect.flatMap(file.append), Effect.catchAllCause(file.warn))
    const ended = (event: string, summary: JsonObject, fields: () => JsonObject) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeNanos
        if (debug) {
          const milliseconds = Number((now - begin) / 1_000_000n)
          yield* Effect.logInfo(`model call ended: ${sortedJson({ ...common, event, milliseconds, ...summary })}`)
        }
        yield* write(event, now, () => ({ elapsed_ns: now - begin, ...fields() }))
      })
    if (debug) {
      const sampling = yield* Effect.orElseSucceed(
        Effect.try(() => redactJson(samplingOf(facts.payload()), secrets)),
        () => ({})
      )
      yield* Effect.logInfo(`model call starts: ${sortedJson({ ...common, sampling })}`)
    }
    yield* write("transport_request", begin, () => {
      const { images, payload } = withoutPixels(facts.payload())
      const shown = redactJson(payload, secrets)
      return {
        configured_base_urls: facts.baseUrls.map((base) => redactUrl(base, secrets)),
        request_payload: shown,
        request_payload_sha256: createHash("sha256").update(sortedJson(shown)).digest("hex"),
        embedded_images: images
      }
    })
    return {
      response: (reply, { status } = {}) =>
        ended("transport_response", status === undefined ? {} : { http_status: status }, () => ({
          ...(status === undefined ? {} : { http_status: status }),
          raw_response: redactJson(withoutPixels(reply()).payload, secrets)
        })),
      errorResponse: ({ body, error, status }) =>
        ended("transport_error_response", { http_status: status }, () => ({
          http_status: status,
          raw_response_body: redactText(body, secrets),
          error: redactText(error, secrets)
        })),
      error: ({ error, type }) =>
        ended("transport_error", { error_type: type }, () => ({
          error_type: type,
          error: redactText(error, secrets)
        }))
    }
  })

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/**
 * A log in a file; secrets are gone from a line before it is written.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: TransportLogOptions): Layer.Layer<TransportLog, never, FileSystem.FileSystem> =>
  Layer.scoped(TransportLog, make(options))

const named = (name: string) => Config.withDefault(Config.string(name), "")

/**
 * From `DESKHAND_TRANSPORT_LOG`, or the field's `NEMO_GYM_VLLM_TRANSPORT_LOG`, the file's path; and
 * `DESKHAND_REQUEST_DEBUG`, `true` or `1` for a summary of each request in the program's own log. Nothing is written when
 * none is set.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<TransportLog, ConfigError, FileSystem.FileSystem> = Layer.scoped(
  TransportLog,
  Effect.gen(function* () {
    const own = yield* named("DESKHAND_TRANSPORT_LOG")
    const path = own === "" ? yield* named("NEMO_GYM_VLLM_TRANSPORT_LOG") : own
    const debug = yield* Config.withDefault(Config.boolean("DESKHAND_REQUEST_DEBUG"), false)
    return yield* make({ debug, ...(path === "" ? {} : { path }) })
  })
)
