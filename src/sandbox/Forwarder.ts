/**
 * A loopback address for an endpoint that a client cannot speak to: a unix socket, https, a path, or headers.
 *
 * @since 0.1.0
 */

import * as http from "node:http"
import * as https from "node:https"
import type { Duplex } from "node:stream"
import { pipeline } from "node:stream"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Endpoint } from "./Endpoint.js"
import { isCdpPath, requestHeaders, responseHeaders, rewriteCdp, type Target, target } from "./internal/forward.js"

/**
 * The forwarder could not be started.
 *
 * @since 0.1.0
 * @category errors
 */
export class ForwarderError extends Schema.TaggedError<ForwarderError>("deskhand/ForwarderError")("ForwarderError", {
  reason: Schema.String
}) {
  override get message() {
    return `no forwarder was started: ${this.reason}. Look at what the provider gives as the endpoint`
  }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Certificates, in PEM form, that the upstream's https may be signed by; the system's unless given. */
  readonly ca?: string
  /** How long connecting to the upstream may take before the client is told 502; thirty seconds unless given. */
  readonly connectTimeout?: Duration.DurationInput
}

/**
 * A forwarder that listens. `url` has no path and no trailing slash.
 *
 * @since 0.1.0
 * @category models
 */
export interface Forwarder {
  readonly url: string
  readonly port: number
}

/** A list of pages that is longer than this is passed through as it is. */
const cdpLimit = 1024 * 1024

interface Settings {
  readonly to: Target
  readonly agent: http.Agent
  readonly ca: string | undefined
  readonly connectMillis: number
}

const reasonOf = (error: Error): string => {
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined
  return error.message === "" ? (code ?? error.name) : error.message
}

const failed = (settings: Settings, error: Error) =>
  `the forwarder could not reach ${settings.to.label}: ${reasonOf(error)}\n`

/** Asks the upstream; `chunked` is whether a body of unknown length follows. */
const ask = (settings: Settings, request: http.IncomingMessage, path: string, tunnel: boolean): http.ClientRequest => {
  const { to } = settings
  const chunked = !tunnel && request.headers["transfer-encoding"] !== undefined
  const headers = requestHeaders(request.rawHeaders, to, {
    upgrade: tunnel ? (request.headers.upgrade ?? "websocket") : undefined,
    chunked,
    plain: isCdpPath(path)
  })
  const asked = (to.secure ? https : http).request({
    ...to.connect,
    ...(to.secure && settings.ca !== undefined ? { ca: settings.ca } : {}),
    agent: tunnel ? false : settings.agent,
    method: request.method ?? "GET",
    path: `${to.prefix}${path}`,
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, typeof value === "string" ? value : [...value]])
    ),
    setHost: false
  })
  asked.on("socket", (socket) => {
    if (socket.connecting) {
      const late = setTimeout(
        () => asked.destroy(new Error(`no connection came about within ${settings.connectMillis} ms`)),
        settings.connectMillis
      )
      const done = () => clearTimeout(late)
      socket.once(to.secure ? "secureConnect" : "connect", done).once("close", done)
    }
    socket.setNoDelay(true)
  })
  return asked
}

/** Tells the client of a failure, or breaks off when an answer is under way already. */
const refuse = (response: http.ServerResponse, status: number, body: string) => {
  if (response.headersSent) {
    response.destroy()
  } else {
    response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8", Connection: "close" }).end(body)
  }
}

/** Reads a browser's answer whole, as far as that is reasonable, and sends it on with addresses of the forwarder. */
const relayCdp = (
  settings: Settings,
  answer: http.IncomingMessage,
  response: http.ServerResponse,
  authority: string
) => {
  const parts: Array<Buffer> = []
  let size = 0
  const passOn = () => {
    answer.off("data", collect).off("end", finish)
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, responseHeaders(answer.rawHeaders))
    for (const part of parts) {
      response.write(part)
    }
    pipeline(answer, response, () => undefined)
  }
  const collect = (part: Buffer) => {
    parts.push(part)
    size += part.length
    if (size > cdpLimit) {
      answer.pause()
      passOn()
    }
  }
  const finish = () => {
    const body = Buffer.from(rewriteCdp(Buffer.concat(parts).toString("utf8"), settings.to, authority))
    response
      .writeHead(answer.statusCode ?? 502, answer.statusMessage, [
        ...responseHeaders(answer.rawHeaders, ["content-length"]),
        "Content-Length",
        String(body.length)
      ])
      .end(body)
  }
  answer.on("data", collect).on("end", finish)
  answer.once("error", (error) => refuse(response, 502, failed(settings, error)))
}

const onRequest =
  (settings: Settings, authority: () => string) => (request: http.IncomingMessage, response: http.ServerResponse) => {
    const path = request.url ?? "/"
    if (!path.startsWith("/")) {
      return refuse(response, 400, "the forwarder answers for one upstream: ask for a path, not for a URL\n")
    }
    const asked = ask(settings, request, path, false)
    asked.once("error", (error) => refuse(response, 502, failed(settings, error)))
    asked.once("response", (answer) => {
      const plain = answer.headers["content-encoding"] === undefined && request.method !== "HEAD"
      if (isCdpPath(path) && plain && answer.statusCode === 200) {
        return relayCdp(settings, answer, response, authority())
      }
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, responseHeaders(answer.rawHeaders))
      response.flushHeaders()
      pipeline(answer, response, () => undefined)
    })
    response.once("close", () => {
      if (!response.writableFinished) {
        asked.destroy()
      }
    })
    // An upstream that answers before it has read the whole body is not an error of the client's.
    request.pipe(asked)
    request.once("aborted", () => asked.destroy())
    request.once("error", () => asked.destroy())
  }

const head = (answer: http.IncomingMessage, headers: ReadonlyArray<string>): string => {
  const lines = [`HTTP/1.1 ${answer.statusCode ?? 502} ${answer.statusMessage ?? ""}`]
  for (let index = 0; index + 1 < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`)
  }
  return `${lines.join("\r\n")}\r\n\r\n`
}

const onUpgrade =
  (settings: Settings, tunnels: Set<Duplex>) => (request: http.IncomingMessage, client: Duplex, first: Buffer) => {
    const track = (socket: Duplex) => {
      tunnels.add(socket)
      socket.once("close", () => tunnels.delete(socket))
    }
    track(client)
    client.on("error", () => client.destroy())
    const path = request.url ?? "/"
    const asked = ask(settings, request, path, true)
    client.once("close", () => asked.destroy())
    asked.once("error", (error) => {
      const body = failed(settings, error)
      client.end(
        `HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
      )
    })
    asked.once("response", (answer) => {
      client.write(head(answer, [...responseHeaders(answer.rawHeaders, ["content-length"]), "Connection", "close"]))
      pipeline(answer, client, () => undefined)
    })
    asked.once("upgrade", (answer, upstream, firstBack) => {
      track(upstream)
      upstream.on("error", () => client.destroy())
      upstream.once("close", () => client.destroy())
      client.once("close", () => upstream.destroy())
      client.write(
        head(answer, [
          ...responseHeaders(answer.rawHeaders),
          "Connection",
          "Upgrade",
          "Upgrade",
          answer.headers.upgrade ?? "websocket"
        ])
      )
      if (firstBack.length > 0) {
        client.write(firstBack)
      }
      if (first.length > 0) {
        upstream.write(first)
      }
      client.pipe(upstream)
      upstream.pipe(client)
    })
    asked.end()
  }

/**
 * Listens on a free port of 127.0.0.1, and passes on what comes to the endpoint, with the endpoint's path in front and
 * its headers added where the client sends none of that name. Bodies are streamed both ways at the pace of the slower
 * side; WebSockets are tunnelled; redirects are answers like any other; proxies that the environment names are not used.
 * Addresses in a browser's `/json` answers become the forwarder's. An upstream that cannot be reached is a 502 that says
 * why. What is open is cut when the scope closes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  endpoint: Endpoint,
  options: Options = {}
): Effect.Effect<Forwarder, ForwarderError, Scope.Scope> =>
  Effect.gen(function* () {
    const to = yield* Effect.mapError(target(endpoint), (reason) => new ForwarderError({ reason }))
    return yield* Effect.map(
      Effect.acquireRelease(
        Effect.async<{ readonly port: number; readonly close: Effect.Effect<void> }, ForwarderError>((resume) => {
          const tunnels = new Set<Duplex>()
          const settings: Settings = {
            to,
            agent: new (to.secure ? https : http).Agent({ keepAlive: true }),
            ca: options.ca,
            connectMillis: Duration.toMillis(options.connectTimeout ?? Duration.seconds(30))
          }
          let port = 0
          const server = http.createServer({ requestTimeout: 0, keepAliveTimeout: 60_000, noDelay: true })
          server.timeout = 0
          server.on(
            "request",
            onRequest(settings, () => `127.0.0.1:${port}`)
          )
          server.on("upgrade", onUpgrade(settings, tunnels))
          server.on("clientError", (_, socket) => socket.destroy())
          server.once("error", (error) => resume(new ForwarderError({ reason: reasonOf(error) })))
          server.listen(0, "127.0.0.1", () => {
            const address = server.address()
            port = typeof address === "object" && address !== null ? address.port : 0
            resume(
              Effect.succeed({
                port,
                close: Effect.async<void>((closed) => {
                  server.close(() => closed(Effect.void))
                  for (const socket of tunnels) {
                    socket.destroy()
                  }
                  server.closeAllConnections()
                  settings.agent.destroy()
                })
              })
            )
          })
        }),
        ({ close }) => close
      ),
      ({ port }): Forwarder => ({ url: `http://127.0.0.1:${port}`, port })
    )
  })
