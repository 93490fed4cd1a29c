/**
 * The calls of the `e2b` SDK that the driver is made of: with everything said that the SDK would otherwise take from the
 * environment, and with every error classified.
 */
import { Sandbox, type SandboxInfo } from "e2b"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { ProviderUnavailable, SandboxCreateAmbiguous, SandboxCreateRejected } from "../SandboxError.js"
import type { Selector } from "../SandboxProvider.js"
import type * as E2BEndpoint from "./e2bEndpoint.js"
import * as E2BErrors from "./e2bErrors.js"
import type * as E2BHttp from "./e2bHttp.js"
import { dataPlane, type Settings } from "./e2bOptions.js"

export const provider = "e2b"

/** A sandbox that is held. `current` changes when a resume gives it new tokens. */
export interface E2BHandle {
  readonly id: string
  current: HeldSandbox
}

export interface HeldSandbox extends Sandbox {
  /** Of its envd; no other sandbox has it. */
  readonly token: string | undefined
  /** The domain that the service gave with it. */
  readonly reportedDomain: string | undefined
}

/** The SDK's class as we make it: what its static calls give is held. */
export type HeldClass = typeof Sandbox & (new (options: ConstructorParameters<typeof Sandbox>[0]) => HeldSandbox)

/** What the driver asks of the SDK. */
export interface Calls {
  readonly Held: HeldClass
  readonly opened: (answer: E2BHttp.Opened) => HeldSandbox
  readonly control: <A>(call: (signal: AbortSignal) => Promise<A>) => Effect.Effect<A, E2BErrors.Classified>
  readonly info: (id: string) => Effect.Effect<Option.Option<SandboxInfo>, E2BErrors.Classified>
  readonly rows: (filter: Selector) => Stream.Stream<SandboxInfo, ProviderUnavailable>
}

/** The driver's own class of sandbox never reaches the vendor's address by default, and tells its token. */
const heldClass = (settings: Settings): HeldClass =>
  class Held extends Sandbox implements HeldSandbox {
    readonly reportedDomain: string | undefined
    constructor(options: ConstructorParameters<typeof Sandbox>[0]) {
      super({
        ...options,
        sandboxUrl: dataPlane(settings.endpoint, targetOf(options.sandboxId, options.sandboxDomain, undefined))
      })
      this.reportedDomain = options.sandboxDomain
    }
    get token() {
      return this.envdAccessToken
    }
  }

export const targetOf = (
  id: string,
  domain: string | undefined,
  trafficToken: string | undefined
): E2BEndpoint.EndpointTarget => ({
  id,
  ...(domain === undefined ? {} : { domain }),
  ...(trafficToken === undefined ? {} : { trafficToken })
})

export const toUnavailable =
  (operation: string) =>
  (cause: E2BErrors.Classified): ProviderUnavailable =>
    new ProviderUnavailable({
      provider,
      operation,
      kind: cause._tag === "Unavailable" ? cause.kind : cause._tag === "TimedOut" ? "unreachable" : "failing",
      reason: cause.reason,
      ...(cause._tag === "Unavailable" && cause.retryAfter !== undefined ? { retryAfter: cause.retryAfter } : {})
    })

export const createError =
  (attemptKey: string, operation: string) =>
  (thrown: unknown): SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable => {
    const cause = E2BErrors.ofCreate(E2BErrors.of(thrown))
    switch (cause._tag) {
      case "Unavailable":
        return toUnavailable(operation)(cause)
      case "Rejected":
      case "NotFound":
        return new SandboxCreateRejected({
          provider,
          reason: cause.reason,
          remedy: "Check the template's name and the service's version: `deskhand doctor` asks it"
        })
      default:
        return new SandboxCreateAmbiguous({ provider, attemptKey, reason: cause.reason })
    }
  }

/** Calls that change nothing when they are made twice. */
const repeated = Schedule.intersect(Schedule.exponential("200 millis"), Schedule.recurs(2))

/** The service's filter decodes twice, so only values that no decoding changes are left to it. */
const plainEntries = (selector: Selector): Record<string, string> =>
  Object.fromEntries(
    Object.entries(selector).filter(([key, value]) => /^[\w.-]+$/.test(key) && /^[\w.-]+$/.test(value))
  )

export const make = (settings: Settings): Calls => {
  const { connection } = settings
  const Held = heldClass(settings)
  const OpenHeld: new (options: ConstructorParameters<typeof Sandbox>[0]) => HeldSandbox = Held

  const opened = (answer: E2BHttp.Opened): HeldSandbox =>
    new OpenHeld({
      ...connection,
      sandboxId: answer.sandboxID,
      envdVersion: answer.envdVersion,
      ...(typeof answer.domain === "string" && answer.domain !== "" ? { sandboxDomain: answer.domain } : {}),
      ...(typeof answer.envdAccessToken === "string" ? { envdAccessToken: answer.envdAccessToken } : {}),
      ...(typeof answer.trafficAccessToken === "string" ? { trafficAccessToken: answer.trafficAccessToken } : {})
    })

  /** A call that may be repeated; a thing that is not there is `NotFound`. */
  const control = <A>(call: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, E2BErrors.Classified> =>
    Effect.tryPromise({ try: call, catch: (thrown) => E2BErrors.ofControl(E2BErrors.of(thrown)) }).pipe(
      Effect.retry({
        schedule: repeated,
        while: (cause) => cause._tag === "TimedOut" || (cause._tag === "Unavailable" && cause.kind !== "unauthorised")
      })
    )

  const info = (id: string): Effect.Effect<Option.Option<SandboxInfo>, E2BErrors.Classified> =>
    control((signal) => Sandbox.getInfo(id, { ...connection, signal })).pipe(
      Effect.asSome,
      Effect.catchIf(
        (cause) => cause._tag === "NotFound",
        () => Effect.succeedNone
      )
    )

  /** Every page; what the service's filter lets through is looked at again. */
  const rows = (filter: Selector): Stream.Stream<SandboxInfo, ProviderUnavailable> =>
    Stream.unwrap(
      Effect.sync(() => {
        const metadata = plainEntries(filter)
        const pages = Sandbox.list({
          ...connection,
          limit: 100,
          query: { state: ["running", "paused"], ...(Object.keys(metadata).length === 0 ? {} : { metadata }) }
        })
        const seen = new Set<string>()
        return Stream.paginateChunkEffect(undefined, () =>
          Effect.suspend(() => {
            const token = pages.nextToken
            // A service that gives the same page again and again would be listed for ever.
            if (token !== undefined && seen.has(token)) {
              return Effect.fail(
                new ProviderUnavailable({
                  provider,
                  operation: "list",
                  kind: "failing",
                  reason: "its pages go in circles"
                })
              )
            }
            if (token !== undefined) seen.add(token)
            return Effect.map(
              Effect.mapError(
                control((signal) => pages.nextItems({ signal })),
                toUnavailable("list")
              ),
              (page) =>
                [
                  // biome-ignore format: a tuple
                  Chunk.fromIterable(page),
                  pages.hasNext ? Option.some(undefined) : Option.none<undefined>()
                ] as const
            )
          })
        )
      })
    )

  return { Held, opened, control, info, rows }
}
