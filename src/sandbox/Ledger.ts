/**
 * What was asked for and what became of it, on disk before the asking: a sandbox whose owner died is found again by it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Metadata } from "./SandboxSpec.js"

/**
 * The ledger cannot be read or written. Nothing is created without it.
 *
 * @since 0.1.0
 * @category errors
 */
export class LedgerError extends Schema.TaggedError<LedgerError>("deskhand/LedgerError")("LedgerError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `the ledger ${this.path} cannot be kept: ${this.reason}. Check the folder's permissions and the disk's space`
  }
}

/**
 * One create and how far it came: `intended`, `created`, then `removed` once the removal was asked for and `confirmed`
 * once the sandbox is known not to exist. An attempt that never came to be is `confirmed` without an id.
 *
 * @since 0.1.0
 * @category models
 */
export class LedgerEntry extends Schema.Class<LedgerEntry>("deskhand/sandbox/LedgerEntry")({
  attemptKey: Schema.NonEmptyString,
  provider: Schema.String,
  metadata: Metadata,
  sandboxId: Schema.optionalWith(Schema.String, { exact: true }),
  state: Schema.Literal("intended", "created", "removed", "confirmed"),
  /** Why it is not confirmed yet, when closing it failed. */
  reason: Schema.optionalWith(Schema.String, { exact: true })
}) {}

/**
 * What became of all creates so far.
 *
 * @since 0.1.0
 * @category models
 */
export class Receipt extends Schema.Class<Receipt>("deskhand/sandbox/Receipt")({
  provider: Schema.String,
  /** Sandboxes that are known to have existed. */
  created: Schema.NonNegativeInt,
  /** Of those, how many were asked to be removed. */
  removed: Schema.NonNegativeInt,
  /** Of those, how many are confirmed gone. */
  confirmed: Schema.NonNegativeInt,
  /** What is not confirmed: sandboxes, and creates whose outcome is not known. */
  left: Schema.Array(LedgerEntry)
}) {}

/**
 * @since 0.1.0
 * @category context
 */
export class Ledger extends Context.Tag("deskhand/sandbox/Ledger")<
  Ledger,
  {
    /** On disk when it returns. */
    readonly intend: (entry: {
      readonly attemptKey: string
      readonly provider: string
      readonly metadata: typeof Metadata.Type
    }) => Effect.Effect<void, LedgerError>
    readonly created: (attemptKey: string, sandboxId: string) => Effect.Effect<void, LedgerError>
    readonly removed: (attemptKey: string) => Effect.Effect<void, LedgerError>
    readonly confirmed: (attemptKey: string) => Effect.Effect<void, LedgerError>
    readonly failed: (attemptKey: string, reason: string) => Effect.Effect<void, LedgerError>
    /** Entries that are not confirmed. */
    readonly open: Effect.Effect<ReadonlyArray<LedgerEntry>>
    readonly receipt: (provider: string) => Effect.Effect<Receipt>
  }
>() {}
