/**
 * The way to the ports of an E2B-compatible server's sandboxes: HTTP and WebSocket, passed on as they come.
 */
import * as Http from "node:http"
import type { Duplex } from "node:stream"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Endpoint } from "../../sandbox/Endpoint.js"
import type { Guest } from "./e2bGuests.js"
import { header, type Reply, send } from "./e2bWire.js"

/** Where a request wants to go, by its headers or by its host name; undefined when it is for the control plane. */
export const route = (
  request: Http.IncomingMessage,
  domain: string | null
): Either.Either<{ readonly id: string; readonly port: number }, string> | undefined => {
  const id = header(request, "e2b-sandbox-id")
  const port = header(request, "e2b-sandbox-port")
  const [, hostPort, hostId] =
    domain === null || id !== undefined
      ? []
      : (/^(\d+)-([^.]+)\.(.+)$/.exec((header(request, "host") ?? "").toLowerCase()) ?? [])
  if (id === undefined && port === undefined && hostId === undefined) return undefined
  const [wantedId, wantedPort] = hostId === undefined ? [id, port] : [hostId, hostPort]
  const number = Number(wantedPort)
  if (wantedId === undefined || wantedId === "" || wantedPort === undefined) {
    return Either.left("a routing header is missing")
  }
  return Number.isInteger(number) && number > 0 && number < 65_536
    ? Either.right({ id: wantedId, port: number })
    : Either.left("invalid sandbox port")
}

export const notFound = (id: string): Reply => ({
  status: 502,
  body: { sandboxId: id, message: "The sandbox was not found", code: 502 }
})

const closed = (id: string, port: number): Reply => ({
  status: 502,
  body: { sandboxId: id, message: "The sandbox is running but port is not open", port, code: 502 }
})

const denied = (guest: Guest, request: Http.IncomingMessage): Reply | undefined =>
  guest.trafficToken === undefined || header(request, "e2b-traffic-access-token") === guest.trafficToken
    ? undefined
    : { status: 403, body: { sandboxId: guest.id, message: "Missing or wrong traffic access token", code: 403 } }

const ours = new Set(["e2b-sandbox-id", "e2b-sandbox-port", "e2b-traffic-access-token", "x-access-token"])

const target = (request: Http.IncomingMessage, endpoint: Endpoint): Http.RequestOptions => {
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !ours.has(name)))
  if (endpoint._tag === "Unix") {
    return { socketPath: endpoint.socketPath, method: request.method, path: request.url, headers }
  }
  const base = new URL(endpoint.url)
  return {
    host: base.hostname.replace(/^\[|\]$/g, ""),
    port: base.port === "" ? 80 : Number(base.port),
    method: request.method,
    path: `${base.pathname.replace(/\/$/, "")}${request.url ?? "/"}`,
    headers: { ...headers, ...endpoint.headers, host: base.host }
  }
}

/** Passes a request on and its answer back, both as streams. */
export const pass = (
  guest: Guest,
  port: number,
  request: Http.IncomingMessage,
  response: Http.ServerResponse
): Effect.Effect<void> => {
  const no = denied(guest, request)
  if (no !== undefined) return Effect.sync(() => send(response, no))
  return Effect.match(guest.sandbox.endpoint(port), {
    onFailure: () => send(response, closed(guest.id, port)),
    onSuccess: (endpoint) => {
      const upstream = Http.request({ ...target(request, endpoint), agent: false })
      upstream.on("response", (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
        answer.on("error", () => response.destroy())
      })
      upstream.on("error", () => (response.headersSent ? response.destroy() : send(response, closed(guest.id, port))))
      response.on("close", () => upstream.destroy())
      request.pipe(upstream)
    }
  })
}

const status = (code: number) => `HTTP/1.1 ${code} ${Http.STATUS_CODES[code] ?? ""}\r\nconnection: close\r\n\r\n`

/** Passes a WebSocket on. */
export const upgrade = (
  guest: Guest,
  port: number,
  request: Http.IncomingMessage,
  socket: Duplex,
  head: Buffer
): Effect.Effect<void> => {
  const no = denied(guest, request)
  if (no !== undefined) return Effect.sync(() => socket.end(status(no.status)))
  return Effect.match(guest.sandbox.endpoint(port), {
    onFailure: () => {
      socket.end(status(502))
    },
    onSuccess: (endpoint) => {
      const upstream = Http.request({ ...target(request, endpoint), agent: false })
      upstream.on("upgrade", (answer, far, first) => {
        const lines = answer.rawHeaders.flatMap((name, at, all) =>
          at % 2 === 0 ? [`${name}: ${all[at + 1] ?? ""}`] : []
        )
        socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join("\r\n")}\r\n\r\n`)
        socket.write(first)
        far.write(head)
        far.pipe(socket)
        socket.pipe(far)
        for (const side of [far, socket]) {
          side.on("error", () => {
            far.destroy()
            socket.destroy()
          })
          side.on("close", () => {
            far.destroy()
            socket.destroy()
          })
        }
      })
      upstream.on("response", (answer) => {
        socket.end(status(answer.statusCode ?? 502))
        answer.resume()
      })
      upstream.on("error", () => socket.end(status(502)))
      upstream.end()
    }
  })
}
