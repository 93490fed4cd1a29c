/** Rows of a prepared step, one after the other: look at the numbers, judge, add up. */
import * as Either from "effect/Either"
import { keeps, statisticOf, sumOf } from "../Gate.js"
import type { PreparedStep, RowsResult, Workspace } from "../Objective.js"
import { StepError } from "../StepError.js"
import type { TokenBatch } from "../TokenBatch.js"
import { addKl, addNll, dropTokens, fillWeights, type RowCursor, rowLoss, tally } from "./rowLoss.js"

/** Above 0 by no more than this is the rounding of a logarithm in single precision. */
const slack = 1e-6

/** The first place of the row where a token trains and `values` has no log-probability, or -1. */
const badPlace = (values: Float64Array, mask: Uint8Array, from: number, to: number): number => {
  for (let place = from; place < to; place++) {
    const value = values[place] ?? 0
    // What is right is decided without the mask, and that is all but always.
    if (value <= slack && value >= -Number.MAX_VALUE) continue
    if (mask[place] === 1) return place
  }
  return -1
}

/** Whether all places of three arrays hold log-probabilities, masked ones too: one walk over memory instead of three. */
const allRight = ({ current, generation, previous }: TokenBatch, from: number, to: number): boolean => {
  for (let place = from; place < to; place++) {
    const a = current[place] ?? 0
    const b = generation[place] ?? 0
    const c = previous[place] ?? 0
    if (
      !(
        a <= slack &&
        b <= slack &&
        c <= slack &&
        a >= -Number.MAX_VALUE &&
        b >= -Number.MAX_VALUE &&
        c >= -Number.MAX_VALUE
      )
    )
      return false
  }
  return true
}

const whereIs = ({ inputs }: PreparedStep, row: number) => {
  const { owners, rows } = inputs
  const owner = rows.owner[row] ?? -1
  return {
    row: rows.ids[row] ?? row,
    owner: owners.ids[owner] ?? owner,
    group: owners.groupIds[rows.group[row] ?? -1] ?? -1
  }
}

type Field = readonly [name: string, values: Float64Array]

/** The log-probabilities that the objective may look at. One array that stands for two is looked at once. */
const inspected = ({ batch, inputs, objective }: PreparedStep) => {
  const { current, generation, previous } = batch
  const fields: Array<Field> = [["current", current]]
  if (generation !== current) fields.push(["generation", generation])
  if (previous !== current && previous !== generation) fields.push(["previous", previous])
  if (objective.kl !== undefined && inputs.reference !== undefined) fields.push(["reference", inputs.reference])
  return fields
}

const checkRow = (
  prepared: PreparedStep,
  fields: ReadonlyArray<Field>,
  row: number,
  from: number,
  to: number
): StepError | undefined => {
  const { batch, inputs, objective } = prepared
  const shared = allRight(batch, from, to)
  for (const [field, values] of fields) {
    if (shared && field !== "reference") continue
    const place = badPlace(values, batch.mask, from, to)
    if (place >= 0) {
      const value = values[place] ?? Number.NaN
      return new StepError({
        reason: Number.isFinite(value) ? "OutOfRange" : "NotFinite",
        field,
        detail: `${value} is no log-probability`,
        ...whereIs(prepared, row),
        place: place - from
      })
    }
  }
  if (objective.advantage.name !== "per_token" || inputs.tokenAdvantages === undefined) return undefined
  for (let place = from; place < to; place++) {
    const value = inputs.tokenAdvantages[place]
    if (batch.mask[place] === 1 && !Number.isFinite(value))
      return new StepError({
        reason: "NotFinite",
        field: "tokenAdvantages",
        detail: `${value} is no advantage`,
        ...whereIs(prepared, row),
        place: place - from
      })
  }
  return undefined
}

/** Statistics over all rows of each owner, into those of its rows. */
const judgeOwners = (
  prepared: PreparedStep,
  trainer: Float64Array,
  { statistic }: Workspace,
  from: number,
  to: number
): StepError | undefined => {
  const { batch, inputs, objective, ownerRows, rowTokens } = prepared
  const gate = objective.gate
  if (gate === undefined) return undefined
  const sums = new Float64Array(ownerRows.length)
  const tokens = new Float64Array(ownerRows.length)
  const seen = new Int32Array(ownerRows.length)
  for (let row = from; row < to; row++) {
    const owner = inputs.rows.owner[row] ?? -1
    if (owner < 0) continue
    seen[owner] = (seen[owner] ?? 0) + 1
    if ((rowTokens[row] ?? 0) === 0) continue
    const [first, last] = [batch.offsets[row] ?? 0, batch.offsets[row + 1] ?? 0]
    sums[owner] = (sums[owner] ?? 0) + sumOf(gate.statistic, batch.generation, trainer, batch.mask, first, last)
    tokens[owner] = (tokens[owner] ?? 0) + (rowTokens[row] ?? 0)
  }
  for (let row = from; row < to; row++) {
    const owner = inputs.rows.owner[row] ?? -1
    if (owner >= 0 && seen[owner] !== ownerRows[owner])
      return new StepError({
        reason: "MissingOwner",
        field: "rows",
        detail: `${seen[owner]} of the owner's ${ownerRows[owner]} rows are in the range: a gate of level owner wants all`,
        ...whereIs(prepared, row)
      })
    statistic[row] =
      owner < 0 || (rowTokens[row] ?? 0) === 0 ? 0 : statisticOf(gate.statistic, sums[owner] ?? 0, tokens[owner] ?? 0)
  }
  return undefined
}

/** On policy, the trainer's weights from before the step are the ones that are trained. */
const trainerOf = ({ batch, objective }: PreparedStep): Float64Array =>
  objective.loss.name === "on_policy" ? batch.current : batch.previous

/** Statistics of rows that share one come before the first row's loss, so all numbers of the range are looked at first. */
const judgeRange = (
  prepared: PreparedStep,
  fields: ReadonlyArray<Field>,
  space: Workspace,
  from: number,
  to: number
): StepError | undefined => {
  const { batch, rowTokens } = prepared
  for (let row = from; row < to; row++) {
    if ((rowTokens[row] ?? 0) === 0) continue
    const wrong = checkRow(prepared, fields, row, batch.offsets[row] ?? 0, batch.offsets[row + 1] ?? 0)
    if (wrong !== undefined) return wrong
  }
  return judgeOwners(prepared, trainerOf(prepared), space, from, to)
}

/** Looks at the row's numbers and judges it by itself. */
const judgeRow = (
  prepared: PreparedStep,
  fields: ReadonlyArray<Field>,
  { statistic }: Workspace,
  row: number
): StepError | undefined => {
  const { batch, objective, rowTokens } = prepared
  const from = batch.offsets[row] ?? 0
  const to = batch.offsets[row + 1] ?? 0
  const wrong = checkRow(prepared, fields, row, from, to)
  if (wrong !== undefined) return wrong
  const gate = objective.gate
  statistic[row] = 0
  if (gate === undefined) return undefined
  const sum = sumOf(gate.statistic, batch.generation, trainerOf(prepared), batch.mask, from, to)
  statistic[row] = statisticOf(gate.statistic, sum, rowTokens[row] ?? 0)
  return undefined
}

export const weighRange = (prepared: PreparedStep, space: Workspace, out: Float64Array): StepError | undefined => {
  const { advantage, batch, inputs, objective, rowTokens, rowWeight } = prepared
  const { gate, importance, tokenMask } = objective
  const rows = rowTokens.length
  const fields = inspected(prepared)
  const trainer = trainerOf(prepared)
  const advantages = objective.advantage.name === "per_token" ? inputs.tokenAdvantages : undefined
  const counts = new Float64Array(tally.size)
  const byOwner = gate?.level === "owner"
  const wrong = byOwner ? judgeRange(prepared, fields, space, 0, rows) : undefined
  if (wrong !== undefined) return wrong
  out.fill(0)
  for (let row = 0; row < rows; row++) {
    space.kept[row] = 0
    space.statistic[row] = byOwner ? (space.statistic[row] ?? 0) : 0
    const tokens = rowTokens[row] ?? 0
    if (tokens === 0) continue
    const refused = byOwner ? undefined : judgeRow(prepared, fields, space, row)
    if (refused !== undefined) return refused
    if (gate !== undefined && !keeps(gate, space.statistic[row] ?? 0)) continue
    space.kept[row] = 1
    const from = batch.offsets[row] ?? 0
    const to = batch.offsets[row + 1] ?? 0
    const owned = advantage[inputs.rows.owner[row] ?? -1] ?? 0
    const cursor: RowCursor = { from, to, tokens, advantage: owned, scale: 0 }
    fillWeights(batch, trainer, importance, cursor, space.weight, counts)
    if (tokenMask !== undefined) dropTokens(batch, tokenMask, cursor, advantages, space.weight, counts)
    const scale = rowWeight[row] ?? 0
    for (let place = from; place < to; place++) out[place] = scale * (space.weight[place - from] ?? 0)
  }
  return undefined
}

export const evaluateRange = (
  prepared: PreparedStep,
  space: Workspace,
  from: number,
  to: number
): Either.Either<RowsResult, StepError> => {
  const { advantage, batch, inputs, objective, positiveTokens, rowTokens, rowWeight } = prepared
  const { gate, importance, kl, loss, positiveNll, tokenMask } = objective
  const { gradient, kept, statistic, weight } = space
  const trainer = trainerOf(prepared)
  const advantages = objective.advantage.name === "per_token" ? inputs.tokenAdvantages : undefined
  const fields = inspected(prepared)
  const counts = new Float64Array(tally.size)
  const cursor: RowCursor = { from: 0, to: 0, tokens: 0, advantage: 0, scale: 0 }
  const byOwner = gate?.level === "owner"
  let [total, nll, rows, tokens, rejectedRows, rejectedTokens] = [0, 0, 0, 0, 0, 0]

  if (byOwner) {
    const wrong = judgeRange(prepared, fields, space, from, to)
    if (wrong !== undefined) return Either.left(wrong)
  }

  for (let row = from; row < to; row++) {
    const count = rowTokens[row] ?? 0
    const first = batch.offsets[row] ?? 0
    const last = batch.offsets[row + 1] ?? 0
    kept[row] = 0
    if (count === 0) {
      statistic[row] = 0
      gradient.fill(0, first, last)
      continue
    }
    if (!byOwner) {
      const wrong = judgeRow(prepared, fields, space, row)
      if (wrong !== undefined) return Either.left(wrong)
    }
    rows++
    tokens += count
    if (gate !== undefined && !keeps(gate, statistic[row] ?? 0)) {
      rejectedRows++
      rejectedTokens += count
      gradient.fill(0, first, last)
      continue
    }
    kept[row] = 1
    const owner = inputs.rows.owner[row] ?? -1
    cursor.from = first
    cursor.to = last
    cursor.tokens = count
    cursor.advantage = advantage[owner] ?? 0
    cursor.scale = rowWeight[row] ?? 0
    fillWeights(batch, trainer, importance, cursor, weight, counts)
    if (tokenMask !== undefined) dropTokens(batch, tokenMask, cursor, advantages, weight, counts)
    let sum = rowLoss(batch, loss, cursor, advantages, weight, gradient, counts)
    if (kl !== undefined && inputs.reference !== undefined)
      sum += addKl(batch, inputs.reference, kl, cursor, gradient, counts)
    if (positiveNll !== undefined && (inputs.owners.reward[owner] ?? 0) >= positiveNll.minReward)
      nll += addNll(batch, positiveNll.coefficient / positiveTokens, cursor, gradient)
    if (!Number.isFinite(sum))
      return Either.left(
        new StepError({
          reason: "NotFinite",
          field: "loss",
          detail: `the row's loss is ${sum}: its log-probabilities are too far apart for a ratio`,
          ...whereIs(prepared, row)
        })
      )
    total += cursor.scale * sum
  }
  return Either.right({
    loss: total + nll,
    rows,
    tokens,
    rejectedRows,
    rejectedTokens,
    droppedTokens: counts[tally.dropped] ?? 0,
    clippedTokens: counts[tally.clipped] ?? 0,
    outOfBoundsTokens: counts[tally.outOfBounds] ?? 0,
    weightSum: counts[tally.weights] ?? 0,
    klSum: counts[tally.kl] ?? 0
  })
}
