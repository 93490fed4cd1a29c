/**
 * What became of one attempt at a rollout. Only `Scored` has a reward.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RolloutIdentity } from "../identity/Identity.js"
import { Milliseconds, Origin, StepFacts } from "./Environment.js"
import { Evaluation } from "./Evaluation.js"
import { Termination } from "./Termination.js"

/**
 * What a step's model calls came to. The calls themselves are in the evidence.
 *
 * @since 0.1.0
 * @category models
 */
export class StepCalls extends Schema.Class<StepCalls>("deskhand/rollout/StepCalls")({
  /** All of them: retries, summaries and refused prompts too. */
  count: Schema.NonNegativeInt,
  /** How often calls failed, by the field's word for how; empty for a step without trouble. */
  failures: Schema.Record({ key: Schema.String, value: Schema.Int.pipe(Schema.positive()) }),
  /** Each time that a prompt was refused as too long and asked again with fewer images. */
  shrinks: Schema.Array(
    Schema.Struct({
      /** The call that was refused, from 0. */
      parseAttempt: Schema.NonNegativeInt,
      fromImages: Schema.NonNegativeInt,
      toImages: Schema.NonNegativeInt
    })
  ),
  /** What the reply that was accepted said, where it has these words. */
  thought: Schema.optionalWith(Schema.String, { exact: true }),
  action: Schema.optionalWith(Schema.String, { exact: true }),
  code: Schema.optionalWith(Schema.String, { exact: true })
}) {}

/**
 * One step as rows and reports carry it: text alone, the rest is in the evidence.
 *
 * @since 0.1.0
 * @category models
 */
export class Step extends Schema.Class<Step>("deskhand/rollout/Step")({
  /** From 0. */
  step: Schema.NonNegativeInt,
  /** The model's text. */
  text: Schema.String,
  /** The decisions, each as its text. */
  actions: Schema.Array(Schema.String),
  /** What came of each decision that was carried out, in order. */
  facts: Schema.Array(StepFacts),
  /** SHA-256 of the screenshot that the step was decided from. */
  screenshot: Schema.String,
  /** Time to take and store that screenshot. */
  observeMilliseconds: Milliseconds,
  /** Time that the agent took, model calls included. */
  decideMilliseconds: Milliseconds,
  /** Absent for an agent that asks no model. */
  calls: Schema.optionalWith(StepCalls, { exact: true })
}) {}

/** What every outcome of an episode that took place has. */
const Episode = {
  identity: RolloutIdentity,
  termination: Termination,
  steps: Schema.Array(Step),
  /** How the environment came to its first state; absent where it was simply opened. */
  origin: Schema.optionalWith(Origin, { exact: true }),
  /** From opening the environment to its removal. */
  milliseconds: Milliseconds
}

/**
 * The episode was evaluated and may be used.
 *
 * @since 0.1.0
 * @category models
 */
export class Scored extends Schema.TaggedClass<Scored>("deskhand/rollout/Scored")("Scored", {
  ...Episode,
  evaluation: Evaluation,
  reward: Schema.Finite
}) {}

/**
 * The episode took place, and something that is not the agent's doing spoilt it.
 *
 * @since 0.1.0
 * @category models
 */
export class Masked extends Schema.TaggedClass<Masked>("deskhand/rollout/Masked")("Masked", {
  ...Episode,
  reason: Schema.String,
  detail: Schema.String,
  /** Whether the evaluator had decided all the same. Its score is not to be used. */
  evaluationCompleted: Schema.optionalWith(Schema.Boolean, { default: () => false })
}) {}

/**
 * The episode did not take place, or somebody called it off before it ended: there is nothing of it that could be used.
 *
 * @since 0.1.0
 * @category models
 */
export class Failed extends Schema.TaggedClass<Failed>("deskhand/rollout/Failed")("Failed", {
  identity: RolloutIdentity,
  /**
   * Whose fault it is: `infrastructure` may go better next time, `task` will not, `defect` is ours. `cancelled` is
   * nobody's.
   */
  fault: Schema.Literal("infrastructure", "task", "defect", "cancelled"),
  detail: Schema.String,
  milliseconds: Milliseconds
}) {}

/**
 * The attempt was begun and nothing is known of its end: the program was stopped in the middle of it.
 *
 * @since 0.1.0
 * @category models
 */
export class Unresolved extends Schema.TaggedClass<Unresolved>("deskhand/rollout/Unresolved")("Unresolved", {
  identity: RolloutIdentity
}) {}

/**
 * What a rollout came to; only `Scored` has a reward.
 *
 * @since 0.1.0
 * @category models
 */
export const RolloutOutcome = Schema.Union(Scored, Masked, Failed, Unresolved)

/**
 * @since 0.1.0
 * @category models
 */
export type RolloutOutcome = typeof RolloutOutcome.Type
