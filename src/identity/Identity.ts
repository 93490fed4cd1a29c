/**
 * Who a rollout is: the run, the task, the repeat and the attempt.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { CallerRolloutId, TrajectoryIdentity } from "./TrajectoryIdentity.js"

const Index = Schema.NonNegativeInt

/**
 * The name of a run, used in folder names and sandbox labels.
 *
 * @since 0.1.0
 * @category models
 */
export const RunId = Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9][A-Za-z0-9._-]*$/), Schema.brand("deskhand/RunId"))

/**
 * @since 0.1.0
 * @category models
 */
export type RunId = typeof RunId.Type

/**
 * One attempt at one rollout of one task. The indices count from 0 and are the field's `_ng_task_index`,
 * `_ng_rollout_index` and `_ng_attempt_index`.
 *
 * @since 0.1.0
 * @category models
 */
export class RolloutIdentity extends Schema.Class<RolloutIdentity>("deskhand/identity/RolloutIdentity")({
  runId: RunId,
  taskId: Schema.NonEmptyString,
  taskIndex: Index,
  rolloutIndex: Index,
  attemptIndex: Index,
  /** The id that the caller gave the rollout, whatever the attempt. */
  callerId: Schema.optionalWith(CallerRolloutId, { exact: true }),
  /** The name that the caller gave the group, and left those of its rollouts to us. */
  groupId: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  /** The names that the caller gave the trajectory. */
  trajectory: Schema.optionalWith(TrajectoryIdentity, { exact: true })
}) {
  /** The rollout, whatever the attempt: what resume looks up. */
  get rolloutKey(): string {
    return `${this.taskIndex}-${this.rolloutIndex}`
  }
  /**
   * The field's `_ng_rollout_id`: the caller's id, or `{task}-{rollout}`; and `-a{n}` from the second attempt on. Safe in
   * a path and a URL.
   */
  get rolloutId(): string {
    const logical = this.callerId ?? this.rolloutKey
    return this.attemptIndex === 0 ? logical : `${logical}-a${this.attemptIndex}`
  }
  /**
   * The group that was dispatched: the caller's name for it, or `{task}:{task index}`. Two rows of one task are two groups,
   * unless the caller gives them one name.
   */
  get dispatchGroup(): string {
    return this.trajectory?.group_id ?? this.groupId ?? `${this.taskId}:${this.taskIndex}`
  }
}
