/**
 * Rows of an optimizer step: which owner each is of, and whether together they are whole.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { Segment } from "./Segment.js"
import { StepError, type StepErrorReason } from "./StepError.js"

// -----------------------------------------------------------------------------
// Ids
// -----------------------------------------------------------------------------

/**
 * `{group}_g{slot}`.
 *
 * @since 0.1.0
 * @category ids
 */
export const ownerId = (groupId: string, slot: number): string => `${groupId}_g${slot}`

/**
 * `{owner}_s{segment}`.
 *
 * @since 0.1.0
 * @category ids
 */
export const rowId = (owner: string, segment: number): string => `${owner}_s${segment}`

/**
 * `{group}_pad{index}`.
 *
 * @since 0.1.0
 * @category ids
 */
export const paddingRowId = (groupId: string, index: number): string => `${groupId}_pad${index}`

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * Which part of which owner a row is.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowOwner {
  /** `{group}_g{slot}`. */
  readonly id: string
  /** From 0 to the group's size - 1. */
  readonly slot: number
  /** From 0 to `segmentCount` - 1. */
  readonly segment: number
  readonly segmentCount: number
}

/**
 * One row: a segment's tokens, and what the whole owner has.
 *
 * @since 0.1.0
 * @category models
 */
export interface Row {
  /** `{owner}_s{segment}`, or `{group}_pad{index}`. */
  readonly id: string
  /** The group that was dispatched: two dispatches of one task are two groups. */
  readonly groupId: string
  /** How many owners the group has. */
  readonly groupSize: number
  /** `undefined` for a row that pads. */
  readonly owner: RowOwner | undefined
  readonly segment: Segment
  /** The prompt that the owner was dispatched with. */
  readonly promptTokenIds: Int32Array
  /** The owner's, on each of its rows; 0 where the row pads. */
  readonly reward: number
  /** 0 where the row must not train. */
  readonly sampleMask: number
  readonly truncated: boolean
  /** Whether tokens, pictures and routes are a sibling's, because the owner failed. */
  readonly usesBorrowedInput: boolean
  /** The lowest number of optimizer steps behind the weights of the owner's calls. */
  readonly weightVersion: number
}

/**
 * An owner as its rows show it.
 *
 * @since 0.1.0
 * @category models
 */
export interface TableOwner {
  readonly id: string
  /** Which of the groups, from 0. */
  readonly group: number
  readonly slot: number
  readonly reward: number
  /** Whether all of its rows may train. */
  readonly valid: boolean
  /** Indices of its rows, by segment. The first stands for the owner. */
  readonly rows: ReadonlyArray<number>
}

/**
 * Who owns the rows of a step: groups in the order in which they appear, and of each all owners by slot.
 *
 * @since 0.1.0
 * @category models
 */
export interface OwnerTable {
  readonly groupIds: ReadonlyArray<string>
  /** Of every group the same. */
  readonly groupSize: number
  /** `[groups * groupSize]`. */
  readonly owners: ReadonlyArray<TableOwner>
  /** `[rows]`: index of the owner, -1 where the row pads. */
  readonly rowOwner: Int32Array
}

// -----------------------------------------------------------------------------
// Validation
// -----------------------------------------------------------------------------

const refuse = (row: Row, reason: StepErrorReason, field: string, detail: string, place?: number) =>
  Either.left(
    new StepError({
      reason,
      field,
      detail,
      row: row.id,
      group: row.groupId,
      ...(row.owner === undefined ? {} : { owner: row.owner.id }),
      ...(place === undefined ? {} : { place })
    })
  )

const badPlace = (row: Row): Either.Either<void, StepError> => {
  const { generationLogProbs, tokenIds, tokenMask } = row.segment
  if (tokenIds.length === 0) return refuse(row, "Empty", "tokenIds", "a row has no token")
  if (tokenMask.length !== tokenIds.length || generationLogProbs.length !== tokenIds.length) {
    const detail = `${tokenIds.length} tokens have a mask of ${tokenMask.length} and ${generationLogProbs.length} log-probabilities`
    return refuse(row, "Length", "tokenMask", detail)
  }
  for (let at = 0; at < tokenIds.length; at++) {
    const mask = tokenMask[at]
    if (mask !== 0 && mask !== 1) return refuse(row, "OutOfRange", "tokenMask", `expected 0 or 1, found ${mask}`, at)
    const token = tokenIds[at] ?? -1
    if (token < 0) return refuse(row, "OutOfRange", "tokenIds", `${token} is no token id`, at)
    const value = generationLogProbs[at] ?? Number.NaN
    if (!Number.isFinite(value)) return refuse(row, "NotFinite", "generationLogProbs", `found ${value}`, at)
    if (value > 0) return refuse(row, "OutOfRange", "generationLogProbs", `${value} is above 0`, at)
  }
  return Either.right(undefined)
}

/** What can be said of a row alone. */
const checkRow = (row: Row, groupSize: number, window: WeightWindow | undefined): Either.Either<void, StepError> => {
  const { groupId, owner, promptTokenIds, reward, sampleMask, weightVersion } = row
  if (groupId === "") return refuse(row, "Foreign", "groupId", "a row has no group")
  if (row.groupSize !== groupSize) {
    return refuse(row, "Inconsistent", "groupSize", `expected ${groupSize}, found ${row.groupSize}`)
  }
  if (!Number.isFinite(reward)) return refuse(row, "NotFinite", "reward", `found ${reward}`)
  if (sampleMask !== 0 && sampleMask !== 1) {
    return refuse(row, "OutOfRange", "sampleMask", `expected 0 or 1, found ${sampleMask}`)
  }
  if (!Number.isSafeInteger(weightVersion) || weightVersion < 0) {
    return refuse(row, "OutOfRange", "weightVersion", `${weightVersion} is no number of steps`)
  }
  if (window !== undefined && owner !== undefined && (weightVersion < window.min || weightVersion > window.max)) {
    const detail = `weights ${weightVersion} are not between ${window.min} and ${window.max}`
    return refuse(row, "OutOfRange", "weightVersion", detail)
  }
  if (owner === undefined) {
    if (sampleMask !== 0) return refuse(row, "OutOfRange", "sampleMask", "a row that pads must not train")
    if (!row.id.startsWith(`${groupId}_pad`) || !/^\d+$/.test(row.id.slice(groupId.length + 4))) {
      return refuse(row, "Inconsistent", "id", `expected ${paddingRowId(groupId, 0)} or one after it`)
    }
    return badPlace(row)
  }
  if (!Number.isInteger(owner.slot) || owner.slot < 0 || owner.slot >= groupSize) {
    return refuse(row, "Foreign", "slot", `${owner.slot} is none of the group's ${groupSize}`)
  }
  if (owner.id !== ownerId(groupId, owner.slot)) {
    return refuse(row, "Inconsistent", "owner", `expected ${ownerId(groupId, owner.slot)}, found ${owner.id}`)
  }
  const { segment, segmentCount } = owner
  if (!Number.isInteger(segment) || !Number.isInteger(segmentCount) || segment < 0 || segment >= segmentCount) {
    return refuse(row, "OutOfRange", "segment", `${segment} is none of ${segmentCount}`)
  }
  if (row.id !== rowId(owner.id, segment)) {
    return refuse(row, "Inconsistent", "id", `expected ${rowId(owner.id, segment)}`)
  }
  if (row.usesBorrowedInput && sampleMask !== 0) {
    return refuse(row, "OutOfRange", "sampleMask", "a row with a sibling's tokens must not train")
  }
  if (promptTokenIds.length === 0) return refuse(row, "Empty", "promptTokenIds", "the owner's first prompt is missing")
  const negative = promptTokenIds.findIndex((token) => token < 0)
  if (negative >= 0) {
    return refuse(row, "OutOfRange", "promptTokenIds", `${promptTokenIds[negative]} is no token id`, negative)
  }
  return badPlace(row)
}

const sameIds = (a: Int32Array, b: Int32Array): boolean => a.length === b.length && a.every((id, at) => id === b[at])

/** What can be said of an owner's rows together. */
const checkOwner = (
  rows: ReadonlyArray<Row>,
  indices: ReadonlyArray<number>
): Either.Either<ReadonlyArray<number>, StepError> => {
  const bySegment = new Array<number>(indices.length).fill(-1)
  const first = rows[indices[0] ?? -1]
  if (first === undefined) return Either.right(indices)
  for (const index of indices) {
    const row = rows[index]
    if (row?.owner === undefined) continue
    const { segment, segmentCount } = row.owner
    if (segmentCount !== indices.length) {
      const detail = `the owner has ${indices.length} rows, and this one says ${segmentCount}`
      return refuse(row, "MissingOwner", "segmentCount", detail)
    }
    if (bySegment[segment] !== -1) return refuse(row, "DuplicateOwner", "segment", `segment ${segment} is there twice`)
    bySegment[segment] = index
    if (row.reward !== first.reward) {
      return refuse(row, "Inconsistent", "reward", `${row.reward}, and row ${first.id} has ${first.reward}`)
    }
    if (!sameIds(row.promptTokenIds, first.promptTokenIds)) {
      return refuse(row, "Inconsistent", "promptTokenIds", `row ${first.id} has another prompt`)
    }
  }
  return Either.right(bySegment)
}

/**
 * Bounds, inclusive, of the weights that a step may train on.
 *
 * @since 0.1.0
 * @category models
 */
export interface WeightWindow {
  readonly min: number
  readonly max: number
}

/**
 * What rows are held against.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowsExpected {
  /** Owners of each group. */
  readonly groupSize: number
  /** The groups that were dispatched; any when absent. */
  readonly groupIds?: ReadonlyArray<string>
  /** Any weights when absent. */
  readonly weights?: WeightWindow
}

/**
 * Who owns the rows. Fails at the first row, owner or group that is not whole: ids that repeat or don't fit their parts,
 * groups that lack a slot or weren't dispatched, owners that lack a segment or whose rows differ in reward or prompt,
 * numbers that are none, no owner at all.
 *
 * @since 0.1.0
 * @category validation
 */
export const validate = (
  rows: ReadonlyArray<Row>,
  { groupIds, groupSize, weights }: RowsExpected
): Either.Either<OwnerTable, StepError> => {
  const ids = new Set<string>()
  const dispatched = groupIds === undefined ? undefined : new Set(groupIds)
  const groups = new Map<string, Array<Array<number>>>()
  for (const [index, row] of rows.entries()) {
    if (ids.has(row.id)) return refuse(row, "DuplicateOwner", "id", "two rows have this id")
    ids.add(row.id)
    const checked = checkRow(row, groupSize, weights)
    if (Either.isLeft(checked)) return Either.left(checked.left)
    if (dispatched?.has(row.groupId) === false) {
      return refuse(row, "Foreign", "groupId", "the group was not dispatched for this step")
    }
    if (row.owner === undefined) continue
    const slots = groups.get(row.groupId) ?? Array.from({ length: groupSize }, (): Array<number> => [])
    groups.set(row.groupId, slots)
    slots[row.owner.slot]?.push(index)
  }
  if (groups.size === 0) {
    return Either.left(new StepError({ reason: "Empty", field: "rows", detail: "no row has an owner" }))
  }
  const absent = groupIds?.find((group) => !groups.has(group))
  if (absent !== undefined) {
    const detail = "the group has no row"
    return Either.left(new StepError({ reason: "MissingOwner", field: "groupId", detail, group: absent }))
  }
  const rowOwner = new Int32Array(rows.length).fill(-1)
  const owners: Array<TableOwner> = []
  const known = [...groups.keys()]
  for (const [group, [groupId, slots]] of [...groups].entries()) {
    for (const [slot, indices] of slots.entries()) {
      const id = ownerId(groupId, slot)
      if (indices.length === 0) {
        const detail = "the owner has no row"
        return Either.left(new StepError({ reason: "MissingOwner", field: "slot", detail, owner: id, group: groupId }))
      }
      const checked = checkOwner(rows, indices)
      if (Either.isLeft(checked)) return Either.left(checked.left)
      const first = rows[checked.right[0] ?? -1]
      if (first === undefined) continue
      const valid = indices.every((index) => rows[index]?.sampleMask === 1)
      for (const index of indices) rowOwner[index] = owners.length
      owners.push({ id, group, slot, reward: first.reward, valid, rows: checked.right })
    }
  }
  // Padding of a group that has no owner here would be counted for nobody.
  const stray = rows.find(({ groupId }) => !groups.has(groupId))
  if (stray !== undefined) return refuse(stray, "Foreign", "groupId", "the row pads a group that has no owner")
  return Either.right({ groupIds: known, groupSize, owners, rowOwner })
}

/**
 * One value for each row from one for each owner: `[owners]` to `[rows]`, 0 where a row pads.
 *
 * @since 0.1.0
 * @category operations
 */
export const fanOut = (
  { groupIds, owners, rowOwner }: OwnerTable,
  values: ArrayLike<number>
): Either.Either<Float64Array, StepError> => {
  if (values.length !== owners.length) {
    const detail = `${owners.length} owners have ${values.length} values`
    return Either.left(new StepError({ reason: "Length", field: "values", detail }))
  }
  for (const [index, { group, id }] of owners.entries()) {
    const value = values[index]
    if (value === undefined || !Number.isFinite(value)) {
      const at = { owner: id, group: groupIds[group] ?? group }
      return Either.left(new StepError({ reason: "NotFinite", field: "values", detail: `found ${value}`, ...at }))
    }
  }
  return Either.right(Float64Array.from(rowOwner, (owner) => (owner < 0 ? 0 : (values[owner] ?? 0))))
}
