/**
 * What the E2B provider is told, and what follows from it without asking the service: templates, addresses, limits.
 */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type { SandboxSpec } from "../SandboxSpec.js"
import * as E2BEndpoint from "./e2bEndpoint.js"
import type { AnswerLimits } from "./remote.js"

export interface E2BOptions extends AnswerLimits {
  /** Sent to the control plane and nowhere else. Absent: the service wants none. */
  readonly apiKey?: Redacted.Redacted
  /** The control plane of a service of one's own; the vendor's unless given. */
  readonly apiUrl?: string
  /** The domain of the service, `e2b.app` unless an `apiUrl` is given. */
  readonly domain?: string
  /** `gateway`: all sandboxes behind one address, told apart by headers. `hostname`: a host name for each port. */
  readonly endpointMode: "gateway" | "hostname"
  /** The gateway's address; `{id}` and `{port}` in it stand for the sandbox's own. */
  readonly gatewayUrl?: string
  /** More headers for the gateway's application ports. The SDK sends none of these to envd. */
  readonly gatewayHeaders?: Readonly<Record<string, string>>
  /** Of the host names, where they are not `{port}-{id}.{domain}`. */
  readonly hostnameTemplate?: string
  /** Of the host names; `https` unless given. */
  readonly scheme?: "http" | "https"
  /** From a spec's image to the service's template, which has to be built before. */
  readonly templates: Readonly<Record<string, string>>
  /** For a spec without an image. */
  readonly defaultTemplate?: string
  /** A port that is reached besides the spec's: the desktop's noVNC. 8006 in OSWorld's images, 6080 in the vendor's. */
  readonly vncPort?: number
  /** The certificate authority of a service of one's own, and what `sha256sum` says of the file. */
  readonly caFile?: { readonly path: string; readonly sha256: string }
  /** Whether the service forks; yes unless given. */
  readonly fork?: boolean
  /**
   * E2B has no command that a sandbox is. `refuse`: a spec with one is not supported. `run`: it is started in the
   * background and the sandbox does not end with it. `refuse` unless given.
   */
  readonly entrypoint?: "refuse" | "run"
  /** Refuse a spec with `resources`, which only a template can have. They are ignored, with a warning, unless given. */
  readonly strictResources?: boolean
  /** Of a sandbox whose spec has no `ttl`; an hour unless given. */
  readonly defaultTtl?: Duration.DurationInput
}

/** No name of this domain can ever be resolved: what the SDK is told where it would go to the vendor's. */
const nowhere = "unset.invalid"

export interface Settings {
  readonly options: E2BOptions
  readonly apiUrl: string
  readonly requestTimeoutMs: number
  readonly createTimeoutMs: number
  readonly defaultTtlMs: number
  readonly endpoint: E2BEndpoint.EndpointConfig
  /** What every call of the SDK gets; none of it is left to the environment. */
  readonly connection: {
    readonly apiKey: string
    readonly apiUrl: string
    readonly domain: string
    readonly debug: false
    readonly requestTimeoutMs: number
  }
}

export const settings = (options: E2BOptions): Settings => {
  const apiUrl = (options.apiUrl ?? `https://api.${options.domain ?? "e2b.app"}`).replace(/\/+$/, "")
  const requestTimeoutMs = Duration.toMillis(options.requestTimeout ?? "30 seconds")
  return {
    options,
    apiUrl,
    requestTimeoutMs,
    createTimeoutMs: Duration.toMillis(options.createTimeout ?? "2 minutes"),
    defaultTtlMs: Duration.toMillis(options.defaultTtl ?? "1 hour"),
    endpoint: {
      mode: options.endpointMode,
      ...(options.apiUrl === undefined && options.domain === undefined ? {} : { apiUrl }),
      ...(options.gatewayUrl === undefined ? {} : { gatewayUrl: options.gatewayUrl }),
      ...(options.gatewayHeaders === undefined ? {} : { gatewayHeaders: options.gatewayHeaders }),
      ...(options.domain === undefined ? {} : { domain: options.domain }),
      ...(options.hostnameTemplate === undefined ? {} : { hostnameTemplate: options.hostnameTemplate }),
      ...(options.scheme === undefined ? {} : { scheme: options.scheme })
    },
    connection: {
      // An empty key would make the SDK look for one in the environment.
      apiKey: options.apiKey === undefined ? "none" : Redacted.value(options.apiKey),
      apiUrl,
      domain: options.domain ?? (options.apiUrl === undefined ? "e2b.app" : nowhere),
      debug: false,
      requestTimeoutMs
    }
  }
}

/** Where the SDK speaks to a sandbox's envd. An address that is not known leads nowhere, and never to the vendor. */
export const dataPlane = (endpoint: E2BEndpoint.EndpointConfig, target: E2BEndpoint.EndpointTarget): string =>
  Either.match(E2BEndpoint.resolve({ ...endpoint, gatewayHeaders: {} }, target, E2BEndpoint.envdPort), {
    onLeft: () => `http://${nowhere}`,
    onRight: (found) => (found._tag === "Tcp" ? found.url : `http://${nowhere}`)
  })

/** The template of a spec; left is why there is none. */
export const templateOf = (options: E2BOptions, image: string | undefined): Either.Either<string, string> => {
  if (image === undefined) {
    return options.defaultTemplate === undefined
      ? Either.left("the spec names no image, and there is no default template")
      : Either.right(options.defaultTemplate)
  }
  const mapped = Object.hasOwn(options.templates, image) ? options.templates[image] : undefined
  if (mapped !== undefined) return Either.right(mapped)
  // What a template is called, and an image with a registry or a tag never is.
  return /^[A-Za-z0-9_-]+$/.test(image) ? Either.right(image) : Either.left(`no template stands for the image ${image}`)
}

/** What a spec asks for that E2B does not have. */
export const unsupported = (options: E2BOptions, spec: SandboxSpec): string | undefined =>
  spec.entrypoint !== undefined && options.entrypoint !== "run"
    ? "entrypoint"
    : spec.mounts.length > 0
      ? "mounts"
      : spec.network === "host"
        ? "network host"
        : spec.resources !== undefined && options.strictResources === true
          ? "resources"
          : undefined

/** The service counts whole seconds. */
export const ttlMs = (settings: Settings, ttl: Duration.Duration | undefined): number =>
  Math.max(1, Math.ceil((ttl === undefined ? settings.defaultTtlMs : Duration.toMillis(ttl)) / 1000)) * 1000

/** A word of a shell command line. */
export const quote = (word: string): string =>
  /^[A-Za-z0-9_\-./:=@%+,]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
