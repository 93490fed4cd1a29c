/**
 * Who owns the rows of an optimizer step, as columns: what advantages, weights and gates look up by index.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { StepError } from "./StepError.js"
import { rowCount, type TokenBatch } from "./TokenBatch.js"

/**
 * The logical owners of a step, failed ones too. All arrays but `groupIds` are `[owners]`.
 *
 * @since 0.1.0
 * @category models
 */
export interface OwnerColumns {
  readonly ids: ReadonlyArray<string>
  /** `[groups]`: one for each dispatch group, which is what baselines and prompt weights are made over. */
  readonly groupIds: ReadonlyArray<string>
  /** Index into `groupIds`. */
  readonly group: Int32Array
  readonly reward: Float64Array
  /** 1, or 0 for an owner whose rows must not train. Whether its reward counts is up to the estimator. */
  readonly valid: Uint8Array
}

/**
 * The rows of a step, in the order of its token batch. All arrays are `[rows]`.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowColumns {
  readonly ids: ReadonlyArray<string>
  /** Index into the owners, or -1 for a row that is there to fill up a batch. */
  readonly owner: Int32Array
  /** Index into `groupIds`: the owner's group, or the one that a filling row is counted with. */
  readonly group: Int32Array
}

/**
 * A batch and who it belongs to.
 *
 * @since 0.1.0
 * @category models
 */
export interface TrainingStep {
  readonly owners: OwnerColumns
  readonly rows: RowColumns
  readonly batch: TokenBatch
}

/**
 * Groups by first appearance, and for each key the index of its group.
 *
 * @since 0.1.0
 * @category constructors
 */
export const groupBy = (
  keys: ReadonlyArray<string>
): { readonly groupIds: ReadonlyArray<string>; readonly group: Int32Array } => {
  const indices = new Map<string, number>()
  const group = Int32Array.from(keys, (key) => {
    const index = indices.get(key) ?? indices.size
    indices.set(key, index)
    return index
  })
  return { groupIds: Array.from(indices.keys()), group }
}

/**
 * Tokens that train, `[rows]`: ones of `mask` where `sampleMask` is 1.
 *
 * @since 0.1.0
 * @category queries
 */
export const rowTokens = ({
  mask,
  offsets,
  sampleMask
}: Pick<TokenBatch, "mask" | "offsets" | "sampleMask">): Float64Array => {
  const rows = offsets.length - 1
  const counts = new Float64Array(rows)
  for (let row = 0; row < rows; row++) {
    if (sampleMask[row] !== 1) continue
    const end = offsets[row + 1] ?? 0
    let count = 0
    for (let place = offsets[row] ?? 0; place < end; place++) count += mask[place] ?? 0
    counts[row] = count
  }
  return counts
}

/**
 * Tokens that train, `[owners]`: over all rows of each.
 *
 * @since 0.1.0
 * @category queries
 */
export const ownerTokens = (rowOwner: Int32Array, tokens: Float64Array, owners: number): Float64Array => {
  const counts = new Float64Array(owners)
  for (let row = 0; row < rowOwner.length; row++) {
    const owner = rowOwner[row] ?? -1
    if (owner >= 0) counts[owner] = (counts[owner] ?? 0) + (tokens[row] ?? 0)
  }
  return counts
}

const lengths = (entries: ReadonlyArray<readonly [field: string, found: number, wanted: number]>) => {
  for (const [field, found, wanted] of entries) {
    if (found !== wanted)
      return new StepError({ reason: "Length", field, detail: `has ${found} entries where ${wanted} belong` })
  }
  return undefined
}

const duplicate = (field: string, ids: ReadonlyArray<string>, name: "row" | "owner" | "group") => {
  const seen = new Set<string>()
  for (const id of ids) {
    if (seen.has(id))
      return new StepError({ reason: "DuplicateOwner", field, detail: "is there twice: give each id once", [name]: id })
    seen.add(id)
  }
  return undefined
}

const checkBatch = (batch: TokenBatch, rowIds: ReadonlyArray<string>): StepError | undefined => {
  const { current, generation, mask, offsets, previous, sampleMask } = batch
  const places = mask.length
  const wrong = lengths([
    ["offsets", offsets.length, rowIds.length + 1],
    ["sampleMask", sampleMask.length, rowIds.length],
    ["generation", generation.length, places],
    ["previous", previous.length, places],
    ["current", current.length, places]
  ])
  if (wrong !== undefined) return wrong
  let at = 0
  for (let row = 0; row < rowIds.length; row++) {
    const end = offsets[row + 1] ?? -1
    const id = rowIds[row] ?? row
    if ((offsets[row] ?? -1) !== at || end < at || end > places)
      return new StepError({
        reason: "OutOfRange",
        field: "offsets",
        detail: `${offsets[row]} to ${end} where the row begins at ${at} and the batch ends at ${places}`,
        row: id
      })
    const sample = sampleMask[row] ?? 2
    if (sample > 1)
      return new StepError({ reason: "OutOfRange", field: "sampleMask", detail: `${sample} is not 0 or 1`, row: id })
    for (let place = at; place < end; place++) {
      const one = mask[place] ?? 2
      if (one > 1)
        return new StepError({
          reason: "OutOfRange",
          field: "mask",
          detail: `${one} is not 0 or 1`,
          row: id,
          place: place - at
        })
    }
    at = end
  }
  return at === places
    ? undefined
    : new StepError({ reason: "Length", field: "offsets", detail: `rows end at ${at} and the batch at ${places}` })
}

const checkOwners = ({ group, groupIds, ids, reward, valid }: OwnerColumns): StepError | undefined => {
  if (ids.length === 0) return new StepError({ reason: "Empty", field: "owners", detail: "the step has no owner" })
  const wrong =
    lengths([
      ["owners.group", group.length, ids.length],
      ["owners.reward", reward.length, ids.length],
      ["owners.valid", valid.length, ids.length]
    ]) ??
    duplicate("owners.groupIds", groupIds, "group") ??
    duplicate("owners.ids", ids, "owner")
  if (wrong !== undefined) return wrong
  const sizes = new Int32Array(groupIds.length)
  for (let owner = 0; owner < ids.length; owner++) {
    const index = group[owner] ?? -1
    const id = ids[owner] ?? owner
    const groupId = groupIds[index]
    if (groupId === undefined)
      return new StepError({
        reason: "Foreign",
        field: "owners.group",
        detail: `${index} is none of ${groupIds.length} groups`,
        owner: id
      })
    sizes[index] = (sizes[index] ?? 0) + 1
    const value = reward[owner] ?? Number.NaN
    if (!Number.isFinite(value))
      return new StepError({
        reason: "NotFinite",
        field: "owners.reward",
        detail: `${value} is no reward: a rollout without one is a failed owner, with valid 0 and a finite reward`,
        owner: id,
        group: groupId
      })
    const flag = valid[owner] ?? 2
    if (flag > 1)
      return new StepError({
        reason: "OutOfRange",
        field: "owners.valid",
        detail: `${flag} is not 0 or 1`,
        owner: id,
        group: groupId
      })
  }
  const empty = sizes.indexOf(0)
  return empty < 0
    ? undefined
    : new StepError({
        reason: "MissingOwner",
        field: "owners.group",
        detail: "has no owner: leave the group out, or give its failed owners too",
        group: groupIds[empty] ?? empty
      })
}

const checkRows = ({ batch, owners, rows }: TrainingStep): StepError | undefined => {
  const wrong =
    lengths([
      ["rows.owner", rows.owner.length, rows.ids.length],
      ["rows.group", rows.group.length, rows.ids.length]
    ]) ?? duplicate("rows.ids", rows.ids, "row")
  if (wrong !== undefined) return wrong
  const seen = new Uint8Array(owners.ids.length)
  for (let row = 0; row < rows.ids.length; row++) {
    const id = rows.ids[row] ?? row
    const owner = rows.owner[row] ?? -2
    const group = rows.group[row] ?? -1
    const groupId = owners.groupIds[group]
    if (groupId === undefined || owner < -1 || owner >= owners.ids.length)
      return new StepError({
        reason: "Foreign",
        field: groupId === undefined ? "rows.group" : "rows.owner",
        detail: groupId === undefined ? `${group} is no group of the step` : `${owner} is no owner of the step`,
        row: id
      })
    const trains = batch.sampleMask[row] === 1
    if (owner === -1) {
      if (trains)
        return new StepError({
          reason: "Foreign",
          field: "sampleMask",
          detail: "is 1 for a row that no owner has: set it to 0",
          row: id,
          group: groupId
        })
      continue
    }
    seen[owner] = 1
    const where = { row: id, owner: owners.ids[owner] ?? owner, group: groupId }
    if (owners.group[owner] !== group)
      return new StepError({
        reason: "Foreign",
        field: "rows.group",
        detail: `the owner is of group ${owners.groupIds[owners.group[owner] ?? -1]}`,
        ...where
      })
    if (trains && owners.valid[owner] !== 1)
      return new StepError({
        reason: "OutOfRange",
        field: "sampleMask",
        detail: "is 1 for a row of a failed owner: an owner trains whole or not at all",
        ...where
      })
  }
  const missing = seen.indexOf(0)
  return missing < 0
    ? undefined
    : new StepError({
        reason: "MissingOwner",
        field: "rows.owner",
        detail: "has no row: give a failed owner one with sampleMask 0",
        owner: owners.ids[missing] ?? missing,
        group: owners.groupIds[owners.group[missing] ?? -1] ?? -1
      })
}

/**
 * Whether the columns fit together: lengths, indices, ids that are there once, masks of 0 and 1, finite rewards, no group and
 * no owner without what belongs to it, no row that trains without a valid owner. Log-probabilities are looked at when they are
 * used. Names the first thing that is wrong, with its row, owner and group.
 *
 * @since 0.1.0
 * @category validation
 */
export const validate = (step: TrainingStep): Either.Either<TrainingStep, StepError> => {
  const wrong = checkOwners(step.owners) ?? checkBatch(step.batch, step.rows.ids) ?? checkRows(step)
  return wrong === undefined ? Either.right(step) : Either.left(wrong)
}

/**
 * The most places that a row has.
 *
 * @since 0.1.0
 * @category queries
 */
export const longestRow = (batch: TokenBatch): number => {
  let longest = 0
  for (let row = 0; row < rowCount(batch); row++)
    longest = Math.max(longest, (batch.offsets[row + 1] ?? 0) - (batch.offsets[row] ?? 0))
  return longest
}
