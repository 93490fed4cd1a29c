/**
 * A rollout as its evidence has it, put together by step: what every export is made of.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import type { RolloutIdentity } from "../identity/Identity.js"
import * as TrajectoryIdentity from "../identity/TrajectoryIdentity.js"
import type { ModelReply } from "../model/ModelClient.js"
import type { ModelCall, ParseFailure } from "./Agent.js"
import type { Observation, StepFacts } from "./Environment.js"
import type { Evaluation } from "./Evaluation.js"
import type { EvidenceRecord, Started } from "./EvidenceRecord.js"
import type { Termination } from "./Termination.js"

/**
 * A step: what was seen, which calls were made, what was carried out.
 *
 * @since 0.1.0
 * @category models
 */
export interface RecordedStep {
  readonly step: number
  readonly observation: Observation
  /** In the order in which they were made: retries, refused prompts and summaries too. */
  readonly calls: ReadonlyArray<ModelCall>
  readonly acts: ReadonlyArray<{ readonly action: string; readonly facts: StepFacts }>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface RecordedRollout {
  readonly started: Started
  readonly steps: ReadonlyArray<RecordedStep>
  /** What the last action led to; absent where the episode was cut short before it was looked at. */
  readonly last?: Observation
  /** Absent where the evidence ends before the episode. */
  readonly termination?: Termination
  /** Absent where there is none. */
  readonly evaluation?: Evaluation
}

/**
 * What a run's row says of the rollout, where there is a row.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowVerdict {
  /** Null where the rollout may not be used. */
  readonly reward: number | null
  readonly mask_sample: boolean
  /** The model's name, as it was asked for. */
  readonly model: string
}

/**
 * The records of one evidence file, in their order. `None` where they have no head: then nobody knows whose they are.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromRecords = (records: Iterable<EvidenceRecord>): Option.Option<RecordedRollout> => {
  let started: Started | undefined
  const steps: Array<{
    step: number
    observation: Observation
    calls: Array<ModelCall>
    acts: Array<{ action: string; facts: StepFacts }>
  }> = []
  let termination: Termination | undefined
  let evaluation: Evaluation | undefined
  for (const record of records) {
    switch (record._tag) {
      case "Started":
        started = record
        break
      case "Observed":
        steps.push({ step: record.step, observation: record.observation, calls: [], acts: [] })
        break
      case "Called":
        steps.at(-1)?.calls.push(record.call)
        break
      case "Acted":
        steps.at(-1)?.acts.push({ action: record.action, facts: record.facts })
        break
      case "Ended":
        termination = record.termination
        break
      case "Evaluated":
        evaluation = record.evaluation
        break
      case "NotEvaluated":
        break
    }
  }
  if (started === undefined) return Option.none()
  // An episode looks once more at its end, and that is no step. One that was cut short may not have come to it.
  const final = steps.at(-1)
  const last = final !== undefined && final.calls.length === 0 && final.acts.length === 0 ? final.observation : undefined
  if (last !== undefined) steps.pop()
  return Option.some({
    started,
    steps,
    ...(last === undefined ? {} : { last }),
    ...(termination === undefined ? {} : { termination }),
    ...(evaluation === undefined ? {} : { evaluation })
  })
}

/**
 * What the environment showed after a step, where it was looked at again.
 *
 * @since 0.1.0
 * @category queries
 */
export const after = ({ last, steps }: RecordedRollout, index: number): Observation | undefined =>
  steps[index + 1]?.observation ?? (index === steps.length - 1 ? last : undefined)

/**
 * The reply of a call, where it got one.
 *
 * @since 0.1.0
 * @category queries
 */
export const replyOf = ({ result }: ModelCall): ModelReply | undefined =>
  result._tag === "Replied" ? result.reply : undefined

/**
 * Why a call's reply could not be read, where that is so.
 *
 * @since 0.1.0
 * @category queries
 */
export const parseFailureOf = ({ result }: ModelCall): ParseFailure | undefined =>
  result._tag === "Replied" && result.read._tag === "ParseFailure" ? result.read : undefined

/**
 * The call that decided a step: the last whose reply could be read.
 *
 * @since 0.1.0
 * @category queries
 */
export const accepted = ({ calls }: RecordedStep): ModelCall | undefined =>
  calls.findLast(
    ({ purpose, result }) => purpose === "act" && result._tag === "Replied" && result.read._tag === "Reading"
  )

/**
 * The trajectory's names, and the model's: as the row has it, or else as the server told it.
 *
 * @since 0.1.0
 * @category queries
 */
export const names = (
  rollout: RecordedRollout,
  row: RowVerdict | undefined
): ReturnType<typeof TrajectoryIdentity.of> & { readonly model: string; readonly rollout: RolloutIdentity } => {
  const told = rollout.steps.flatMap(({ calls }) => calls.flatMap((call) => replyOf(call)?.model ?? []))
  const model = row?.model ?? told[0] ?? "none"
  const { identity } = rollout.started
  return { ...TrajectoryIdentity.of(identity, model), model, rollout: identity }
}
