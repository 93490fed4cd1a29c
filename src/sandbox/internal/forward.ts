/**
 * The decisions of the forwarder, over plain data: where a request goes, which headers go with it, and what a browser's
 * list of pages looks like from the forwarder's side.
 */
import * as net from "node:net"
import * as Either from "effect/Either"
import type { Endpoint } from "../Endpoint.js"

/** Header names and values as they were sent, one pair after the other. */
export type RawHeaders = ReadonlyArray<string>

export type HeaderMap = Readonly<Record<string, string | ReadonlyArray<string>>>

export interface Target {
  readonly secure: boolean
  /** How to connect: `host` and `port`, or `socketPath`. */
  readonly connect:
    | { readonly host: string; readonly port: number; readonly servername?: string }
    | { readonly socketPath: string }
  /** What the upstream is called in its Host header. */
  readonly host: string
  /** In front of every path; never ends in `/`. */
  readonly prefix: string
  readonly headers: Readonly<Record<string, string>>
  /** For messages: no credentials in it. */
  readonly label: string
}

const wildcards = new Set(["0.0.0.0", "[::]", "[::ffff:0:0]", "*"])

/** An address that is for listening and never for connecting. `hostname` is as `URL` gives it. */
export const isWildcard = (hostname: string): boolean => wildcards.has(hostname.toLowerCase())

export const target = (endpoint: Endpoint): Either.Either<Target, string> => {
  if (endpoint._tag === "Unix") {
    return Either.right({
      secure: false,
      connect: { socketPath: endpoint.socketPath },
      host: "127.0.0.1",
      prefix: "",
      headers: {},
      label: `unix:${endpoint.socketPath}`
    })
  }
  if (!URL.canParse(endpoint.url)) {
    return Either.left("the endpoint is not an absolute URL")
  }
  const url = new URL(endpoint.url)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return Either.left(`the endpoint speaks ${url.protocol.slice(0, -1)}, and only http and https can be forwarded`)
  }
  if (isWildcard(url.hostname)) {
    return Either.left(`${url.hostname} is an address to listen on, not one to connect to`)
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    return Either.left("the endpoint has credentials, a query or a fragment, which cannot be forwarded")
  }
  const secure = url.protocol === "https:"
  const host = url.hostname.replace(/^\[|\]$/g, "")
  return Either.right({
    secure,
    connect: {
      host,
      port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
      ...(net.isIP(host) === 0 ? { servername: host } : {})
    },
    host: url.host,
    prefix: url.pathname.replace(/\/+$/, ""),
    headers: endpoint.headers,
    label: `${url.origin}${url.pathname.replace(/\/+$/, "")}`
  })
}

const hopByHop = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
]

const pairs = (raw: RawHeaders): ReadonlyArray<readonly [string, string]> =>
  raw.flatMap((name, index) => {
    const value = raw[index + 1]
    return index % 2 === 0 && value !== undefined ? [[name, value] as const] : []
  })

/** Headers for this connection alone: those of the standard and those that `Connection` names. */
const ofTheHop = (headers: ReadonlyArray<readonly [string, string]>): ReadonlySet<string> =>
  new Set([
    ...hopByHop,
    ...headers
      .filter(([name]) => name.toLowerCase() === "connection")
      .flatMap(([, value]) => value.split(",").map((each) => each.trim().toLowerCase()))
  ])

const grouped = (headers: ReadonlyArray<readonly [string, string]>): HeaderMap => {
  const found = new Map<string, { readonly name: string; readonly values: Array<string> }>()
  for (const [name, value] of headers) {
    const entry = found.get(name.toLowerCase())
    if (entry === undefined) {
      found.set(name.toLowerCase(), { name, values: [value] })
    } else {
      entry.values.push(value)
    }
  }
  return Object.fromEntries(
    [...found.values()].map(({ name, values }) => [name, values.length === 1 ? (values[0] ?? "") : values])
  )
}

/** Headers of the request to the upstream. What the client sent wins over what the route wants. */
export const requestHeaders = (
  raw: RawHeaders,
  to: Target,
  options: { readonly upgrade: string | undefined; readonly chunked: boolean; readonly plain: boolean }
): HeaderMap => {
  const all = pairs(raw)
  const dropped = ofTheHop(all)
  const kept = all.filter(([name]) => {
    const lower = name.toLowerCase()
    return (
      !dropped.has(lower) &&
      lower !== "host" &&
      lower !== "expect" &&
      !(options.chunked && lower === "content-length") &&
      !(options.plain && lower === "accept-encoding")
    )
  })
  const sent = new Set(kept.map(([name]) => name.toLowerCase()))
  return {
    ...grouped([
      ...kept,
      ...Object.entries(to.headers).filter(([name]) => {
        const lower = name.toLowerCase()
        return !sent.has(lower) && lower !== "host" && !hopByHop.includes(lower)
      })
    ]),
    Host: Object.entries(to.headers).find(([name]) => name.toLowerCase() === "host")?.[1] ?? to.host,
    ...(options.chunked ? { "Transfer-Encoding": "chunked" } : {}),
    ...(options.upgrade === undefined ? {} : { Connection: "Upgrade", Upgrade: options.upgrade })
  }
}

/** Headers of the answer to the client; `without` are further names, in lower case. */
export const responseHeaders = (raw: RawHeaders, without: ReadonlyArray<string> = []): Array<string> => {
  const all = pairs(raw)
  const dropped = ofTheHop(all)
  return all.flatMap(([name, value]) =>
    dropped.has(name.toLowerCase()) || without.includes(name.toLowerCase()) ? [] : [name, value]
  )
}

/** Whether the answer to this may tell where a browser's pages are: `/json`, `/json/list`, `/json/version`, ... */
export const isCdpPath = (path: string): boolean => /^\/json(?:[/?]|$)/.test(path)

const cdpKeys = new Set(["webSocketDebuggerUrl", "devtoolsFrontendUrl", "webSocketUrl", "devtoolsFrontendUrlCompat"])

const here = (value: string, to: Target, authority: string): string => {
  const withoutPrefix = (path: string) =>
    to.prefix !== "" && path.startsWith(`${to.prefix}/`) ? path.slice(to.prefix.length) : path
  return value
    .replace(/^wss?:\/\/[^/?#]*([^?#]*)/, (_, path: string) => `ws://${authority}${withoutPrefix(path)}`)
    .replace(/([?&])wss?=[^/&#]*([^&#]*)/g, (_, mark: string, path: string) => {
      return `${mark}ws=${authority}${withoutPrefix(path)}`
    })
}

const rewritten = (value: unknown, to: Target, authority: string): unknown =>
  Array.isArray(value)
    ? value.map((each) => rewritten(each, to, authority))
    : typeof value === "object" && value !== null
      ? Object.fromEntries(
          Object.entries(value).map(([key, each]) => [
            key,
            cdpKeys.has(key) && typeof each === "string" ? here(each, to, authority) : rewritten(each, to, authority)
          ])
        )
      : value

/** A browser's answer with its WebSockets at `authority`; what is no such answer stays as it is. */
export const rewriteCdp = (body: string, to: Target, authority: string): string => {
  if (!/"(?:webSocketDebuggerUrl|devtoolsFrontendUrl|webSocketUrl)"/.test(body)) {
    return body
  }
  try {
    return JSON.stringify(rewritten(JSON.parse(body), to, authority), undefined, 2)
  } catch {
    return body
  }
}
