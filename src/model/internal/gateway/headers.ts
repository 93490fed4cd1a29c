/**
 * Which headers go through a gateway, and which are each connection's own (RFC 9110, 7.6.1).
 */
import type { Dialect } from "./refusal.js"

const connectionOwn = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

/** Names and values in turn, as they came over the wire. */
type RawHeaders = ReadonlyArray<string>

const pairs = (raw: RawHeaders): ReadonlyArray<readonly [name: string, value: string]> =>
  raw.flatMap((name, at) => (at % 2 === 0 ? [[name, raw[at + 1] ?? ""] as const] : []))

const passing = (raw: RawHeaders, drop: (name: string) => boolean) => {
  const all = pairs(raw)
  const named = new Set(
    all
      .filter(([name]) => name.toLowerCase() === "connection")
      .flatMap(([, value]) => value.split(",").map((token) => token.trim().toLowerCase()))
  )
  return all.filter(([name]) => {
    const lower = name.toLowerCase()
    return !connectionOwn.has(lower) && !named.has(lower) && !drop(lower)
  })
}

const credential = new Set(["authorization", "x-api-key", "api-key"])

/** Set anew for what is sent. An encoding would hide the reply from whoever has to read it on its way. */
const rewritten = new Set(["host", "content-length", "accept-encoding", "expect"])

export interface Outbound {
  /** The upstream's key, in place of whatever the client shows. */
  readonly apiKey?: string
  /** Whether what the client shows is meant for the upstream, where there is no key. */
  readonly passCredentials: boolean
  readonly dialect: Dialect | undefined
  /** Bytes of the body; absent where there is none. */
  readonly length?: number
}

/** A client's headers as the upstream gets them. */
export const toUpstream = (raw: RawHeaders, options: Outbound): Record<string, string | Array<string>> => {
  const keepCredentials = options.passCredentials && options.apiKey === undefined
  const headers: Record<string, string | Array<string>> = {}
  for (const [name, value] of passing(
    raw,
    (lower) => rewritten.has(lower) || (!keepCredentials && credential.has(lower))
  )) {
    const lower = name.toLowerCase()
    const before = headers[lower]
    headers[lower] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value]
  }
  headers["accept-encoding"] = "identity"
  if (options.length !== undefined) headers["content-length"] = String(options.length)
  if (options.apiKey !== undefined) {
    headers.authorization = `Bearer ${options.apiKey}`
    // Servers of Messages differ in where they look.
    if (options.dialect === "messages") headers["x-api-key"] = options.apiKey
  }
  return headers
}

const ofTheBody = new Set(["content-length", "content-type", "content-encoding", "content-md5", "digest", "etag"])

/** The upstream's headers as the client gets them, names and values in turn, order and case kept. */
export const toClient = (raw: RawHeaders): Array<string> => passing(raw, () => false).flat()

/** The same, for a body that is not the upstream's own. */
export const toClientOfBridge = (raw: RawHeaders): Array<string> => passing(raw, (name) => ofTheBody.has(name)).flat()
