/** Rows as a report reads them: ours, and those of others that use the field's names. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { Entry } from "../../Metrics.js"
import type { Selection, Value } from "./rowScan.js"

const absent = { exact: true } as const

/** Rows hold what desktops and models said, and a report goes to a terminal: only line ends and tabs of controls are kept. */
const Text = Schema.transform(Schema.String, Schema.String, {
  strict: true,
  decode: (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, ""),
  encode: (text) => text
})

const text = Schema.optionalWith(Schema.NullOr(Text), absent)

const RowFacts = Schema.Struct({
  _ng_task_index: Schema.NonNegativeInt,
  _ng_rollout_index: Schema.NonNegativeInt,
  _ng_attempt_index: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 0 }),
  outcome: Schema.optionalWith(Schema.Literal("scored", "masked", "failed", "unresolved"), absent),
  reward: Schema.optionalWith(Schema.NullOr(Schema.Union(Schema.Finite, Schema.Boolean)), absent),
  mask_sample: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  _ng_failure_class: text,
  extracted_answer: Schema.optionalWith(Schema.Unknown, absent),
  milliseconds: Schema.optionalWith(Schema.Finite, absent),
  "verifier_metadata.task_id": text,
  "verifier_metadata.domain": text,
  "verifier_metadata.osworld_score": Schema.optionalWith(Schema.NullOr(Schema.Finite), absent),
  "verifier_metadata.osworld_termination_reason": text,
  "verifier_metadata.osworld_error": text,
  "verifier_metadata.osworld_steps": Schema.optionalWith(Schema.NonNegativeInt, absent)
})

const steps = "verifier_metadata.osworld_steps"

export const selection: Selection = {
  values: Object.keys(RowFacts.fields).filter((name) => name !== steps),
  lengths: [steps]
}

const decode = Schema.decodeUnknownEither(RowFacts, { errors: "first" })

/** The result that a row tells of, or why it tells of none. */
const resultOf = (row: typeof RowFacts.Type): Entry["result"] | string => {
  const detail = row["verifier_metadata.osworld_error"] ?? ""
  const reward = typeof row.reward === "boolean" ? Number(row.reward) : (row.reward ?? null)
  const failure = row._ng_failure_class ?? undefined
  const outcome =
    row.outcome ?? (failure !== undefined ? "failed" : row.mask_sample || reward === null ? "masked" : "scored")
  switch (outcome) {
    case "scored":
      return reward === null
        ? "it is scored and has no reward"
        : { _tag: "Scored", reward, score: row["verifier_metadata.osworld_score"] ?? reward }
    case "masked":
      return {
        _tag: "Masked",
        reason: row["verifier_metadata.osworld_termination_reason"] ?? "no reason given",
        detail
      }
    case "failed":
      return { _tag: "Failed", fault: failure ?? "no class given", detail }
    case "unresolved":
      return { _tag: "Unresolved" }
  }
}

/** An answer that is no plain value cannot be compared with others. */
const answerOf = (answer: unknown): Pick<Entry, "answer"> =>
  typeof answer === "string" || typeof answer === "number" || typeof answer === "boolean"
    ? { answer: String(answer) }
    : {}

/** What the run's manifest says of the task of a row, for rows that do not say it themselves. */
export type TaskNames = (taskIndex: number) => { readonly taskId: string; readonly domain?: string } | undefined

export const entryOf = (row: ReadonlyMap<string, Value>, names: TaskNames): Either.Either<Entry, string> =>
  decode(Object.fromEntries(row)).pipe(
    Either.mapLeft((error) => {
      const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
      return issue === undefined ? error.message : `${issue.path.join(".")}: ${issue.message}`
    }),
    Either.flatMap((facts) => {
      const result = resultOf(facts)
      if (typeof result === "string") return Either.left(result)
      const taskIndex = facts._ng_task_index
      const known = names(taskIndex)
      const episode = result._tag === "Scored" || result._tag === "Masked"
      const termination = facts["verifier_metadata.osworld_termination_reason"] ?? undefined
      return Either.right({
        taskIndex,
        rolloutIndex: facts._ng_rollout_index,
        taskId: facts["verifier_metadata.task_id"] ?? known?.taskId ?? `task number ${taskIndex}`,
        domain: facts["verifier_metadata.domain"] ?? known?.domain ?? "unknown",
        attempt: facts._ng_attempt_index,
        earlier: false,
        result,
        ...(episode && facts[steps] !== undefined ? { steps: facts[steps] } : {}),
        ...(episode && termination !== undefined ? { termination } : {}),
        ...(facts.milliseconds === undefined ? {} : { milliseconds: facts.milliseconds }),
        ...answerOf(facts.extracted_answer)
      })
    })
  )
