/**
 * One optimizer step's rows while they arrive, and the checks that make them a step: weights in reach, whole groups, each
 * once, every owner. Advantages that look over the whole batch are computed when it is closed, and once.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import { ownerId } from "./Row.js"
import type { Sampler } from "./Window.js"

/**
 * What the window looks at in a row. A `Row` is one.
 *
 * @since 0.1.0
 * @category models
 */
export interface WindowRow {
  readonly id: string
  /** The group that was dispatched. */
  readonly groupId: string
  /** Absent where the row only fills up. */
  readonly owner: { readonly id: string; readonly slot: number } | undefined
  /** Whether the tensors are a sibling's, because the owner has none of its own. */
  readonly usesBorrowedInput: boolean
  /** 0 where the row must not train. */
  readonly sampleMask: number
  /** The oldest weights that its tokens were generated with. */
  readonly weightVersion: number
  /** 1 where the policy generated the token. */
  readonly segment: { readonly tokenMask: ArrayLike<number> }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface GenerationWindowOptions {
  readonly sampler: Sampler
  /** The trainer's weight version: the step that is being made up. */
  readonly version: number
  /** Groups of the step. */
  readonly prompts: number
  /** Owners of a group. */
  readonly generations: number
}

/**
 * - `options`: the window itself makes no sense
 * - `flag`, `number`: a field is not what it has to be
 * - `stale`, `ahead`: the row's weights are older than the window, or newer than the trainer
 * - `repeated`: the group has come before, or a row is there twice
 * - `incomplete`: a group has not all of its owners
 * - `foreign`: an owner that the group has no place for
 * - `surplus`, `short`: more groups than the step has, or fewer at its close
 * - `empty`: no token of the whole step trains
 *
 * @since 0.1.0
 * @category models
 */
export type GenerationWindowReason =
  | "options"
  | "flag"
  | "number"
  | "stale"
  | "ahead"
  | "repeated"
  | "incomplete"
  | "foreign"
  | "surplus"
  | "short"
  | "empty"

/**
 * Rows that make no step. Nothing of them may train.
 *
 * @since 0.1.0
 * @category errors
 */
export class GenerationWindowError extends Data.TaggedError("GenerationWindowError")<{
  readonly reason: GenerationWindowReason
  /** The step. */
  readonly version: number
  readonly row: string | undefined
  readonly owner: string | undefined
  readonly group: string | undefined
  readonly detail: string
}> {
  override get message() {
    const where = [
      ...(this.row === undefined ? [] : [`row ${this.row}`]),
      ...(this.owner === undefined ? [] : [`owner ${this.owner}`]),
      ...(this.group === undefined ? [] : [`group ${this.group}`])
    ]
    return `step ${this.version}${where.length === 0 ? "" : `, ${where.join(", ")}`}: ${this.detail}`
  }
}

/**
 * The rows so far, in the order in which they came.
 *
 * @since 0.1.0
 * @category models
 */
export interface GenerationWindow<Row extends WindowRow> extends GenerationWindowOptions {
  readonly rows: ReadonlyArray<Row>
  readonly groups: ReadonlySet<string>
  readonly validTokens: number
}

/**
 * A whole step.
 *
 * @since 0.1.0
 * @category models
 */
export interface StagedStep<Row extends WindowRow> {
  readonly version: number
  /** All of them: the population that advantages and denominators are over. */
  readonly rows: ReadonlyArray<Row>
  /** In the order in which they came. */
  readonly groups: ReadonlyArray<string>
  readonly owners: number
  readonly validTokens: number
}

interface At {
  readonly row?: string | undefined
  readonly owner?: string | undefined
  readonly group?: string | undefined
}

const fault = (version: number, reason: GenerationWindowReason, detail: string, at: At = {}) =>
  Either.left(new GenerationWindowError({ reason, version, row: at.row, owner: at.owner, group: at.group, detail }))

const placeOf = ({ groupId, id, owner }: WindowRow): At => ({ row: id, owner: owner?.id, group: groupId })

/** Tokens of the row that train; its first one is predicted by nothing. */
const validTokensOf = ({ sampleMask, segment: { tokenMask } }: WindowRow): number => {
  if (sampleMask === 0) return 0
  let count = 0
  for (let at = 1; at < tokenMask.length; at++) count += tokenMask[at] === 1 ? 1 : 0
  return count
}

/**
 * `[oldest, newest]`, both inclusive: the weights that rows of the step may be from. Samplers other than `windowed` answer
 * for no staleness, so a step of theirs takes rows of its own version alone.
 *
 * @since 0.1.0
 * @category queries
 */
export const allowedVersions = (sampler: Sampler, version: number): readonly [oldest: number, newest: number] =>
  sampler.name === "windowed" ? [Math.max(0, version - sampler.maxStaleness), version] : [version, version]

/**
 * A window for one step, empty.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open = <Row extends WindowRow = WindowRow>(
  options: GenerationWindowOptions
): Either.Either<GenerationWindow<Row>, GenerationWindowError> => {
  const { generations, prompts, version } = options
  const wrong = [
    [version, 0, "its weight version"],
    [prompts, 1, "its number of groups"],
    [generations, 1, "the number of owners of a group"]
  ] as const
  for (const [value, least, what] of wrong) {
    if (!Number.isInteger(value) || value < least) {
      return fault(version, "options", `${what} is ${value}: it has to be a whole number from ${least}`)
    }
  }
  return Either.right({ ...options, rows: [], groups: new Set(), validTokens: 0 })
}

/** What one row says of itself. */
const checkRow = <Row extends WindowRow>(
  { generations, groups, sampler, version }: GenerationWindow<Row>,
  row: Row
): Either.Either<void, GenerationWindowError> => {
  const { groupId, owner, sampleMask, weightVersion } = row
  const wrong = (reason: GenerationWindowReason, detail: string) => fault(version, reason, detail, placeOf(row))
  // Rows may come from files, where 1 passes for true until somebody counts with it.
  const borrowed: unknown = row.usesBorrowedInput
  if (typeof borrowed !== "boolean") {
    return wrong("flag", `usesBorrowedInput is ${JSON.stringify(borrowed)}: it has to be true or false`)
  }
  if (sampleMask !== 0 && sampleMask !== 1)
    return wrong("number", `its sample mask is ${sampleMask}: it has to be 0 or 1`)
  if (owner === undefined) {
    return sampleMask === 0 ? Either.void : wrong("foreign", "no owner has it, so it must not train")
  }
  if (!Number.isInteger(weightVersion)) {
    return wrong("number", `its weight version is ${weightVersion}: it has to be a whole number`)
  }
  const [oldest, newest] = allowedVersions(sampler, version)
  if (weightVersion < oldest) {
    return wrong("stale", `its weights are version ${weightVersion}, and the oldest that may train are ${oldest}`)
  }
  if (weightVersion > newest) {
    return wrong("ahead", `its weights are version ${weightVersion}, and the trainer has only made ${newest}`)
  }
  if (groups.has(groupId)) return wrong("repeated", "its group has come before. A group comes whole, and once")
  const { id, slot } = owner
  if (!Number.isInteger(slot) || slot < 0 || slot >= generations) {
    return wrong("foreign", `its slot is ${slot}, and a group has the slots 0 to ${generations - 1}`)
  }
  return id === ownerId(groupId, slot)
    ? Either.void
    : wrong("foreign", `slot ${slot} of the group is ${ownerId(groupId, slot)}`)
}

/**
 * The next rows: only groups that have not come yet, and of each all owners. The order of rows is kept.
 *
 * @since 0.1.0
 * @category operations
 */
export const add = <Row extends WindowRow>(
  window: GenerationWindow<Row>,
  rows: ReadonlyArray<Row>
): Either.Either<GenerationWindow<Row>, GenerationWindowError> => {
  const { generations, prompts, version } = window
  const seen = new Set<string>()
  const slots = new Map<string, Set<number>>()
  let validTokens = 0
  for (const row of rows) {
    const checked = checkRow(window, row)
    if (Either.isLeft(checked)) return Either.left(checked.left)
    if (seen.has(row.id)) return fault(version, "repeated", "the row is there twice", placeOf(row))
    seen.add(row.id)
    validTokens += validTokensOf(row)
    if (row.owner === undefined) continue
    const filled = slots.get(row.groupId)
    if (filled === undefined) slots.set(row.groupId, new Set([row.owner.slot]))
    else filled.add(row.owner.slot)
  }
  for (const [group, filled] of slots) {
    if (filled.size === generations) continue
    const missing = Array.from({ length: generations }, (_, slot) => slot).filter((slot) => !filled.has(slot))
    return fault(version, "incomplete", `it has no row of ${missing.map((slot) => `slot ${slot}`).join(", ")}`, {
      group
    })
  }
  const groups = new Set([...window.groups, ...slots.keys()])
  if (groups.size > prompts) {
    const [group] = Array.from(slots.keys()).slice(prompts - window.groups.size)
    return fault(version, "surplus", `the step has ${prompts} groups, and this is one more`, { group })
  }
  return Either.right({
    ...window,
    rows: [...window.rows, ...rows],
    groups,
    validTokens: window.validTokens + validTokens
  })
}

/**
 * The whole step. `groups` is how many it has to have: all of them, unless drops have made it smaller. A step whose rewards
 * are all the same is whole like any other; one in which no token trains is not.
 *
 * @since 0.1.0
 * @category operations
 */
export const close = <Row extends WindowRow>(
  window: GenerationWindow<Row>,
  { groups: wanted = window.prompts }: { readonly groups?: number } = {}
): Either.Either<StagedStep<Row>, GenerationWindowError> => {
  const { generations, groups, rows, validTokens, version } = window
  if (groups.size !== wanted) {
    return fault(
      version,
      "short",
      `it has ${groups.size} groups with ${groups.size * generations} owners, and needs ${wanted} with ${wanted * generations}`
    )
  }
  if (validTokens === 0) {
    return fault(version, "empty", `none of its ${rows.length} rows has a token that trains. Every owner failed`)
  }
  return Either.right({ version, rows, groups: [...groups], owners: groups.size * generations, validTokens })
}
