/**
 * From owners to rows: groups made whole, rows of the valid, placeholders of the failed.
 */
import * as Either from "effect/Either"
import type { Owner, RejectedOwner, ValidOwner } from "../Owner.js"
import { ownerId, type Row, rowId } from "../Row.js"
import type { Segment } from "../Segment.js"
import { StepError, type StepErrorReason } from "../StepError.js"

const refuse = (owner: Owner, reason: StepErrorReason, field: string, detail: string) =>
  Either.left(new StepError({ reason, field, detail, owner: ownerId(owner.groupId, owner.slot), group: owner.groupId }))

const sameNumbers = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

const sameSegment = (a: Segment, b: Segment): boolean =>
  sameNumbers(a.tokenIds, b.tokenIds) &&
  sameNumbers(a.tokenMask, b.tokenMask) &&
  sameNumbers(a.generationLogProbs, b.generationLogProbs) &&
  a.calls.length === b.calls.length &&
  a.calls.every(({ modelCallId }, at) => modelCallId === b.calls[at]?.modelCallId)

/** Whether an owner that came twice says the same both times. */
const sameOwner = (a: Owner, b: Owner): boolean => {
  if (a.reward !== b.reward || a.weightVersion !== b.weightVersion) return false
  if (!sameNumbers(a.promptTokenIds, b.promptTokenIds)) return false
  if (a._tag === "Rejected") return b._tag === "Rejected" && a.reason === b.reason
  return (
    b._tag === "Valid" &&
    a.segments.length === b.segments.length &&
    a.segments.every((segment, at) => {
      const other = b.segments[at]
      return other !== undefined && sameSegment(segment, other)
    })
  )
}

const checkOwner = (owner: Owner, groupSize: number): Either.Either<void, StepError> => {
  if (owner.groupId === "") return refuse(owner, "Foreign", "groupId", "an owner has no group")
  if (owner.groupSize !== groupSize) {
    return refuse(owner, "Inconsistent", "groupSize", `expected ${groupSize}, found ${owner.groupSize}`)
  }
  if (!Number.isInteger(owner.slot) || owner.slot < 0 || owner.slot >= groupSize) {
    return refuse(owner, "Foreign", "slot", `${owner.slot} is none of the group's ${groupSize}`)
  }
  if (!Number.isFinite(owner.reward)) return refuse(owner, "NotFinite", "reward", `found ${owner.reward}`)
  if (!Number.isSafeInteger(owner.weightVersion) || owner.weightVersion < 0) {
    return refuse(owner, "OutOfRange", "weightVersion", `${owner.weightVersion} is no number of steps`)
  }
  // What failed before it asked for anything has no prompt of its own; whether it needs one is seen when it gets a row.
  if (owner._tag === "Valid" && owner.promptTokenIds.length === 0) {
    return refuse(owner, "Empty", "promptTokenIds", "the owner's first prompt is missing")
  }
  return Either.right(undefined)
}

/** Groups in the order in which they appear, each with all its owners by slot. */
export const groupOwners = (
  owners: ReadonlyArray<Owner>,
  groupSize: number
): Either.Either<
  { readonly groups: ReadonlyArray<readonly [string, ReadonlyArray<Owner>]>; readonly duplicates: number },
  StepError
> => {
  const groups = new Map<string, Array<Owner | undefined>>()
  let duplicates = 0
  for (const owner of owners) {
    const checked = checkOwner(owner, groupSize)
    if (Either.isLeft(checked)) return Either.left(checked.left)
    const slots = groups.get(owner.groupId) ?? new Array<Owner | undefined>(groupSize).fill(undefined)
    groups.set(owner.groupId, slots)
    const known = slots[owner.slot]
    if (known === undefined) slots[owner.slot] = owner
    else if (sameOwner(known, owner)) duplicates++
    else return refuse(owner, "DuplicateOwner", "slot", "the owner came twice, and not the same")
  }
  const whole: Array<readonly [string, ReadonlyArray<Owner>]> = []
  for (const [groupId, slots] of groups) {
    const members = slots.filter((owner) => owner !== undefined)
    if (members.length !== groupSize) {
      const missing = ownerId(groupId, slots.indexOf(undefined))
      const detail = `the group has ${members.length} of its ${groupSize} owners`
      return Either.left(
        new StepError({ reason: "MissingOwner", field: "slot", detail, owner: missing, group: groupId })
      )
    }
    whole.push([groupId, members])
  }
  return Either.right({ groups: whole, duplicates })
}

export const rowsOf = (owner: ValidOwner): ReadonlyArray<Row> => {
  const id = ownerId(owner.groupId, owner.slot)
  return owner.segments.map((segment, index) => ({
    id: rowId(id, index),
    groupId: owner.groupId,
    groupSize: owner.groupSize,
    owner: { id, slot: owner.slot, segment: index, segmentCount: owner.segments.length },
    segment,
    promptTokenIds: owner.promptTokenIds,
    reward: owner.reward,
    sampleMask: 1,
    truncated: owner.truncated[index] ?? false,
    usesBorrowedInput: false,
    weightVersion: owner.weightVersion
  }))
}

/**
 * One masked row, of a sibling's tensors and their weights: a forward pass over it has the shapes that any other row has,
 * and a failed owner's old weights close no window.
 */
export const placeholderRow = (owner: RejectedOwner, donor: ValidOwner): Either.Either<Row, StepError> => {
  if (owner.promptTokenIds.length === 0) {
    return refuse(owner, "Empty", "promptTokenIds", "the owner's first prompt is missing")
  }
  const id = ownerId(owner.groupId, owner.slot)
  return Either.right({
    id: rowId(id, 0),
    groupId: owner.groupId,
    groupSize: owner.groupSize,
    owner: { id, slot: owner.slot, segment: 0, segmentCount: 1 },
    segment: donor.segments[0],
    promptTokenIds: owner.promptTokenIds,
    reward: owner.reward,
    sampleMask: 0,
    truncated: false,
    usesBorrowedInput: true,
    weightVersion: donor.weightVersion
  })
}
