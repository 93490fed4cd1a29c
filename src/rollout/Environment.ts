/**
 * Where an agent acts: opens on a task, is observed, is acted in, and is evaluated.
 *
 * @since 0.1.0
 */
import type * as Arr from "effect/Array"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { BlobRef } from "../artifact/ArtifactStore.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import type { Evaluation } from "./Evaluation.js"
import type { TaskRow } from "./TaskRow.js"
import type { Termination } from "./Termination.js"

/**
 * A time span in milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export const Milliseconds = Schema.Finite.pipe(Schema.nonNegative())

/**
 * What an environment shows at one moment.
 *
 * @since 0.1.0
 * @category models
 */
export class Observation extends Schema.Class<Observation>("deskhand/rollout/Observation")({
  screenshot: BlobRef,
  /** The accessibility tree as XML, where the environment was opened with it. */
  accessibilityTree: Schema.optionalWith(BlobRef, { exact: true }),
  /** Time to take it all and to put it on disk. */
  milliseconds: Milliseconds
}) {}

/**
 * What happened when an action was carried out. A program that failed inside the environment is such a fact, and no error.
 *
 * @since 0.1.0
 * @category models
 */
export class StepFacts extends Schema.Class<StepFacts>("deskhand/rollout/StepFacts")({
  /** The exit code of what ran, where something ran. */
  exitCode: Schema.optionalWith(Schema.Int, { exact: true }),
  /** The end of what it printed to its standard error. */
  stderr: Schema.optionalWith(Schema.String, { exact: true }),
  /** Time in the environment, without the pause that follows. */
  milliseconds: Milliseconds,
  /** Whether the environment says that the episode is over. */
  done: Schema.Boolean
}) {}

/**
 * Which part of the work an environment could not do, and whose fault it is.
 *
 * @since 0.1.0
 * @category errors
 */
export class EnvironmentError extends Schema.TaggedError<EnvironmentError>("deskhand/EnvironmentError")(
  "EnvironmentError",
  {
    phase: Schema.Literal("open", "setup", "observe", "step"),
    /** `infrastructure` may go better next time; `task` will not: the task itself is wrong or not supported. */
    fault: Schema.Literal("infrastructure", "task"),
    reason: Schema.String,
    cause: Schema.optional(Schema.Defect)
  }
) {
  override get message() {
    return this.reason
  }
}

/**
 * The evaluator could not decide. This never becomes a score.
 *
 * @since 0.1.0
 * @category errors
 */
export class EvaluationFailed extends Schema.TaggedError<EvaluationFailed>("deskhand/EvaluationFailed")(
  "EvaluationFailed",
  { reason: Schema.String, cause: Schema.optional(Schema.Defect) }
) {
  override get message() {
    return `the evaluator could not decide: ${this.reason}`
  }
}

/**
 * An environment that is open on one task.
 *
 * @since 0.1.0
 * @category models
 */
export interface EnvironmentSession<A> {
  readonly observe: Effect.Effect<Observation, EnvironmentError>
  readonly step: (action: A) => Effect.Effect<StepFacts, EnvironmentError>
  /** The agent chose to wait: one pause, nothing done. */
  readonly wait: Effect.Effect<StepFacts, EnvironmentError>
  /** The only place a reward comes from. Runs after the agent is closed. */
  readonly evaluate: (termination: Termination) => Effect.Effect<Evaluation, EvaluationFailed | EnvironmentError>
  /** Never succeeds; fails when the environment is lost, whatever it was doing. */
  readonly lost: Effect.Effect<never, EnvironmentError>
}

/**
 * What observations have to hold beside the screenshot.
 *
 * @since 0.1.0
 * @category models
 */
export interface ObservationNeeds {
  readonly accessibilityTree: boolean
}

/**
 * How a rollout comes to its first state, where its group is to begin from one:
 *
 * - `fork`: the state is prepared once and copied for each owner
 * - `replay`: it cannot be copied, so each owner's is prepared by itself, by the same steps
 * - `fresh`: it is prepared for this rollout apart from its group: it is a later attempt
 *
 * It is said before the environment is opened. An episode takes place only where that went so.
 *
 * @since 0.1.0
 * @category models
 */
export class Origin extends Schema.Class<Origin>("deskhand/rollout/Origin")({
  kind: Schema.Literal("fork", "replay", "fresh"),
  group: Schema.NonEmptyString,
  /** The index of the owner in whose sandbox the state was prepared; absent for that owner itself. */
  parent: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  /** The owners of the group in this dispatch, ascending: the field's `_ng_active_generation_indices`. */
  activeIndices: Schema.Array(Schema.NonNegativeInt)
}) {}

/**
 * One owner of a group that was opened from one state.
 *
 * @since 0.1.0
 * @category models
 */
export interface GroupMember<A> {
  readonly identity: RolloutIdentity
  readonly session: EnvironmentSession<A>
  /** Removes what this owner has, before the scope of the group does; the others stay. Again, it does nothing. */
  readonly release: Effect.Effect<void>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Environment<A> {
  /** An action as text, for rows, evidence and progress. */
  readonly show: (action: A) => string
  readonly open: (
    row: TaskRow,
    identity: RolloutIdentity,
    needs: ObservationNeeds
  ) => Effect.Effect<EnvironmentSession<A>, EnvironmentError, Scope.Scope>
  /**
   * Opens exactly these owners of one group, whose state is prepared once and copied; members come in their order, and the
   * first has what was copied. All of them or none. Absent where a state cannot be copied: it is never made to look as if.
   * `GroupEnvironment.fromOneState` gives each rollout its member.
   */
  readonly openGroup?: (
    row: TaskRow,
    identities: Arr.NonEmptyReadonlyArray<RolloutIdentity>,
    needs: ObservationNeeds
  ) => Effect.Effect<ReadonlyArray<GroupMember<A>>, EnvironmentError, Scope.Scope>
  /** How `open` comes to the rollout's first state; absent where there is nothing to say. */
  readonly origin?: (row: TaskRow, identity: RolloutIdentity) => Origin
}
