/**
 * The one way in which a collection itself fails: its own files.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The run's own files could not be read or written, or are another run's. The run stops: rows that cannot be kept are
 * not worth making.
 *
 * @since 0.1.0
 * @category errors
 */
export class CollectError extends Schema.TaggedError<CollectError>("deskhand/CollectError")("CollectError", {
  path: Schema.String,
  reason: Schema.String,
  remedy: Schema.String
}) {
  override get message() {
    return `${this.path}: ${this.reason}. ${this.remedy}`
  }
}
