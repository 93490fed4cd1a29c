/**
 * For providers of one's own: a driver says how a service is asked, and `makeProvider` answers for what was asked:
 * ledger, reaper, removal with confirmation, sweep.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as internal from "./internal/driver.js"
import * as Labels from "./internal/labels.js"
import * as Lifecycle from "./internal/lifecycle.js"
import type * as settle from "./internal/settle.js"
import type { SandboxDescriptor } from "./Sandbox.js"
import type { SandboxProvider, Selector } from "./SandboxProvider.js"
import type { SandboxSpec } from "./SandboxSpec.js"

/**
 * @since 0.1.0
 * @category models
 */
export type Driver<Handle extends { readonly id: string }> = internal.Driver<Handle>

/**
 * One create: its key is unique, and is in the ledger before anything is sent.
 *
 * @since 0.1.0
 * @category models
 */
export type Attempt = internal.Attempt

/**
 * @since 0.1.0
 * @category models
 */
export type Found = internal.Found

/**
 * When it is believed that nothing is there, and how long that may take.
 *
 * @since 0.1.0
 * @category models
 */
export type Settle = settle.Settle

/**
 * @since 0.1.0
 * @category models
 */
export type Options = Lifecycle.Options

/**
 * The labels that every sandbox carries besides its spec's metadata.
 *
 * @since 0.1.0
 * @category constants
 */
export const labels = internal.labels

/**
 * Whether these labels have every entry of the selector.
 *
 * @since 0.1.0
 * @category queries
 */
export const match: (wanted: Selector, found: Readonly<Record<string, string>>) => boolean = Labels.match

/**
 * What lets another program borrow a sandbox.
 *
 * @since 0.1.0
 * @category constructors
 */
export const descriptor: (
  provider: string,
  id: string,
  spec: Pick<SandboxSpec, "ports" | "workdir">
) => SandboxDescriptor = internal.descriptor

/**
 * Makes a provider of a driver. Closing the scope waits, bounded, for what is not known yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeProvider: <Handle extends { readonly id: string }>(
  driver: Driver<Handle>,
  options: Options
) => Effect.Effect<SandboxProvider["Type"], never, FileSystem.FileSystem | Scope.Scope> = Lifecycle.make
