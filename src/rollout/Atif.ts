/**
 * Rollouts in the Agent Trajectory Interchange Format of Harbor, ATIF-v1.6 (harborframework.com/docs/trajectory-format):
 * the version that has pictures in observations.
 *
 * @since 0.1.0
 */
import type { ModelCall } from "./Agent.js"
import type { Observation } from "./Environment.js"
import { fileStem } from "./Evidence.js"
import {
  accepted,
  after,
  decisionsOf,
  parseFailureOf,
  type RecordedRollout,
  type RecordedStep,
  type RowVerdict,
  replyOf
} from "./RecordedRollout.js"
import { reason } from "./Termination.js"

/**
 * The version that is written.
 *
 * @since 0.1.0
 * @category constants
 */
export const schemaVersion = "ATIF-v1.6"

const picture = (stem: string, step: number, { screenshot }: Observation) => ({
  type: "image" as const,
  source: {
    media_type: screenshot.mediaType,
    path: `screenshots/${stem}/step-${String(step).padStart(3, "0")}.png`
  }
})

/** Keys whose values are not known are left out. */
const known = <A extends object>(values: A): Partial<A> => {
  const kept: Partial<A> = {}
  for (const key in values) if (values[key] !== undefined) kept[key] = values[key]
  return kept
}

const metrics = (call: ModelCall) => {
  const reply = replyOf(call)
  const tokens = reply?.message.tokens
  return known({
    prompt_tokens: reply?.usage?.promptTokens ?? tokens?.promptTokenIds.length,
    completion_tokens: reply?.usage?.completionTokens ?? tokens?.generationTokenIds.length,
    cached_tokens: reply?.usage?.cachedTokens,
    prompt_token_ids: tokens?.promptTokenIds,
    completion_token_ids: tokens?.generationTokenIds,
    logprobs: tokens?.generationLogProbs,
    extra: reply?.usage?.reasoningTokens === undefined ? undefined : { reasoning_tokens: reply.usage.reasoningTokens }
  })
}

/** What the environment answered to a step: what each action printed, then what was seen. */
const observation = (rollout: RecordedRollout, stem: string, index: number, { acts, step }: RecordedStep) => {
  const seen = after(rollout, index)
  const results = acts.map(({ facts }, at) => {
    const text = facts.stderr ?? ""
    const last = at === acts.length - 1 && seen !== undefined
    return {
      source_call_id: `step-${step}-action-${at}`,
      content: last ? [...(text === "" ? [] : [{ type: "text" as const, text }]), picture(stem, step + 1, seen)] : text
    }
  })
  return acts.length > 0
    ? { results }
    : seen === undefined
      ? undefined
      : { results: [{ content: [picture(stem, step + 1, seen)] }] }
}

const carriedOut = (rollout: RecordedRollout, stem: string, index: number, step: RecordedStep) =>
  known({
    tool_calls:
      step.acts.length === 0
        ? undefined
        : step.acts.map(({ action }, at) => ({
            tool_call_id: `step-${step.step}-action-${at}`,
            function_name: "desktop",
            arguments: { action }
          })),
    observation: observation(rollout, stem, index, step)
  })

const agentSteps = (rollout: RecordedRollout, stem: string, index: number, step: RecordedStep) => {
  const deciding = accepted(step)
  const done = carriedOut(rollout, stem, index, step)
  // An agent that asks no model acts too.
  const unasked =
    deciding === undefined && step.acts.length > 0
      ? [{ source: "agent" as const, message: "", ...done, extra: { environment_step: step.step } }]
      : []
  const asked = step.calls.map((call) => {
    const reply = replyOf(call)
    return {
      source: "agent" as const,
      ...known({ model_name: reply?.model }),
      message: reply?.text ?? "",
      ...known({ reasoning_content: reply?.message.reasoning }),
      ...(call === deciding ? done : {}),
      metrics: metrics(call),
      extra: known({
        environment_step: call.step,
        parse_attempt: call.parseAttempt,
        purpose: call.purpose,
        // Beside what was carried out: that the task is done, or cannot be.
        decisions: decisionsOf(call),
        parse_error: parseFailureOf(call)?.message,
        model_error: call.result._tag === "CallFailed" ? call.result.error.reason : undefined,
        finish_reason: reply?.finishReason
      })
    }
  })
  return [...asked, ...unasked]
}

/** A total, or nothing where any part of it is not known. */
const total = (values: ReadonlyArray<number | undefined>): number | undefined => {
  let sum = 0
  for (const value of values) {
    if (value === undefined) return undefined
    sum += value
  }
  return values.length === 0 ? undefined : sum
}

/**
 * One rollout. Each model call is an agent step of its own, retries too; the actions and what they led to stand with the
 * call that decided them. Paths of pictures start from the run's folder. Times and costs are not known and left out.
 *
 * @since 0.1.0
 * @category encoding
 */
export const atif = (rollout: RecordedRollout, verdict: RowVerdict | undefined, version: string) => {
  const { evaluation, started, steps, termination } = rollout
  const { contract, contractId, identity, instruction } = started
  const stem = fileStem(identity)
  const [first] = steps
  const calls = steps.flatMap((step) => step.calls)
  const system = calls[0]?.messages.flatMap((message) =>
    message.role === "system" || message.role === "developer" ? message.content.map(({ text }) => text) : []
  )
  const head = [
    ...(system === undefined || system.length === 0 ? [] : [{ source: "system" as const, message: system.join("\n") }]),
    {
      source: "user" as const,
      message:
        first === undefined
          ? instruction
          : [{ type: "text" as const, text: instruction }, picture(stem, first.step, first.observation)]
    }
  ]
  const all = [...head, ...steps.flatMap((step, index) => agentSteps(rollout, stem, index, step))]
  const usages = calls.map((call) => metrics(call))
  return {
    schema_version: schemaVersion,
    session_id: `${identity.runId}/${identity.rolloutId}`,
    agent: {
      name: contract.runner.name,
      version,
      ...known({
        model_name: verdict?.model ?? calls.map((call) => replyOf(call)?.model).find((model) => model !== undefined)
      }),
      extra: { agent_contract_id: contractId, agent_contract: contract }
    },
    steps: all.map((step, index) => ({ step_id: index + 1, ...step })),
    notes: "Paths of pictures start from the run's folder.",
    final_metrics: {
      ...known({
        total_prompt_tokens: total(usages.map(({ prompt_tokens }) => prompt_tokens)),
        total_completion_tokens: total(usages.map(({ completion_tokens }) => completion_tokens)),
        total_cached_tokens: total(usages.map(({ cached_tokens }) => cached_tokens))
      }),
      total_steps: all.length
    },
    extra: known({
      task_id: started.taskId,
      reward: verdict?.reward,
      mask_sample: verdict?.mask_sample,
      score: evaluation?.score,
      termination_reason: termination === undefined ? undefined : reason(termination)
    })
  }
}
