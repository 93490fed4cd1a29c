/**
 * Rollouts as the field's trajectory record, `ng_trajectory` 1.0.
 *
 * @since 0.1.0
 */
import type { ModelCall } from "./Agent.js"
import { accepted, type RecordedRollout, type RecordedStep, type RowVerdict, replyOf } from "./RecordedRollout.js"
import type { Termination } from "./Termination.js"

/**
 * What a trajectory cannot say, with the field's code for it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Gap {
  readonly code: string
  readonly invocation_id?: string
  readonly detail?: string
}

const callId = (rolloutId: string, { parseAttempt, step }: ModelCall): string =>
  `${rolloutId}-step-${step}-call-${parseAttempt}`

const reference = (rolloutId: string) => (call: ModelCall) => ({ model_call_id: callId(rolloutId, call) })

/** The words of what the model was last told. */
const question = ({ messages }: ModelCall): string => {
  const last = messages.findLast(({ role }) => role === "user")
  return last?.role === "user"
    ? last.content.flatMap((part) => (part._tag === "TextPart" ? [part.text] : [])).join("\n")
    : ""
}

const errorCategory = ({ result }: ModelCall): string | null => {
  if (result._tag === "Replied") return null
  switch (result.error.reason) {
    case "timeout":
      return "timeout"
    case "rate_limited":
      return "rate_limit"
    case "unauthorised":
      return "auth"
    case "unavailable":
      return "upstream_error"
    case "context_overflow":
    case "bad_request":
    case "refused":
      return "client_error"
    case "malformed_reply":
      return "capture_parse_error"
    case "truncated":
      return "stream_truncated"
    case "transport":
      return "connection"
    case "artifact":
      return "exception"
  }
}

const sum = (a: number | undefined, b: number | undefined): number | null =>
  a === undefined || b === undefined ? null : a + b

/** What is not known is null, never 0. */
const modelCall = (rolloutId: string, model: string) => (call: ModelCall, index: number) => {
  const reply = replyOf(call)
  const usage = reply?.usage
  const cached = usage?.cachedTokens
  return {
    model_call_id: callId(rolloutId, call),
    model_ref: { type: "responses_api_models", name: model },
    call_index: index,
    response_id: reply?.id ?? null,
    model: reply?.model ?? null,
    started_at: null,
    completed_at: null,
    status_code: call.result._tag === "CallFailed" ? (call.result.error.status ?? null) : null,
    error_category: errorCategory(call),
    response_status: reply === undefined ? "failed" : reply.finishReason === "length" ? "incomplete" : "completed",
    finish_reason: reply?.finishReason ?? null,
    tokens_in: usage?.promptTokens ?? null,
    tokens_out: usage?.completionTokens ?? null,
    tokens_reasoning: usage?.reasoningTokens ?? null,
    tokens_total: sum(usage?.promptTokens, usage?.completionTokens),
    tool_calls:
      reply?.message.toolCalls.map(({ callId, name, arguments: given }) => ({
        id: callId,
        type: "function",
        function: { name, arguments: given }
      })) ?? [],
    reasoning_content: reply?.message.reasoning ?? null,
    cache_hit: cached === undefined ? null : cached > 0,
    cached_tokens: cached ?? null,
    cache_creation_tokens: null,
    latency_total_ms: reply?.milliseconds ?? null,
    latency_ttft_ms: reply?.firstByteMilliseconds ?? null
  }
}

const toolCalls = (rolloutId: string, { acts, step }: RecordedStep) =>
  acts.map(({ facts }, index) => ({
    invocation_id: rolloutId,
    tool_call_id: `${rolloutId}-step-${step}-action-${index}`,
    tool_name: "desktop",
    started_at: null,
    completed_at: null,
    duration_ms: facts.milliseconds,
    timing_source: "harness",
    status: facts.exitCode === undefined ? "unknown" : facts.exitCode === 0 ? "completed" : "failed",
    error_type: null,
    output: facts.stderr ?? ""
  }))

const statusOf = (termination: Termination | undefined): "completed" | "failed" | "incomplete" | "unknown" => {
  switch (termination?._tag) {
    case undefined:
      return "unknown"
    case "Infrastructure":
    case "MaxSteps":
      return "incomplete"
    case "PolicyStop":
      return "failed"
    default:
      return "completed"
  }
}

/**
 * The record of one rollout. Prompts hold pictures, which stay in the run's folder, so calls carry no payloads and the
 * gap `multimodal_history_redacted` says so; every other thing that is not known is a gap or null.
 *
 * @since 0.1.0
 * @category encoding
 */
export const ngTrajectory = (rollout: RecordedRollout, model: string) => {
  const { evaluation, started, steps, termination } = rollout
  const { identity, taskId } = started
  const { rolloutId } = identity
  const calls = steps.flatMap((step) => step.calls)
  const turns = steps.filter((step) => step.calls.length > 0)
  let toolSteps = 0
  const gap = (code: string, when: boolean, detail: string): ReadonlyArray<Gap> =>
    when ? [{ code, invocation_id: rolloutId, detail }] : []
  return {
    schema_version: "1.0" as const,
    task_id: taskId,
    rollout_id: rolloutId,
    invocations: [
      {
        kind: "agent_invocation" as const,
        invocation_id: rolloutId,
        parent_invocation_id: null,
        spawned_by_tool_call_id: null,
        status: statusOf(termination),
        duration_ms: null,
        error_type:
          termination?._tag === "Infrastructure" || termination?._tag === "PolicyStop" ? termination.kind : null,
        model_calls: calls.map(reference(rolloutId)),
        conversation: []
      }
    ],
    turns: turns.map((step, index) => {
      const call = accepted(step) ?? step.calls.at(-1)
      const reply = call === undefined ? undefined : replyOf(call)
      toolSteps += step.acts.length
      return {
        invocation_id: rolloutId,
        task_id: taskId,
        rollout_id: rolloutId,
        turn_no: index + 1,
        timestamp: null,
        question: call === undefined ? "" : question(call),
        answer: reply?.text ?? "",
        reasoning_content: reply?.message.reasoning ?? null,
        ...(evaluation === undefined || index < turns.length - 1 ? {} : { resolved: evaluation.score >= 1 }),
        step_count: toolSteps,
        model_calls: step.calls.map(reference(rolloutId))
      }
    }),
    model_calls: calls.map(modelCall(rolloutId, model)),
    tool_calls: steps.flatMap((step) => toolCalls(rolloutId, step)),
    gaps: [
      ...gap("turns_unavailable", turns.length === 0, "no step has a model call"),
      ...gap("model_calls_unavailable", calls.length === 0, "the agent asked no model, or did not come to it"),
      ...gap("conversation_unavailable", calls.length > 0, "the prompts are in the evidence, call by call"),
      ...gap("multimodal_history_redacted", calls.length > 0, "the pictures are blobs of the run's folder"),
      ...gap("resolution_unavailable", evaluation === undefined, "there is no evaluation")
    ]
  }
}

/**
 * A row that carries the record under the field's key.
 *
 * @since 0.1.0
 * @category encoding
 */
export const row = (rollout: RecordedRollout, verdict: RowVerdict | undefined, model: string) => {
  const { attemptIndex, rolloutId, rolloutIndex, taskIndex } = rollout.started.identity
  return {
    _ng_task_index: taskIndex,
    _ng_rollout_index: rolloutIndex,
    _ng_attempt_index: attemptIndex,
    _ng_rollout_id: rolloutId,
    reward: verdict?.reward ?? null,
    mask_sample: verdict?.mask_sample ?? true,
    ng_trajectory: ngTrajectory(rollout, model)
  }
}
