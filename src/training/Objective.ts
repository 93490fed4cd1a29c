/**
 * The objective of an optimizer step as data, and the whole of it computed: advantages of owners, their rows' weights, the gate, the
 * loss and its gradient with respect to every current log-probability.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { type AdvantageEstimator, gdpo, ownerAdvantages, type RewardComponent } from "./Advantage.js"
import { type Aggregation, countStep, rowWeights, type StepCounts } from "./Aggregation.js"
import type { KlEstimator } from "./Divergence.js"
import { type Gate, sequenceError, type TokenMask } from "./Gate.js"
import type { Truncation } from "./ImportanceSampling.js"
import { membersOf } from "./internal/members.js"
import { checkConsistent, checkForSegments } from "./internal/objectiveRules.js"
import { evaluateRange, weighRange } from "./internal/stepLoss.js"
import type { PolicyLoss, PositiveNll } from "./Loss.js"
import { type RewardShaping, type ShapingFacts, shape } from "./RewardShaping.js"
import { longestRow, type OwnerColumns, ownerTokens, rowTokens, type TrainingStep, validate } from "./StepColumns.js"
import { type ObjectiveError, StepError } from "./StepError.js"
import { rowCount, type TokenBatch } from "./TokenBatch.js"

/**
 * - An estimator of `Advantage` that looks at owners.
 * - `gdpo`: from components of the reward that the step brings.
 * - `per_token`: the step brings one for each token, as `Gae` and `reinforcePlusPlus` make them.
 *
 * @since 0.1.0
 * @category models
 */
export type ObjectiveAdvantage =
  | AdvantageEstimator
  | { readonly name: "gdpo"; readonly leaveOneOut: boolean; readonly normalize: boolean }
  | { readonly name: "per_token" }

/**
 * @since 0.1.0
 * @category models
 */
export interface Objective {
  readonly advantage: ObjectiveAdvantage
  readonly loss: PolicyLoss
  /** Weights for tokens that another policy generated. All weights are 1 unless given. */
  readonly importance?: { readonly truncation: Truncation; readonly level: "token" | "sequence" }
  /** Goes with `seq-mask-tis`, and only with it. */
  readonly gate?: Gate
  readonly tokenMask?: TokenMask
  readonly aggregation: Aggregation
  /** A penalty in the loss; `behaviour` is whose sample a token is taken for. */
  readonly kl?: {
    readonly estimator: KlEstimator
    readonly coefficient: number
    readonly behaviour: "current" | "generation"
  }
  readonly positiveNll?: PositiveNll
  readonly advantageClip?: readonly [low: number, high: number]
  /** Rows with a `Gate.sequenceError` above this don't train and don't count. */
  readonly maxSequenceError?: number
  readonly shaping?: RewardShaping
}

/**
 * What is done to a step before the objective sees it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ObjectiveSurroundings {
  /** Groups whose rewards are all the same are left out and replaced. */
  readonly dynamicSampling?: boolean
  /** A KL penalty is taken off the reward. */
  readonly klInReward?: boolean
}

/**
 * Whether the objective may train owners whose episodes are split into segments. Three families may, and no other combination:
 *
 * | family | advantage | gate | loss | aggregation |
 * |---|---|---|---|---|
 * | standard | `grpo` | none | `ppo` | `token-mean` |
 * | molt | `reinforce_baseline`, all owners | `ratio`, 0 < min <= max | `on_policy` | `token-mean` |
 * | flash | `reinforce_baseline` or `dr_grpo`, all owners | `binary_kl`, min <= 0 < max | `on_policy` | `prompt-mean-token-mean` |
 *
 * The two with a gate have importance weights `seq-mask-tis`, token by token. What looks at whole rows, changes rewards or drops groups is
 * refused: it would depend on where an episode is split, or on which owners are left. A clip of rewards to 0..1 is allowed. The error
 * names the first field that is wrong and what to set instead.
 *
 * @since 0.1.0
 * @category validation
 */
export const validateObjective = (
  objective: Objective,
  surroundings: ObjectiveSurroundings = {}
): Either.Either<Objective, ObjectiveError> => {
  const wrong = checkConsistent(objective) ?? checkForSegments(objective, surroundings)
  return wrong === undefined ? Either.right(objective) : Either.left(wrong)
}

// -----------------------------------------------------------------------------
// A step
// -----------------------------------------------------------------------------

/**
 * A step with what only some objectives ask for.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepInputs extends TrainingStep {
  /** `[places]`: log-probabilities by the reference policy. For `kl`. */
  readonly reference?: Float64Array
  /** `[places]`. For `per_token`. */
  readonly tokenAdvantages?: Float64Array
  /** For `gdpo`. */
  readonly components?: ReadonlyArray<RewardComponent>
  /** For `shaping`. */
  readonly facts?: ShapingFacts
}

/**
 * A step with all that does not depend on current log-probabilities. Microbatches share it, so that they add up to the whole.
 *
 * @since 0.1.0
 * @category models
 */
export interface PreparedStep {
  readonly objective: Objective
  readonly inputs: StepInputs
  /** With rows masked that `maxSequenceError` refuses; its other arrays are the ones that were given. */
  readonly batch: TokenBatch
  /** `[owners]`: after shaping. */
  readonly reward: Float64Array
  /** `[owners]`; all 0 with `per_token`. */
  readonly advantage: Float64Array
  /** `[rows]` */
  readonly rowTokens: Float64Array
  /** `[rows]`: what a row's sum is multiplied with. */
  readonly rowWeight: Float64Array
  readonly counts: StepCounts
  /** Rows of each owner. */
  readonly ownerRows: Int32Array
  /** Tokens that train of owners that have succeeded. For `positiveNll`. */
  readonly positiveTokens: number
  /** Groups whose owners all have the same reward. */
  readonly zeroVarianceGroups: number
}

/**
 * What evaluation writes to. Made once and used for all steps that fit.
 *
 * @since 0.1.0
 * @category models
 */
export interface Workspace {
  /** At least `[places]`: derivative of the loss with respect to `current`. 0 where nothing trains. */
  readonly gradient: Float64Array
  /** At least `[rows]`: of the gate; 0 without a gate and for rows that don't train. */
  readonly statistic: Float64Array
  /** At least `[rows]`: 1 where the row trains and the gate keeps it. */
  readonly kept: Uint8Array
  /** At least as long as the longest row. */
  readonly weight: Float64Array
}

/**
 * Arrays that are large enough for this batch. They may be used again for any batch that is not larger.
 *
 * @since 0.1.0
 * @category constructors
 */
export const workspace = (batch: TokenBatch): Workspace => ({
  gradient: new Float64Array(batch.mask.length),
  statistic: new Float64Array(rowCount(batch)),
  kept: new Uint8Array(rowCount(batch)),
  weight: new Float64Array(longestRow(batch))
})

/**
 * What evaluation of some rows comes to. Those of disjoint ranges add up, field by field.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowsResult {
  readonly loss: number
  /** Rows with a token that trains, and those tokens; the gate's rejects are among them. */
  readonly rows: number
  readonly tokens: number
  readonly rejectedRows: number
  readonly rejectedTokens: number
  /** Tokens of kept rows that `tokenMask` drops. */
  readonly droppedTokens: number
  /** Tokens of kept rows whose derivative a clip made 0. */
  readonly clippedTokens: number
  /** Tokens of kept rows whose importance weight was truncated. */
  readonly outOfBoundsTokens: number
  /** Over tokens of kept rows: sums of importance weights before truncation, and of the KL penalty without its coefficient. */
  readonly weightSum: number
  readonly klSum: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface StepResult extends RowsResult {
  /** Prompts with a token that trains. */
  readonly prompts: number
  readonly owners: number
  readonly validOwners: number
  /** Groups whose owners all have the same reward, of all groups: from 0 to 1. */
  readonly zeroVarianceShare: number
  /** Over all owners, failed ones too. */
  readonly meanReward: number
  /** `[owners]`: as the step's owner table; empty for advantages of tokens. */
  readonly advantage: Float64Array
  /** The workspace's. */
  readonly gradient: Float64Array
}

const missing = (field: string, asker: string, found: number | undefined, wanted: number): StepError =>
  new StepError({
    reason: "Length",
    field,
    detail: `${found ?? "none"} given where ${asker} asks for ${wanted}`
  })

const maskErrors = (batch: TokenBatch, threshold: number | undefined): TokenBatch => {
  if (threshold === undefined) return batch
  const sampleMask = batch.sampleMask.map((sample, row) => {
    if (sample !== 1) return 0
    const [from, to] = [batch.offsets[row] ?? 0, batch.offsets[row + 1] ?? 0]
    const error = sequenceError(batch.generation, batch.previous, batch.mask, from, to)
    // What is no number is not out of bounds: it stays, to be refused by name.
    return error !== undefined && error > threshold ? 0 : 1
  })
  return { ...batch, sampleMask }
}

const countZeroVariance = (owners: OwnerColumns, reward: Float64Array): number => {
  const { groups, order, starts } = membersOf(owners.group)
  let same = 0
  for (let group = 0; group < groups; group++) {
    const [from, to] = [starts[group] ?? 0, starts[group + 1] ?? 0]
    const first = reward[order[from] ?? 0] ?? 0
    let at = from
    while (at < to && reward[order[at] ?? 0] === first) at++
    if (at === to) same++
  }
  return same
}

const named = (error: StepError, { group, groupIds, ids }: OwnerColumns): StepError => {
  const owner = error.owner
  if (typeof owner !== "number") return error
  const groupId = groupIds[group[owner] ?? -1]
  return new StepError({
    reason: error.reason,
    field: error.field,
    detail: error.detail,
    owner: ids[owner] ?? owner,
    ...(groupId === undefined ? {} : { group: groupId })
  })
}

/**
 * Checks a step and works out all that its microbatches share. An owner with several rows is refused where the objective may not train
 * segments (`validateObjective`). A step whose rewards are all zero, or all the same, is legal; one without any token that trains is not.
 *
 * @since 0.1.0
 * @category operations
 */
export const prepare = (
  objective: Objective,
  inputs: StepInputs
): Either.Either<PreparedStep, StepError | ObjectiveError> =>
  Either.gen(function* () {
    const inconsistent = checkConsistent(objective)
    if (inconsistent !== undefined) return yield* Either.left(inconsistent)
    const { owners, rows } = yield* validate(inputs)
    const places = inputs.batch.mask.length
    if (objective.kl !== undefined && inputs.reference?.length !== places)
      return yield* Either.left(missing("reference", "kl", inputs.reference?.length, places))
    if (objective.advantage.name === "per_token" && inputs.tokenAdvantages?.length !== places)
      return yield* Either.left(missing("tokenAdvantages", "per_token", inputs.tokenAdvantages?.length, places))
    const ownerRows = new Int32Array(owners.ids.length)
    for (const owner of rows.owner) if (owner >= 0) ownerRows[owner] = (ownerRows[owner] ?? 0) + 1
    if (ownerRows.some((count) => count > 1)) yield* validateObjective(objective)

    const batch = maskErrors(inputs.batch, objective.maxSequenceError)
    const tokens = rowTokens(batch)
    const counts = countStep(tokens, rows.group, owners.groupIds.length)
    if (counts.tokens === 0)
      return yield* Either.left(
        new StepError({
          reason: "Empty",
          field: "mask",
          detail: "no token of the whole step trains: take another step"
        })
      )
    const reward =
      objective.shaping === undefined
        ? owners.reward
        : yield* Either.mapLeft(shape(objective.shaping, owners.reward, inputs.facts), (error) => named(error, owners))
    const shaped = { ...owners, reward }
    const estimator = objective.advantage
    // A penalty for length is no success: how far rewards spread is of the rewards as they were given.
    const raw = objective.shaping?.overlong !== undefined || objective.shaping?.stopProperly !== undefined
    const spread = raw ? owners.reward : reward
    const estimate =
      estimator.name === "per_token"
        ? Either.right(new Float64Array(owners.ids.length))
        : estimator.name === "gdpo"
          ? gdpo(shaped, inputs.components ?? [], estimator)
          : ownerAdvantages(estimator, shaped, ownerTokens(rows.owner, tokens, owners.ids.length), spread)
    const advantage = yield* Either.mapLeft(estimate, (error) => named(error, owners))
    const overflowing = advantage.findIndex((value) => !Number.isFinite(value))
    if (overflowing >= 0)
      return yield* Either.left(
        named(
          new StepError({
            reason: "NotFinite",
            field: "advantage",
            detail: `${advantage[overflowing]} came of reward ${reward[overflowing]}: its group's rewards are too large`,
            owner: overflowing
          }),
          owners
        )
      )
    if (objective.advantageClip !== undefined) {
      const [low, high] = objective.advantageClip
      for (let owner = 0; owner < advantage.length; owner++)
        advantage[owner] = Math.min(Math.max(advantage[owner] ?? 0, low), high)
    }
    let positiveTokens = 0
    if (objective.positiveNll !== undefined) {
      const { minReward } = objective.positiveNll
      for (let row = 0; row < tokens.length; row++)
        if ((owners.reward[rows.owner[row] ?? -1] ?? Number.NEGATIVE_INFINITY) >= minReward)
          positiveTokens += tokens[row] ?? 0
    }
    return {
      objective,
      inputs,
      batch,
      reward,
      advantage,
      rowTokens: tokens,
      rowWeight: rowWeights(objective.aggregation, tokens, rows.group, counts),
      counts,
      ownerRows,
      positiveTokens,
      zeroVarianceGroups: countZeroVariance(owners, reward)
    }
  })

const tooSmall = ({ batch }: PreparedStep, space: Workspace): StepError | undefined => {
  for (const [field, found, wanted] of [
    ["gradient", space.gradient.length, batch.mask.length],
    ["statistic", space.statistic.length, rowCount(batch)],
    ["kept", space.kept.length, rowCount(batch)],
    ["weight", space.weight.length, longestRow(batch)]
  ] as const) {
    if (found < wanted) return missing(`workspace.${field}`, "the batch", found, wanted)
  }
  return undefined
}

/**
 * For a trainer that knows `Loss.tokenLoss` and no more: writes what each token's loss is multiplied with, `[places]`, so that the
 * loss of the step is the sum over places of `weight * tokenLoss` and no other count is needed. It holds the row's share, what the gate
 * says and the importance weight, all by the log-probabilities that the step starts from; 0 where nothing trains. A KL penalty and
 * `positiveNll` are not in it. Refuses what `evaluateRows` refuses.
 *
 * @since 0.1.0
 * @category operations
 */
export const tokenWeights = (
  prepared: PreparedStep,
  space: Workspace,
  out: Float64Array
): Either.Either<Float64Array, StepError> => {
  const places = prepared.batch.mask.length
  const wrong =
    tooSmall(prepared, space) ??
    (out.length < places ? missing("out", "the batch", out.length, places) : weighRange(prepared, space, out))
  return wrong === undefined ? Either.right(out) : Either.left(wrong)
}

/**
 * Evaluates the rows `[from, to)` of a prepared step: writes their part of the gradient, their statistics and what the gate says, and
 * leaves all else as it is. A microbatch is such a range. With a gate of level `owner` a range must hold all rows of its owners.
 * Refuses log-probabilities that are NaN, infinite or above 0 where a token trains; their part of the gradient is 0 then.
 *
 * @since 0.1.0
 * @category operations
 */
export const evaluateRows = (
  prepared: PreparedStep,
  space: Workspace,
  from: number,
  to: number
): Either.Either<RowsResult, StepError> => {
  const { batch } = prepared
  const [first, last] = [batch.offsets[from] ?? 0, batch.offsets[to] ?? 0]
  const small = tooSmall(prepared, space)
  if (small !== undefined) return Either.left(small)
  if (!(Number.isInteger(from) && Number.isInteger(to) && from >= 0 && from <= to && to <= rowCount(batch)))
    return Either.left(
      new StepError({
        reason: "OutOfRange",
        field: "rows",
        detail: `${from} to ${to} is no range of ${rowCount(batch)}`
      })
    )
  return Either.mapLeft(evaluateRange(prepared, space, from, to), (error) => {
    space.gradient.fill(0, first, last)
    return error
  })
}

/**
 * The whole objective of a step. Without a workspace it makes one; a step that is as large as the one before is best given the same.
 * A step whose rows are all rejected has loss 0 and gradient 0.
 *
 * @since 0.1.0
 * @category operations
 */
export const evaluate = (
  objective: Objective,
  inputs: StepInputs,
  space?: Workspace
): Either.Either<StepResult, StepError | ObjectiveError> =>
  Either.flatMap(prepare(objective, inputs), (prepared) => {
    const { ids, groupIds, valid } = inputs.owners
    const into = space ?? workspace(prepared.batch)
    return Either.map(evaluateRows(prepared, into, 0, rowCount(prepared.batch)), (result) => ({
      ...result,
      prompts: prepared.counts.prompts,
      owners: ids.length,
      validOwners: valid.reduce((sum, flag) => sum + flag, 0),
      zeroVarianceShare: prepared.zeroVarianceGroups / groupIds.length,
      meanReward: prepared.reward.reduce((sum, reward) => sum + reward, 0) / ids.length,
      advantage: prepared.advantage,
      gradient: into.gradient
    }))
  })
