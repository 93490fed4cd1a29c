/**
 * One task as the collector sees it: enough to name it and to show it, and the rest untouched.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { CallerRolloutId, TrajectoryIdentity } from "../identity/TrajectoryIdentity.js"

/**
 * What a trainer asked for the rollout for.
 *
 * @since 0.1.0
 * @category models
 */
export const RolloutPurpose = Schema.Literal("training", "evaluation")

/**
 * @since 0.1.0
 * @category models
 */
export type RolloutPurpose = typeof RolloutPurpose.Type

/**
 * A task as a run takes it, with its place among the run's tasks.
 *
 * @since 0.1.0
 * @category models
 */
export class TaskRow extends Schema.Class<TaskRow>("deskhand/rollout/TaskRow")({
  /** The field's `_ng_task_index`, from 0. */
  taskIndex: Schema.NonNegativeInt,
  taskId: Schema.NonEmptyString,
  domain: Schema.String,
  instruction: Schema.String,
  /** The file that the row was read from: what relative paths in the task start from. */
  source: Schema.optionalWith(Schema.String, { exact: true }),
  /** Which rollout of the task the row is for, from 0; a row without it is for as many as the run has. */
  rolloutIndex: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  /** Which attempt its first one is, from 0; 0 unless given. */
  attemptIndex: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  /** The id that the row gives its one rollout, the field's `_ng_rollout_id`. */
  rolloutId: Schema.optionalWith(CallerRolloutId, { exact: true }),
  /** The name that the row gives its group, whose rollouts are as many as the run has. */
  groupId: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  /** The names that the row gives its one trajectory. */
  trajectory: Schema.optionalWith(TrajectoryIdentity, { exact: true }),
  purpose: Schema.optionalWith(RolloutPurpose, { exact: true }),
  /** The task as its file had it; only the environment reads it. */
  task: Schema.Unknown
}) {}

/**
 * Whether a row is for one rollout, which it names by an index, an id or the names of its trajectory.
 *
 * @since 0.1.0
 * @category predicates
 */
export const namesItsRollout = (row: TaskRow): boolean =>
  row.rolloutIndex !== undefined || row.rolloutId !== undefined || row.trajectory !== undefined
