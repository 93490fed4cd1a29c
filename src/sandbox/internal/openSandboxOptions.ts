/** What the OpenSandbox provider is told, and the create that a spec asks for. */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import type * as Redacted from "effect/Redacted"
import { SandboxCreateRejected, SandboxUnsupported } from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import type * as Api from "./openSandboxApi.js"
import { provider } from "./openSandboxErrors.js"
import { toMetadata } from "./openSandboxLabels.js"
import type { AnswerLimits } from "./remote.js"

export interface OpenSandboxOptions extends AnswerLimits {
  /** The service's address with its version: `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  /** Sent to the service and nowhere else. Absent: the service wants none. */
  readonly apiKey?: Redacted.Redacted
  /** Of endpoints that the service names without a scheme; the base URL's unless given. */
  readonly protocol?: "http" | "https"
  /** A pool of sandboxes that were started before: it decides image, resources and network, and a spec's are not sent. */
  readonly poolRef?: string
  /** Ports are reached through the service itself, which takes the key and passes the rest on. */
  readonly useServerProxy?: boolean
  /** What execd in the sandboxes wants, where the service does not say it with the endpoint. */
  readonly execdToken?: Redacted.Redacted
  /** Of a sandbox whose spec has no `ttl`; none unless given, two hours in a pool. */
  readonly defaultTtl?: Duration.DurationInput
  /** How long a created sandbox may take to run; five minutes unless given. */
  readonly startTimeout?: Duration.DurationInput
}

/** The service takes no shorter time to live. */
export const shortestTtl = Duration.seconds(60)

/** An image that starts so is a snapshot's id. */
export const snapshotPrefix = "snapshot:"

const resourceLimits = (spec: SandboxSpec): Readonly<Record<string, string>> => ({
  cpu: `${Math.max(1, Math.round((spec.resources?.cpu ?? 1) * 1000))}m`,
  memory: `${spec.resources?.memoryMib ?? 2048}Mi`,
  ...(spec.resources?.diskGib === undefined ? {} : { "ephemeral-storage": `${spec.resources.diskGib}Gi` })
})

const seconds = (ttl: Duration.Duration): number => Math.ceil(Duration.toSeconds(Duration.max(ttl, shortestTtl)))

export const rejected = (reason: string, remedy: string) => new SandboxCreateRejected({ provider, reason, remedy })

/** The create that a spec asks for, or why there is none. */
export const createRequest = (
  options: Pick<OpenSandboxOptions, "poolRef" | "defaultTtl">,
  spec: SandboxSpec,
  attemptLabels: Readonly<Record<string, string>>
): Either.Either<Api.CreateRequest, SandboxCreateRejected | SandboxUnsupported> =>
  Either.gen(function* () {
    const metadata = yield* Either.mapLeft(toMetadata(attemptLabels), (key) =>
      rejected(`the service takes no metadata key as long as ${key}`, "Use a shorter one")
    )
    const pool = options.poolRef
    const ttl =
      spec.ttl ??
      (options.defaultTtl === undefined
        ? pool === undefined
          ? undefined
          : Duration.hours(2)
        : Duration.decode(options.defaultTtl))
    const common = { timeout: ttl === undefined ? null : seconds(ttl), metadata }
    if (spec.network === "host") {
      return yield* Either.left(new SandboxUnsupported({ provider, capability: "network host" }))
    }
    if (pool !== undefined) {
      return spec.entrypoint === undefined
        ? { ...common, extensions: { poolRef: pool } }
        : { ...common, entrypoint: spec.entrypoint, extensions: { poolRef: pool } }
    }
    if (spec.image === undefined) {
      return yield* Either.left(
        rejected("the spec names no image", "Name one, or a pool in OPENSANDBOX_POOL_REF, or `snapshot:` and an id")
      )
    }
    const snapshotId = spec.image.startsWith(snapshotPrefix) ? spec.image.slice(snapshotPrefix.length) : undefined
    const entrypoint = spec.entrypoint ?? (snapshotId === undefined ? ["tail", "-f", "/dev/null"] : undefined)
    return {
      ...common,
      ...(snapshotId === undefined ? { image: { uri: spec.image } } : { snapshotId }),
      resourceLimits: resourceLimits(spec),
      env: spec.env,
      ...(entrypoint === undefined ? {} : { entrypoint }),
      ...(spec.network === "none" ? { networkPolicy: { defaultAction: "deny" as const, egress: [] } } : {})
    }
  })
