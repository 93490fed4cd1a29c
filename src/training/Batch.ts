/**
 * Rows laid end to end as the numbers of an optimizer step, filled up to what the trainer's shapes ask for.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as RouterReplay from "./RouterReplay.js"
import { type OwnerTable, paddingRowId, type Row, type RowsExpected, validate } from "./Row.js"
import type { Segment } from "./Segment.js"
import type { TrainingStep } from "./StepColumns.js"
import { StepError } from "./StepError.js"
import type { TokenBatch } from "./TokenBatch.js"

// -----------------------------------------------------------------------------
// Execution padding
// -----------------------------------------------------------------------------

/**
 * How a trainer cuts a step.
 *
 * @since 0.1.0
 * @category models
 */
export interface Execution {
  /** Replicas that share a step's rows. */
  readonly dataParallel: number
  /** Rows of one forward and backward pass. */
  readonly trainMicroBatch: number
  /** Rows of one forward pass for log-probabilities. */
  readonly logProbMicroBatch: number
  /** Whether rows are packed by length, so that their number is free. */
  readonly sequencePacking: boolean
}

const greatestCommonDivisor = (a: number, b: number): number => (b === 0 ? a : greatestCommonDivisor(b, a % b))

const positive = (field: string, value: number): Either.Either<void, StepError> =>
  Number.isSafeInteger(value) && value > 0
    ? Either.right(undefined)
    : Either.left(
        new StepError({ reason: "OutOfRange", field, detail: `expected a whole number above 0, found ${value}` })
      )

/**
 * What the number of rows must be a multiple of: replicas times the least common multiple of the micro batches, and 1 with
 * sequence packing.
 *
 * @since 0.1.0
 * @category padding
 */
export const rowQuantum = (execution: Execution): Either.Either<number, StepError> =>
  Either.gen(function* () {
    const { dataParallel, logProbMicroBatch, sequencePacking, trainMicroBatch } = execution
    yield* positive("dataParallel", dataParallel)
    yield* positive("trainMicroBatch", trainMicroBatch)
    yield* positive("logProbMicroBatch", logProbMicroBatch)
    if (sequencePacking) return 1
    const common = greatestCommonDivisor(trainMicroBatch, logProbMicroBatch)
    return dataParallel * (trainMicroBatch / common) * logProbMicroBatch
  })

/**
 * How many rows are missing to a multiple of the quantum.
 *
 * @since 0.1.0
 * @category padding
 */
export const paddingCount = (rows: number, quantum: number): number => (quantum - (rows % quantum)) % quantum

const paddingSegment = ({ images, routes, tokenIds }: Segment): Segment => ({
  calls: [],
  tokenIds,
  tokenMask: new Uint8Array(tokenIds.length),
  generationLogProbs: new Float64Array(tokenIds.length),
  images,
  routes: routes === undefined ? undefined : RouterReplay.open(routes.tokens, routes.layers, routes.topK)
})

/** The shortest row's tokens, so that padding costs little, and no token of them trains. */
const padded = (rows: ReadonlyArray<Row>, quantum: number): ReadonlyArray<Row> => {
  const [first] = rows
  const count = paddingCount(rows.length, quantum)
  if (first === undefined || count === 0) return rows
  const model = rows.reduce(
    (shortest, row) => (row.segment.tokenIds.length < shortest.segment.tokenIds.length ? row : shortest),
    first
  )
  const taken = new Set(rows.map(({ id }) => id))
  const padding: Array<Row> = []
  for (let index = 0; padding.length < count; index++) {
    const id = paddingRowId(model.groupId, index)
    if (taken.has(id)) continue
    padding.push({
      ...model,
      id,
      owner: undefined,
      segment: paddingSegment(model.segment),
      reward: 0,
      sampleMask: 0,
      truncated: false,
      usesBorrowedInput: true
    })
  }
  return [...rows, ...padding]
}

// -----------------------------------------------------------------------------
// Batch
// -----------------------------------------------------------------------------

/**
 * Rows and their numbers as far as they are known before the trainer has looked at them. The arrays are in the view of
 * predicted tokens, as in `TokenBatch`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Batch {
  /** Rows of owners as they came, then rows that pad. */
  readonly rows: ReadonlyArray<Row>
  readonly owners: OwnerTable
  readonly paddingRows: number
  readonly tokens: Pick<TokenBatch, "offsets" | "mask" | "sampleMask" | "generation">
}

/**
 * Options of a batch.
 *
 * @since 0.1.0
 * @category models
 */
export interface BatchOptions extends RowsExpected {
  /** What the number of rows is filled up to a multiple of; 1 when absent. */
  readonly rowQuantum?: number
}

/**
 * Checks the rows, pads them and lays them end to end. No row of an owner that has a masked row trains.
 *
 * Time and memory are linear in the tokens.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (owned: ReadonlyArray<Row>, options: BatchOptions): Either.Either<Batch, StepError> =>
  Either.gen(function* () {
    const quantum = options.rowQuantum ?? 1
    yield* positive("rowQuantum", quantum)
    yield* validate(owned, options)
    const rows = padded(owned, quantum)
    const owners = yield* validate(rows, options)
    const offsets = new Int32Array(rows.length + 1)
    for (const [index, { segment }] of rows.entries()) {
      offsets[index + 1] = (offsets[index] ?? 0) + segment.tokenIds.length - 1
    }
    const places = offsets[rows.length] ?? 0
    const mask = new Uint8Array(places)
    const generation = new Float64Array(places)
    const sampleMask = new Uint8Array(rows.length)
    for (const [index, { segment }] of rows.entries()) {
      const start = offsets[index] ?? 0
      mask.set(segment.tokenMask.subarray(1), start)
      generation.set(segment.generationLogProbs.subarray(1), start)
      sampleMask[index] = owners.owners[owners.rowOwner[index] ?? -1]?.valid === true ? 1 : 0
    }
    return { rows, owners, paddingRows: rows.length - owned.length, tokens: { offsets, mask, sampleMask, generation } }
  })

const checkLogProbs = (
  { owners, rows, tokens }: Batch,
  field: "previous" | "current",
  values: Float64Array
): Either.Either<void, StepError> => {
  const { mask, offsets } = tokens
  if (values.length !== mask.length) {
    const detail = `${mask.length} places have ${values.length} log-probabilities`
    return Either.left(new StepError({ reason: "Length", field, detail }))
  }
  for (let row = 0; row < rows.length; row++) {
    const start = offsets[row] ?? 0
    const end = offsets[row + 1] ?? 0
    for (let at = start; at < end; at++) {
      const value = values[at] ?? Number.NaN
      if (Number.isFinite(value) && (value <= 0 || mask[at] === 0)) continue
      const owner = owners.owners[owners.rowOwner[row] ?? -1]
      return Either.left(
        new StepError({
          reason: Number.isFinite(value) ? "OutOfRange" : "NotFinite",
          field,
          detail: `found ${value}`,
          row: rows[row]?.id ?? row,
          group: rows[row]?.groupId ?? "",
          place: at - start,
          ...(owner === undefined ? {} : { owner: owner.id })
        })
      )
    }
  }
  return Either.right(undefined)
}

/**
 * The step that objectives work on: the batch with the trainer's log-probabilities, `[places]` each, from the weights of
 * before the step and from those that are being trained, and its owners and rows as columns. The arrays are taken as they
 * are, not copied.
 *
 * Fails when they have another length, when one is NaN or infinite, and when one is above 0 where the mask is 1.
 *
 * @since 0.1.0
 * @category conversions
 */
export const trainingStep = (
  batch: Batch,
  logProbs: Pick<TokenBatch, "previous" | "current">
): Either.Either<TrainingStep, StepError> =>
  Either.gen(function* () {
    yield* checkLogProbs(batch, "previous", logProbs.previous)
    yield* checkLogProbs(batch, "current", logProbs.current)
    const { owners, rows, tokens } = batch
    const groups = new Map(owners.groupIds.map((id, index) => [id, index]))
    return {
      owners: {
        ids: owners.owners.map(({ id }) => id),
        groupIds: owners.groupIds,
        group: Int32Array.from(owners.owners, ({ group }) => group),
        reward: Float64Array.from(owners.owners, ({ reward }) => reward),
        valid: Uint8Array.from(owners.owners, ({ valid }) => (valid ? 1 : 0))
      },
      rows: {
        ids: rows.map(({ id }) => id),
        owner: owners.rowOwner,
        group: Int32Array.from(rows, ({ groupId }) => groups.get(groupId) ?? -1)
      },
      batch: { ...tokens, previous: logProbs.previous, current: logProbs.current }
    }
  })
