/**
 * Where desktops come from, by the names that `--provider` takes.
 *
 * @since 0.1.0
 */
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DockerProvider from "../sandbox/DockerProvider.js"
import type { Ledger } from "../sandbox/Ledger.js"
import * as LocalProvider from "../sandbox/LocalProvider.js"
import type { SandboxProvider } from "../sandbox/SandboxProvider.js"

/**
 * @since 0.1.0
 * @category models
 */
export type ProviderName = "local" | "docker" | "e2b" | "opensandbox"

/** A service of one's own may want no key; E2B's, where none is named, always does. */
const hasE2B = Config.nonEmptyString("E2B_API_KEY").pipe(
  Config.orElse(() => Config.nonEmptyString("E2B_API_URL")),
  Config.orElse(() => Config.nonEmptyString("E2B_DOMAIN")),
  Effect.mapError(() => ConfigError.MissingData(["E2B_API_KEY"], "it is not set"))
)

/**
 * Each is configured by the environment; see its `layerConfig`.
 *
 * @since 0.1.0
 * @category constants
 */
export const providers: Readonly<
  Record<
    ProviderName,
    Layer.Layer<
      SandboxProvider,
      ConfigError.ConfigError,
      Ledger | FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor
    >
  >
> = {
  local: LocalProvider.layerConfig,
  docker: DockerProvider.layerConfig,
  // Loaded when they are chosen: the SDKs of services that a run does not use are memory that it does not have.
  e2b: Layer.unwrapEffect(
    Effect.zipRight(
      hasE2B,
      Effect.map(
        Effect.promise(() => import("../sandbox/E2BProvider.js")),
        ({ layerConfig }) => layerConfig
      )
    )
  ),
  opensandbox: Layer.unwrapEffect(
    Effect.map(
      Effect.promise(() => import("../sandbox/OpenSandboxProvider.js")),
      ({ layerConfig }) => layerConfig
    )
  )
}

/**
 * Docker for OSWorld's own virtual machine.
 *
 * @since 0.1.0
 * @category layers
 */
export const dockerWithMachine = (kvm: boolean): (typeof providers)["docker"] =>
  Layer.unwrapEffect(
    Effect.map(DockerProvider.config, (options) =>
      DockerProvider.layer({
        ...options,
        ...DockerProvider.virtualMachine,
        ...(kvm ? {} : { devices: [] })
      })
    )
  )

/**
 * @since 0.1.0
 * @category constants
 */
export const names: readonly [ProviderName, ...ReadonlyArray<ProviderName>] = ["local", "docker", "e2b", "opensandbox"]
