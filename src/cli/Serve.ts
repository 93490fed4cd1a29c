/**
 * `deskhand serve`: desktops for programs elsewhere, over HTTP.
 *
 * @since 0.1.0
 */
import { availableParallelism } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { ArtifactStore } from "../artifact/ArtifactStore.js"
import * as Assets from "../osworld/Assets.js"
import * as OSWorld from "../osworld/OSWorld.js"
import * as ResourcesServer from "../osworld/ResourcesServer.js"
import * as Ledger from "../sandbox/Ledger.js"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"
import type { Network } from "../sandbox/SandboxSpec.js"
import { cacheFolder } from "./internal/caches.js"
import { notListening } from "./internal/listening.js"
import { usage } from "./internal/usage.js"
import * as Program from "./Program.js"
import { type ProviderName, providers } from "./Providers.js"
import * as RunReceipt from "./RunReceipt.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ServeOptions {
  readonly provider: ProviderName
  readonly host: string
  /** A free one without it. */
  readonly port: Option.Option<number>
  /** Sessions at a time; as many as this machine has cores without it. */
  readonly capacity: Option.Option<number>
  /** Seconds. */
  readonly sessionTtl: number
  /** The name of an environment variable, or of a file, never the token itself. */
  readonly tokenEnv: Option.Option<string>
  readonly tokenFile: Option.Option<string>
  /** The folder that tasks may name their files in. */
  readonly tasks: Option.Option<string>
  /** The image or template of the desktop, where the provider starts from one. */
  readonly image: Option.Option<string>
  readonly network: Network
  /** For the ledger, the receipt and, while sessions live, their blobs. */
  readonly out: Option.Option<string>
  /** Seconds that sessions have to come to their end after the first signal. */
  readonly drainSeconds: number
}

const fromVariable = (name: string) =>
  Effect.mapError(Config.redacted(Config.nonEmptyString(name)), () =>
    usage(`--token-env names ${name}, which is not set`)
  )

const fromFile = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.mapError(fs.readFileString(file), () =>
      usage(`--token-file names ${file}, which cannot be read`)
    )
    return Redacted.make(text.trim())
  })

const tokenOf = ({ tokenEnv, tokenFile }: ServeOptions) =>
  Option.isSome(tokenEnv) && Option.isSome(tokenFile)
    ? Effect.fail(usage("give --token-env or --token-file, and not both"))
    : Effect.transposeOption(Option.orElse(Option.map(tokenEnv, fromVariable), () => Option.map(tokenFile, fromFile)))

const optional = <K extends string, A>(key: K, value: Option.Option<A>): { readonly [_ in K]?: A } =>
  Option.match(value, { onNone: () => ({}), onSome: (value) => ({ [key]: value }) as { readonly [_ in K]: A } })

/** What earlier servers of this name left, because they were killed. Those of programs that are alive stay. */
const removeOrphans = (deployment: string) =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const { inUse, left, removed } = yield* provider.sweep({ run: `serve-${deployment}` })
    if (removed.length > 0) yield* Effect.logInfo(`${removed.length} desktops of an earlier server were removed`)
    if (inUse.length > 0) yield* Effect.logInfo(`${inUse.length} desktops of other servers that run were left alone`)
    for (const { id, reason } of left)
      yield* Effect.logWarning(`the desktop ${id} of an earlier server is left: ${reason}`)
  }).pipe(
    Effect.catchAll((error) => Effect.logWarning(`what earlier servers left could not be removed: ${error.message}`))
  )

/** The log goes beside what is printed for people and programs to read. */
const logToStandardError = Logger.replace(Logger.defaultLogger, Logger.withConsoleError(Logger.logfmtLogger))

/**
 * Serves until it is interrupted. Closing it closes every session, and with it its desktop; `receipt.json` says what
 * became of them.
 *
 * @since 0.1.0
 * @category operations
 */
export const serve = (options: ServeOptions) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const { host, image, network, provider, sessionTtl, tasks } = options
    const token = yield* tokenOf(options)
    if (network === "host" && Option.exists(options.capacity, (asked) => asked > 1)) {
      return yield* usage("with --network host only one desktop runs at a time: leave --capacity out, or give 1")
    }
    const capacity = Option.getOrElse(options.capacity, () => (network === "host" ? 1 : availableParallelism()))
    const deployment = yield* Config.string("DESKHAND_DEPLOYMENT").pipe(Config.withDefault("default"))
    const cache = path.join(yield* cacheFolder, "assets")
    const now = new Date(yield* Clock.currentTimeMillis).toISOString()
    const out = Option.getOrElse(
      options.out,
      () => `runs/serve-${now.replace(/\..*$/, "").replace(/[-:]/g, "").replace("T", "-")}`
    )
    const folder = Option.map(tasks, (tasks) => path.resolve(tasks))

    const desktops = Layer.provideMerge(
      ResourcesServer.layerAssets({ tasks: Option.getOrUndefined(folder) }).pipe(
        Layer.provide(Assets.layer({ directory: cache }))
      ),
      providers[provider]
    )
    const server = ResourcesServer.layer({
      environment: ({ clientPassword, screen, store }) =>
        OSWorld.make({
          network,
          screen,
          // How long to wait after an action is for the client to say.
          pause: Duration.zero,
          ...optional("image", image),
          ...(clientPassword === undefined ? {} : { clientPassword })
        }).pipe(Effect.provideService(ArtifactStore, store)),
      directory: path.join(out, "blobs"),
      capacity,
      host,
      deployment,
      worker: provider,
      ttl: Duration.seconds(sessionTtl),
      ...optional("token", token),
      ...optional("port", options.port),
      ...optional("tasks", folder)
    })
    yield* Effect.gen(function* () {
      const { drain, url } = yield* ResourcesServer.ResourcesServer
      yield* Console.log(
        [
          `Desktops are at ${url}: ${provider}, at most ${capacity} at a time, deployment ${deployment}.`,
          Option.isSome(token)
            ? "Clients show the token as Authorization: Bearer; GET /healthz is for all."
            : "Everybody on this machine may use them: --token-env NAME wants a token."
        ].join("\n")
      )
      if (options.drainSeconds === 0) return yield* Effect.never
      const drained = yield* Deferred.make<void>()
      yield* Program.drainOnSignal(Effect.zipRight(drain, Deferred.succeed(drained, undefined)), options.drainSeconds)
      yield* Deferred.await(drained)
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.provide(server, Layer.effectDiscard(removeOrphans(deployment)))),
      Effect.provide(desktops),
      Effect.mapError((error) =>
        error._tag === "ResourcesServerError"
          ? error.kind === "options"
            ? usage(error.reason)
            : notListening(error.reason)
          : error
      ),
      // The provider is closed by now, and with it every desktop.
      Effect.ensuring(RunReceipt.write(out, provider)),
      Effect.provide(Ledger.layer({ path: path.join(out, "ledger.jsonl") }))
    )
  }).pipe(Effect.provide(logToStandardError))
