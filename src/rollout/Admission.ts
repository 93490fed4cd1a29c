/**
 * Whether a rollout may be used, decided from the facts alone.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import type { Evaluation } from "./Evaluation.js"
import { reason, type Termination } from "./Termination.js"

/**
 * The name of this rule, as rows carry it.
 *
 * @since 0.1.0
 * @category constants
 */
export const policyId = "osworld-runtime-admission-v1"

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
  Admitted: { readonly reason: "valid_evaluated_outcome"; readonly evaluation: Evaluation }
  Refused: { readonly reason: string; readonly detail: string }
}>

/**
 * @since 0.1.0
 * @category constructors
 */
export const Admission = Data.taggedEnum<Admission>()

/**
 * An infrastructure failure refuses the rollout whatever was scored; so does a missing evaluation; everything else is
 * admitted, the step cap and an agent that gave up among it.
 *
 * @since 0.1.0
 * @category decisions
 */
export const decide = (facts: EpisodeFacts): Admission =>
  facts.termination._tag === "Infrastructure"
    ? Admission.Refused({ reason: reason(facts.termination), detail: facts.termination.detail })
    : Either.match(facts.evaluation, {
        onLeft: ({ reason, detail }) => Admission.Refused({ reason, detail }),
        onRight: (evaluation) => Admission.Admitted({ reason: "valid_evaluated_outcome", evaluation })
      })
