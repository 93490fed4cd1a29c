/**
 * Sandboxes of an E2B service: the vendor's, one of one's own, or AgentENV.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as E2B from "./internal/e2b.js"
import type { E2BOptions } from "./internal/e2bOptions.js"
import * as Remote from "./internal/remote.js"
import type { Settle } from "./internal/settle.js"
import type { Ledger } from "./Ledger.js"
import type { OwnedSandbox } from "./Sandbox.js"
import type { ProviderUnavailable, SandboxGone } from "./SandboxError.js"
import type { SandboxProvider } from "./SandboxProvider.js"

/**
 * `templates` are built before and hold what the sandboxes hold; nothing is built here. The SDK takes a certificate
 * authority only from `NODE_EXTRA_CA_CERTS`, which Node reads when it starts: `preflight` compares it with `caFile`.
 *
 * What a command prints reaches us as text, so bytes that are no UTF-8 are lost; files are exact. What it prints between
 * a stream that broke and the next one is lost, too.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends E2BOptions, Remote.LifecycleOptions {
  /**
   * How long it takes to believe that a create of unknown outcome came to nothing: five listings without it, 4 seconds
   * apart, unless given. A service that goes on with a create for longer than that after its client left leaves the
   * sandbox to its time to live, and to `sweep`.
   */
  readonly settle?: Settle
}

/**
 * What E2B can do besides what every provider can. A paused sandbox keeps its memory and its processes, and its time to
 * live stands still; it counts as existing until its owner's scope closes.
 *
 * @since 0.1.0
 * @category context
 */
export class E2BControls extends Context.Tag("deskhand/sandbox/E2BProvider/E2BControls")<
  E2BControls,
  {
    readonly pause: (sandbox: OwnedSandbox) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
    /** Connections to its ports have to be made again, with what `endpoint` says then. */
    readonly resume: (sandbox: OwnedSandbox) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  }
>() {}

/**
 * Stops a sandbox with its memory kept. It goes on with `resume`.
 *
 * @since 0.1.0
 * @category operations
 */
export const pause = (sandbox: OwnedSandbox): Effect.Effect<void, ProviderUnavailable | SandboxGone, E2BControls> =>
  Effect.flatMap(E2BControls, (controls) => controls.pause(sandbox))

/**
 * Has a paused sandbox go on.
 *
 * @since 0.1.0
 * @category operations
 */
export const resume = (sandbox: OwnedSandbox): Effect.Effect<void, ProviderUnavailable | SandboxGone, E2BControls> =>
  Effect.flatMap(E2BControls, (controls) => controls.resume(sandbox))

/** A provider and its controls, of one driver. */
const makeBoth = (options: Options) =>
  Effect.gen(function* () {
    const driver = E2B.make(options)
    const provider = yield* Remote.provider(driver, options, { looks: 5, spacing: "4 seconds" })
    const controls: E2BControls["Type"] = {
      pause: ({ id }) => driver.pause(id),
      resume: ({ id }) => driver.resume(id)
    }
    return { provider, controls }
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
 * Sandboxes of E2B, or of a service that speaks its protocol; what is open is removed with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<SandboxProvider | E2BControls, never, Ledger | FileSystem.FileSystem> =>
  Remote.layer(E2BControls, makeBoth, Effect.succeed(options))

/** `image=template,image=template` */
const templates = (text: string): Either.Either<Readonly<Record<string, string>>, ConfigError.ConfigError> => {
  const entries = text
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")
    .map((entry) => {
      const at = entry.lastIndexOf("=")
      return [entry.slice(0, Math.max(0, at)), entry.slice(at + 1)] as const
    })
  return entries.every(([image, template]) => image !== "" && template !== "")
    ? Either.right(Object.fromEntries(entries))
    : Either.left(ConfigError.InvalidData([], "image=template, and a comma between two of them, is wanted"))
}

/**
 * The options, from `E2B_API_KEY`, `E2B_API_URL`, `E2B_DOMAIN`, `E2B_SANDBOX_URL` (the gateway; hostname mode without
 * it), `E2B_TEMPLATES` (`image=template,...`), `E2B_TEMPLATE` (the default), `E2B_VNC_PORT`, `E2B_CA_FILE` with
 * `E2B_CA_SHA256`, and `DESKHAND_DEPLOYMENT`.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Options> = Config.all({
  apiKey: Config.option(Config.redacted(Config.nonEmptyString("E2B_API_KEY"))),
  apiUrl: Config.option(Config.nonEmptyString("E2B_API_URL")),
  domain: Config.option(Config.nonEmptyString("E2B_DOMAIN")),
  gatewayUrl: Config.option(Config.nonEmptyString("E2B_SANDBOX_URL")),
  templates: Config.withDefault(Config.string("E2B_TEMPLATES").pipe(Config.mapOrFail(templates)), {}),
  defaultTemplate: Config.option(Config.nonEmptyString("E2B_TEMPLATE")),
  vncPort: Config.option(Config.port("E2B_VNC_PORT")),
  caFile: Config.option(Config.nonEmptyString("E2B_CA_FILE")),
  caSha256: Config.option(
    Config.nonEmptyString("E2B_CA_SHA256").pipe(
      Config.validate({
        message: "the 64 hexadecimal digits that sha256sum prints are wanted",
        validation: (text) => /^[0-9a-f]{64}$/i.test(text)
      })
    )
  ),
  deployment: Remote.deployment
}).pipe(
  Config.mapOrFail((found) =>
    Option.isSome(found.caFile) !== Option.isSome(found.caSha256)
      ? Either.left(ConfigError.InvalidData([], "E2B_CA_FILE and E2B_CA_SHA256 are set together or not at all"))
      : Either.right<Options>({
          endpointMode: Option.isSome(found.gatewayUrl) ? "gateway" : "hostname",
          templates: found.templates,
          ...Remote.present(found.apiKey, (apiKey) => ({ apiKey })),
          ...Remote.present(found.apiUrl, (apiUrl) => ({ apiUrl })),
          ...Remote.present(found.domain, (domain) => ({ domain })),
          ...Remote.present(found.gatewayUrl, (gatewayUrl) => ({ gatewayUrl })),
          ...Remote.present(found.defaultTemplate, (defaultTemplate) => ({ defaultTemplate })),
          ...Remote.present(found.vncPort, (vncPort) => ({ vncPort })),
          ...Remote.present(found.deployment, (deployment) => ({ deployment })),
          ...Remote.present(Option.all([found.caFile, found.caSha256]), ([path, sha256]) => ({
            caFile: { path, sha256 }
          }))
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
  SandboxProvider | E2BControls,
  ConfigError.ConfigError,
  Ledger | FileSystem.FileSystem
> = Remote.layer(E2BControls, makeBoth, config)
