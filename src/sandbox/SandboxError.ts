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
 * The create may or may not have happened. Whatever comes of it is looked for, and removed, by the reaper.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxCreateAmbiguous extends Schema.TaggedError<SandboxCreateAmbiguous>(
  "deskhand/SandboxCreateAmbiguous"
)("SandboxCreateAmbiguous", { provider: Schema.String, attemptKey: Schema.String, reason: Schema.String }) {
  override get message() {
    return `${this.provider}: the create ${this.attemptKey} may or may not have happened: ${this.reason}. What came of it is being looked for and removed`
  }
}

/**
 * The provider does not answer, or answers that it cannot now. `retryAfter` is what it asked for, in milliseconds.
 *
 * @since 0.1.0
 * @category errors
 */
export class ProviderUnavailable extends Schema.TaggedError<ProviderUnavailable>("deskhand/ProviderUnavailable")(
  "ProviderUnavailable",
  {
    provider: Schema.String,
    operation: Schema.String,
    kind: Schema.Literal("unreachable", "unauthorised", "rate_limited", "failing"),
    reason: Schema.String,
    retryAfter: Schema.optionalWith(Schema.Finite, { exact: true })
  }
) {
  override get message() {
    const remedy = {
      unreachable: "Check that it runs and that its address is right",
      unauthorised: "Check the key or the permission",
      rate_limited: "Open fewer sandboxes at once, or try again later",
      failing: "Try again later, and look at its log"
    }[this.kind]
    return `${this.provider}: ${this.operation} failed: ${this.reason}. ${remedy}`
  }
}

/**
 * The provider has no such thing.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxUnsupported extends Schema.TaggedError<SandboxUnsupported>("deskhand/SandboxUnsupported")(
  "SandboxUnsupported",
  { provider: Schema.String, capability: Schema.String }
) {
  override get message() {
    return `${this.provider} cannot do this: ${this.capability}`
  }
}

/**
 * A file of a sandbox could not be written or read. `missing`: there is none at this path.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxFileError extends Schema.TaggedError<SandboxFileError>("deskhand/SandboxFileError")(
  "SandboxFileError",
  {
    provider: Schema.String,
    sandboxId: Schema.String,
    operation: Schema.Literal("upload", "download"),
    path: Schema.String,
    missing: Schema.Boolean,
    reason: Schema.String
  }
) {
  override get message() {
    return `${this.provider}: ${this.operation} of ${this.path} in sandbox ${this.sandboxId} failed: ${this.reason}`
  }
}

/**
 * @since 0.1.0
 * @category errors
 */
export type SandboxCreateError =
  | SandboxCreateRejected
  | SandboxCreateAmbiguous
  | SandboxNotReady
  | SandboxUnsupported
  | ProviderUnavailable

/**
 * @since 0.1.0
 * @category errors
 */
export type SandboxError =
  | SandboxCreateError
  | SandboxGone
  | EndpointUnresolvable
  | SandboxStateError
  | SandboxFileError
