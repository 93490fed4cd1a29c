/** The part of an exact-trace envelope that every token is known for. */
import { stableId } from "../../../identity/StableId.js"
import type { ModelCall } from "../../Agent.js"
import type { AgentContract } from "../../Contract.js"
import { replyOf } from "../../RecordedRollout.js"
import { samplingContractId } from "./media.js"
import { type Placed, segments } from "./segments.js"

export interface ExactInput {
  readonly calls: ReadonlyArray<{
    readonly call: ModelCall
    readonly id: string
    readonly mediaIds: ReadonlyArray<string>
  }>
  readonly contract: AgentContract
  readonly contractId: string
  readonly eligible: boolean
  readonly model: string
  readonly rolloutId: string
}

const boundaryReason = "prompt_or_media_not_append_compatible"

const padded = (turn: number): string => String(turn).padStart(6, "0")

/** What a server does not report, and what therefore nobody can vouch for. */
const unreported = [
  "chat_template_identity_unavailable",
  "multimodal_processor_identity_unavailable",
  "tokenizer_identity_unavailable"
] as const

export const exactPart = ({ calls, contract, contractId, eligible, model, rolloutId }: ExactInput) => {
  const exact = calls.flatMap(({ call, id, mediaIds }) => {
    const reply = replyOf(call)
    const tokens = reply?.message.tokens
    return reply === undefined || tokens === undefined ? [] : [{ call, id, mediaIds, reply, tokens }]
  })
  const placed = segments(
    rolloutId,
    exact.map(({ mediaIds, tokens: { generationTokenIds, promptTokenIds } }) => ({
      promptTokenIds,
      generationTokenIds,
      mediaIds
    }))
  )
  const boundaryOf = (turn: number) => {
    const at = placed[turn]
    return at === undefined || at.extends || turn === 0
      ? null
      : stableId("compaction-event", rolloutId, turn + 1, at.viewDigest)
  }
  const compactionPolicy = {
    adapter: "osworld_agent",
    agent_contract_id: contractId,
    model_protocol: contract.model_protocol,
    history_policy: contract.history_policy,
    agent_options: contract.agent_options
  }
  const policyId = stableId("compaction-policy", {
    ...compactionPolicy,
    model_protocol: contract.model_protocol === null ? null : { ...contract.model_protocol },
    history_policy:
      contract.history_policy === null
        ? null
        : { ...contract.history_policy, params: { ...contract.history_policy.params } }
  })
  const last = exact.at(-1)?.call.plan
  const first = exact[0]?.call.sampling
  return {
    context_compaction_contract: {
      schema_version: 2,
      mode: "exact_trace_authority",
      rollout_id: rolloutId,
      generation_contract: {
        model_id: stableId("model", model),
        tokenizer_id: null,
        template_id: null,
        sampling_id: first === undefined ? null : samplingContractId(first),
        processor_id: null,
        compaction_policy_id: policyId,
        loss_normalization: "global_action_token_mean",
        training_eligible: false,
        incomplete_reasons: unreported
      }
    },
    model_call_output: exact.map(({ id, reply, tokens }) => ({
      id,
      type: "message",
      role: "assistant",
      status: reply.finishReason === "length" ? "incomplete" : "completed",
      content: [{ type: "output_text", annotations: [], text: reply.text }],
      prompt_token_ids: tokens.promptTokenIds,
      generation_token_ids: tokens.generationTokenIds,
      generation_log_probs: tokens.generationLogProbs,
      ...("routedExperts" in tokens ? { routed_experts: tokens.routedExperts } : {})
    })),
    completion_evidence: exact.map(({ id, mediaIds, reply, tokens }, turn) => ({
      rollout_id: rolloutId,
      completion_id: stableId("completion", id),
      action_id: `policy-action-${padded(turn + 1)}`,
      turn_id: turn + 1,
      model_call_id: id,
      prepared_request_id: null,
      request_id: reply.id ?? null,
      ...whereOf(placed[turn]),
      compaction_event_id: boundaryOf(turn),
      prompt_token_ids: tokens.promptTokenIds,
      sampled_token_ids: tokens.generationTokenIds,
      sampled_logprobs: tokens.generationLogProbs,
      finish_reason: reply.finishReason,
      media_ids: mediaIds,
      media_occurrences: occurrences(mediaIds),
      policy_output_spans: [
        { start: 0, end: tokens.generationTokenIds.length, eligible, old_logprobs_alignment: "sampled_tokens" }
      ],
      evidence_source: "generation_response",
      eligible
    })),
    boundary_events: placed.flatMap((at, turn) =>
      turn === 0 || at.extends
        ? []
        : [
            {
              compaction_event_id: boundaryOf(turn),
              turn_id: turn + 1,
              segment_index: at.segmentIndex,
              segment_id: at.segmentId,
              reason: boundaryReason,
              schedule: "per_action",
              removed_media_count: at.removedMedia,
              previous_view_digest: at.previousDigest ?? null,
              current_view_digest: at.viewDigest
            }
          ]
    ),
    lineage_deltas: exact.map(({ id, tokens }, turn) => {
      const shared = placed[turn]?.sharedTokens ?? 0
      return {
        turn_id: turn + 1,
        model_call_id: id,
        ...whereOf(placed[turn]),
        shared_token_count: shared,
        added_prompt_token_count: tokens.promptTokenIds.length - shared,
        sampled_token_count: tokens.generationTokenIds.length
      }
    }),
    chunk_records: [],
    guard_records: [],
    final_policy_decision:
      last === undefined
        ? null
        : {
            policy_name: contract.history_policy?.name ?? null,
            policy_id: last.policyId,
            decision_turn: last.completedTurns,
            image_intervals: last.imageIntervals,
            compaction: last.compaction,
            image_limit: last.limit ?? null
          }
  }
}

const whereOf = (at: Placed | undefined) => ({
  segment_index: at?.segmentIndex ?? null,
  segment_id: at?.segmentId ?? null,
  context_epoch: at?.segmentIndex ?? null,
  expected_append_compatible: at?.extends ?? null
})

/** The same picture may stand in a prompt more than once. */
const occurrences = (mediaIds: ReadonlyArray<string>) => {
  const seen = new Map<string, number>()
  return mediaIds.map((media_id, position) => {
    const ordinal = seen.get(media_id) ?? 0
    seen.set(media_id, ordinal + 1)
    return { media_id, position, ordinal }
  })
}
