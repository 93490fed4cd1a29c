/**
 * A sandbox that somebody holds.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { Endpoint } from "./Endpoint.js"
import type { ExecCommand, ExecEvent, ExecOutcome } from "./ExecOutcome.js"
import type { EndpointUnresolvable, SandboxFileError, SandboxGone, SandboxUnsupported } from "./SandboxError.js"
import { Metadata } from "./SandboxSpec.js"

/**
 * What can be done with a sandbox, whoever owns it. A capability that the provider lacks is a `SandboxUnsupported`.
 *
 * @since 0.1.0
 * @category models
 */
export interface SandboxOperations {
  /** The provider's own id. */
  readonly id: string
  readonly provider: string
  /**
   * Runs a command to its end. A command that fails is an outcome, and so is a sandbox that does.
   *
   * What a command left running when it ended in time runs on until the sandbox ends. When its time is over, all that it
   * started is ended:
   *
   * - Local sandboxes find it whatever it did to hide; only who ends the process that waits for the command is not found.
   * - Docker's find what has the command's `DESKHAND_EXEC` in its environment, and what is below such a process. What
   *   cleared its environment and lost its parent, both, runs on until the sandbox ends.
   * - E2B's find what has the command's `DESKHAND_E2B_EXEC` in its environment.
   * - OpenSandbox's end what the service ends with a command.
   */
  readonly exec: (command: ExecCommand) => Effect.Effect<ExecOutcome, SandboxUnsupported>
  /** Runs a command and tells what it says while it says it. Leaving the stream ends the command. */
  readonly execStream: (command: ExecCommand) => Stream.Stream<ExecEvent, SandboxUnsupported>
  /** Writes a file, streamed; its folder is made when it is missing. */
  readonly upload: <E>(
    path: string,
    bytes: Stream.Stream<Uint8Array, E>
  ) => Effect.Effect<void, SandboxFileError | SandboxUnsupported | E>
  /** Reads a file, streamed. */
  readonly download: (path: string) => Stream.Stream<Uint8Array, SandboxFileError | SandboxUnsupported>
  /** Where a declared port is reached from here. */
  readonly endpoint: (port: number) => Effect.Effect<Endpoint, EndpointUnresolvable>
  /** Never succeeds; fails when the sandbox ends by itself. Race it with whatever needs the sandbox. */
  readonly gone: Effect.Effect<never, SandboxGone>
  /** What lets another program borrow this sandbox. Holds no credentials. */
  readonly descriptor: SandboxDescriptor
}

/**
 * Enough to reach a sandbox that somebody else owns, with credentials of one's own.
 *
 * @since 0.1.0
 * @category models
 */
export class SandboxDescriptor extends Schema.Class<SandboxDescriptor>("deskhand/sandbox/SandboxDescriptor")({
  provider: Schema.String,
  id: Schema.NonEmptyString,
  ports: Schema.Array(Schema.Int),
  workdir: Schema.optionalWith(Schema.String, { exact: true })
}) {}

/**
 * A sandbox that this program opened and answers for: it is removed when the scope that it was acquired in closes.
 *
 * @since 0.1.0
 * @category models
 */
export interface OwnedSandbox extends SandboxOperations {
  readonly _tag: "OwnedSandbox"
}

/**
 * A sandbox of somebody else's: when the scope closes it is let go, and it lives on.
 *
 * @since 0.1.0
 * @category models
 */
export interface BorrowedSandbox extends SandboxOperations {
  readonly _tag: "BorrowedSandbox"
}

/**
 * What a provider knows of a sandbox without holding it.
 *
 * @since 0.1.0
 * @category models
 */
export class SandboxInfo extends Schema.Class<SandboxInfo>("deskhand/sandbox/SandboxInfo")({
  id: Schema.String,
  provider: Schema.String,
  metadata: Metadata,
  /** Milliseconds since 1970. */
  createdAt: Schema.Finite,
  /** `orphaned`: the program that owned it is gone and something of it is left. */
  state: Schema.Literal("starting", "running", "paused", "stopped", "orphaned", "unknown")
}) {}
