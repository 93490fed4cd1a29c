/**
 * Outcomes as the rows that the field's trainers and reports read.
 *
 * @since 0.1.0
 */

import * as Admission from "./Admission.js"
import type { RolloutOutcome, Step } from "./Outcome.js"
import type { TaskRow } from "./TaskRow.js"
import { reason } from "./Termination.js"

/**
 * One line of `rollouts.jsonl` or `failures.jsonl`, before it is JSON.
 *
 * @since 0.1.0
 * @category models
 */
export interface Row {
  readonly _ng_task_index: number
  readonly _ng_rollout_index: number
  readonly _ng_attempt_index: number
  readonly _ng_rollout_id: string
  /** Null unless the outcome is `scored`: there is no reward to be made from a failure. */
  readonly reward: number | null
  /** Whether a trainer must leave the row out: exactly "not admitted". */
  readonly mask_sample: boolean
  readonly [key: string]: unknown
}

const step = (step: Step) => ({
  step: step.step,
  model_text: step.text,
  actions: step.actions,
  facts: step.facts.map(({ exitCode, stderr, milliseconds, done }) => ({
    exit_code: exitCode ?? null,
    stderr: stderr ?? "",
    milliseconds,
    done
  })),
  screenshot_sha256: step.screenshot,
  observe_milliseconds: step.observeMilliseconds,
  decide_milliseconds: step.decideMilliseconds
})

const message = (step: Step) => ({
  id: `msg-step-${step.step}`,
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", annotations: [], text: step.text }]
})

/**
 * The row of an outcome. `model` is the name that the agent asked for, or `none`.
 *
 * @since 0.1.0
 * @category encoding
 */
export const encode = (outcome: RolloutOutcome, row: TaskRow, model: string): Row => {
  const { identity } = outcome
  const admitted = outcome._tag === "Scored"
  const steps = outcome._tag === "Scored" || outcome._tag === "Masked" ? outcome.steps : []
  const head = {
    _ng_task_index: identity.taskIndex,
    _ng_rollout_index: identity.rolloutIndex,
    _ng_attempt_index: identity.attemptIndex,
    _ng_rollout_id: identity.rolloutId,
    outcome: outcome._tag.toLowerCase(),
    reward: admitted ? outcome.reward : null,
    mask_sample: !admitted,
    runtime_eligible: admitted,
    evaluation_completed: admitted,
    runtime_admission_policy_id: Admission.policyId,
    runtime_admission_reason: admissionReason(outcome),
    responses_create_params: { input: [{ role: "user", content: row.instruction }] },
    response: {
      id: `osworld-${row.taskId}`,
      object: "response",
      created_at: 0,
      model,
      output: steps.map(message),
      parallel_tool_calls: true,
      tool_choice: "auto",
      tools: []
    }
  }
  const metadata = { task_id: row.taskId, domain: row.domain, osworld_task: row.task, osworld_steps: steps.map(step) }
  switch (outcome._tag) {
    case "Scored":
      return {
        ...head,
        verifier_metadata: {
          ...metadata,
          osworld_score: outcome.evaluation.score,
          osworld_evaluation: outcome.evaluation.details,
          osworld_finished: outcome.termination._tag !== "MaxSteps",
          osworld_error: null,
          osworld_termination_reason: reason(outcome.termination),
          osworld_model_name: model
        },
        milliseconds: outcome.milliseconds
      }
    case "Masked":
      return {
        ...head,
        verifier_metadata: {
          ...metadata,
          osworld_score: null,
          osworld_finished: false,
          osworld_error: outcome.detail,
          osworld_termination_reason: reason(outcome.termination),
          osworld_model_name: model
        },
        milliseconds: outcome.milliseconds
      }
    case "Failed":
      return {
        ...head,
        verifier_metadata: { ...metadata, osworld_score: null, osworld_finished: false, osworld_error: outcome.detail },
        _ng_failure_class: outcome.fault,
        milliseconds: outcome.milliseconds
      }
    case "Unresolved":
      return { ...head, verifier_metadata: { ...metadata, osworld_score: null, osworld_finished: false } }
  }
}

const admissionReason = (outcome: RolloutOutcome): string => {
  switch (outcome._tag) {
    case "Scored":
      return "valid_evaluated_outcome"
    case "Masked":
      return outcome.reason
    case "Failed":
      return `failed_${outcome.fault}`
    case "Unresolved":
      return "unresolved"
  }
}
