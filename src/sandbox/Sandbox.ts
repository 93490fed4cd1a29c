/**
 * A sandbox that somebody holds.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type { Endpoint } from "./Endpoint.js"
import type { EndpointUnresolvable, SandboxGone } from "./SandboxError.js"
import type { Metadata } from "./SandboxSpec.js"

/**
 * A sandbox that this program opened and answers for: it is removed when the scope that it was acquired in closes.
 *
 * @since 0.1.0
 * @category models
 */
export interface OwnedSandbox {
  readonly _tag: "OwnedSandbox"
  readonly id: string
  readonly provider: string
  /** Where a declared port is reached. */
  readonly endpoint: (port: number) => Effect.Effect<Endpoint, EndpointUnresolvable>
  /** Never succeeds; fails when the sandbox ends by itself. Race it with whatever needs the sandbox. */
  readonly gone: Effect.Effect<never, SandboxGone>
}

/**
 * What a provider knows of a sandbox without holding it.
 *
 * @since 0.1.0
 * @category models
 */
export interface SandboxInfo {
  readonly id: string
  readonly provider: string
  readonly metadata: typeof Metadata.Type
  /** Milliseconds since 1970. */
  readonly createdAt: number
  /** `orphaned`: the program that owned it is gone and something of it is left. */
  readonly state: "running" | "orphaned"
}
