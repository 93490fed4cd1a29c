/** What a step's model calls came to, for its row. */
import type { ModelCall } from "../Agent.js"
import { StepCalls } from "../Outcome.js"

/** The field's words for how a call failed. */
type FailureKind = "context_overflow" | "transport_error" | "output_truncated" | "empty_response" | "unparseable"

const failureKind = ({ result }: ModelCall): FailureKind | undefined => {
  if (result._tag === "CallFailed") {
    return result.error.reason === "context_overflow" ? "context_overflow" : "transport_error"
  }
  if (result.read._tag === "Reading") return undefined
  switch (result.read.kind) {
    case "empty":
      return "empty_response"
    case "truncated":
      return "output_truncated"
    case "unparseable":
      return "unparseable"
  }
}

const imagesOf = (call: ModelCall): number =>
  call.plan?.imageIntervals.reduce((sum, [start, end]) => sum + end - start, 0) ?? 0

const shrinksOf = (calls: ReadonlyArray<ModelCall>) =>
  calls.flatMap((call, index) => {
    const next = calls[index + 1]
    return failureKind(call) === "context_overflow" &&
      next?.plan?.limit !== undefined &&
      imagesOf(next) < imagesOf(call)
      ? [{ parseAttempt: call.parseAttempt, fromImages: imagesOf(call), toImages: imagesOf(next) }]
      : []
  })

/** None for a step without calls. */
export const stepCalls = (calls: ReadonlyArray<ModelCall>): StepCalls | undefined => {
  const last = calls.findLast(({ purpose }) => purpose === "act")
  if (calls.length === 0) return undefined
  const failures: Partial<Record<FailureKind, number>> = {}
  for (const call of calls) {
    const kind = failureKind(call)
    if (kind !== undefined) failures[kind] = (failures[kind] ?? 0) + 1
  }
  const read = last?.result._tag === "Replied" && last.result.read._tag === "Reading" ? last.result.read : undefined
  return new StepCalls(
    {
      count: calls.length,
      failures,
      shrinks: shrinksOf(calls),
      ...(read?.thought === undefined ? {} : { thought: read.thought }),
      ...(read?.action === undefined ? {} : { action: read.action }),
      ...(read?.code === undefined ? {} : { code: read.code })
    },
    true
  )
}
