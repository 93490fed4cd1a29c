/**
 * Outcomes as the rows that the field's trainers and reports read.
 *
 * @since 0.1.0
 */

import * as TrajectoryIdentity from "../identity/TrajectoryIdentity.js"
import * as Admission from "./Admission.js"
import { type AgentContract, contractId } from "./Contract.js"
import type { Origin } from "./Environment.js"
import type { Failed, RolloutOutcome, Step, StepCalls } from "./Outcome.js"
import type { TaskRow } from "./TaskRow.js"
import { finished, horizonReached, reason, type Termination } from "./Termination.js"

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

const calls = ({ action, code, count, failures, shrinks, thought }: StepCalls) => ({
  model_call_count: count,
  ...(thought === undefined ? {} : { thought }),
  ...(action === undefined ? {} : { action }),
  ...(code === undefined ? {} : { code }),
  // A step without trouble has neither key.
  ...(Object.keys(failures).length === 0 ? {} : { failure_kind_counts: failures }),
  ...(shrinks.length === 0
    ? {}
    : {
        prompt_shrink_events: shrinks.map(({ fromImages, parseAttempt, toImages }) => ({
          parse_attempt: parseAttempt,
          from_images: fromImages,
          to_images: toImages,
          reason: "context_overflow"
        }))
      })
})

const step = (step: Step, done: boolean) => ({
  step: step.step,
  model_text: step.text,
  actions: step.actions,
  // The evaluator alone gives rewards, and it gives one for the whole.
  reward: 0,
  done,
  info: step.calls === undefined ? {} : { agent: calls(step.calls) },
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

/** The active indices under the field's key; the field has none for the rest. */
const originKeys = ({ activeIndices, group, kind, parent }: Origin) => ({
  _ng_active_generation_indices: activeIndices,
  environment_origin: { kind, group, parent_index: parent ?? null }
})

const terminalAction = (termination: Termination): "DONE" | "FAIL" | null =>
  termination._tag === "AgentDone" ? "DONE" : termination._tag === "AgentFail" ? "FAIL" : null

const message = (step: Step) => ({
  id: `msg-step-${step.step}`,
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", annotations: [], text: step.text }]
})

/**
 * What a row says beside its outcome.
 *
 * @since 0.1.0
 * @category models
 */
export interface About {
  /** The name that the agent asked for, or `none`. */
  readonly model: string
  /** The agent's contract in this run. */
  readonly contract?: AgentContract
}

/** A run's rows are all of one contract: it is hashed once. */
const contractIds = new WeakMap<AgentContract, string>()

const idOf = (contract: AgentContract): string => {
  const known = contractIds.get(contract)
  if (known !== undefined) return known
  const id = contractId(contract)
  contractIds.set(contract, id)
  return id
}

/** The facts of a row whose episode took place. */
const episodeOf = (outcome: RolloutOutcome) => {
  switch (outcome._tag) {
    case "Scored":
      return { ...outcome, completed: true, ended: reason(outcome.termination), error: null }
    case "Masked":
      return { ...outcome, completed: outcome.evaluationCompleted, ended: outcome.reason, error: outcome.detail }
    case "Failed":
    case "Unresolved":
      return undefined
  }
}

/**
 * The row of an outcome.
 *
 * @since 0.1.0
 * @category encoding
 */
export const encode = (outcome: RolloutOutcome, row: TaskRow, { contract, model }: About): Row => {
  const { identity } = outcome
  const eligible = outcome._tag === "Scored"
  const episode = episodeOf(outcome)
  const names = TrajectoryIdentity.of(identity, model)
  const horizon = episode !== undefined && horizonReached(episode.termination)
  const completed = episode?.completed ?? false
  const admission = admissionReason(outcome)
  const last = (episode?.steps.length ?? 0) - 1
  const isFinished = episode !== undefined && finished(episode.termination)
  const failed = outcome._tag === "Failed" ? outcome : undefined
  return {
    _ng_task_index: identity.taskIndex,
    _ng_rollout_index: identity.rolloutIndex,
    _ng_attempt_index: identity.attemptIndex,
    _ng_rollout_id: identity.rolloutId,
    trajectory_identity: names.identity,
    identity_source: names.source,
    rollout_purpose: row.purpose ?? null,
    ...(episode?.origin === undefined ? {} : originKeys(episode.origin)),
    outcome: outcome._tag.toLowerCase(),
    reward: eligible ? outcome.reward : null,
    mask_sample: !eligible,
    horizon_reached: horizon,
    evaluation_completed: completed,
    runtime_eligible: eligible,
    runtime_admission_reason: admission,
    runtime_admission_policy_id: Admission.policyId,
    ...(failed === undefined ? {} : { _ng_failure_class: failed.fault }),
    responses_create_params: { input: [{ role: "user", content: row.instruction, type: "message" }] },
    response: {
      // The field's id of a response that nobody gave.
      id: episode === undefined ? "osworld-error" : `osworld-${row.taskId}`,
      object: "response",
      created_at: 0,
      model: episode === undefined ? "" : model,
      output: episode?.steps.map(message) ?? [],
      parallel_tool_calls: true,
      tool_choice: "auto",
      tools: [],
      agent_contract: contract ?? null
    },
    verifier_metadata: {
      task_id: row.taskId,
      domain: row.domain,
      osworld_task: row.task,
      osworld_score: eligible ? outcome.evaluation.score : null,
      ...(eligible ? { osworld_evaluation: outcome.evaluation.details } : {}),
      osworld_finished: isFinished,
      osworld_error: episode?.error ?? failed?.detail ?? null,
      osworld_steps: episode?.steps.map((each, index) => step(each, isFinished && index === last)) ?? [],
      osworld_model_name: model,
      osworld_termination_reason: episode?.ended ?? (failed === undefined ? null : terminationOf(failed)),
      osworld_terminal_action: episode === undefined ? null : terminalAction(episode.termination),
      osworld_horizon_reached: horizon,
      osworld_evaluation_completed: completed,
      osworld_runtime_eligible: eligible,
      osworld_runtime_admission_reason: admission,
      osworld_runtime_admission_policy_id: Admission.policyId,
      osworld_agent_contract_id: contract === undefined ? null : idOf(contract),
      // Desktops have no proxy of ours.
      osworld_proxy_required: isObject(row.task) && row.task["proxy"] === true,
      osworld_proxy_enabled: false,
      osworld_proxy_configured: false
    },
    ...(outcome._tag === "Unresolved" ? {} : { milliseconds: outcome.milliseconds })
  }
}

/** The field's word for how an attempt ended that is no episode. */
const terminationOf = ({ fault }: Failed): string => (fault === "cancelled" ? "cancelled" : "rollout_error")

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const admissionReason = (outcome: RolloutOutcome): string => {
  switch (outcome._tag) {
    case "Scored":
      return "valid_evaluated_outcome"
    case "Masked":
      return outcome.reason
    case "Failed":
      return outcome.fault === "cancelled" ? "cancelled" : `failed_${outcome.fault}`
    case "Unresolved":
      return "unresolved"
  }
}
