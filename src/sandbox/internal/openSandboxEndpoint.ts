/** Where a sandbox's port is, from what the service says and from where the service itself was found. */
import * as net from "node:net"
import * as Either from "effect/Either"
import { isWildcard } from "./forward.js"

export interface Told {
  /** The service's address, as it was configured; requests go to `<baseUrl>/sandboxes`. */
  readonly baseUrl: string
  /** The scheme of endpoints that the service names without one; the base URL's unless given. */
  readonly protocol: "http" | "https" | undefined
  /** What the service said: mostly without a scheme, possibly with a path. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
}

export interface Resolved {
  /** Absolute, with a host that can be connected to, and no trailing slash. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** It is the service itself, which passes requests on and takes the key off them. */
  readonly proxied: boolean
}

const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname)

/** `fd00::1` and `fd00::1/path` get the brackets that a URL wants. */
const bracketed = (place: string): string => {
  const end = place.search(/[/?#]/)
  const host = end < 0 ? place : place.slice(0, end)
  return net.isIPv6(host) ? `[${host}]${end < 0 ? "" : place.slice(end)}` : place
}

export const resolve = (told: Told): Either.Either<Resolved, string> => {
  const base = new URL(told.baseUrl)
  const said = told.endpoint.trim()
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):\/\//.exec(said)?.[1]?.toLowerCase()
  if (said === "" || said.startsWith("/")) {
    return Either.left(`the service named no host: ${JSON.stringify(told.endpoint)}`)
  }
  if (scheme !== undefined && scheme !== "http" && scheme !== "https") {
    return Either.left(`the service named an endpoint of the scheme ${scheme}`)
  }
  // A bind address without a host is one to listen on: `:8080`.
  const absolute =
    scheme === undefined
      ? `${told.protocol ?? base.protocol.slice(0, -1)}://${bracketed(said.startsWith(":") ? `0.0.0.0${said}` : said)}`
      : said
  if (!URL.canParse(absolute)) {
    return Either.left(`the service named an endpoint that is no address: ${JSON.stringify(told.endpoint)}`)
  }
  const url = new URL(absolute)
  if (url.username !== "" || url.password !== "") {
    return Either.left("the service named an endpoint with credentials in it")
  }
  if (url.search !== "" || url.hash !== "") {
    return Either.left("the service named an endpoint with a query, which paths cannot be put behind")
  }
  // The service's own loopback and the addresses it listens on mean nothing here: it is where it was found.
  if (isWildcard(url.hostname) || (isLoopback(url.hostname) && !isLoopback(base.hostname))) {
    url.hostname = base.hostname
  }
  const service = `${base.pathname.replace(/\/+$/, "")}/sandboxes/`
  return Either.right({
    url: `${url.origin}${url.pathname.replace(/\/+$/, "")}`,
    headers: told.headers,
    proxied: url.origin === base.origin && url.pathname.startsWith(service) && url.pathname.includes("/proxy/")
  })
}

/** What makes a configured address useless as the service's, if anything. */
export const baseUrlProblem = (baseUrl: string): string | undefined => {
  if (!URL.canParse(baseUrl)) {
    return "it is not an absolute URL"
  }
  const url = new URL(baseUrl)
  return url.protocol !== "http:" && url.protocol !== "https:"
    ? "only http and https are spoken"
    : isWildcard(url.hostname)
      ? `${url.hostname} is an address to listen on, not one to connect to`
      : url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== ""
        ? "it may have no credentials, query or fragment"
        : undefined
}
