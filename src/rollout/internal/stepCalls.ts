/** What a step's model calls came to, for its row. */
import * as Arr from "effect/Array"
import { identity } from "effect/Function"
import * as Record from "effect/Record"
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

/** Most steps have none, and rows of steps are kept while an episode goes on: one for all. */
const none: { readonly failures: StepCalls["failures"]; readonly shrinks: StepCalls["shrinks"] } = {
  failures: {},
  shrinks: []
}

const failuresOf = (calls: ReadonlyArray<ModelCall>): StepCalls["failures"] => {
  const kinds = calls.flatMap((call) => failureKind(call) ?? [])
  return kinds.length === 0 ? none.failures : Record.map(Arr.groupBy(kinds, identity), ({ length }) => length)
}

/** None for a step without calls. */
export const stepCalls = (calls: ReadonlyArray<ModelCall>): StepCalls | undefined => {
  const last = calls.findLast(({ purpose }) => purpose === "act")
  if (calls.length === 0) return undefined
  const shrinks = shrinksOf(calls)
  const read = last?.result._tag === "Replied" && last.result.read._tag === "Reading" ? last.result.read : undefined
  return new StepCalls(
    {
      count: calls.length,
      failures: failuresOf(calls),
      shrinks: shrinks.length === 0 ? none.shrinks : shrinks,
      ...(read?.thought === undefined ? {} : { thought: read.thought }),
      ...(read?.action === undefined ? {} : { action: read.action }),
      ...(read?.code === undefined ? {} : { code: read.code })
    },
    true
  )
}
