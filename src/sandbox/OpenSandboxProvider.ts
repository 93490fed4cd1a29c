/**
 * Sandboxes of an OpenSandbox service.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as OpenSandbox from "./internal/openSandbox.js"
import type { OpenSandboxOptions } from "./internal/openSandboxOptions.js"
import * as Remote from "./internal/remote.js"
import type { Ledger } from "./Ledger.js"
import type { OwnedSandbox } from "./Sandbox.js"
import type { ProviderUnavailable, SandboxGone } from "./SandboxError.js"
import type { SandboxProvider } from "./SandboxProvider.js"

/**
 * - The key is sent to the service and never to a sandbox. With `useServerProxy`, ports are reached through the service,
 *   and then their endpoints carry the key, which the service takes off.
 * - A spec's `image` is an image's name, or `snapshot:` and the id of a snapshot.
 * - In a pool (`poolRef`), the pool decides image, resources and network, and what the spec says of them is not sent. Its
 *   `env` still counts for `exec`.
 * - What a command prints reaches us as lines of text: bytes that are no UTF-8 are lost, and a carriage return becomes a
 *   newline. Files are exact.
 * - A time to live is at least a minute, whatever the spec says.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends OpenSandboxOptions, Remote.LifecycleOptions {}

/**
 * What OpenSandbox can do besides what every provider can. A paused sandbox counts as existing until its owner's scope
 * closes.
 *
 * @since 0.1.0
 * @category context
 */
export class OpenSandboxControls extends Context.Tag("deskhand/sandbox/OpenSandboxProvider/OpenSandboxControls")<
  OpenSandboxControls,
  {
    /** Returns when it is paused. */
    readonly pause: (sandbox: OwnedSandbox) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
    /** Returns when it runs. Its ports may be somewhere else: ask `endpoint` again. */
    readonly resume: (sandbox: OwnedSandbox) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
    /** The id of a snapshot that is ready to start from; it is there until it is removed, whoever made it. */
    readonly snapshot: (
      sandbox: OwnedSandbox,
      name?: string
    ) => Effect.Effect<string, ProviderUnavailable | SandboxGone>
    /** A snapshot that is not there is removed. */
    readonly removeSnapshot: (snapshotId: string) => Effect.Effect<void, ProviderUnavailable>
  }
>() {}

/** A provider and its controls, of one driver. */
const makeBoth = (options: Options) =>
  Effect.gen(function* () {
    const { controls, driver } = yield* OpenSandbox.make(options)
    const provider = yield* Remote.provider(driver, options)
    const ours: OpenSandboxControls["Type"] = {
      pause: ({ id }) => controls.pause(id),
      resume: ({ id }) => controls.resume(id),
      snapshot: ({ id }, name) => controls.snapshot(id, name),
      removeSnapshot: controls.removeSnapshot
    }
    return { provider, controls: ours }
  })

/**
 * The service is not asked for anything before the first sandbox; `preflight` asks it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<SandboxProvider["Type"], never, Ledger | FileSystem.FileSystem | Scope.Scope> =>
  Effect.map(makeBoth(options), ({ provider }) => provider)

/**
 * Sandboxes of an OpenSandbox service; what is open is removed with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<SandboxProvider | OpenSandboxControls, never, Ledger | FileSystem.FileSystem> =>
  Remote.layer(OpenSandboxControls, makeBoth, Effect.succeed(options))

/**
 * The options, from `OPENSANDBOX_BASE_URL` (with the version: `http://127.0.0.1:8080/v1`), `OPENSANDBOX_API_KEY`,
 * `OPENSANDBOX_PROTOCOL` (`http` or `https`, of endpoints), `OPENSANDBOX_POOL_REF`, `OPENSANDBOX_SERVER_PROXY`
 * (`true`), `OPENSANDBOX_EXECD_TOKEN`, and `DESKHAND_DEPLOYMENT`. All but the first may be absent.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Options> = Config.all({
  baseUrl: Config.nonEmptyString("OPENSANDBOX_BASE_URL"),
  apiKey: Config.option(Config.redacted(Config.nonEmptyString("OPENSANDBOX_API_KEY"))),
  protocol: Config.option(Config.literal("http", "https")("OPENSANDBOX_PROTOCOL")),
  poolRef: Config.option(Config.nonEmptyString("OPENSANDBOX_POOL_REF")),
  useServerProxy: Config.withDefault(Config.boolean("OPENSANDBOX_SERVER_PROXY"), false),
  execdToken: Config.option(Config.redacted(Config.nonEmptyString("OPENSANDBOX_EXECD_TOKEN"))),
  deployment: Remote.deployment
}).pipe(
  Config.map(
    (found): Options => ({
      baseUrl: found.baseUrl,
      useServerProxy: found.useServerProxy,
      ...Remote.present(found.apiKey, (apiKey) => ({ apiKey })),
      ...Remote.present(found.protocol, (protocol) => ({ protocol })),
      ...Remote.present(found.poolRef, (poolRef) => ({ poolRef })),
      ...Remote.present(found.execdToken, (execdToken) => ({ execdToken })),
      ...Remote.present(found.deployment, (deployment) => ({ deployment }))
    })
  )
)

/**
 * From the environment; see `config`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<
  SandboxProvider | OpenSandboxControls,
  ConfigError.ConfigError,
  Ledger | FileSystem.FileSystem
> = Remote.layer(OpenSandboxControls, makeBoth, config)
