/**
 * What can be wrong with the numbers and names of an optimizer step.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * - `NotFinite`: a number is NaN or infinite.
 * - `OutOfRange`: a number is finite and can't be what it stands for: a log-probability above 0, a mask of 2.
 * - `Length`: two arrays that belong together have different lengths.
 * - `MissingOwner`: a slot of a group has no owner, or an owner has no row.
 * - `DuplicateOwner`: an owner, a row or a group is there twice.
 * - `Inconsistent`: what must be the same in several places differs: an id and its parts, the rewards of an owner's rows.
 * - `Foreign`: a row or an owner points to something that is not of this step.
 * - `Empty`: there is nothing to train on: no owner, no group, no valid token in the whole step.
 *
 * @since 0.1.0
 * @category models
 */
export const StepErrorReason = Schema.Literal(
  "NotFinite",
  "OutOfRange",
  "Length",
  "MissingOwner",
  "DuplicateOwner",
  "Inconsistent",
  "Foreign",
  "Empty"
)

/**
 * @since 0.1.0
 * @category models
 */
export type StepErrorReason = typeof StepErrorReason.Type

/**
 * A step that can't be computed. No part of its result counts; a step whose rewards are all zero is none of these.
 *
 * @since 0.1.0
 * @category errors
 */
export class StepError extends Schema.TaggedError<StepError>("deskhand/StepError")("StepError", {
  reason: StepErrorReason,
  /** The array or the property: `rewards`, `generation`. */
  field: Schema.String,
  /** What was found, and what would be right. */
  detail: Schema.String,
  /** Ids where they are known, else indices. */
  row: Schema.optionalWith(Schema.Union(Schema.String, Schema.Number), { exact: true }),
  owner: Schema.optionalWith(Schema.Union(Schema.String, Schema.Number), { exact: true }),
  group: Schema.optionalWith(Schema.Union(Schema.String, Schema.Number), { exact: true }),
  /** The place in the row, counted from 0. */
  place: Schema.optionalWith(Schema.Number, { exact: true })
}) {
  override get message() {
    const where = [
      this.place === undefined ? [] : [`place ${this.place}`],
      this.row === undefined ? [] : [`row ${this.row}`],
      this.owner === undefined ? [] : [`owner ${this.owner}`],
      this.group === undefined ? [] : [`group ${this.group}`]
    ].flat()
    return `${this.field}${where.length === 0 ? "" : ` (${where.join(", ")})`}: ${this.detail}`
  }
}

/**
 * A combination of settings that is not offered.
 *
 * @since 0.1.0
 * @category errors
 */
export class ObjectiveError extends Schema.TaggedError<ObjectiveError>("deskhand/ObjectiveError")("ObjectiveError", {
  /** Path in the objective: `gate.max`, `aggregation.name`. */
  field: Schema.String,
  found: Schema.String,
  why: Schema.String,
  /** What to set instead. */
  remedy: Schema.String
}) {
  override get message() {
    return `${this.field} is ${this.found}: ${this.why}. ${this.remedy}`
  }
}
