/**
 * Whether a rollout may be used, decided from the facts alone.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Evaluation } from "./Evaluation.js"
import { horizonReached, PolicyStop, settled, type Termination } from "./Termination.js"

/**
 * The name of this rule, as rows carry it.
 *
 * @since 0.1.0
 * @category constants
 */
export const policyId = "osworld-runtime-admission-v1"

// -----------------------------------------------------------------------------
// The table
// -----------------------------------------------------------------------------

/**
 * What a runner knows of an episode when it is over. Facts that contradict each other are no facts: the step cap goes
 * with no other end, and a policy that stopped neither ended the episode by a word nor saw the environment end it.
 *
 * @since 0.1.0
 * @category models
 */
export const RunnerFacts = Schema.Struct({
  evaluationCompleted: Schema.Boolean,
  /** The field's word for what went wrong, where something that is not the agent's doing did. */
  infrastructureFailure: Schema.optionalWith(Schema.NonEmptyTrimmedString, { exact: true }),
  terminalAction: Schema.optionalWith(Schema.Literal("DONE", "FAIL"), { exact: true }),
  environmentDone: Schema.Boolean,
  horizonReached: Schema.Boolean,
  policyStop: Schema.optionalWith(PolicyStop.fields.kind, { exact: true })
}).pipe(
  Schema.filter(({ environmentDone, horizonReached, policyStop, terminalAction }) => {
    const ended = terminalAction !== undefined || environmentDone
    if (horizonReached && (ended || policyStop !== undefined))
      return "the step cap was reached and something else ended it"
    return policyStop !== undefined && ended ? "the policy stopped and something else ended it" : undefined
  })
)

/**
 * @since 0.1.0
 * @category models
 */
export type RunnerFacts = typeof RunnerFacts.Type

/**
 * @since 0.1.0
 * @category models
 */
export interface Verdict {
  /** The field's word for how the rollout ended. */
  readonly terminationReason: string
  readonly eligible: boolean
  readonly admissionReason: string
}

const admitted = "valid_evaluated_outcome"

interface Rule {
  /** The termination reason where the rule applies. */
  readonly applies: (facts: RunnerFacts) => string | undefined
  readonly eligible: boolean
}

/** The first rule that applies decides. */
const rules: ReadonlyArray<Rule> = [
  { eligible: false, applies: ({ infrastructureFailure }) => infrastructureFailure },
  {
    eligible: false,
    applies: ({ evaluationCompleted }) => (evaluationCompleted ? undefined : "evaluation_incomplete")
  },
  { eligible: true, applies: ({ policyStop }) => policyStop },
  {
    eligible: true,
    applies: ({ terminalAction }) =>
      terminalAction === undefined ? undefined : terminalAction === "DONE" ? "agent_done" : "agent_fail"
  },
  { eligible: true, applies: ({ environmentDone }) => (environmentDone ? "environment_done" : undefined) },
  { eligible: true, applies: ({ horizonReached }) => (horizonReached ? "max_steps" : undefined) }
]

/**
 * An infrastructure failure refuses the rollout whatever was scored; so does a missing evaluation; everything else is
 * admitted, the step cap and a policy that gave up among it. Facts that name no end at all are refused.
 *
 * @since 0.1.0
 * @category decisions
 */
export const verdict = (facts: RunnerFacts): Verdict => {
  for (const { applies, eligible } of rules) {
    const reason = applies(facts)
    if (reason !== undefined) {
      return { terminationReason: reason, eligible, admissionReason: eligible ? admitted : reason }
    }
  }
  const incomplete = "rollout_state_incomplete"
  return { terminationReason: incomplete, eligible: false, admissionReason: incomplete }
}

// -----------------------------------------------------------------------------
// Episodes
// -----------------------------------------------------------------------------

/**
 * Why there is no evaluation: it was not reached, or it could not decide.
 *
 * @since 0.1.0
 * @category models
 */
export interface NoEvaluation {
  readonly reason: "evaluation_incomplete" | "evaluator_error" | "timeout" | "environment_lost"
  readonly detail: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface EpisodeFacts {
  readonly termination: Termination
  readonly evaluation: Either.Either<Evaluation, NoEvaluation>
}

/**
 * Only an admitted rollout has an evaluation, so only it can have a reward.
 *
 * @since 0.1.0
 * @category models
 */
export type Admission = Data.TaggedEnum<{
  Admitted: { readonly reason: string; readonly evaluation: Evaluation }
  Refused: { readonly reason: string; readonly detail: string; readonly evaluationCompleted: boolean }
}>

/**
 * Constructors of admissions, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Admission = Data.taggedEnum<Admission>()

/** Where several things went wrong, the first of these names the rollout. */
const precedence = [
  "timeout",
  "model_timeout",
  "action_timeout",
  "environment_lost",
  "evaluator_error",
  "model_call_failed",
  "environment_failed",
  "evidence_failed",
  "rollout_error"
] as const

interface Failure {
  readonly reason: (typeof precedence)[number]
  readonly detail: string
}

const failureOf = ({ evaluation, termination }: EpisodeFacts): Failure | undefined => {
  const end = termination._tag === "PolicyStop" ? settled(termination) : termination
  const found: Array<Failure> = []
  if (end._tag === "Infrastructure") found.push({ reason: end.kind, detail: end.detail })
  if (Either.isLeft(evaluation)) {
    const { detail, reason } = evaluation.left
    if (reason !== "evaluation_incomplete") found.push({ reason, detail })
  }
  return found.sort((a, b) => precedence.indexOf(a.reason) - precedence.indexOf(b.reason))[0]
}

/**
 * The facts of an episode in the field's words.
 *
 * @since 0.1.0
 * @category conversions
 */
export const runnerFacts = (facts: EpisodeFacts): RunnerFacts => {
  const { termination } = facts
  const failure = failureOf(facts)
  const word = termination._tag === "AgentDone" ? "DONE" : termination._tag === "AgentFail" ? "FAIL" : undefined
  return {
    evaluationCompleted: Either.isRight(facts.evaluation),
    environmentDone: termination._tag === "EnvironmentDone",
    horizonReached: horizonReached(termination),
    ...(failure === undefined ? {} : { infrastructureFailure: failure.reason }),
    ...(word === undefined ? {} : { terminalAction: word }),
    ...(termination._tag === "PolicyStop" ? { policyStop: termination.kind } : {})
  }
}

/**
 * The verdict on an episode, with the evaluation where it is admitted.
 *
 * @since 0.1.0
 * @category decisions
 */
export const decide = (facts: EpisodeFacts): Admission => {
  const { admissionReason, eligible } = verdict(runnerFacts(facts))
  const detail = failureOf(facts)?.detail
  return Either.match(facts.evaluation, {
    onLeft: (none) =>
      Admission.Refused({ reason: admissionReason, detail: detail ?? none.detail, evaluationCompleted: false }),
    onRight: (evaluation) =>
      eligible
        ? Admission.Admitted({ reason: admissionReason, evaluation })
        : Admission.Refused({ reason: admissionReason, detail: detail ?? admissionReason, evaluationCompleted: true })
  })
}
