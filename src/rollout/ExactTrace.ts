/**
 * Rollouts as the field's exact-trace envelope, schema 2: what happened, and the tokens of every call where all of them
 * are known.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { type ArtifactError, ArtifactStore, type BlobRef } from "../artifact/ArtifactStore.js"
import { stableId } from "../identity/StableId.js"
import type { InputPart, Message, OutputPart } from "../model/Conversation.js"
import type { ModelCall } from "./Agent.js"
import type { Observation } from "./Environment.js"
import { exactPart } from "./internal/evidence/exact.js"
import { mediaId } from "./internal/evidence/media.js"
import {
  accepted,
  after,
  decisionsOf,
  names,
  parseFailureOf,
  type RecordedRollout,
  type RecordedStep,
  type RowVerdict,
  replyOf
} from "./RecordedRollout.js"

/**
 * Why a trajectory cannot be trained on as it is, in the field's words.
 *
 * @since 0.1.0
 * @category models
 */
export type IncompleteReason =
  | "exact_prompt_token_ids_unavailable"
  | "exact_sampled_token_ids_unavailable"
  | "exact_sampled_logprobs_unavailable"
  | "structured_generation_response_unavailable"
  | "model_call_evidence_unavailable"
  | "rollout_sample_masked"
  | "caller_owned_rollout_identity_unavailable"

/**
 * The reasons of a rollout, each once, in their order.
 *
 * @since 0.1.0
 * @category decisions
 */
export const incompleteReasons = (
  rollout: RecordedRollout,
  row: RowVerdict | undefined
): ReadonlyArray<IncompleteReason> => {
  const calls = rollout.steps.flatMap((step) => step.calls)
  const untold = calls.some((call) => replyOf(call)?.message.tokens === undefined)
  const reasons: Array<IncompleteReason> = []
  if (calls.length === 0) reasons.push("model_call_evidence_unavailable")
  if (untold) {
    reasons.push(
      "exact_prompt_token_ids_unavailable",
      "exact_sampled_token_ids_unavailable",
      "exact_sampled_logprobs_unavailable"
    )
  }
  if (calls.some((call) => replyOf(call) === undefined)) reasons.push("structured_generation_response_unavailable")
  if (row?.mask_sample !== false) reasons.push("rollout_sample_masked")
  if (names(rollout, row).source === "derived") reasons.push("caller_owned_rollout_identity_unavailable")
  return reasons.sort()
}

/** A picture of a prompt, apart from where its bytes are. */
interface Asset {
  readonly media_id: string
  /** Of the bytes; null for a picture that the server fetched by itself. */
  readonly content_digest: string | null
  /** The part without its bytes: those are in the run's folder. */
  readonly source_part: { readonly type: "input_image"; readonly detail?: string; readonly image_url: string }
  readonly original_dimensions: null
  readonly color_mode: null
  readonly source_format: null
}

type Part = Extract<InputPart, { readonly _tag: "ImagePart" | "ImageUrlPart" }>

const keyOf = (part: Part): string => `${part._tag === "ImagePart" ? part.blob.sha256 : part.url} ${part.detail ?? ""}`

const detailOf = ({ detail }: Part) => (detail === undefined ? {} : { detail })

const partsOf = ({ messages }: ModelCall): ReadonlyArray<Part> =>
  messages.flatMap((message) =>
    message.role === "user" || message.role === "tool"
      ? message.content.flatMap((part) => (part._tag === "TextPart" ? [] : [part]))
      : []
  )

const assetOf = (part: Part, image_url: string, digest: string | null, path: string): Asset => ({
  // The id is of the part as it is sent, with the picture in it, so that it is equal to the published recipe's.
  media_id: mediaId({ type: "input_image", image_url, ...detailOf(part) }),
  content_digest: digest,
  source_part: { type: "input_image", image_url: path, ...detailOf(part) },
  original_dimensions: null,
  color_mode: null,
  source_format: null
})

const blobAsset = (part: Part, blob: BlobRef) =>
  Effect.gen(function* () {
    const store = yield* ArtifactStore
    const bytes = yield* store.get(blob)
    const url = `data:${blob.mediaType};base64,${Buffer.from(bytes).toString("base64")}`
    return assetOf(part, url, blob.sha256, `blobs/${blob.sha256}`)
  })

const mediaOf = (
  calls: ReadonlyArray<ModelCall>
): Effect.Effect<ReadonlyMap<string, Asset>, ArtifactError, ArtifactStore> =>
  Effect.gen(function* () {
    const found = new Map<string, Asset>()
    for (const part of calls.flatMap(partsOf)) {
      const key = keyOf(part)
      if (found.has(key)) continue
      found.set(
        key,
        part._tag === "ImagePart" ? yield* blobAsset(part, part.blob) : assetOf(part, part.url, null, part.url)
      )
    }
    return found
  })

const observed = (observation: Observation | undefined) =>
  observation === undefined
    ? null
    : {
        observation: {
          screenshot_bytes: observation.screenshot.bytes,
          screenshot_sha256: observation.screenshot.sha256
        }
      }

const outputPart = (part: OutputPart) => {
  switch (part._tag) {
    case "TextPart":
      return { type: "output_text", text: part.text }
    case "ReasoningPart":
      return { type: "reasoning_text", text: part.text }
    case "ToolCallPart":
      return { type: "function_call", call_id: part.callId, name: part.name, arguments: part.arguments }
    case "ComputerCallPart":
      return { type: "computer_call", call_id: part.callId, actions: part.actions }
  }
}

/**
 * The envelope of a rollout. A picture stands in prompts as its id, which is hashed from its bytes; the bytes stay in
 * the run's folder, where `media_assets` says. Values that are not known are null or a reason, never made up: a rollout
 * without a reward has none here, and without all tokens there is no exact part.
 *
 * Fails when a blob of a prompt cannot be read.
 *
 * @since 0.1.0
 * @category encoding
 */
export const envelope = Effect.fn("ExactTrace.envelope", { captureStackTrace: false })(function* (
  rollout: RecordedRollout,
  row: RowVerdict | undefined
) {
  const { started, steps } = rollout
  const calls = steps.flatMap((step) => step.calls)
  const media = yield* mediaOf(calls)
  const { identity, model, source } = names(rollout, row)
  const reasons = incompleteReasons(rollout, row)
  const trajectoryId = stableId("trajectory", { ...identity }, model)
  const exact = calls.length > 0 && calls.every((call) => replyOf(call)?.message.tokens !== undefined)
  const eligible = row?.mask_sample === false
  const idOf = ({ parseAttempt, step }: ModelCall) => stableId("model-call", trajectoryId, step, parseAttempt)
  const mediaIds = (call: ModelCall) => partsOf(call).flatMap((part) => media.get(keyOf(part))?.media_id ?? [])

  const inputPart = (part: InputPart) =>
    part._tag === "TextPart"
      ? { type: "input_text", text: part.text }
      : { type: "input_image", media_id: media.get(keyOf(part))?.media_id ?? null, ...detailOf(part) }
  const promptMessage = (message: Message) => ({
    role: message.role,
    ...(message.role === "tool" ? { call_id: message.callId } : {}),
    content: message.role === "assistant" ? message.content.map(outputPart) : message.content.map(inputPart)
  })

  const rewardOf = (index: number) => (!eligible ? null : index === steps.length - 1 ? row.reward : 0)
  const isDone = (index: number) => index === steps.length - 1 && rollout.termination !== undefined
  const transition = (step: RecordedStep, index: number) => {
    const decided = accepted(step)
    return {
      transition_id: stableId("transition", trajectoryId, step.step),
      turn_id: index + 1,
      state: { ...observed(step.observation), model_call_ids: step.calls.map(idOf) },
      action: {
        raw_completion: decided === undefined ? null : (replyOf(decided)?.text ?? null),
        // An agent that asks no model has no reply that its actions were read from.
        parsed_actions: decided === undefined ? step.acts.map(({ action }) => action) : decisionsOf(decided),
        accepted_model_call_id: decided === undefined ? null : idOf(decided)
      },
      reward: rewardOf(index),
      next_state: observed(after(rollout, index)),
      done: isDone(index),
      eligible
    }
  }

  let turn = 0
  const modelCalls = steps.flatMap((step, index) => {
    const decided = accepted(step)
    return step.calls.map((call) => {
      const reply = replyOf(call)
      const tokens = reply?.message.tokens
      const isAccepted = call === decided
      return {
        model_call_id: idOf(call),
        turn_id: ++turn,
        environment_step: call.step,
        parse_attempt: call.parseAttempt,
        purpose: call.purpose,
        state: { prompt_messages: call.messages.map(promptMessage), media_ids: mediaIds(call) },
        action: {
          raw_completion: reply?.text ?? null,
          reasoning: reply?.message.reasoning ?? null,
          parsed_actions: decisionsOf(call)
        },
        reward: isAccepted ? rewardOf(index) : eligible ? 0 : null,
        done: isAccepted && isDone(index),
        eligible,
        accepted: isAccepted,
        parse_error:
          call.result._tag === "CallFailed" ? call.result.error.message : (parseFailureOf(call)?.message ?? null),
        generation_evidence: {
          prompt_token_ids: tokens?.promptTokenIds ?? null,
          generation_token_ids: tokens?.generationTokenIds ?? null,
          generation_log_probs: tokens?.generationLogProbs ?? null,
          finish_reason: reply?.finishReason ?? null,
          exact: tokens !== undefined
        }
      }
    })
  })

  const contract = {
    ...identity,
    // The envelope's own version stands over the one of the names.
    schema_version: 2,
    mode: "osworld_semantic_trajectory",
    identity_source: source,
    trajectory_id: trajectoryId,
    model_name: model,
    transition_count: steps.length,
    model_call_count: calls.length,
    capabilities: {
      semantic_trajectory: true,
      exact_model_call_evidence: exact,
      arbitrary_prompt_rewrites: exact,
      trainable_token_reconstruction: exact
    },
    training_eligibility: {
      status: reasons.length === 0 ? "requires_runtime_admission" : "ineligible",
      incomplete_reasons: reasons
    }
  }
  return {
    trajectory_contract: {
      ...contract,
      trajectory_contract_id: stableId("trajectory-contract", contract)
    },
    trajectory_transitions: steps.map(transition),
    trajectory_model_calls: modelCalls,
    media_assets: Object.fromEntries(Array.from(media.values(), (asset) => [asset.media_id, asset])),
    ...(exact
      ? exactPart({
          calls: calls.map((call) => ({ call, id: idOf(call), mediaIds: mediaIds(call) })),
          contract: started.contract,
          contractId: started.contractId,
          eligible,
          model,
          rolloutId: identity.rollout_id
        })
      : { context_compaction_contract: null })
  }
})
