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
import * as Driver from "./internal/dockerDriver.js"
import * as Engine from "./internal/dockerEngine.js"
import * as Lifecycle from "./internal/lifecycle.js"
import type { Settle } from "./internal/settle.js"
import { Ledger } from "./Ledger.js"
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
export interface Options {
  /** As in DOCKER_HOST: `unix:///path`, `tcp://host:port` or `ssh://user@host:port`; Docker's own socket unless given. */
  readonly host?: string
  /** The folder of `ca.pem`, `cert.pem` and `key.pem`: the engine is spoken to with TLS. */
  readonly certificates?: string
  /** For specs that name none. */
  readonly image?: string
  /** What sweeps are scoped to; `default` unless given. */
  readonly deployment?: string
  /**
   * The address of the engine's machine that ports are published at: the loopback where the engine is on this host, and
   * the host's address elsewhere. It has to be an IP address.
   */
  readonly publishHost?: string
  /** The network of specs that ask for the default; the engine's `bridge` unless given. */
  readonly network?: string
  /** Devices of the engine's machine, such as `/dev/kvm`. */
  readonly devices?: ReadonlyArray<string>
  /** Such as `NET_ADMIN`. */
  readonly capAdd?: ReadonlyArray<string>
  /** Such as `seccomp=unconfined`. */
  readonly securityOpt?: ReadonlyArray<string>
  /** Processes and threads that a container may have at once; 4096 unless given. */
  readonly pidsLimit?: number
  /** How long it takes to believe that a create of unknown outcome came to nothing. */
  readonly settle?: Settle
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
    return yield* Lifecycle.make(Driver.make(engine, options), {
      ledger: yield* Ledger,
      deployment: options.deployment ?? "default",
      ...(options.settle === undefined ? {} : { settle: options.settle })
    })
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options = {}
): Layer.Layer<SandboxProvider, ConfigError.ConfigError, Ledger | FileSystem.FileSystem> =>
  Layer.scoped(SandboxProvider, make(options))

/** Entries whose value is there. */
const present = <A>(key: string, value: Option.Option<A>): Readonly<Record<string, A>> =>
  Option.match(value, { onNone: () => ({}), onSome: (some) => ({ [key]: some }) })

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
    deployment: Config.option(Config.nonEmptyString("DESKHAND_DEPLOYMENT"))
  }),
  (found): Options => ({
    ...present("host", found.host),
    ...(found.verify === ""
      ? {}
      : { certificates: Option.getOrElse(found.certificates, () => `${found.home}/.docker`) }),
    ...present("image", found.image),
    ...present("publishHost", found.publishHost),
    ...present("network", found.network),
    ...present("deployment", found.deployment)
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
