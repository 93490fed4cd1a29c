import * as Schema from "effect/Schema"

/** What was asked for cannot be done as it was asked. Nothing has been started. */
export class UsageError extends Schema.TaggedError<UsageError>("deskhand/UsageError")("UsageError", {
  reason: Schema.String
}) {
  override get message() {
    return this.reason
  }
}

export const usage = (reason: string): UsageError => new UsageError({ reason })
