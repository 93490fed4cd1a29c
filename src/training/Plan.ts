/**
 * The plan of one optimizer step: which rollouts and rows it is made of, as a record that can be checked without the
 * tokens.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as Either from "effect/Either"
import { stableId } from "../identity/StableId.js"
import type { Batch } from "./Batch.js"
import { StepError } from "./StepError.js"

// -----------------------------------------------------------------------------
// Ids
// -----------------------------------------------------------------------------

export {
  /**
   * @since 0.1.0
   * @category models
   */
  type RolloutParts,
  /**
   * @since 0.1.0
   * @category ids
   */
  rolloutId
} from "../identity/TrajectoryIdentity.js"

/**
 * `{rollout}:trace-{index}`, the index of six digits at least.
 *
 * @since 0.1.0
 * @category ids
 */
export const traceId = (rollout: string, index: number): string => `${rollout}:trace-${String(index).padStart(6, "0")}`

/**
 * Which rollout of its task a row of a dispatched batch is: `base` counts the times that the task was dispatched before.
 *
 * @since 0.1.0
 * @category ids
 */
export const rolloutIndex = (base: number, groupSize: number, row: number): number =>
  base * groupSize + (row % groupSize)

// -----------------------------------------------------------------------------
// Plan
// -----------------------------------------------------------------------------

/**
 * A row of a plan. Keys are the field's.
 *
 * @since 0.1.0
 * @category models
 */
export interface PlanRow {
  readonly row_index: number
  readonly row_kind: "trace" | "padding"
  /** Index of the owner; null where the row pads. */
  readonly parent_rollout_index: number | null
  readonly rollout_id: string | null
  readonly group_id: string
  readonly trace_id: string
  readonly trace_index: number | null
  readonly reward: number
  /** The owner's; 0 where the row pads. */
  readonly advantage: number
  readonly sample_mask: number
  readonly token_count: number
  /** Tokens that train. */
  readonly eligible_token_count: number
  /** Calls whose replies train in the row, in order. */
  readonly completion_ids: ReadonlyArray<string>
  readonly ordered_media_ids: ReadonlyArray<string>
}

/**
 * What a step is made of. Keys are the field's.
 *
 * @since 0.1.0
 * @category models
 */
export interface Plan {
  readonly schema_version: 1
  /** A hash of the step's id, the quantum and the rows. */
  readonly plan_id: string
  readonly optimizer_step_id: string
  readonly advantage_estimator_name: string
  readonly loss_normalization: string
  /** Rows of one owner are several sequences, so neither ratios nor clipping may go by sequence. */
  readonly sequence_level_ratios_enabled: false
  readonly sequence_level_clipping_enabled: false
  readonly expected_rollouts_per_group: number
  readonly batch_quantum: number
  readonly comparison_group_count: number
  /** Owners: what a learning-rate schedule counts. */
  readonly logical_rollout_count: number
  readonly physical_trace_count: number
  readonly padding_row_count: number
  readonly total_row_count: number
  readonly eligible_action_token_count: number
  readonly duplicate_retry_count: number
  readonly group_ids: ReadonlyArray<string>
  readonly rollout_ids: ReadonlyArray<string>
  /** `[rows]`: index of the owner, -1 where the row pads. */
  readonly parent_indices: ReadonlyArray<number>
  readonly rollout_to_rows: Readonly<Record<string, ReadonlyArray<number>>>
  readonly rows: ReadonlyArray<PlanRow>
}

/**
 * What a batch does not say.
 *
 * @since 0.1.0
 * @category models
 */
export interface PlanOptions {
  readonly optimizerStepId: string
  readonly advantageEstimator: string
  readonly lossNormalization: string
  readonly batchQuantum: number
  /** `[owners]`. */
  readonly advantages: ArrayLike<number>
  /** Owners that came twice, the same each time. */
  readonly duplicates: number
}

/**
 * The plan of a batch. Fails when an advantage is missing or not finite, when the rows are no multiple of the quantum, and
 * when a reply would train twice.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (batch: Batch, options: PlanOptions): Either.Either<Plan, StepError> => {
  const { owners, rows, tokens } = batch
  const { advantages, batchQuantum } = options
  const left = (error: ConstructorParameters<typeof StepError>[0]) => Either.left(new StepError(error))
  if (advantages.length !== owners.owners.length) {
    const detail = `${owners.owners.length} owners have ${advantages.length} advantages`
    return left({ reason: "Length", field: "advantages", detail })
  }
  for (const [index, { group, id }] of owners.owners.entries()) {
    const advantage = advantages[index]
    if (advantage === undefined || !Number.isFinite(advantage)) {
      const detail = `found ${advantage}`
      return left({
        reason: "NotFinite",
        field: "advantages",
        detail,
        owner: id,
        group: owners.groupIds[group] ?? group
      })
    }
  }
  if (!(batchQuantum >= 1) || rows.length % batchQuantum !== 0) {
    const detail = `${rows.length} rows are no multiple of ${batchQuantum}`
    return left({ reason: "Length", field: "batchQuantum", detail })
  }
  const completions = new Set<string>()
  const planned: Array<PlanRow> = []
  for (const [index, row] of rows.entries()) {
    const parent = owners.rowOwner[index] ?? -1
    let eligible = 0
    const end = tokens.offsets[index + 1] ?? 0
    for (let at = tokens.offsets[index] ?? 0; at < end; at++) eligible += tokens.mask[at] ?? 0
    // What was borrowed is a sibling's, and trains there.
    const trains = tokens.sampleMask[index] === 1
    const own = trains ? row.segment.calls.filter(({ owned }) => owned).map(({ modelCallId }) => modelCallId) : []
    for (const id of own) {
      const key = `${row.owner?.id} ${id}`
      if (completions.has(key)) {
        const detail = `call ${id} trains in two rows`
        return left({ reason: "DuplicateOwner", field: "calls", detail, row: row.id, group: row.groupId })
      }
      completions.add(key)
    }
    planned.push({
      row_index: index,
      row_kind: row.owner === undefined ? "padding" : "trace",
      parent_rollout_index: row.owner === undefined ? null : parent,
      rollout_id: row.owner?.id ?? null,
      group_id: row.groupId,
      trace_id: row.owner === undefined ? row.id : traceId(row.owner.id, row.owner.segment),
      trace_index: row.owner?.segment ?? null,
      reward: row.reward,
      advantage: parent < 0 ? 0 : (advantages[parent] ?? 0),
      sample_mask: tokens.sampleMask[index] ?? 0,
      token_count: row.segment.tokenIds.length,
      eligible_token_count: trains ? eligible : 0,
      completion_ids: own,
      ordered_media_ids: row.segment.images.map(({ id }) => id)
    })
  }
  const digest = createHash("sha256").update(JSON.stringify(planned)).digest("hex")
  return Either.right({
    schema_version: 1,
    plan_id: stableId("plan", options.optimizerStepId, batchQuantum, digest),
    optimizer_step_id: options.optimizerStepId,
    advantage_estimator_name: options.advantageEstimator,
    loss_normalization: options.lossNormalization,
    sequence_level_ratios_enabled: false,
    sequence_level_clipping_enabled: false,
    expected_rollouts_per_group: owners.groupSize,
    batch_quantum: batchQuantum,
    comparison_group_count: owners.groupIds.length,
    logical_rollout_count: owners.owners.length,
    physical_trace_count: rows.length - batch.paddingRows,
    padding_row_count: batch.paddingRows,
    total_row_count: rows.length,
    eligible_action_token_count: planned.reduce((sum, { eligible_token_count }) => sum + eligible_token_count, 0),
    duplicate_retry_count: options.duplicates,
    group_ids: owners.groupIds,
    rollout_ids: owners.owners.map(({ id }) => id),
    parent_indices: Array.from(owners.rowOwner),
    rollout_to_rows: Object.fromEntries(owners.owners.map(({ id, rows }) => [id, rows])),
    rows: planned
  })
}
