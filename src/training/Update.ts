/**
 * From rows to what a trainer is given: the objective looks over the whole step once, and what is left for the trainer are
 * a weight for each token and an advantage for each row.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { type Batch, trainingStep } from "./Batch.js"
import {
  evaluateRows,
  type Objective,
  type PreparedStep,
  prepare,
  type RowsResult,
  tokenWeights,
  workspace
} from "./Objective.js"
import type { TrainingStep } from "./StepColumns.js"
import { ObjectiveError, StepError } from "./StepError.js"
import type { ScoreRow, TokenLoss, UpdateBatch, UpdateRow } from "./Trainer.js"

/**
 * What a trainer scores before a step: all rows, those that pad too, in order.
 *
 * @since 0.1.0
 * @category conversions
 */
export const scoreRows = ({ rows }: Batch): ReadonlyArray<ScoreRow> =>
  rows.map(({ id, segment }) => ({ id, tokenIds: segment.tokenIds }))

/** Rows end to end, once it is sure that each is as long as it has to be. */
const joined = (
  { rows, tokens }: Batch,
  previous: ReadonlyArray<Float64Array>
): Either.Either<Float64Array, StepError> => {
  const refuse = (detail: string, row?: string) =>
    Either.left(new StepError({ reason: "Length", field: "previous", detail, ...(row === undefined ? {} : { row }) }))
  if (previous.length !== rows.length)
    return refuse(`${rows.length} rows have log-probabilities for ${previous.length}`)
  const all = new Float64Array(tokens.mask.length)
  for (const [index, { id, segment }] of rows.entries()) {
    const values = previous[index] ?? new Float64Array(0)
    if (values.length !== segment.tokenIds.length - 1) {
      return refuse(`${segment.tokenIds.length} tokens have ${values.length} log-probabilities: one less is right`, id)
    }
    all.set(values, tokens.offsets[index] ?? 0)
  }
  return Either.right(all)
}

/**
 * A batch with the trainer's log-probabilities, as the objective reads it: at the beginning of a step, when the weights that
 * are trained are still the ones from before. `previous` is what `Trainer.score` answered to `scoreRows`.
 *
 * @since 0.1.0
 * @category conversions
 */
export const stepOf = (batch: Batch, previous: ReadonlyArray<Float64Array>): Either.Either<TrainingStep, StepError> =>
  Either.flatMap(joined(batch, previous), (all) => trainingStep(batch, { previous: all, current: all }))

/** The loss, where a trainer needs to know no more of the objective. */
const lossOf = (objective: Objective): Either.Either<TokenLoss, ObjectiveError> => {
  const refuse = (field: string, found: string) =>
    Either.left(
      new ObjectiveError({
        field,
        found,
        why: "a trainer is given a weight for each token and an advantage for each row, and this needs more",
        remedy: "Leave it out, or use Objective.evaluateRows in a trainer of this process"
      })
    )
  const { loss } = objective
  if (loss.name === "gspo") return refuse("loss.name", "gspo")
  if (objective.advantage.name === "per_token") return refuse("advantage.name", "per_token")
  if (objective.kl !== undefined) return refuse("kl", objective.kl.estimator)
  return objective.positiveNll === undefined ? Either.right(loss) : refuse("positiveNll", "given")
}

/**
 * A step that is ready for a trainer, and what the objective says of it beforehand: its loss, and what the gate refused.
 *
 * @since 0.1.0
 * @category models
 */
export interface Prepared {
  readonly update: UpdateBatch
  readonly result: RowsResult
  readonly step: PreparedStep
  /** `[rows]`: 1 where the row trains and the gate keeps it. */
  readonly kept: Uint8Array
}

/**
 * Makes up one optimizer step: advantages over all owners, weights over the whole step, the gate, importance weights. Rows
 * that the gate refuses, and rows of failed owners, are in it with weights of 0: they count in every denominator.
 *
 * Fails where the step is not whole (`StepError`) and where the objective is not offered or needs more than a trainer is
 * given (`ObjectiveError`).
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  objective: Objective,
  batch: Batch,
  options: {
    /** Unique among the run's steps. */
    readonly id: string
    /** The weight version that the step starts from, which `previous` was scored with. */
    readonly version: number
    readonly previous: ReadonlyArray<Float64Array>
  }
): Either.Either<Prepared, StepError | ObjectiveError> =>
  Either.gen(function* () {
    const loss = yield* lossOf(objective)
    const step = yield* prepare(objective, yield* stepOf(batch, options.previous))
    const space = workspace(step.batch)
    const result = yield* evaluateRows(step, space, 0, batch.rows.length)
    const weights = yield* tokenWeights(step, space, new Float64Array(batch.tokens.mask.length))
    const rows = batch.rows.map(({ id, segment }, index): UpdateRow => {
      const owner = batch.owners.rowOwner[index] ?? -1
      return {
        id,
        tokenIds: segment.tokenIds,
        weight: weights.subarray(batch.tokens.offsets[index] ?? 0, batch.tokens.offsets[index + 1] ?? 0),
        previous: options.previous[index] ?? new Float64Array(0),
        advantage: owner < 0 ? 0 : (step.advantage[owner] ?? 0)
      }
    })
    return { update: { id: options.id, version: options.version, rows, loss }, result, step, kept: space.kept }
  })
