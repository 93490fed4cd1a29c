/**
 * Where a port of an E2B sandbox is: a pure function of the configuration and of what the service said.
 */
import * as Either from "effect/Either"
import { Endpoint } from "../Endpoint.js"

export interface EndpointConfig {
  readonly mode: "gateway" | "hostname"
  /** The control plane's address, when it is not the vendor's. */
  readonly apiUrl?: string
  /** The address that all sandboxes are reached at. `{id}` and `{port}` in it stand for the sandbox's own. */
  readonly gatewayUrl?: string
  /** Headers for the gateway; `{id}` and `{port}` in their values stand for the sandbox's own. */
  readonly gatewayHeaders?: Readonly<Record<string, string>>
  /** The domain of the sandboxes' host names, where the service does not tell it. */
  readonly domain?: string
  /** The host name, from `{port}`, `{id}` and `{domain}`; `{port}-{id}.{domain}` unless given. */
  readonly hostnameTemplate?: string
  /** `https` unless given. */
  readonly scheme?: "http" | "https"
}

export interface EndpointTarget {
  readonly id: string
  /** The domain that the service gave with the sandbox. */
  readonly domain?: string
  readonly trafficToken?: string
}

/** The port of envd, which is the sandbox's own. */
export const envdPort = 49983

/** Domains of the vendor's own service. */
export const vendorDomains: ReadonlyArray<string> = ["e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"]

export const isVendorHost = (host: string): boolean =>
  vendorDomains.some((domain) => host === domain || host.endsWith(`.${domain}`))

const wildcards: ReadonlyArray<string> = ["0.0.0.0", "[::]", "::", "*"]

const isWildcard = (host: string): boolean => wildcards.includes(host)

const fill = (template: string, values: Readonly<Record<string, string>>): string =>
  template.replace(/\{(id|port|domain)\}/g, (whole, key: string) => values[key] ?? whole)

const parse = (url: string): URL | undefined => {
  try {
    return new URL(url)
  } catch {
    return undefined
  }
}

/** The host that the control plane is reached at, when it can be connected to. */
const controlHost = (apiUrl: string | undefined): string | undefined => {
  const host = apiUrl === undefined ? undefined : parse(apiUrl)?.hostname
  return host === undefined || host === "" || isWildcard(host) ? undefined : host
}

const usesVendor = (apiUrl: string | undefined): boolean => {
  const host = controlHost(apiUrl)
  return apiUrl === undefined || (host !== undefined && isVendorHost(host))
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, "")

/** A URL that can be connected to: a wildcard host is the address that a server bound, never one to connect to. */
const connectable = (text: string, apiUrl: string | undefined): Either.Either<string, string> => {
  // `http://*:8000` is no host name to the URL parser, and `http://:::8000` neither.
  const url = parse(text.replace(/^(https?:\/\/)(?:\*|::)(?=[:/]|$)/i, (_, scheme: string) => `${scheme}0.0.0.0`))
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    return Either.left(`${text} is no absolute http address`)
  }
  if (url.username !== "" || url.password !== "") return Either.left("an address must not hold credentials")
  if (isWildcard(url.hostname)) {
    const host = controlHost(apiUrl)
    if (host === undefined) {
      return Either.left(`${text} is an address to listen at, and no other is known: set the gateway's own address`)
    }
    url.hostname = host
  }
  return Either.right(withoutSlash(url.href))
}

const isLabel = (text: string): boolean => /^[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?$/.test(text)

const gateway = (config: EndpointConfig, target: EndpointTarget, port: number): Either.Either<Endpoint, string> => {
  if (config.gatewayUrl === undefined) {
    return Either.left("the gateway's address is not set: set E2B_SANDBOX_URL or `gatewayUrl`")
  }
  const values = { id: encodeURIComponent(target.id), port: String(port), domain: target.domain ?? "" }
  const plain = { ...values, id: target.id }
  return Either.map(connectable(fill(config.gatewayUrl, values), config.apiUrl), (url) =>
    Endpoint.Tcp({
      url,
      headers: {
        "e2b-sandbox-id": target.id,
        "e2b-sandbox-port": String(port),
        ...(target.trafficToken === undefined ? {} : { "e2b-traffic-access-token": target.trafficToken }),
        ...Object.fromEntries(
          Object.entries(config.gatewayHeaders ?? {}).map(([name, value]) => [name.toLowerCase(), fill(value, plain)])
        )
      }
    })
  )
}

const hostname = (config: EndpointConfig, target: EndpointTarget, port: number): Either.Either<Endpoint, string> => {
  const domain = target.domain ?? config.domain ?? (usesVendor(config.apiUrl) ? "e2b.app" : undefined)
  if (domain === undefined || domain === "") {
    return Either.left(
      "the service named no domain for its sandboxes: set E2B_DOMAIN, or use the gateway with E2B_SANDBOX_URL"
    )
  }
  const bare = domain.replace(/:\d+$/, "")
  const domainHost = isWildcard(bare) ? controlHost(config.apiUrl) : bare
  if (domainHost === undefined) return Either.left(`${domain} is an address to listen at, and no other is known`)
  if (!usesVendor(config.apiUrl) && isVendorHost(domainHost.toLowerCase())) {
    return Either.left(`the service at ${config.apiUrl} points at the vendor's domain ${domain}: set E2B_DOMAIN`)
  }
  // `{port}-{id}` is split at its dashes by the services that route by host name, so an id with a dash gets lost.
  if (config.hostnameTemplate === undefined && target.id.includes("-")) {
    return Either.left(
      `the id ${target.id} holds a dash, which host names of the form {port}-{id} cannot carry: set a host name template, or use the gateway`
    )
  }
  if (!isLabel(target.id)) return Either.left(`the id ${target.id} cannot be part of a host name`)
  const host = fill(config.hostnameTemplate ?? "{port}-{id}.{domain}", {
    id: target.id,
    port: String(port),
    domain: `${domainHost}${domain.slice(bare.length)}`
  })
  return Either.map(connectable(`${config.scheme ?? "https"}://${host}`, config.apiUrl), (url) =>
    Endpoint.Tcp({
      url,
      headers: target.trafficToken === undefined ? {} : { "e2b-traffic-access-token": target.trafficToken }
    })
  )
}

/** Left is the reason in plain words. */
export const resolve = (
  config: EndpointConfig,
  target: EndpointTarget,
  port: number
): Either.Either<Endpoint, string> =>
  target.id === "" || !/^[\x21-\x7e]+$/.test(target.id)
    ? Either.left("the sandbox's id cannot be sent in a header")
    : config.mode === "gateway"
      ? gateway(config, target, port)
      : hostname(config, target, port)
