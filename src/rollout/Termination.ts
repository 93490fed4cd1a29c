/**
 * Why an episode ended: a fact that the runner states, whatever the evaluator will say of it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** The agent said that the task is done. */
export class AgentDone extends Schema.TaggedClass<AgentDone>("deskhand/rollout/AgentDone")("AgentDone", {}) {}

/** The agent said that the task cannot be done. */
export class AgentFail extends Schema.TaggedClass<AgentFail>("deskhand/rollout/AgentFail")("AgentFail", {}) {}

/** The environment said that the episode is over. */
export class EnvironmentDone extends Schema.TaggedClass<EnvironmentDone>("deskhand/rollout/EnvironmentDone")(
  "EnvironmentDone",
  {}
) {}

/** The last allowed step was taken. Nothing is added to it. */
export class MaxSteps extends Schema.TaggedClass<MaxSteps>("deskhand/rollout/MaxSteps")("MaxSteps", {}) {}

/**
 * The model replied, and nothing could be made of it; or no prompt that the policy can make fits. Where the last call was
 * not answered, `settled` makes it the infrastructure's failure.
 */
export class PolicyStop extends Schema.TaggedClass<PolicyStop>("deskhand/rollout/PolicyStop")("PolicyStop", {
  kind: Schema.Literal(
    "model_response_unparseable",
    "model_output_truncated",
    "model_response_empty",
    "model_context_overflow"
  ),
  /** Model calls that were made for the step. */
  attempts: Schema.Int.pipe(Schema.positive()),
  /** Whether the last of them was answered. */
  modelCallCompleted: Schema.Boolean,
  /** What was wrong with the last of them, for a reader. */
  detail: Schema.String
}) {}

/** Something that is not the agent's doing cut the episode short. */
export class Infrastructure extends Schema.TaggedClass<Infrastructure>("deskhand/rollout/Infrastructure")(
  "Infrastructure",
  {
    kind: Schema.Literal(
      "timeout",
      "action_timeout",
      "model_timeout",
      "model_call_failed",
      "environment_lost",
      "environment_failed",
      "evidence_failed",
      "rollout_error"
    ),
    /** What happened, for a reader. */
    detail: Schema.String
  }
) {}

/**
 * How an episode ended.
 *
 * @since 0.1.0
 * @category models
 */
export const Termination = Schema.Union(AgentDone, AgentFail, EnvironmentDone, MaxSteps, PolicyStop, Infrastructure)

/**
 * @since 0.1.0
 * @category models
 */
export type Termination = typeof Termination.Type

/**
 * A policy that stops because it got no answer has not failed: its model could not be called. It becomes the
 * infrastructure's `model_call_failed`; a stop after an answer stays, and is scored.
 *
 * @since 0.1.0
 * @category decisions
 */
export const settled = (stop: PolicyStop): PolicyStop | Infrastructure =>
  stop.modelCallCompleted
    ? stop
    : new Infrastructure({ kind: "model_call_failed", detail: `${stop.kind}: ${stop.detail}` })

/**
 * Whether the episode ended because its last step was taken, and for no other reason.
 *
 * @since 0.1.0
 * @category predicates
 */
export const horizonReached = (termination: Termination): boolean => termination._tag === "MaxSteps"

/**
 * Whether the agent or the environment said that the episode is over. The step cap, a policy that gave up and a failure
 * do not finish it.
 *
 * @since 0.1.0
 * @category predicates
 */
export const finished = (termination: Termination): boolean =>
  termination._tag === "AgentDone" || termination._tag === "AgentFail" || termination._tag === "EnvironmentDone"

/**
 * The field's word for a termination: `agent_done`, `max_steps`, or the kind of the policy stop or of the infrastructure failure.
 *
 * @since 0.1.0
 * @category encoding
 */
export const reason = (termination: Termination): string => {
  switch (termination._tag) {
    case "AgentDone":
      return "agent_done"
    case "AgentFail":
      return "agent_fail"
    case "EnvironmentDone":
      return "environment_done"
    case "MaxSteps":
      return "max_steps"
    case "PolicyStop":
    case "Infrastructure":
      return termination.kind
  }
}
