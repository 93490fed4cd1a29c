/**
 * The control plane of an E2B-compatible server, both versions of its routes.
 */
import type { IncomingMessage } from "node:http"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SandboxCreateError } from "../../sandbox/SandboxError.js"
import { type Fault, type Faults, met, type Operation } from "./e2bFaults.js"
import type { Guest, Guests } from "./e2bGuests.js"
import { header, type Json, problem, type Reply } from "./e2bWire.js"

export interface ControlOptions {
  readonly guests: Guests
  readonly faults: Faults
  readonly apiKey: string | undefined
  /** Which create and connect routes there are. */
  readonly routes: "v1" | "v2" | "both"
  readonly envdVersion: string
  readonly domain: string | null
  readonly hasTemplate: (template: string) => boolean
  readonly fork: boolean
  readonly pause: boolean
  readonly pageLimit: number
  /** The list's filters are not applied. */
  readonly lax: boolean
}

const Strings = Schema.Record({ key: Schema.String, value: Schema.String })

const Create = Schema.parseJson(
  Schema.Struct({
    templateID: Schema.NonEmptyString,
    metadata: Schema.optionalWith(Strings, { default: () => ({}), nullable: true }),
    envVars: Schema.optionalWith(Strings, { default: () => ({}), nullable: true }),
    timeout: Schema.optionalWith(Schema.Finite, { exact: true }),
    allow_internet_access: Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true }),
    autoPause: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true }),
    network: Schema.optionalWith(
      Schema.Struct({ allowPublicTraffic: Schema.optionalWith(Schema.Boolean, { default: () => true }) }),
      { exact: true }
    )
  })
)

const Timeout = Schema.parseJson(Schema.Struct({ timeout: Schema.optional(Schema.Finite) }))

const Fork = Schema.parseJson(
  Schema.Struct({
    timeout: Schema.optional(Schema.Finite),
    count: Schema.optionalWith(Schema.Int.pipe(Schema.between(1, 100)), { default: () => 1 })
  })
)

/** What the vendor's API gives where nothing is said: the second version 300 s, the first one and a fork 15 s. */
const defaults = { v2: 300, v1: 15, fork: 15 }

/** A time below nothing is over at once. */
const seconds = (value: number | undefined, other: number) => Duration.seconds(Math.max(0, value ?? other))

const createFailure = (error: SandboxCreateError): Reply => {
  switch (error._tag) {
    case "SandboxCreateRejected":
    case "SandboxUnsupported":
      return problem(400, error.message)
    case "ProviderUnavailable":
      return problem(error.kind === "rate_limited" ? 429 : 503, error.message)
    default:
      return problem(500, error.message)
  }
}

/** Decoded twice: once as a query, and once again pair by pair. */
export const metadataFilter = (query: string): ReadonlyArray<readonly [string, string]> | undefined => {
  try {
    return decodeURIComponent(query)
      .split("&")
      .filter((pair) => pair !== "")
      .map((pair) => {
        const [key, value, ...rest] = pair.split("=")
        if (key === undefined || value === undefined || rest.length > 0) throw new URIError(pair)
        return [decodeURIComponent(key), decodeURIComponent(value)] as const
      })
  } catch {
    return undefined
  }
}

export const make = (options: ControlOptions) => {
  const { faults, guests } = options

  const summary = (guest: Guest): Json => ({
    templateID: guest.template,
    alias: guest.template,
    sandboxID: guest.id,
    clientID: "deskhand",
    envdVersion: options.envdVersion
  })

  const opened = (guest: Guest): Json => ({
    templateID: guest.template,
    sandboxID: guest.id,
    clientID: "deskhand",
    envdVersion: options.envdVersion,
    envdAccessToken: guest.token,
    trafficAccessToken: guest.trafficToken ?? null,
    domain: options.domain
  })

  const listed = (guest: Guest) => ({
    ...(summary(guest) as Record<string, Json>),
    startedAt: new Date(guest.startedAt).toISOString(),
    endAt: new Date(guest.endAt).toISOString(),
    cpuCount: 2,
    memoryMB: 1024,
    diskSizeMB: 1024,
    state: guest.state === "paused" ? "paused" : "running",
    metadata: guest.metadata
  })

  const decoded = <A, I>(schema: Schema.Schema<A, I>, body: string, then: (value: A) => Effect.Effect<Reply>) =>
    Either.match(Schema.decodeEither(schema as Schema.Schema<A, unknown>)(body), {
      onLeft: (error) => Effect.succeed(problem(400, error.message)),
      onRight: then
    })

  const create = (version: "v1" | "v2", body: string) =>
    decoded(Create, body, (wanted) =>
      guests
        .create({
          template: wanted.templateID,
          metadata: wanted.metadata,
          envs: wanted.envVars,
          timeout: seconds(wanted.timeout, defaults[version]),
          internet: wanted.allow_internet_access,
          publicTraffic: wanted.network?.allowPublicTraffic !== false,
          autoPause: wanted.autoPause
        })
        .pipe(
          Effect.map(
            Option.match({
              onNone: () => problem(404, `template '${wanted.templateID}' not found`),
              onSome: (guest): Reply => ({ status: 201, body: opened(guest) })
            })
          ),
          Effect.catchAll((error) => Effect.succeed(createFailure(error)))
        )
    )

  const list = (url: URL): Reply => {
    const states = url.searchParams.get("state")?.split(",")
    const filter = metadataFilter(url.searchParams.get("metadata") ?? "")
    if (filter === undefined) return problem(400, "metadata cannot be read")
    const limit = Math.min(options.pageLimit, Number(url.searchParams.get("limit") ?? options.pageLimit))
    const after = Number(url.searchParams.get("nextToken") ?? -1)
    if (!Number.isInteger(limit) || limit < 1 || !Number.isInteger(after)) return problem(400, "bad page")
    const found = guests
      .all()
      .filter(({ state }) => state !== "closing")
      .filter((guest) => options.lax || states === undefined || states.includes(guest.state))
      .filter((guest) => options.lax || filter.every(([key, value]) => guest.metadata[key] === value))
      .filter(({ order }) => order > after)
      .sort((a, b) => a.order - b.order)
    const page = found.slice(0, limit)
    const last = page.at(-1)
    return {
      status: 200,
      body: page.map(listed),
      headers: found.length > page.length && last !== undefined ? { "x-next-token": String(last.order) } : {}
    }
  }

  const fork = (guest: Guest, body: string, fault: Fault | undefined) =>
    decoded(Fork, body === "" ? "{}" : body, ({ count, timeout }) =>
      Effect.forEach(
        Array.from({ length: count }, (_, index) => index),
        (index) =>
          fault?._tag === "ChildFails" && fault.index === index
            ? Effect.succeed<Json>({ error: { code: fault.code, message: "this fork was made to fail" } })
            : guests.fork(guest, seconds(timeout, defaults.fork), index).pipe(
                Effect.map(
                  Option.match({
                    onNone: (): Json => ({ error: { code: 400, message: "fork is not supported" } }),
                    onSome: (child): Json => ({ sandbox: opened(child) })
                  })
                ),
                Effect.catchAll((error) => Effect.succeed<Json>({ error: createFailure(error).body }))
              ),
        { concurrency: 8 }
      ).pipe(Effect.map((children): Reply => ({ status: 201, body: children })))
    )

  const connect = (guest: Guest, body: string, version: "v1" | "v2") =>
    decoded(Timeout, body === "" ? "{}" : body, ({ timeout }) =>
      Effect.gen(function* () {
        const paused = guest.state === "paused"
        const wanted = seconds(timeout, defaults[version === "v2" ? "v2" : "v1"])
        if (paused) yield* guests.resume(guest, wanted)
        // A connect extends a life and never shortens it.
        else if (Date.now() + Duration.toMillis(wanted) > guest.endAt) yield* guests.setTimeout(guest, wanted)
        return { status: paused ? 201 : 200, body: opened(guest) }
      })
    )

  /** An operation, or what a fault makes of it. */
  const withFault = (operation: Operation, run: (fault: Fault | undefined) => Effect.Effect<Reply>) => {
    const fault = faults.take(operation)
    return met(
      fault,
      Effect.suspend(() => run(fault))
    )
  }

  const has = (version: "v1" | "v2") => options.routes === "both" || options.routes === version

  const ofGuest = (method: string, id: string, action: string, version: "v1" | "v2", body: string) => {
    const missing = Effect.succeed(problem(404, `sandbox ${id} not found`))
    const guest = guests.get(id)
    const of = (operation: Operation, run: (guest: Guest, fault: Fault | undefined) => Effect.Effect<Reply>) =>
      withFault(operation, (fault) => (guest === undefined ? missing : run(guest, fault)))
    switch (`${method} ${action}`) {
      case "GET ":
        return of("info", (found) =>
          Effect.succeed<Reply>({
            status: 200,
            body: {
              ...listed(found),
              envdAccessToken: found.token,
              domain: options.domain,
              lifecycle: { onTimeout: found.autoPause ? "pause" : "kill", autoResume: false }
            }
          })
        )
      case "DELETE ":
        return of("kill", (found) => Effect.as(guests.remove(found), { status: 204 }))
      case "POST timeout":
        return of("timeout", (found) =>
          decoded(Timeout, body, ({ timeout }) =>
            Effect.as(guests.setTimeout(found, seconds(timeout, defaults.v1)), { status: 204 })
          )
        )
      case "POST pause":
        return of("pause", (found) =>
          !options.pause
            ? Effect.succeed(problem(501, "pause is not supported"))
            : found.state === "paused"
              ? Effect.succeed(problem(409, "already paused"))
              : Effect.as(guests.pause(found), { status: 204 })
        )
      case "POST resume":
        return of("connect", (found) =>
          found.state === "running" ? Effect.succeed(problem(409, "already running")) : connect(found, body, "v1")
        )
      case "POST connect":
        return has(version)
          ? of("connect", (found) => connect(found, body, version))
          : Effect.succeed(problem(405, "method not allowed"))
      case "POST fork":
        return !options.fork
          ? Effect.succeed(problem(405, "method not allowed"))
          : of("fork", (found, fault) =>
              found.state === "paused" ? Effect.succeed(problem(409, "it is paused")) : fork(found, body, fault)
            )
      default:
        return Effect.succeed(problem(404, `no route ${method} ${action}`))
    }
  }

  return (request: IncomingMessage, url: URL, body: string): Effect.Effect<Reply> => {
    const method = request.method ?? "GET"
    if (url.pathname === "/health") return Effect.succeed({ status: 204 })
    if (options.apiKey !== undefined && header(request, "x-api-key") !== options.apiKey) {
      return Effect.succeed(problem(401, "the key is not known"))
    }
    const [, prefix, rest = ""] = /^(\/v2)?\/sandboxes(?:\/(.*))?$/.exec(url.pathname) ?? []
    const version = prefix === undefined ? "v1" : "v2"
    if (/^(\/v2)?\/sandboxes$/.test(url.pathname)) {
      if (method === "GET") return withFault("list", () => Effect.sync(() => list(url)))
      if (method === "POST") {
        return has(version)
          ? withFault("create", () => create(version, body))
          : Effect.succeed(problem(405, "method not allowed"))
      }
    }
    const alias = /^\/templates\/aliases\/([^/]+)$/.exec(url.pathname)?.[1]
    if (alias !== undefined && method === "GET") {
      const name = decodeURIComponent(alias)
      return withFault("template", () =>
        Effect.succeed<Reply>(
          options.hasTemplate(name)
            ? { status: 200, body: { templateID: name, public: false } }
            : problem(404, `template '${name}' not found`)
        )
      )
    }
    const [id, action = "", ...more] = rest.split("/")
    return id === undefined || id === "" || more.length > 0
      ? Effect.succeed(problem(404, `no route ${method} ${url.pathname}`))
      : ofGuest(method, decodeURIComponent(id), action, version, body)
  }
}
