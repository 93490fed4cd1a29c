/** Rows, as far as evidence can bear them out. */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Admission from "../../Admission.js"
import { reward } from "../../Evaluation.js"
import type { Checker, Found } from "./check.js"

const Step = Schema.Struct({
  step: Schema.Number,
  actions: Schema.Array(Schema.String),
  screenshot_sha256: Schema.String,
  info: Schema.Struct({
    agent: Schema.optionalWith(Schema.Struct({ model_call_count: Schema.Number }), { exact: true })
  })
})

/** What is read of a row. */
export const RowFacts = Schema.Struct({
  _ng_rollout_id: Schema.String,
  _ng_task_index: Schema.optionalWith(Schema.Number, { exact: true }),
  _ng_rollout_index: Schema.optionalWith(Schema.Number, { exact: true }),
  _ng_attempt_index: Schema.optionalWith(Schema.Number, { exact: true }),
  outcome: Schema.Literal("scored", "masked", "failed", "unresolved"),
  reward: Schema.NullOr(Schema.Number),
  mask_sample: Schema.Boolean,
  verifier_metadata: Schema.Struct({
    task_id: Schema.String,
    osworld_score: Schema.NullOr(Schema.Number),
    osworld_termination_reason: Schema.NullOr(Schema.String),
    osworld_steps: Schema.Array(Step),
    osworld_model_name: Schema.String,
    osworld_agent_contract_id: Schema.NullOr(Schema.String)
  })
})

export type RowFacts = typeof RowFacts.Type

export const decodeRow = Schema.decodeUnknownEither(RowFacts)

/** What ends an episode is decided, and not carried out. */
const words: ReadonlySet<string> = new Set(["DONE", "FAIL"])

const same = (what: string, row: unknown, evidence: unknown): ReadonlyArray<Found> =>
  row === evidence
    ? []
    : [
        {
          kind: "row_differs",
          detail: `${what} is ${JSON.stringify(row) ?? "absent"} in the row and ${JSON.stringify(evidence) ?? "absent"} in the evidence`
        }
      ]

/** Whether the evidence bears a step's actions out: one that ended the episode, or was cut short, was not carried out. */
const carriedOut = (decided: ReadonlyArray<string>, acted: ReadonlyArray<string>, cutShort: boolean): boolean => {
  const [last, ...more] = decided.slice(acted.length)
  return (
    acted.every((action, index) => decided[index] === action) &&
    more.length === 0 &&
    (last === undefined || words.has(last) || cutShort)
  )
}

const stepFaults = ({ verifier_metadata }: RowFacts, { steps, end, order }: Checker): ReadonlyArray<Found> => {
  const rows = verifier_metadata.osworld_steps
  const infrastructure = end?.termination._tag === "Infrastructure"
  // After the last step the environment is looked at once more, unless something cut the episode short.
  const observed = steps.length
  const expected = infrastructure && rows.length === observed ? observed : observed - 1
  const each = rows.flatMap((row, index): ReadonlyArray<Found> => {
    const seen = steps[index]
    if (seen === undefined) return []
    const at = `of step ${index}`
    const cutShort = infrastructure && index === rows.length - 1
    return [
      ...same(`the number ${at}`, row.step, index),
      ...same(`the screenshot ${at}`, row.screenshot_sha256, seen.screenshot),
      ...(carriedOut(row.actions, seen.actions, cutShort)
        ? []
        : same(`what was done ${at}`, row.actions, seen.actions)),
      ...same(`the number of model calls ${at}`, row.info.agent?.model_call_count ?? 0, seen.calls)
    ]
  })
  return [...same("the number of steps", rows.length, order.step < 0 ? 0 : expected), ...each]
}

const NoReason = Schema.Literal("evaluation_incomplete", "evaluator_error", "timeout", "environment_lost")

const endFaults = (row: RowFacts, { end, verdict }: Checker): ReadonlyArray<Found> => {
  if (end === undefined || verdict === undefined) return []
  const evaluation =
    verdict._tag === "Evaluated"
      ? Either.right(verdict.evaluation)
      : Either.left({
          reason: Schema.is(NoReason)(verdict.reason) ? verdict.reason : ("evaluation_incomplete" as const),
          detail: verdict.detail
        })
  const facts = { termination: end.termination, evaluation }
  const { eligible, terminationReason } = Admission.verdict(Admission.runnerFacts(facts))
  const score = eligible && Either.isRight(evaluation) ? evaluation.right : undefined
  const rewards: ReadonlyArray<number | null> =
    score === undefined ? [null] : [reward(score, "binary"), reward(score, "raw")]
  const metadata = row.verifier_metadata
  return [
    ...same("the termination", metadata.osworld_termination_reason, terminationReason),
    ...same("mask_sample", row.mask_sample, !eligible),
    ...same("the score", metadata.osworld_score, score?.score ?? null),
    ...(rewards.includes(row.reward) ? [] : same("the reward", row.reward, rewards[0]))
  ]
}

/** Where a row and the evidence of its rollout part. */
export const rowFaults = (row: RowFacts, checker: Checker): ReadonlyArray<Found> => {
  // The environment did not open: the head is all that there is.
  if (row.outcome === "failed" || row.outcome === "unresolved") return []
  const contract = row.verifier_metadata.osworld_agent_contract_id
  return [
    ...stepFaults(row, checker),
    ...endFaults(row, checker),
    ...(contract === null ? [] : same("the contract", contract, checker.started?.contractId))
  ]
}
