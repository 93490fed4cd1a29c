/**
 * The seven tags that say which owner a row is of, wherever it travels.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ownerId, type Row } from "./Row.js"

/**
 * The seven tags that every row carries when it leaves the process.
 *
 * @since 0.1.0
 * @category models
 */
export const RowTags = Schema.Struct({
  dispatch_group_id: Schema.NonEmptyString,
  logical_rollout_id: Schema.NullOr(Schema.NonEmptyString),
  logical_slot: Schema.NullOr(Schema.NonNegativeInt),
  logical_group_size: Schema.Int.pipe(Schema.positive()),
  segment_index: Schema.NullOr(Schema.NonNegativeInt),
  segment_count: Schema.NonNegativeInt,
  is_execution_padding: Schema.Boolean
}).pipe(
  Schema.filter((tags) => {
    const none = tags.logical_rollout_id === null && tags.logical_slot === null && tags.segment_index === null
    if (tags.is_execution_padding) {
      return none && tags.segment_count === 0 ? undefined : "a row that pads has no owner, no slot and no segment"
    }
    const { logical_rollout_id, logical_slot, segment_index } = tags
    if (logical_rollout_id === null || logical_slot === null || segment_index === null) {
      return "a row that doesn't pad has an owner, a slot and a segment"
    }
    if (logical_slot >= tags.logical_group_size) return "the slot is not one of the group's"
    if (segment_index >= tags.segment_count) return "the segment is not one of the owner's"
    const id = ownerId(tags.dispatch_group_id, logical_slot)
    return logical_rollout_id === id ? undefined : `the owner's id is ${logical_rollout_id}, expected ${id}`
  })
)

/**
 * @since 0.1.0
 * @category models
 */
export type RowTags = typeof RowTags.Type

/**
 * The tags of a row of a batch, under the field's names; padding has no owner, and nulls.
 *
 * @since 0.1.0
 * @category conversions
 */
export const tagsOf = ({ groupId, groupSize, owner }: Row): RowTags => ({
  dispatch_group_id: groupId,
  logical_rollout_id: owner?.id ?? null,
  logical_slot: owner?.slot ?? null,
  logical_group_size: groupSize,
  segment_index: owner?.segment ?? null,
  segment_count: owner?.segmentCount ?? 0,
  is_execution_padding: owner === undefined
})

/**
 * Reads tags; other keys are left alone. Nothing is mended: `"true"` and `1` are no booleans, `"3"` is no slot.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decodeTags = Schema.decodeUnknownEither(RowTags)

/**
 * Owner and place of a row from its tags.
 *
 * @since 0.1.0
 * @category conversions
 */
export const fromTags = (tags: RowTags): Pick<Row, "groupId" | "groupSize" | "owner"> => ({
  groupId: tags.dispatch_group_id,
  groupSize: tags.logical_group_size,
  owner:
    tags.logical_rollout_id === null || tags.logical_slot === null || tags.segment_index === null
      ? undefined
      : {
          id: tags.logical_rollout_id,
          slot: tags.logical_slot,
          segment: tags.segment_index,
          segmentCount: tags.segment_count
        }
})

const ownerTags = [
  "dispatch_group_id",
  "logical_rollout_id",
  "logical_slot",
  "logical_group_size",
  "segment_index",
  "segment_count",
  "is_execution_padding"
] as const

/**
 * Whether a record has any of the seven tags: then it belongs to an owner, and an objective that knows rows alone must not
 * get it.
 *
 * @since 0.1.0
 * @category checks
 */
export const carriesOwnerTags = (record: Readonly<Record<string, unknown>>): boolean =>
  ownerTags.some((tag) => Object.hasOwn(record, tag))
