/**
 * An E2B service of one's own on this machine's loopback: E2B's clients drive the sandboxes of any provider.
 *
 * @since 0.1.0
 */
import * as Http from "node:http"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"
import type { SandboxSpec } from "../sandbox/SandboxSpec.js"
import * as Control from "./internal/e2bControl.js"
import { Fault, Faults, met, type Operation } from "./internal/e2bFaults.js"
import * as Files from "./internal/e2bFiles.js"
import * as Gateway from "./internal/e2bGateway.js"
import * as Guests from "./internal/e2bGuests.js"
import * as Process from "./internal/e2bProcess.js"
import { header, problem, readBody, send } from "./internal/e2bWire.js"

export {
  /**
   * What can be made to go wrong with an answer.
   *
   * @since 0.1.0
   * @category models
   */
  Fault,
  /**
   * What a fault is for.
   *
   * @since 0.1.0
   * @category models
   */
  type Operation
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** What a template opens; none when there is no such template. Its ports are the ones that can be reached. */
  readonly templates: (template: string) => SandboxSpec | undefined
  /** The key that the control plane wants; any will do unless given. */
  readonly apiKey?: Redacted.Redacted
  /** A free port unless given. It listens on 127.0.0.1 and nowhere else. */
  readonly port?: number
  /** Which create and connect routes there are; both unless given. AgentENV had v1 only until September 2026. */
  readonly routes?: "v1" | "v2" | "both"
  /**
   * `native`: as the provider forks. `simulated`: a child is a new sandbox of the same template, without anything that
   * happened in its source. `native` where the provider can, and `none` where it cannot, unless given.
   */
  readonly fork?: "native" | "simulated" | "none"
  /**
   * `simulated`: a paused sandbox cannot be reached and its time stands still, but its processes go on. `none` unless
   * given, because no provider pauses.
   */
  readonly pause?: "simulated" | "none"
  /** What clients are told that host names are made of; null, which leaves them the gateway, unless given. */
  readonly domain?: string | null
  /** The version of envd that clients adapt to. Older than 0.5.7: files come as forms. 0.6.1 unless given. */
  readonly envdVersion?: string
  /** Most sandboxes on a page of the list; 100 unless given. */
  readonly pageLimit?: number
  /** The list's filters are ignored, as some services do; no unless given. */
  readonly lax?: boolean
}

/**
 * A sandbox as the server sees it, paused ones and those that are being removed among them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly id: string
  readonly template: string
  readonly state: "running" | "paused" | "closing"
  readonly metadata: Readonly<Record<string, string>>
  /** The access token of its envd: no two sandboxes have the same. */
  readonly token: string
  /** Milliseconds since 1970. */
  readonly endAt: number
  /** Commands that run in it. */
  readonly processes: number
  /** Whether its create allowed it the internet. */
  readonly internet: boolean
  /** Of a fork's child: its source, and its place in the answer. */
  readonly forked?: { readonly source: string; readonly index: number }
}

/**
 * A request that came in.
 *
 * @since 0.1.0
 * @category models
 */
export interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: Http.IncomingHttpHeaders
  /** Of the control plane's requests. */
  readonly body: string
}

/**
 * A server of E2B's protocol that listens, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class E2BServer extends Context.Tag("deskhand/testing/E2BServer")<
  E2BServer,
  {
    /** Of both planes: `E2B_API_URL` and `E2B_SANDBOX_URL`. */
    readonly url: string
    /** The next requests for this operation meet this fault, once each; faults wait in line. */
    readonly inject: (operation: Operation, fault: Fault, times?: number) => Effect.Effect<void>
    /** Faults that are still in line are dropped. */
    readonly calm: Effect.Effect<void>
    /** All sandboxes that exist. */
    readonly inventory: Effect.Effect<ReadonlyArray<Entry>>
    /** The latest requests, the oldest first. */
    readonly seen: Effect.Effect<ReadonlyArray<Seen>>
  }
>() {}

/**
 * It cannot listen.
 *
 * @since 0.1.0
 * @category errors
 */
export class E2BServerError extends Schema.TaggedError<E2BServerError>("deskhand/E2BServerError")("E2BServerError", {
  reason: Schema.String
}) {
  override get message() {
    return `the E2B server does not listen: ${this.reason}. Give it another port, or none for a free one`
  }
}

/** So many requests are remembered. */
const memory = 2000

/** What envd's port is. */
const envdPort = 49983

/**
 * Sandboxes are removed when the scope closes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<E2BServer["Type"], E2BServerError, SandboxProvider | Scope.Scope> =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const fork = options.fork ?? (provider.capabilities.fork ? "native" : "none")
    const domain = options.domain ?? null
    const guests = yield* Guests.make({ provider, templates: options.templates, fork })
    const faults = new Faults()
    const seen: Array<Seen> = []
    const control = Control.make({
      guests,
      faults,
      apiKey: options.apiKey === undefined ? undefined : Redacted.value(options.apiKey),
      routes: options.routes ?? "both",
      envdVersion: options.envdVersion ?? "0.6.1",
      domain,
      hasTemplate: (name) => options.templates(name) !== undefined,
      fork: fork !== "none",
      pause: options.pause === "simulated",
      pageLimit: options.pageLimit ?? 100,
      lax: options.lax ?? false
    })

    const envd = (
      guest: Guests.Guest,
      request: Http.IncomingMessage,
      response: Http.ServerResponse,
      url: URL
    ): Effect.Effect<void> =>
      Effect.gen(function* () {
        if (url.pathname === "/health") {
          return send(response, yield* met(faults.take("health"), Effect.succeed({ status: 204 })))
        }
        const isFile = url.pathname === "/files" && (request.method === "GET" || request.method === "POST")
        const allowed = isFile
          ? Files.mayRead(guest, request, url, yield* Clock.currentTimeMillis)
          : header(request, "x-access-token") === guest.token
        if (!allowed) {
          return send(response, {
            status: 401,
            body: { code: "unauthenticated", message: "the access token is wrong" }
          })
        }
        if (isFile) return yield* Files.rest(guest, faults, request, response, url)
        const body = yield* readBody(request)
        if (body === undefined) return send(response, problem(413, "the request is too large"))
        const [, service = "", method = ""] = /^\/([\w.]+)\/(\w+)$/.exec(url.pathname) ?? []
        if (service === "process.Process") return yield* Process.handle(guest, faults, request, response, method, body)
        if (service === "filesystem.Filesystem") return send(response, yield* Files.rpc(guest, method, body.toString()))
        return send(response, problem(404, `no route ${url.pathname}`))
      })

    const serve = (request: Http.IncomingMessage, response: Http.ServerResponse): Effect.Effect<void> =>
      Effect.gen(function* () {
        const url = new URL(request.url ?? "/", "http://127.0.0.1")
        const remember = (body: string) => {
          seen.push({ method: request.method ?? "", path: request.url ?? "", headers: request.headers, body })
          if (seen.length > memory) seen.shift()
        }
        const wanted = Gateway.route(request, domain)
        if (wanted === undefined) {
          const body = yield* readBody(request)
          remember(body?.toString() ?? "")
          return body === undefined
            ? send(response, problem(413, "the request is too large"))
            : send(response, yield* control(request, url, body.toString()))
        }
        remember("")
        if (Either.isLeft(wanted)) return send(response, problem(400, wanted.left))
        const { id, port } = wanted.right
        const guest = guests.get(id)
        if (guest === undefined) return send(response, Gateway.notFound(id))
        if (guest.state === "paused") return send(response, problem(410, `sandbox ${id} is paused`))
        return yield* port === envdPort
          ? envd(guest, request, response, url)
          : Gateway.pass(guest, port, request, response)
      })

    const run = yield* FiberSet.makeRuntime<never>()
    const server = Http.createServer((request, response) => {
      run(
        serve(request, response).pipe(
          Effect.catchAllDefect((defect) =>
            Effect.zipRight(
              Effect.logError("the E2B server failed", defect),
              Effect.sync(() =>
                response.headersSent ? response.destroy() : send(response, problem(500, String(defect)))
              )
            )
          )
        )
      )
    })
    server.on("upgrade", (request, socket, head) => {
      const wanted = Gateway.route(request, domain)
      const guest = wanted !== undefined && Either.isRight(wanted) ? guests.get(wanted.right.id) : undefined
      socket.on("error", () => socket.destroy())
      if (wanted === undefined || Either.isLeft(wanted) || guest === undefined || guest.state !== "running") {
        socket.end("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n")
      } else {
        run(Gateway.upgrade(guest, wanted.right.port, request, socket, head))
      }
    })
    yield* Effect.acquireRelease(
      Effect.async<void, E2BServerError>((resume) => {
        server.once("error", (error) => resume(Effect.fail(new E2BServerError({ reason: error.message }))))
        server.listen(options.port ?? 0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return {
      url: `http://127.0.0.1:${port}`,
      inject: (operation, fault, times = 1) => Effect.sync(() => faults.add(operation, fault, times)),
      calm: Effect.sync(() => faults.clear()),
      inventory: Effect.sync(() =>
        guests.all().map((guest) => ({
          id: guest.id,
          template: guest.template,
          state: guest.state,
          metadata: guest.metadata,
          token: guest.token,
          endAt: guest.endAt,
          processes: [...guest.processes.values()].filter(({ ended }) => ended === undefined).length,
          internet: guest.internet,
          ...(guest.forked === undefined ? {} : { forked: guest.forked })
        }))
      ),
      seen: Effect.sync(() => [...seen])
    }
  })

/**
 * A server that listens as long as the layer is there.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<E2BServer, E2BServerError, SandboxProvider> =>
  Layer.scoped(E2BServer, make(options))
