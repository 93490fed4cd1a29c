/** Plans made again from the records alone, for an agent whose prompts cannot be. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as BuiltIn from "../../../history/BuiltIn.js"
import type { HistoryPolicy, HistoryState } from "../../../history/HistoryPolicy.js"
import { type ModelCall, PlanFacts } from "../../Agent.js"
import type { AgentContract } from "../../Contract.js"

/** Is given the calls in order, and answers with the plan that each should have had. */
export type Replanner = (call: ModelCall) => PlanFacts

/** None where the contract names no policy, or one that is not ours. */
export const replanner = ({ history_policy }: AgentContract): Option.Option<Replanner> => {
  if (history_policy === null) return Option.none()
  const { name, params, schema_version } = history_policy
  return Option.map(Either.getRight(BuiltIn.fromConfig({ name, params, schema_version })), planning)
}

const planning = (policy: HistoryPolicy["Type"]): Replanner => {
  let step = -1
  let entry: HistoryState = policy.initial
  let next: HistoryState = policy.initial
  let answered = false
  let completed = 0
  return (call) => {
    if (call.step !== step) {
      step = call.step
      entry = next
      if (answered) completed++
      answered = false
    }
    const limit = call.plan?.limit
    const plan = policy.plan(entry, completed, limit)
    if (call.purpose === "act" && call.result._tag === "Replied") {
      answered = true
      next = plan.next
    }
    return new PlanFacts({
      policyId: policy.id,
      completedTurns: completed,
      imageIntervals: plan.imageIntervals,
      compaction: plan.compaction,
      ...(limit === undefined ? {} : { limit })
    })
  }
}
