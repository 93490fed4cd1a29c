import { mkdtempSync, rmSync } from "node:fs"
import * as http from "node:http"
import * as net from "node:net"
import * as os from "node:os"
import { Readable } from "node:stream"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Socket from "@effect/platform/Socket"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { Endpoint } from "../../src/sandbox/Endpoint.js"
import * as Forwarder from "../../src/sandbox/Forwarder.js"
import { requestHeaders, rewriteCdp, target } from "../../src/sandbox/internal/forward.js"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(`${os.tmpdir()}/dh-forwarder-`)),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** An upstream on loopback, or on a unix socket. */
const upstream = (listener: http.RequestListener, socketPath?: string) =>
  Effect.acquireRelease(
    Effect.async<{ readonly server: http.Server; readonly port: number }>((resume) => {
      const server = http.createServer(listener)
      const listening = () => {
        const address = server.address()
        resume(Effect.succeed({ server, port: typeof address === "object" && address !== null ? address.port : 0 }))
      }
      socketPath === undefined ? server.listen(0, "127.0.0.1", listening) : server.listen(socketPath, listening)
    }),
    ({ server }) =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

const ask = (url: string, options: http.RequestOptions = {}, body?: string | Readable) =>
  Effect.async<Answer, Error>((resume) => {
    const request = http.request(url, { agent: false, ...options }, (response) => {
      const parts: Array<Buffer> = []
      response.on("data", (part: Buffer) => parts.push(part))
      response.on("error", (error) => resume(Effect.fail(error)))
      response.on("end", () =>
        resume(
          Effect.succeed({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(parts).toString()
          })
        )
      )
    })
    request.on("error", (error) => resume(Effect.fail(error)))
    typeof body === "object" ? body.pipe(request) : request.end(body)
  })

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

/** Tells what arrived. */
const mirror: http.RequestListener = (request, response) => {
  const parts: Array<Buffer> = []
  request.on("data", (part: Buffer) => parts.push(part))
  request.on("end", () => {
    const seen: Seen = {
      method: request.method ?? "",
      url: request.url ?? "",
      headers: request.headers,
      body: Buffer.concat(parts).toString()
    }
    response.writeHead(200, { "content-type": "application/json", "x-answer": "yes" }).end(JSON.stringify(seen))
  })
}

const seenIn = (answer: Answer): Seen => JSON.parse(answer.body)

/** A WebSocket server that says everything twice over, and tells what it was asked for. */
const echoServer = (listen: net.ListenOptions, seen: (request: http.IncomingMessage) => void) =>
  Effect.gen(function* () {
    const node = http.createServer()
    node.on("upgrade", seen)
    const server = yield* NodeHttpServer.make(() => node, listen)
    yield* server.serve(
      Effect.gen(function* () {
        const socket = yield* HttpServerRequest.upgrade
        const write = yield* socket.writer
        yield* socket.runRaw((data) => write(data))
        return HttpServerResponse.empty()
      }).pipe(
        Effect.scoped,
        Effect.orElseSucceed(() => HttpServerResponse.empty())
      )
    )
    return server.address._tag === "TcpAddress" ? server.address.port : 0
  })

const echo = (url: string, message: string | Uint8Array) =>
  Effect.gen(function* () {
    const answer = yield* Deferred.make<string | Uint8Array>()
    const socket = yield* Socket.makeWebSocket(url)
    yield* Effect.forkScoped(socket.runRaw((data) => Deferred.succeed(answer, data)))
    const write = yield* socket.writer
    yield* write(message)
    return yield* Deferred.await(answer)
  }).pipe(Effect.scoped, Effect.provide(NodeSocket.layerWebSocketConstructor), Effect.timeout("5 seconds"))

describe("Forwarder", () => {
  it.scopedLive("puts the path in front, adds headers, and sets the host", () =>
    Effect.gen(function* () {
      const { port } = yield* upstream(mirror)
      const forwarder = yield* Forwarder.make(
        Endpoint.Tcp({ url: `http://127.0.0.1:${port}/route/a/`, headers: { "X-Route": "r1", Authorization: "route" } })
      )
      assert.strictEqual(forwarder.url, `http://127.0.0.1:${forwarder.port}`)
      const first = yield* ask(`${forwarder.url}/x/y?q=1&q=2`)
      const seen = seenIn(first)
      assert.strictEqual(seen.url, "/route/a/x/y?q=1&q=2")
      assert.strictEqual(seen.headers.host, `127.0.0.1:${port}`)
      assert.strictEqual(seen.headers["x-route"], "r1")
      assert.strictEqual(seen.headers.authorization, "route")
      assert.strictEqual(first.headers["x-answer"], "yes")

      const own = seenIn(
        yield* ask(
          `${forwarder.url}/z`,
          {
            method: "POST",
            headers: { authorization: "guest", connection: "close, x-hop", "x-hop": "1", te: "trailers", "x-kept": "2" }
          },
          "the body"
        )
      )
      assert.strictEqual(own.method, "POST")
      assert.strictEqual(own.body, "the body")
      assert.strictEqual(own.headers.authorization, "guest")
      assert.strictEqual(own.headers["x-hop"], undefined)
      assert.strictEqual(own.headers.te, undefined)
      assert.strictEqual(own.headers["x-kept"], "2")
    })
  )

  it.scopedLive("reaches a unix socket, with chunked bodies both ways and every method", () =>
    Effect.gen(function* () {
      const path = `${yield* folder}/up.sock`
      yield* upstream(mirror, path)
      const forwarder = yield* Forwarder.make(Endpoint.Unix({ socketPath: path }))
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
        const chunked = method === "GET" ? {} : { "transfer-encoding": "chunked" }
        const answer = yield* ask(
          `${forwarder.url}/m`,
          { method, headers: chunked },
          method === "GET" ? undefined : Readable.from(["one ", "two"])
        )
        const seen = seenIn(answer)
        assert.strictEqual(seen.method, method)
        assert.strictEqual(seen.body, method === "GET" ? "" : "one two")
        assert.strictEqual(seen.headers.host, "127.0.0.1")
      }
      assert.strictEqual((yield* ask(`${forwarder.url}/m`, { method: "HEAD" })).status, 200)
    })
  )

  it.scopedLive("ignores the environment's proxies", () =>
    Effect.gen(function* () {
      const { port } = yield* upstream(mirror)
      const before = { ...process.env }
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          process.env = before
        })
      )
      process.env["HTTP_PROXY"] = "http://127.0.0.1:1"
      process.env["http_proxy"] = "http://127.0.0.1:1"
      process.env["NODE_USE_ENV_PROXY"] = "1"
      const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
      assert.strictEqual((yield* ask(forwarder.url)).status, 200)
    })
  )

  it.scopedLive("passes redirects on and never follows them", () =>
    Effect.gen(function* () {
      let asked = 0
      const { port } = yield* upstream((_, response) => {
        asked += 1
        response.writeHead(307, { location: "http://elsewhere.example/x" }).end()
      })
      const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
      const answer = yield* ask(`${forwarder.url}/r`)
      assert.strictEqual(answer.status, 307)
      assert.strictEqual(answer.headers.location, "http://elsewhere.example/x")
      assert.strictEqual(asked, 1)
    })
  )

  it.scopedLive("answers 502 with the reason when the upstream is down, for requests and for WebSockets", () =>
    Effect.gen(function* () {
      const path = `${yield* folder}/none.sock`
      const forwarder = yield* Forwarder.make(Endpoint.Unix({ socketPath: path }))
      const answer = yield* ask(`${forwarder.url}/screenshot`)
      assert.strictEqual(answer.status, 502)
      assert.include(answer.body, "could not reach")
      assert.include(answer.body, "ENOENT")
      const upgraded = yield* ask(`${forwarder.url}/ws`, { headers: { connection: "Upgrade", upgrade: "websocket" } })
      assert.strictEqual(upgraded.status, 502)
      assert.include(upgraded.body, "ENOENT")
    })
  )

  it.scopedLive("cuts an answer that the upstream cuts, and goes on afterwards", () =>
    Effect.gen(function* () {
      const { port } = yield* upstream((request, response) => {
        if (request.url === "/cut") {
          response.writeHead(200, { "content-length": "100" })
          response.write("half")
          setTimeout(() => response.destroy(), 20)
        } else {
          response.end("fine")
        }
      })
      const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(ask(`${forwarder.url}/cut`))))
      assert.strictEqual((yield* ask(`${forwarder.url}/next`)).body, "fine")
    })
  )

  it.scopedLive("rewrites where a browser's pages are, and nothing else", () =>
    Effect.gen(function* () {
      const page = (base: string) => ({
        id: "A1",
        title: "see ws://localhost:9222/devtools/page/A1",
        devtoolsFrontendUrl: "/devtools/inspector.html?ws=localhost:9222/devtools/page/A1",
        webSocketDebuggerUrl: `wss://box.example:9222${base}/devtools/page/A1`
      })
      const { port } = yield* upstream((request, response) => {
        const body = request.url?.endsWith("/plain")
          ? `"webSocketDebuggerUrl": "ws://x/"`
          : JSON.stringify([page("/b/9222")])
        assert.strictEqual(request.headers["accept-encoding"], request.url?.includes("/json") ? undefined : "gzip")
        response.writeHead(200, { "content-type": "application/json; charset=UTF-8", "content-length": body.length })
        response.end(body)
      })
      const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}/b/9222`, headers: {} }))
      const listed = yield* ask(`${forwarder.url}/json/list?x=1`, { headers: { "accept-encoding": "gzip" } })
      assert.deepStrictEqual(JSON.parse(listed.body), [
        {
          id: "A1",
          title: "see ws://localhost:9222/devtools/page/A1",
          devtoolsFrontendUrl: `/devtools/inspector.html?ws=127.0.0.1:${forwarder.port}/devtools/page/A1`,
          webSocketDebuggerUrl: `ws://127.0.0.1:${forwarder.port}/devtools/page/A1`
        }
      ])
      const plain = yield* ask(`${forwarder.url}/plain`, { headers: { "accept-encoding": "gzip" } })
      assert.strictEqual(plain.body, `"webSocketDebuggerUrl": "ws://x/"`)
    })
  )

  it.scopedLive("passes on a /json answer that is too long to be a list of pages", () =>
    Effect.gen(function* () {
      const long = `["webSocketDebuggerUrl", "${"x".repeat(3 * 1024 * 1024)}"]`
      const { port } = yield* upstream((_, response) => response.end(long))
      const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
      assert.strictEqual((yield* ask(`${forwarder.url}/json`)).body, long)
    })
  )

  it.scopedLive("tunnels WebSockets to a unix socket and to a path with headers", () =>
    Effect.gen(function* () {
      const path = `${yield* folder}/ws.sock`
      yield* echoServer({ path }, () => undefined)
      const local = yield* Forwarder.make(Endpoint.Unix({ socketPath: path }))
      assert.strictEqual(yield* echo(`ws://127.0.0.1:${local.port}/any`, "hello"), "hello")
      const big = new Uint8Array(300_000).map((_, index) => index % 251)
      assert.deepStrictEqual(
        Buffer.from(yield* Effect.map(echo(`ws://127.0.0.1:${local.port}/any`, big), (data) => Buffer.from(data))),
        Buffer.from(big)
      )

      const seen: Array<http.IncomingMessage> = []
      const port = yield* echoServer({ host: "127.0.0.1", port: 0 }, (request) => seen.push(request))
      const routed = yield* Forwarder.make(
        Endpoint.Tcp({ url: `http://127.0.0.1:${port}/s/1/`, headers: { "x-token": "t" } })
      )
      assert.strictEqual(yield* echo(`ws://127.0.0.1:${routed.port}/devtools/page/A?b=c`, "again"), "again")
      assert.strictEqual(seen[0]?.url, "/s/1/devtools/page/A?b=c")
      assert.strictEqual(seen[0]?.headers["x-token"], "t")
      assert.strictEqual(seen[0]?.headers.host, `127.0.0.1:${port}`)
    })
  )

  it.scopedLive("relays what an upstream answers that refuses a WebSocket", () =>
    Effect.gen(function* () {
      const { port } = yield* upstream((_, response) => response.writeHead(403, { "x-why": "no" }).end("forbidden"))
      const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
      const answer = yield* ask(`${forwarder.url}/ws`, {
        headers: { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" }
      })
      assert.strictEqual(answer.status, 403)
      assert.strictEqual(answer.headers["x-why"], "no")
      assert.strictEqual(answer.body, "forbidden")
    })
  )

  it.live("cuts open tunnels and answers when its scope closes", () =>
    Effect.gen(function* () {
      const outer = yield* Scope.make()
      const ended: Array<string> = []
      const hold: http.RequestListener = (request, response) => {
        response.write("begun")
        request.on("close", () => ended.push("request"))
      }
      const { port, server } = yield* Scope.extend(upstream(hold), outer)
      server.on("upgrade", (_, socket) => {
        socket.on("error", () => undefined)
        socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        socket.once("close", () => ended.push("tunnel"))
        socket.once("end", () => socket.end())
        socket.resume()
      })
      const scope = yield* Scope.make()
      const forwarder = yield* Scope.extend(
        Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} })),
        scope
      )
      const tunnelled = Effect.async<void>((resume) => {
        const socket = net.connect(forwarder.port, "127.0.0.1", () =>
          socket.write("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        )
        socket.once("data", () => Effect.runSync(Deferred.succeed(open, undefined)))
        socket.once("close", () => resume(Effect.void))
        socket.on("error", () => undefined)
      })
      const open = yield* Deferred.make<void>()
      const clients = yield* Effect.fork(
        Effect.all([tunnelled, Effect.exit(ask(`${forwarder.url}/held`))], { concurrency: 2 })
      )
      yield* Deferred.await(open)
      yield* Effect.async<void>((resume) => {
        server.getConnections((_, count) => (count >= 1 ? resume(Effect.void) : undefined))
      })
      yield* Scope.close(scope, Exit.void)
      const [, held] = yield* Effect.timeout(Fiber.join(clients), "5 seconds")
      assert.isTrue(Exit.isFailure(held))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(ask(forwarder.url))))
      yield* Scope.close(outer, Exit.void)
      assert.include(ended, "tunnel")
    })
  )

  it.scopedLive(
    "streams 100 MB down and up in flat memory, at the pace of the slower side",
    () =>
      Effect.gen(function* () {
        const size = 100 * 1024 * 1024
        const part = Buffer.alloc(64 * 1024, 7)
        let given = 0
        let taken = 0
        const { port } = yield* upstream((request, response) => {
          if (request.method === "POST") {
            request.on("data", (bytes: Buffer) => {
              taken += bytes.length
            })
            request.on("end", () => response.end(String(taken)))
            return
          }
          Readable.from(
            (function* () {
              for (given = 0; given < size; given += part.length) {
                yield part
              }
            })(),
            { objectMode: false, highWaterMark: 64 * 1024 }
          ).pipe(response)
        })
        const forwarder = yield* Forwarder.make(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
        let peak = 0
        const base = process.memoryUsage()
        const look = () => {
          const now = process.memoryUsage()
          peak = Math.max(peak, now.heapUsed + now.arrayBuffers - base.heapUsed - base.arrayBuffers)
        }
        const received = yield* Effect.async<{ readonly bytes: number; readonly whilePaused: number }, Error>(
          (resume) => {
            let bytes = 0
            http
              .get(forwarder.url, { agent: false }, (response) => {
                response.once("data", () => {
                  response.pause()
                  setTimeout(() => {
                    const whilePaused = given
                    response.on("data", (piece: Buffer) => {
                      bytes += piece.length
                      look()
                    })
                    response.on("end", () => resume(Effect.succeed({ bytes, whilePaused })))
                    response.resume()
                  }, 300)
                })
                response.once("data", (piece: Buffer) => {
                  bytes += piece.length
                })
              })
              .on("error", (error) => resume(Effect.fail(error)))
          }
        )
        assert.strictEqual(received.bytes, size)
        assert.isBelow(received.whilePaused, 20 * 1024 * 1024)

        const sent = yield* ask(
          forwarder.url,
          { method: "POST", headers: { "transfer-encoding": "chunked" } },
          Readable.from(
            (function* () {
              for (let made = 0; made < size; made += part.length) {
                look()
                yield Buffer.from(part)
              }
            })(),
            { objectMode: false, highWaterMark: 64 * 1024 }
          )
        )
        assert.strictEqual(sent.body, String(size))
        yield* Effect.logDebug(`peak ${Math.round(peak / 1024 / 1024)} MB, while paused ${received.whilePaused}`)
        assert.isBelow(peak, 64 * 1024 * 1024)
      }),
    30_000
  )

  it.scopedLive("is not started for what cannot be reached", () =>
    Effect.gen(function* () {
      for (const url of ["/relative", "ftp://x/", "http://0.0.0.0:80", "http://[::]:80/x", "http://u:p@h/"]) {
        const error = yield* Effect.flip(Forwarder.make(Endpoint.Tcp({ url, headers: {} })))
        assert.instanceOf(error, Forwarder.ForwarderError)
      }
    })
  )

  it.effect.prop(
    "sends every route header that the client does not, once, and no header of the hop",
    {
      names: FastCheck.uniqueArray(FastCheck.stringMatching(/^x-[a-z]{1,6}$/), { maxLength: 6 }),
      clients: FastCheck.array(FastCheck.boolean(), { minLength: 6, maxLength: 6 })
    },
    ({ clients, names }) =>
      Effect.gen(function* () {
        const route = Object.fromEntries(names.map((name) => [name, "route"]))
        const to = yield* target(Endpoint.Tcp({ url: "https://h.example/p", headers: route }))
        const raw = names.flatMap((name, index) => (clients[index] ? [name.toUpperCase(), "client"] : []))
        const sent = requestHeaders([...raw, "Connection", "keep-alive", "Host", "127.0.0.1:1"], to, {
          upgrade: undefined,
          chunked: false,
          plain: false
        })
        const lower = Object.fromEntries(Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value]))
        assert.strictEqual(Object.keys(lower).length, Object.keys(sent).length)
        for (const [index, name] of names.entries()) {
          assert.strictEqual(lower[name], clients[index] ? "client" : "route")
        }
        assert.strictEqual(lower["host"], "h.example")
        assert.isUndefined(lower["connection"])
      })
  )

  it.effect.prop("leaves bodies alone that are no browser's answer", { body: FastCheck.string() }, ({ body }) =>
    Effect.gen(function* () {
      const to = yield* target(Endpoint.Unix({ socketPath: "/x" }))
      assert.strictEqual(rewriteCdp(body, to, "127.0.0.1:1"), body)
    })
  )
})
