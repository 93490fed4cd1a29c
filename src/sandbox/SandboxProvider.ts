/**
 * Opens sandboxes and answers for every one of them until it is confirmed gone.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Capabilities } from "./Capabilities.js"
import type { BorrowedSandbox, OwnedSandbox, SandboxDescriptor, SandboxInfo } from "./Sandbox.js"
import type {
  ProviderUnavailable,
  SandboxCreateError,
  SandboxGone,
  SandboxStateError,
  SandboxUnsupported
} from "./SandboxError.js"
import type { SandboxSpec } from "./SandboxSpec.js"

/**
 * Which sandboxes are meant: those whose metadata has every one of these entries. An empty selector means all that this
 * provider opened on behalf of this user.
 *
 * @since 0.1.0
 * @category models
 */
export type Selector = Readonly<Record<string, string>>

/**
 * What a sweep did. `left` is empty when nothing that the selector names remains.
 *
 * @since 0.1.0
 * @category models
 */
export interface SweepReceipt {
  readonly provider: string
  readonly removed: ReadonlyArray<string>
  readonly left: ReadonlyArray<{ readonly id: string; readonly reason: string }>
  /** Sandboxes of programs that are alive, which a sweep leaves alone. */
  readonly inUse: ReadonlyArray<string>
}

/**
 * One child of a fork, or why there is none. Children come in the order of the owners that they were asked for.
 *
 * @since 0.1.0
 * @category models
 */
export interface ForkChild {
  readonly owner: number
  readonly child:
    | {
        readonly _tag: "Forked"
        readonly sandbox: OwnedSandbox
        /** Removes this child before the scope of the fork closes, with confirmation; its siblings live on. */
        readonly release: Effect.Effect<void>
      }
    | { readonly _tag: "NotForked"; readonly error: SandboxCreateError }
}

/**
 * One thing that a provider needs, whether it is there, and what to do when it is not.
 *
 * @since 0.1.0
 * @category models
 */
export interface Check {
  /** What is checked, in plain words: `bubblewrap`, `user namespaces`. */
  readonly subject: string
  readonly ok: boolean
  /** What was found: a version, a path, an error. */
  readonly found: string
  /** What to do; empty when `ok`. */
  readonly remedy: string
  /** Debian packages that would bring it. */
  readonly packages: ReadonlyArray<string>
}

/**
 * Who opens sandboxes and answers for them, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class SandboxProvider extends Context.Tag("deskhand/sandbox/SandboxProvider")<
  SandboxProvider,
  {
    /** Provider name as it appears in manifests, receipts and logs. */
    readonly name: string
    readonly capabilities: Capabilities
    /** Ready when it returns; removed, with confirmation, when the scope closes, in every case. */
    readonly acquire: (spec: SandboxSpec) => Effect.Effect<OwnedSandbox, SandboxCreateError, Scope.Scope>
    /** A sandbox that somebody else owns: closing the scope lets it go and never destroys it. */
    readonly borrow: (
      descriptor: SandboxDescriptor
    ) => Effect.Effect<BorrowedSandbox, SandboxGone | SandboxUnsupported | ProviderUnavailable, Scope.Scope>
    /** One running sandbox becomes one child for each owner, in order. A child that fails leaves the others. */
    readonly fork: (
      source: OwnedSandbox,
      owners: readonly [number, ...ReadonlyArray<number>]
    ) => Effect.Effect<
      readonly [ForkChild, ...ReadonlyArray<ForkChild>],
      SandboxUnsupported | ProviderUnavailable,
      Scope.Scope
    >
    /** The sandboxes of which anything exists, in any state, every page of them. */
    readonly list: (selector: Selector) => Stream.Stream<SandboxInfo, SandboxStateError>
    /** Removes what programs that are no longer alive left behind, and confirms it. */
    readonly sweep: (selector: Selector) => Effect.Effect<SweepReceipt, SandboxStateError>
    /** What this provider needs of the machine or the service. Changes nothing. */
    readonly preflight: Effect.Effect<ReadonlyArray<Check>>
  }
>() {}
