/**
 * What an episode puts on record.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RolloutIdentity } from "../identity/Identity.js"
import { ModelCall } from "./Agent.js"
import { AgentContract } from "./Contract.js"
import { Observation, Origin, StepFacts } from "./Environment.js"
import { Evaluation } from "./Evaluation.js"
import { Termination } from "./Termination.js"

/**
 * The head of a rollout's evidence: whose it is, and what its prompts are made of.
 *
 * @since 0.1.0
 * @category models
 */
export class Started extends Schema.TaggedClass<Started>("deskhand/rollout/Started")("Started", {
  /** Of the evidence file. */
  schemaVersion: Schema.Literal(1),
  identity: RolloutIdentity,
  taskId: Schema.NonEmptyString,
  instruction: Schema.String,
  contract: AgentContract,
  contractId: Schema.NonEmptyString,
  /** How the environment comes to its first state; absent where it is simply opened. */
  origin: Schema.optionalWith(Origin, { exact: true }),
  /** What the same agent can be made from again (`Agent.settings`), as JSON; absent for one that asks no model. */
  settings: Schema.optionalWith(Schema.Unknown, { exact: true })
}) {}

/**
 * In this order: `Started`; for each step `Observed`, its `Called`s and its `Acted`s; a last `Observed`, where the
 * environment could still be looked at; `Ended`; and `Evaluated` or `NotEvaluated`.
 *
 * @since 0.1.0
 * @category models
 */
export const EvidenceRecord = Schema.Union(
  Started,
  /** What a step is decided from. */
  Schema.TaggedStruct("Observed", { step: Schema.NonNegativeInt, observation: Observation }),
  /** A model call of a step. */
  Schema.TaggedStruct("Called", { step: Schema.NonNegativeInt, call: ModelCall }),
  /** A decision that was carried out. */
  Schema.TaggedStruct("Acted", { step: Schema.NonNegativeInt, action: Schema.String, facts: StepFacts }),
  /** Why the episode ended. */
  Schema.TaggedStruct("Ended", { termination: Termination }),
  Schema.TaggedStruct("Evaluated", { evaluation: Evaluation }),
  Schema.TaggedStruct("NotEvaluated", { reason: Schema.String, detail: Schema.String })
)

/**
 * @since 0.1.0
 * @category models
 */
export type EvidenceRecord = typeof EvidenceRecord.Type
