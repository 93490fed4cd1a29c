/**
 * What can go wrong with a sandbox, by what is known afterwards.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The create did not happen: nothing exists, and trying the same again gives the same answer.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxCreateRejected extends Schema.TaggedError<SandboxCreateRejected>("deskhand/SandboxCreateRejected")(
  "SandboxCreateRejected",
  { provider: Schema.String, reason: Schema.String, remedy: Schema.String }
) {
  override get message() {
    return `${this.provider}: no sandbox was opened: ${this.reason}. ${this.remedy}`
  }
}

/**
 * The sandbox started and did not become ready; it has been removed. `log` is the end of what it printed.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxNotReady extends Schema.TaggedError<SandboxNotReady>("deskhand/SandboxNotReady")(
  "SandboxNotReady",
  { provider: Schema.String, sandboxId: Schema.String, reason: Schema.String, log: Schema.String }
) {
  override get message() {
    const log = this.log.trim()
    return `${this.provider}: sandbox ${this.sandboxId} did not become ready: ${this.reason}${
      log === "" ? "" : `; it printed last: ${log}`
    }`
  }
}

/**
 * The sandbox ended while it was in use. `log` is the end of what it printed.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxGone extends Schema.TaggedError<SandboxGone>("deskhand/SandboxGone")("SandboxGone", {
  provider: Schema.String,
  sandboxId: Schema.String,
  reason: Schema.String,
  log: Schema.String
}) {
  override get message() {
    const log = this.log.trim()
    return `${this.provider}: sandbox ${this.sandboxId} is gone: ${this.reason}${
      log === "" ? "" : `; it printed last: ${log}`
    }`
  }
}

/**
 * A port was asked for that the spec did not declare.
 *
 * @since 0.1.0
 * @category errors
 */
export class EndpointUnresolvable extends Schema.TaggedError<EndpointUnresolvable>("deskhand/EndpointUnresolvable")(
  "EndpointUnresolvable",
  { provider: Schema.String, sandboxId: Schema.String, port: Schema.Int, reason: Schema.String }
) {
  override get message() {
    return `${this.provider}: port ${this.port} of sandbox ${this.sandboxId} cannot be reached: ${this.reason}`
  }
}

/**
 * The provider's own records could not be read or changed: listing, sweeping.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxStateError extends Schema.TaggedError<SandboxStateError>("deskhand/SandboxStateError")(
  "SandboxStateError",
  { provider: Schema.String, operation: Schema.String, reason: Schema.String, remedy: Schema.String }
) {
  override get message() {
    return `${this.provider}: ${this.operation} failed: ${this.reason}. ${this.remedy}`
  }
}

/**
 * @since 0.1.0
 * @category errors
 */
export type SandboxCreateError = SandboxCreateRejected | SandboxNotReady

/**
 * @since 0.1.0
 * @category errors
 */
export type SandboxError = SandboxCreateError | SandboxGone | EndpointUnresolvable | SandboxStateError
