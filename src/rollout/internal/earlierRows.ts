/** As much of the rows in a run's folder as a resumed run needs. */
import * as Schema from "effect/Schema"
import type { RolloutIdentity } from "../../identity/Identity.js"
import { causeLength, type Failure, FailureClass } from "../FailurePolicy.js"
import type { Entry } from "../Journal.js"

const ids = {
  _ng_task_index: Schema.NonNegativeInt,
  _ng_rollout_index: Schema.NonNegativeInt,
  _ng_attempt_index: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 0 })
}

const text = Schema.optionalWith(Schema.String, { exact: true })

const ScoredRow = Schema.Struct({
  ...ids,
  reward: Schema.Number,
  milliseconds: Schema.Number,
  verifier_metadata: Schema.Struct({
    osworld_score: Schema.Number,
    osworld_steps: Schema.Array(Schema.Unknown),
    osworld_termination_reason: Schema.String
  })
})

const OtherRow = Schema.Struct({
  ...ids,
  reward: Schema.Null,
  outcome: text,
  _ng_failure_class: Schema.optionalWith(Schema.Unknown, { exact: true }),
  _ng_failure_kind: text,
  _ng_failure_cause: text,
  _ng_failure_disposition: Schema.optionalWith(Schema.Unknown, { exact: true })
})

export const decodeRow = Schema.decodeUnknownEither(Schema.Union(ScoredRow, OtherRow))

export type EarlierRow = typeof ScoredRow.Type | typeof OtherRow.Type

export const keyOf = (row: EarlierRow): string => `${row._ng_task_index}-${row._ng_rollout_index}`

const isClass = Schema.is(FailureClass)

/** The journal's line of a row whose own line is missing. */
export const entryOf = (row: EarlierRow, at: number): Entry => {
  const common = { v: 1, at, rollout: keyOf(row), attempt: row._ng_attempt_index } as const
  if (row.reward !== null) {
    const { osworld_score, osworld_steps, osworld_termination_reason } = row.verifier_metadata
    return {
      ...common,
      state: "finished",
      reward: row.reward,
      score: osworld_score,
      steps: osworld_steps.length,
      termination: osworld_termination_reason,
      milliseconds: row.milliseconds
    }
  }
  const known = row._ng_failure_class
  if (row.outcome === "unresolved" && known === undefined) {
    return { ...common, state: "unresolved", cause: "the row says so" }
  }
  return {
    ...common,
    state: "failed",
    class: isClass(known) ? known : "infrastructure",
    kind: row._ng_failure_kind ?? "unknown",
    cause: row._ng_failure_cause ?? "",
    disposition: row._ng_failure_disposition === "terminal" ? "terminal" : "retryable"
  }
}

/** The keys that say in `failures.jsonl` what a failure means. */
export const failureKeys = (failure: Failure, disposition: "retryable" | "terminal") => ({
  _ng_failure_class: failure.class,
  _ng_failure_kind: failure.kind,
  _ng_failure_cause: failure.cause.slice(0, causeLength),
  _ng_failure_disposition: disposition,
  _ng_failure_terminal: disposition === "terminal"
})

export const attemptOf = (identity: RolloutIdentity) => ({
  rollout: identity.rolloutKey,
  attempt: identity.attemptIndex,
  run: identity.runId
})
