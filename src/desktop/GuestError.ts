/**
 * What can go wrong between us and a guest.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Match from "effect/Match"
import * as Schema from "effect/Schema"

/**
 * Why an operation failed.
 *
 * - `Unreachable`: nobody answered, or the connection broke. Whether the guest acted is not known.
 * - `Timeout`: no answer within the limit. The guest may still be at it.
 * - `Refused`: the guest answered that it did not or could not, and answered a ping after that: it was the guest itself,
 *   and no gateway before it. `detail` is what it said.
 * - `Malformed`: the answer is not what the protocol says.
 *
 * @since 0.1.0
 * @category models
 */
export const GuestErrorReason = Schema.Union(
  Schema.TaggedStruct("Unreachable", { detail: Schema.String }),
  Schema.TaggedStruct("Timeout", { limit: Schema.DurationFromMillis }),
  Schema.TaggedStruct("Refused", { status: Schema.Int, detail: Schema.String }),
  Schema.TaggedStruct("Malformed", { detail: Schema.String })
)

/**
 * @since 0.1.0
 * @category models
 */
export type GuestErrorReason = typeof GuestErrorReason.Type

const describe = Match.type<GuestErrorReason>().pipe(
  Match.tagsExhaustive({
    Unreachable: ({ detail }) => `the guest cannot be reached: ${detail}`,
    Timeout: ({ limit }) => `the guest did not answer within ${Duration.format(limit)}`,
    Refused: ({ detail, status }) => `the guest answered ${status}: ${detail}`,
    Malformed: ({ detail }) => `the guest's answer makes no sense: ${detail}`
  })
)

/**
 * An operation on a guest failed. `operation` is the name of the method of `Guest`.
 *
 * @since 0.1.0
 * @category errors
 */
export class GuestError extends Schema.TaggedError<GuestError>("deskhand/GuestError")("GuestError", {
  operation: Schema.String,
  reason: GuestErrorReason
}) {
  override get message() {
    return `${this.operation}: ${describe(this.reason)}`
  }
}

/**
 * Whether the guest stopped a command because its time was over, in the words of the official server or of ours.
 *
 * @since 0.1.0
 * @category predicates
 */
export const isCommandTimeout = ({ reason }: GuestError): boolean =>
  reason._tag === "Refused" && /timed out after|did not end within/i.test(reason.detail)

/**
 * The program that the guest could not start, as the command names it, in the words of the official server (Python's
 * `[Errno 2] No such file or directory: '...'`) or of ours; `undefined` where something else went wrong.
 *
 * @since 0.1.0
 * @category getters
 */
export const notStarted = ({ reason }: GuestError): string | undefined => {
  if (reason._tag !== "Refused") return undefined
  const [, python, ours] =
    /\[Errno (?:2|8|13)\] [^:']*: '([^']+)'|(\S+) could not be started: /.exec(reason.detail) ?? []
  return python ?? ours
}

/**
 * The guest has no file at this path that can be read: nothing is there, or a folder, or what its server may not read.
 *
 * @since 0.1.0
 * @category errors
 */
export class GuestFileMissing extends Schema.TaggedError<GuestFileMissing>("deskhand/GuestFileMissing")(
  "GuestFileMissing",
  { path: Schema.String }
) {
  override get message() {
    return `the guest has no file at ${this.path}`
  }
}

/**
 * The file of this host that was to be uploaded cannot be read.
 *
 * @since 0.1.0
 * @category errors
 */
export class GuestUploadUnreadable extends Schema.TaggedError<GuestUploadUnreadable>("deskhand/GuestUploadUnreadable")(
  "GuestUploadUnreadable",
  { path: Schema.String, detail: Schema.String }
) {
  override get message() {
    return `${this.path} cannot be read, so it was not uploaded: ${this.detail}`
  }
}
