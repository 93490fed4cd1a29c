/**
 * What a provider has to know of its service, and nothing of ownership: `lifecycle.ts` makes a `SandboxProvider` of it.
 */
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Capabilities } from "../Capabilities.js"
import { SandboxDescriptor, type SandboxInfo, type SandboxOperations } from "../Sandbox.js"
import type {
  ProviderUnavailable,
  SandboxCreateAmbiguous,
  SandboxCreateRejected,
  SandboxUnsupported
} from "../SandboxError.js"
import type { Check, Selector } from "../SandboxProvider.js"
import type { SandboxSpec } from "../SandboxSpec.js"

/** Labels that every sandbox of ours carries besides its spec's metadata, which travels under `deskhand.meta.<key>`. */
export const labels = {
  /** `1` on all that is ours. */
  managed: "deskhand.managed",
  /** The unique key of the create. */
  attempt: "deskhand.attempt",
  /** The deployment that sweeps may be scoped to. */
  deployment: "deskhand.deployment",
  /** The owner: host, process and start time, so that a sweep on the same host can tell whether it lives. */
  owner: "deskhand.owner",
  metadataPrefix: "deskhand.meta."
} as const

/** One create: its key is unique, and is in the ledger before anything is sent. */
export interface Attempt {
  /** `dh-` and 24 hexadecimal digits: a name that every service takes. */
  readonly key: string
  /** All labels of the sandbox, ours and the spec's. */
  readonly labels: Readonly<Record<string, string>>
}

/** A sandbox as the driver knows it. `id` is the service's own; the rest is the driver's. */
export interface Found {
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
  readonly state: SandboxInfo["state"]
  /** Milliseconds since 1970. */
  readonly createdAt: number
}

export interface Driver<Handle extends { readonly id: string }> {
  readonly name: string
  readonly capabilities: Capabilities
  /**
   * Sends the create and nothing more. `SandboxCreateRejected` and `ProviderUnavailable` say that nothing exists or ever
   * will of this attempt; whatever else can go wrong is `SandboxCreateAmbiguous`. Interrupting it leaves it ambiguous.
   */
  readonly create: (
    spec: SandboxSpec,
    attempt: Attempt
  ) => Effect.Effect<Handle, SandboxCreateRejected | SandboxCreateAmbiguous | SandboxUnsupported | ProviderUnavailable>
  /** Brings a created sandbox to run. Services that create and start at once do nothing here. */
  readonly start: (
    handle: Handle,
    spec: SandboxSpec
  ) => Effect.Effect<void, SandboxCreateRejected | ProviderUnavailable>
  /** Every sandbox with exactly this attempt key, in any state; labels are compared here, whatever the service filters. */
  readonly find: (attemptKey: string) => Effect.Effect<ReadonlyArray<Found>, ProviderUnavailable>
  /** Asks for the removal by id. A sandbox that is not there is removed. It may go on after the answer. */
  readonly remove: (id: string) => Effect.Effect<void, ProviderUnavailable>
  /** Whether anything of it exists. A removal counts when `find` does not have it either. */
  readonly exists: (id: string) => Effect.Effect<boolean, ProviderUnavailable>
  /** Everything with these labels, every page, in any state, paused among them. */
  readonly list: (selector: Selector) => Stream.Stream<Found, ProviderUnavailable>
  /** What can be done with it. Connections live as long as the scope. `gone` looks often enough to tell within seconds. */
  readonly operations: (
    handle: Handle,
    spec: Pick<SandboxSpec, "ports" | "env" | "workdir">
  ) => Effect.Effect<SandboxOperations, never, Scope.Scope>
  /** The end of what the sandbox printed, for error messages; empty where there is no such thing. */
  readonly log: (handle: Handle) => Effect.Effect<string>
  /** A handle on a sandbox of somebody else's that runs; none when it does not. */
  readonly connect: (
    descriptor: SandboxDescriptor
  ) => Effect.Effect<Option.Option<Handle>, ProviderUnavailable | SandboxUnsupported>
  /** One child for each attempt, in order. Only where the capability is. */
  readonly fork: (
    source: Handle,
    spec: SandboxSpec,
    attempts: ReadonlyArray<Attempt>
  ) => Effect.Effect<
    ReadonlyArray<Effect.Effect<Handle, SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable>>,
    SandboxUnsupported | ProviderUnavailable
  >
  /** Extends the time to live to the spec's `ttl` from now; absent where the capability is. */
  readonly renew: (handle: Handle, spec: SandboxSpec) => Effect.Effect<void, ProviderUnavailable | SandboxUnsupported>
  readonly preflight: Effect.Effect<ReadonlyArray<Check>>
}

/** What another program needs to borrow a sandbox. */
export const descriptor = (
  provider: string,
  id: string,
  spec: Pick<SandboxSpec, "ports" | "workdir">
): SandboxDescriptor =>
  SandboxDescriptor.make({
    provider,
    id,
    ports: spec.ports,
    ...(spec.workdir === undefined ? {} : { workdir: spec.workdir })
  })
