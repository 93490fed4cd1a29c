/**
 * What DOCKER_HOST means: pure readings of it.
 */
import { isIP, isIPv6 } from "node:net"
import * as Either from "effect/Either"

/** Certificates are folders' names: `ca.pem`, `cert.pem` and `key.pem` lie in it. */
export type Address =
  | { readonly _tag: "Unix"; readonly path: string }
  | { readonly _tag: "Tcp"; readonly host: string; readonly port: number; readonly certificates: string | undefined }
  | { readonly _tag: "Ssh"; readonly host: string; readonly port: string; readonly user: string }

/** Where an engine listens unless DOCKER_HOST says otherwise. */
export const defaultHost = "unix:///var/run/docker.sock"

export interface AddressOptions {
  /** As in DOCKER_HOST. */
  readonly host: string
  /** As DOCKER_TLS_VERIFY asks for. */
  readonly tls: boolean
  /** As in DOCKER_CERT_PATH. */
  readonly certificates: string
}

/** Left is why it cannot be one. */
export const parse = ({ certificates, host, tls }: AddressOptions): Either.Either<Address, string> => {
  if (host.startsWith("unix://")) {
    const path = host.slice("unix://".length)
    return path.startsWith("/") ? Either.right({ _tag: "Unix", path }) : Either.left(`${host} names no absolute path`)
  }
  if (!URL.canParse(host)) {
    return Either.left(`${host} is no address`)
  }
  const url = new URL(host)
  const name = url.hostname.replace(/^\[|\]$/g, "")
  if (name === "") {
    return Either.left(`${host} names no host`)
  }
  // ssh would read a name with a dash in front as one of its options.
  if (/^-/.test(decodeURIComponent(url.username)) || name.startsWith("-")) {
    return Either.left(`${host} is no address`)
  }
  switch (url.protocol) {
    case "tcp:":
    case "http:":
    case "https:": {
      const secure = tls || url.protocol === "https:"
      return Either.right({
        _tag: "Tcp",
        host: name,
        port: url.port === "" ? (secure ? 2376 : 2375) : Number(url.port),
        certificates: secure ? certificates : undefined
      })
    }
    case "ssh:":
      return Either.right({ _tag: "Ssh", host: name, port: url.port, user: decodeURIComponent(url.username) })
    default:
      return Either.left(`${host} is neither unix://, tcp:// nor ssh://`)
  }
}

const loopback = (host: string) => host === "localhost" || host === "::1" || /^127\./.test(host)

/** Addresses to listen on that nobody can connect to. */
export const isWildcard = (host: string) => host === "" || (isIP(host) !== 0 && /^(::ffff:)?[0:.]+$/i.test(host))

/** The host that ports which the engine publishes are reached at. */
export const engineHost = (address: Address): string =>
  address._tag === "Unix" || loopback(address.host) || isWildcard(address.host) ? "127.0.0.1" : address.host

/** Whether the engine sees this host's files and this host sees the containers' own addresses. */
export const isLocal = (address: Address): boolean => address._tag === "Unix"

/** The address that ports are published at; undefined when somebody has to say it. */
export const publishAt = (address: Address, wanted: string | undefined): string | undefined => {
  const host = wanted ?? engineHost(address)
  return isIP(host) === 0 ? undefined : host
}

/** An origin without a path. */
export const origin = (host: string, port: number): string => `http://${isIPv6(host) ? `[${host}]` : host}:${port}`
