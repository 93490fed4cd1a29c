/** Where desktops come from, as commands ask for it. */
import * as Options from "@effect/cli/Options"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ledger from "../../sandbox/Ledger.js"
import { names, type ProviderName, providers } from "../Providers.js"

export const provider = Options.choice("provider", names).pipe(
  Options.withDefault("local" as const),
  Options.withDescription(
    "Where desktops come from: local, the default, is containers on this machine; the others are configured by the environment"
  )
)

export const deployment = Options.text("deployment").pipe(
  Options.optional,
  Options.withDescription("The deployment that sandboxes belong to and that a sweep is scoped to")
)

/** What providers read as `DESKHAND_DEPLOYMENT`. */
export const withDeployment = (deployment: Option.Option<string>) =>
  Option.match(deployment, {
    onNone: () => Layer.empty,
    onSome: (name) =>
      Layer.setConfigProvider(
        ConfigProvider.orElse(ConfigProvider.fromMap(new Map([["DESKHAND_DEPLOYMENT", name]])), () =>
          ConfigProvider.fromEnv()
        )
      )
  })

/** A provider for commands that create nothing, and so need nothing kept. */
export const lookAt = (name: ProviderName, deployment: Option.Option<string> = Option.none()) =>
  Layer.provide(providers[name], Layer.merge(Ledger.layerMemory, withDeployment(deployment)))

export const image = Options.text("image").pipe(
  Options.optional,
  Options.withDescription("The image or template of the desktop, for providers that start from one")
)
