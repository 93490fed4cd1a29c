/**
 * Which model calls may still be written. A call that was begun and not committed is pending for good: that it failed, or
 * took too long, is no proof that its worker stopped writing.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

/**
 * The calls of one rollout.
 *
 * @since 0.1.0
 * @category models
 */
export interface Custody {
  /** Every id that was ever begun; none may be begun again. */
  readonly begun: ReadonlySet<string>
  /** Ids whose tokens are durable. */
  readonly committed: ReadonlySet<string>
}

/**
 * - `reused`: the id was begun before
 * - `unknown`: the id was never begun
 * - `committed`: the call's tokens are durable already
 *
 * @since 0.1.0
 * @category errors
 */
export class CustodyError extends Schema.TaggedError<CustodyError>("deskhand/training/CustodyError")("CustodyError", {
  reason: Schema.Literal("reused", "unknown", "committed"),
  call: Schema.String
}) {
  override get message() {
    const what = {
      reused: "was begun before, and its worker may still be writing. Give every call an id of its own",
      unknown: "was never begun. Say that a call will be made before it is",
      committed: "is committed already"
    }
    return `call ${this.call} ${what[this.reason]}`
  }
}

/**
 * Before any call was begun.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: Custody = { begun: new Set(), committed: new Set() }

/**
 * Before the call is made. Fails for an id that was ever begun, whatever came of it.
 *
 * @since 0.1.0
 * @category operations
 */
export const begin = (custody: Custody, call: string): Either.Either<Custody, CustodyError> =>
  custody.begun.has(call)
    ? Either.left(new CustodyError({ reason: "reused", call }))
    : Either.right({ ...custody, begun: new Set([...custody.begun, call]) })

/**
 * When its tokens are durable.
 *
 * @since 0.1.0
 * @category operations
 */
export const commit = (custody: Custody, call: string): Either.Either<Custody, CustodyError> => {
  if (!custody.begun.has(call)) return Either.left(new CustodyError({ reason: "unknown", call }))
  if (custody.committed.has(call)) return Either.left(new CustodyError({ reason: "committed", call }))
  return Either.right({ ...custody, committed: new Set([...custody.committed, call]) })
}

/**
 * Calls that somebody may still write, in the order in which they were begun. While there is one the owner must be masked.
 *
 * @since 0.1.0
 * @category queries
 */
export const pending = ({ begun, committed }: Custody): ReadonlyArray<string> =>
  [...begun].filter((call) => !committed.has(call))
