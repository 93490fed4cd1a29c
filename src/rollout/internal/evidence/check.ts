/** One rollout's records, checked one after another as they are read. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { BlobRef } from "../../../artifact/ArtifactStore.js"
import type { ModelCall } from "../../Agent.js"
import { contractId } from "../../Contract.js"
import { fileStem } from "../../Evidence.js"
import type { FaultKind } from "../../EvidenceFault.js"
import type { EvidenceRecord, Started } from "../../EvidenceRecord.js"
import type { Replayer, VerifyOptions } from "../../Verify.js"
import { canonical, differs } from "./json.js"
import { imagesOf, messageJson, promptJson } from "./messages.js"
import { begin, follow, type Order } from "./order.js"
import { type Replanner, replanner } from "./replan.js"
import { extendsCall } from "./tokens.js"

export interface Found {
  readonly kind: FaultKind
  readonly detail: string
}

/** What the row of the rollout is compared with. */
export interface StepSeen {
  readonly screenshot: string
  readonly actions: Array<string>
  calls: number
}

export interface Checker {
  readonly stem: string
  readonly runId: string | undefined
  readonly options: VerifyOptions
  order: Order
  started: Started | undefined
  readonly steps: Array<StepSeen>
  end: Extract<EvidenceRecord, { readonly _tag: "Ended" }> | undefined
  verdict: Extract<EvidenceRecord, { readonly _tag: "Evaluated" | "NotEvaluated" }> | undefined
  calls: number
  /** Calls whose prompts were made again; or only their plans. */
  replayed: number
  replanned: number
  replayer: Replayer | undefined
  replan: Replanner | undefined
  /** Whether what is made again can still be trusted: nothing before it was lost. */
  intact: boolean
  /** The newest calls that were answered with tokens. */
  recent: ReadonlyArray<ModelCall>
}

export const checker = (stem: string, runId: string | undefined, options: VerifyOptions): Checker => ({
  stem,
  runId,
  options,
  order: begin,
  started: undefined,
  steps: [],
  end: undefined,
  verdict: undefined,
  calls: 0,
  replayed: 0,
  replanned: 0,
  replayer: undefined,
  replan: undefined,
  intact: true,
  recent: []
})

/** Blobs that a record refers to. */
export const blobsOf = (record: EvidenceRecord): ReadonlyArray<BlobRef> => {
  switch (record._tag) {
    case "Observed": {
      const { accessibilityTree, screenshot } = record.observation
      return accessibilityTree === undefined ? [screenshot] : [screenshot, accessibilityTree]
    }
    case "Called": {
      const { messages, shown } = record.call
      return [...messages.flatMap(imagesOf), ...(shown === undefined ? [] : [shown.image])]
    }
    default:
      return []
  }
}

const headFaults = (checker: Checker, started: Started): ReadonlyArray<Found> => {
  const { identity } = started
  const foreign = (detail: string): Found => ({ kind: "foreign_id", detail })
  const computed = contractId(started.contract)
  return [
    ...(fileStem(identity) === checker.stem ? [] : [foreign(`the head is of ${fileStem(identity)}`)]),
    ...(identity.taskId === started.taskId ? [] : [foreign(`the head is of task ${started.taskId}`)]),
    ...(checker.runId === undefined || identity.runId === checker.runId
      ? []
      : [foreign(`the head is of run ${identity.runId}, and this is run ${checker.runId}`)]),
    ...(computed === started.contractId ? [] : [foreign(`the contract is ${computed}, and not ${started.contractId}`)])
  ]
}

const difference = (kind: FaultKind, what: string, expected: string, found: string): ReadonlyArray<Found> => {
  const words = differs(expected, found)
  return words === undefined ? [] : [{ kind, detail: `${what}, ${words}` }]
}

const again = (checker: Checker, call: ModelCall): ReadonlyArray<Found> => {
  const { started } = checker
  if (started === undefined || !checker.intact) return []
  if (checker.calls === 1) {
    const made = checker.options.replay?.(started, call.sampling) ?? Option.none()
    checker.replayer = Option.getOrUndefined(made)
    checker.replan = Option.getOrUndefined(replanner(started.contract))
  }
  if (checker.replayer !== undefined) return replayed(checker, checker.replayer, call)
  if (checker.replan === undefined) return []
  checker.replanned++
  return difference("plan_differs", "the plan", canonical(checker.replan(call)), canonical(call.plan))
}

const replayed = (checker: Checker, replayer: Replayer, call: ModelCall): ReadonlyArray<Found> => {
  const expected = replayer(call)
  if (Either.isLeft(expected)) {
    checker.intact = false
    return [{ kind: "out_of_order", detail: expected.left }]
  }
  checker.replayed++
  checker.replanned++
  const { messages, parseAttempt, plan, purpose, read, sampling } = expected.right
  const found = call.result._tag === "Replied" ? call.result.read : undefined
  return [
    ...(purpose === call.purpose && parseAttempt === call.parseAttempt
      ? []
      : [{ kind: "out_of_order", detail: `this should be call ${parseAttempt} of its step, to ${purpose}` } as const]),
    ...difference("plan_differs", "the plan", canonical(plan), canonical(call.plan)),
    ...difference("prompt_differs", "the prompt", promptJson(messages), promptJson(call.messages)),
    ...difference("sampling_differs", "the sampling", canonical(sampling), canonical(call.sampling)),
    ...difference("reading_differs", "the reading", canonical(read), canonical(found))
  ]
}

const tokensOf = ({ result }: ModelCall) => (result._tag === "Replied" ? result.reply.message.tokens : undefined)

/** Whether a prompt goes on from an earlier call: all its messages, then its reply. */
const goesOn = (call: ModelCall, earlier: ModelCall): boolean => {
  if (earlier.result._tag !== "Replied" || call.messages.length <= earlier.messages.length) return false
  const reply = call.messages[earlier.messages.length]
  return (
    reply !== undefined &&
    messageJson(reply) === messageJson(earlier.result.reply.message) &&
    earlier.messages.every((message, index) => {
      const own = call.messages[index]
      return own !== undefined && messageJson(own) === messageJson(message)
    })
  )
}

const tokenFaults = (checker: Checker, call: ModelCall): ReadonlyArray<Found> => {
  const tokens = tokensOf(call)
  if (tokens === undefined) return []
  const faults = checker.recent.flatMap((earlier): ReadonlyArray<Found> => {
    const before = tokensOf(earlier)
    return before === undefined || !goesOn(call, earlier) || extendsCall(tokens.promptTokenIds, before)
      ? []
      : [
          {
            kind: "tokens_not_contiguous",
            detail: `its messages go on from call ${earlier.parseAttempt} of step ${earlier.step}, and its tokens do not`
          }
        ]
  })
  checker.recent = [...checker.recent.slice(-2), call]
  return faults
}

const policyFaults = ({ started }: Checker, { plan }: ModelCall): ReadonlyArray<Found> => {
  const id = started?.contract.history_policy?.history_policy_id
  return id === undefined || plan === undefined || plan.policyId === id
    ? []
    : [{ kind: "foreign_id", detail: `the plan is of ${plan.policyId}, and the agent's policy is ${id}` }]
}

/** What is wrong with the next record. */
export const check = (checker: Checker, record: EvidenceRecord): ReadonlyArray<Found> => {
  const { faults, order } = follow(checker.order, record)
  checker.order = order
  if (faults.length > 0) checker.intact = false
  switch (record._tag) {
    case "Started":
      checker.started = record
      return [...faults, ...headFaults(checker, record)]
    case "Observed":
      checker.steps.push({ screenshot: record.observation.screenshot.sha256, actions: [], calls: 0 })
      return faults
    case "Called": {
      checker.calls++
      const step = checker.steps.at(-1)
      if (step !== undefined) step.calls++
      const { call } = record
      return [...faults, ...policyFaults(checker, call), ...again(checker, call), ...tokenFaults(checker, call)]
    }
    case "Acted":
      checker.steps.at(-1)?.actions.push(record.action)
      return faults
    case "Ended":
      checker.end = record
      return faults
    case "Evaluated":
    case "NotEvaluated":
      checker.verdict = record
      return faults
  }
}
