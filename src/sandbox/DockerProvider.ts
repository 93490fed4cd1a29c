/**
 * Sandboxes that are containers of a Docker engine, over its API: on this host, or wherever `DOCKER_HOST` says.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Address from "./internal/dockerAddress.js"
import type { Settings } from "./internal/dockerContainer.js"
import * as Driver from "./internal/dockerDriver.js"
import * as Engine from "./internal/dockerEngine.js"
import * as Remote from "./internal/remote.js"
import type { Ledger } from "./Ledger.js"
import { SandboxProvider } from "./SandboxProvider.js"

/**
 * A container's first program is the spec's entrypoint under the engine's init. A spec with a `ttl` needs `timeout` in
 * its image (coreutils and busybox have it); one without an entrypoint needs `sleep`.
 *
 * A spec with the network `none` and ports gets a bridge of the engine's own without a way out, `deskhand-isolated`,
 * and its ports are reached at the container's own address: the engine publishes none there. That needs the engine on
 * this host, outside of Docker Desktop and rootless engines. Programs of this host that listen everywhere are reached
 * from inside at this host's own addresses. The network is made once and stays.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends Settings, Remote.LifecycleOptions {
  /** As in DOCKER_HOST: `unix:///path`, `tcp://host:port` or `ssh://user@host:port`; Docker's own socket unless given. */
  readonly host?: string
  /** The folder of `ca.pem`, `cert.pem` and `key.pem`: the engine is spoken to with TLS. */
  readonly certificates?: string
}

/**
 * What the official `happysixd/osworld-docker` image needs of a provider, besides its disk as a mount to
 * `/System.qcow2`.
 *
 * @since 0.1.0
 * @category constants
 */
export const virtualMachine: Pick<Options, "devices" | "capAdd"> = { devices: ["/dev/kvm"], capAdd: ["NET_ADMIN"] }

const addressOf = (options: Options): Either.Either<Address.Address, string> =>
  Address.parse({
    host: options.host ?? Address.defaultHost,
    tls: options.certificates !== undefined,
    certificates: options.certificates ?? ""
  })

/**
 * Asks the engine nothing before it is used; `preflight` tells whether it can be. Fails when `host` is no address.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options = {}
): Effect.Effect<SandboxProvider["Type"], ConfigError.ConfigError, Ledger | FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const address = yield* Effect.mapError(addressOf(options), (reason) =>
      ConfigError.InvalidData(["DOCKER_HOST"], reason)
    )
    const engine = yield* Engine.make(address)
    return yield* Remote.provider(Driver.make(engine, options), options)
  })

/**
 * Sandboxes of a Docker engine; what is open is removed with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options = {}
): Layer.Layer<SandboxProvider, ConfigError.ConfigError, Ledger | FileSystem.FileSystem> =>
  Layer.scoped(SandboxProvider, make(options))

/**
 * The options, from `DOCKER_HOST`, `DOCKER_TLS_VERIFY` with `DOCKER_CERT_PATH` (`~/.docker` unless given),
 * `DESKHAND_DOCKER_IMAGE`, `DESKHAND_DOCKER_PUBLISH_HOST`, `DESKHAND_DOCKER_NETWORK` and `DESKHAND_DEPLOYMENT`.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Options> = Config.map(
  Config.all({
    host: Config.option(Config.nonEmptyString("DOCKER_HOST")),
    // As the docker command has it: any text but none switches it on.
    verify: Config.withDefault(Config.string("DOCKER_TLS_VERIFY"), ""),
    certificates: Config.option(Config.nonEmptyString("DOCKER_CERT_PATH")),
    home: Config.withDefault(Config.string("HOME"), ""),
    image: Config.option(Config.nonEmptyString("DESKHAND_DOCKER_IMAGE")),
    publishHost: Config.option(Config.nonEmptyString("DESKHAND_DOCKER_PUBLISH_HOST")),
    network: Config.option(Config.nonEmptyString("DESKHAND_DOCKER_NETWORK")),
    deployment: Remote.deployment
  }),
  (found): Options => ({
    ...Remote.present(found.host, (host) => ({ host })),
    ...(found.verify === ""
      ? {}
      : { certificates: Option.getOrElse(found.certificates, () => `${found.home}/.docker`) }),
    ...Remote.present(found.image, (image) => ({ image })),
    ...Remote.present(found.publishHost, (publishHost) => ({ publishHost })),
    ...Remote.present(found.network, (network) => ({ network })),
    ...Remote.present(found.deployment, (deployment) => ({ deployment }))
  })
)

/**
 * From the environment; see `config`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<SandboxProvider, ConfigError.ConfigError, Ledger | FileSystem.FileSystem> =
  Layer.unwrapEffect(Effect.map(config, layer))
