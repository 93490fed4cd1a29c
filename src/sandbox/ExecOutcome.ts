/**
 * How a command in a sandbox ended. An exit that nobody saw has no number.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"

/**
 * @since 0.1.0
 * @category models
 */
export interface ExecCommand {
  /** argv; a shell is a command like any other. */
  readonly command: readonly [string, ...ReadonlyArray<string>]
  /** Over the spec's environment. `DESKHAND_EXEC` and `DESKHAND_E2B_EXEC` are ours: what is given for them is dropped. */
  readonly env?: Readonly<Record<string, string>>
  readonly workdir?: string
  /** After this long the command and all that it started is ended; three minutes unless given. */
  readonly timeout?: Duration.DurationInput
  /** What it reads; nothing unless given. */
  readonly stdin?: string
}

interface Output {
  /** At most `outputLimit` bytes of it are kept, the first of them. */
  readonly stdout: string
  readonly stderr: string
}

/**
 * - `Exited`: it ended and this is its exit code; 128 and the signal's number after a signal.
 * - `TimedOut`: its time was over, and it was ended.
 * - `SandboxFailed`: the sandbox ended, or could not run it. It has no effect any more.
 * - `Unknown`: contact was lost. It may have done its work, and it may still be at it.
 *
 * @since 0.1.0
 * @category models
 */
export type ExecOutcome = Data.TaggedEnum<{
  Exited: Output & { readonly code: number }
  TimedOut: Output
  SandboxFailed: Output & { readonly reason: string }
  Unknown: Output & { readonly reason: string }
}>

/**
 * Constructors of outcomes, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ExecOutcome = Data.taggedEnum<ExecOutcome>()

/**
 * What a command says while it runs, in order; the last event is `Ended`.
 *
 * @since 0.1.0
 * @category models
 */
export type ExecEvent = Data.TaggedEnum<{
  Stdout: { readonly bytes: Uint8Array }
  Stderr: { readonly bytes: Uint8Array }
  /** Its output has been told already, so both texts are empty. */
  Ended: { readonly outcome: ExecOutcome }
}>

/**
 * Constructors of events, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ExecEvent = Data.taggedEnum<ExecEvent>()

/**
 * Bytes of each output that an outcome keeps.
 *
 * @since 0.1.0
 * @category constants
 */
export const outputLimit = 8 * 1024 * 1024
