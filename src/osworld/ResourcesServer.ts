/**
 * A server of desktops: sessions that are seeded with a task, stepped, evaluated and closed over HTTP.
 *
 * @since 0.1.0
 */
import * as Http from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApp from "@effect/platform/HttpApp"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpServer from "@effect/platform/HttpServer"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type * as Path from "@effect/platform/Path"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import type { Environment } from "../rollout/Environment.js"
import type { RewardMode } from "../rollout/Evaluation.js"
import type { Assets } from "./Assets.js"
import { isLoopback, makeVerifier } from "./internal/server/auth.js"
import * as FencedAssets from "./internal/server/fencedAssets.js"
import * as Routes from "./internal/server/routes.js"
import * as Sessions from "./internal/server/sessions.js"
import { Authorisation, ResourcesApi, Unauthorised } from "./ResourcesApi.js"

/**
 * What a client wants of its desktop.
 *
 * @since 0.1.0
 * @category models
 */
export interface DesktopWish {
  readonly screen: { readonly width: number; readonly height: number }
  readonly clientPassword: string | undefined
  /** Where the session's blobs go; they go with the session. */
  readonly store: ArtifactStore["Type"]
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ResourcesServerOptions<R> {
  /**
   * Makes the environment of a session. Pauses after actions are the client's, so the environment should make none.
   */
  readonly environment: (wish: DesktopWish) => Effect.Effect<Environment<DesktopAction>, never, R>
  /** The folder for blobs; each session has a folder in it for as long as it lives. */
  readonly directory: string
  /** Sessions at a time, those that open or close among them. */
  readonly capacity: number
  /** What clients must show, as a bearer token. It may be left out on a loopback address alone. */
  readonly token?: Redacted.Redacted
  /** 127.0.0.1 unless given. */
  readonly host?: string
  /** A free one unless given. */
  readonly port?: number
  /** Names the server in its health and its sandboxes; `default` unless given. Letters, digits, dots, dashes. */
  readonly deployment?: string
  /** What sessions are said to be on: the provider's name; `desktop` unless given. */
  readonly worker?: string
  /** The folder that a `task_file` is in; no task may name one unless given. */
  readonly tasks?: string
  /** A session that nobody asks anything for so long is closed; never while it does something. 3 hours unless given. */
  readonly ttl?: Duration.DurationInput
  /** How long an open, a step or an evaluation may take; 30 minutes unless given. */
  readonly operationTimeout?: Duration.DurationInput
  /** How long a close waits for what runs before it cuts it; a minute unless given. */
  readonly closeGrace?: Duration.DurationInput
  /** How `POST /verify` reads the score; `raw` unless given, so that fractions count. */
  readonly rewardMode?: RewardMode
  /** Bytes of a request at most; 64 MiB unless given. */
  readonly requestLimit?: number
}

/**
 * The server does not serve: what it was told makes no sense, or it cannot listen there.
 *
 * @since 0.1.0
 * @category errors
 */
export class ResourcesServerError extends Schema.TaggedError<ResourcesServerError>("deskhand/ResourcesServerError")(
  "ResourcesServerError",
  { kind: Schema.Literal("options", "listen"), reason: Schema.String }
) {
  override get message() {
    return `the server does not start: ${this.reason}`
  }
}

/**
 * A resources server that listens, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class ResourcesServer extends Context.Tag("deskhand/osworld/ResourcesServer")<
  ResourcesServer,
  {
    /** Its address, such as `http://127.0.0.1:40123`. */
    readonly url: string
    readonly port: number
    /** How many sessions there are, those that open or close among them. */
    readonly sessions: Effect.Effect<number>
    /** From now on nothing is seeded; returns when the last session is closed. */
    readonly drain: Effect.Effect<void>
  }
>() {}

/** How many answers a session remembers by their operation ids. */
const remembered = 128

/** How many operations may wait in a session: its client is one, and asks one thing at a time. */
const waiting = 64

/** Seconds that a client is asked to wait when it finds no place. */
const retryAfter = "5"

/** Connections that are still there so long after all sessions have ended are cut. */
const lingerMillis = 2000

const checked = <R>(options: ResourcesServerOptions<R>): Effect.Effect<void, ResourcesServerError> => {
  const wrong = (reason: string) => Effect.fail(new ResourcesServerError({ kind: "options", reason }))
  const host = options.host ?? "127.0.0.1"
  if (options.token === undefined && !isLoopback(host)) {
    return wrong(`everybody who reaches ${host} could use the desktops. Give a token, or listen on 127.0.0.1`)
  }
  if (options.token !== undefined && !/^\S+$/.test(Redacted.value(options.token))) {
    return wrong("the token is empty, or has blanks in it")
  }
  if (!Number.isInteger(options.capacity) || options.capacity < 1) return wrong("the capacity must be at least 1")
  if (options.deployment !== undefined && !/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(options.deployment)) {
    return wrong("the deployment's name must be of letters, digits, dots, dashes and underscores")
  }
  return Effect.void
}

/** What comes back when there is no place carries when to try again. */
const withRetryAfter = HttpMiddleware.make((app) =>
  HttpApp.withPreResponseHandler(app, (_, response) =>
    Effect.succeed(
      response.status === 503 || response.status === 429
        ? HttpServerResponse.setHeader(response, "retry-after", retryAfter)
        : response
    )
  )
)

const authorisation = (token: Redacted.Redacted | undefined) => {
  const mayCall = token === undefined ? () => true : makeVerifier(Redacted.value(token))
  return Layer.succeed(
    Authorisation,
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      mayCall(request.headers["authorization"])
        ? Effect.void
        : Effect.fail(new Unauthorised({ detail: "invalid bearer token" }))
    )
  )
}

/**
 * Serves for as long as the scope is open; then it closes every session, whatever it does, and with it its desktop.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <R>(
  options: ResourcesServerOptions<R>
): Effect.Effect<ResourcesServer["Type"], ResourcesServerError, R | Scope.Scope | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    yield* checked(options)
    const host = options.host ?? "127.0.0.1"
    const deployment = options.deployment ?? "default"
    const ttl = Duration.decode(options.ttl ?? "3 hours")
    const server = Http.createServer()
    // A step may take as long as it takes.
    server.requestTimeout = 0
    const http = yield* NodeHttpServer.make(() => server, { host, port: options.port ?? 0 }).pipe(
      Effect.mapError(
        ({ cause }) =>
          new ResourcesServerError({ kind: "listen", reason: cause instanceof Error ? cause.message : String(cause) })
      )
    )
    // In the order of their undoing: sessions end, which answers whoever waits; then connections; then the socket.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        server.closeIdleConnections()
        setTimeout(() => server.closeAllConnections(), lingerMillis).unref()
      })
    )
    const fs = yield* FileSystem.FileSystem
    const context = yield* Effect.context<R>()
    const scope = yield* Scope.make()
    const closeSessions = Effect.addFinalizer((exit) => Scope.close(scope, exit))
    yield* closeSessions
    const sessions = yield* Sessions.make({
      environment: ({ clientPassword, screen }, store) =>
        Effect.provide(options.environment({ screen, clientPassword, store }), context),
      deployment,
      capacity: options.capacity,
      directory: options.directory,
      tasks: options.tasks,
      ttl,
      operationTimeout: Duration.decode(options.operationTimeout ?? "30 minutes"),
      closeGrace: Duration.decode(options.closeGrace ?? "1 minute"),
      waiting,
      remembered
    }).pipe(Scope.extend(scope))
    const routes: Routes.RoutesOptions = {
      sessions,
      fs,
      deployment,
      worker: options.worker ?? "desktop",
      capacity: options.capacity,
      ttl,
      rewardMode: options.rewardMode ?? "raw"
    }
    yield* Layer.build(
      HttpApiBuilder.serve((app) =>
        withRetryAfter(
          HttpServerRequest.withMaxBodySize(app, Option.some(FileSystem.Size(options.requestLimit ?? 64 * 1024 * 1024)))
        )
      ).pipe(
        Layer.provide(HttpApiBuilder.api(ResourcesApi)),
        Layer.provide([Routes.publicRoutes(routes), Routes.sessionRoutes(routes)]),
        Layer.provide(authorisation(options.token)),
        Layer.provide(Layer.succeed(HttpServer.HttpServer, http)),
        Layer.provide(NodeHttpServer.layerContext)
      )
    )
    // Before the routes go, so that whoever asks while sessions end is told so.
    yield* closeSessions
    const port = http.address._tag === "TcpAddress" ? http.address.port : 0
    return {
      url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
      port,
      sessions: Effect.sync(() => sessions.counts().sessions),
      drain: sessions.drain
    }
  })

/**
 * A server that listens as long as the layer is there.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <R>(options: ResourcesServerOptions<R>) => Layer.scoped(ResourcesServer, make(options))

/**
 * For tasks that come from elsewhere: of this host's files they reach those below `tasks` alone, and none without it.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerAssets: (options: {
  readonly tasks: string | undefined
}) => Layer.Layer<Assets, never, Assets | FileSystem.FileSystem | Path.Path> = FencedAssets.layer
