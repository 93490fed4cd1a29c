/** What the providers that ask a service for their sandboxes have in common: options, config, and how they are made. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { Ledger } from "../Ledger.js"
import { SandboxProvider } from "../SandboxProvider.js"
import type { Driver } from "./driver.js"
import * as Lifecycle from "./lifecycle.js"
import type { Settle } from "./settle.js"

export interface LifecycleOptions {
  /** What sweeps are scoped to; `default` unless given. */
  readonly deployment?: string
  /** How long it takes to believe that a create of unknown outcome came to nothing. */
  readonly settle?: Settle
}

export interface AnswerLimits {
  /** For an answer to a create; two minutes unless given. */
  readonly createTimeout?: Duration.DurationInput
  /** For an answer to anything else; 30 seconds unless given. */
  readonly requestTimeout?: Duration.DurationInput
}

/** The provider of a driver, with the ledger of the context. */
export const provider = <Handle extends { readonly id: string }>(
  driver: Driver<Handle>,
  options: LifecycleOptions,
  settle: Settle = {}
): Effect.Effect<SandboxProvider["Type"], never, Ledger | FileSystem.FileSystem | Scope.Scope> =>
  Effect.flatMap(Ledger, (ledger) =>
    Lifecycle.make(driver, {
      ledger,
      deployment: options.deployment ?? "default",
      settle: { ...settle, ...options.settle }
    })
  )

/** A layer of a provider and of what else its service can do, which are of one driver. */
export const layer = <Id, Controls, Options, E>(
  tag: Context.Tag<Id, Controls>,
  make: (
    options: Options
  ) => Effect.Effect<
    { readonly provider: SandboxProvider["Type"]; readonly controls: Controls },
    never,
    Ledger | FileSystem.FileSystem | Scope.Scope
  >,
  options: Effect.Effect<Options, E>
): Layer.Layer<SandboxProvider | Id, E, Ledger | FileSystem.FileSystem> =>
  Layer.scopedContext(
    Effect.map(Effect.flatMap(options, make), ({ controls, provider }) =>
      Context.make(SandboxProvider, provider).pipe(Context.add(tag, controls))
    )
  )

/** The deployment that `DESKHAND_DEPLOYMENT` names. */
export const deployment = Config.option(Config.nonEmptyString("DESKHAND_DEPLOYMENT"))

/** The entries that a value makes, and none where there is no value. */
export const present = <A, B extends object>(value: Option.Option<A>, entries: (some: A) => B): Partial<B> =>
  Option.match(value, { onNone: (): Partial<B> => ({}), onSome: entries })
