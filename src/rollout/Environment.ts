/**
 * Where an agent acts: opens on a task, is observed, is acted in, and is evaluated.
 *
 * @since 0.1.0
 */
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
}
