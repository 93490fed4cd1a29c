/**
 * Generalised advantage estimation: advantages for each token from a value model, over rows that are whole episodes or segments
 * of them. Source: arXiv 1506.02438; decoupled and length-adaptive lambdas: arXiv 2504.05118 (VAPO).
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { ownerTokens, rowTokens } from "./StepColumns.js"
import { StepError } from "./StepError.js"
import type { TokenBatch } from "./TokenBatch.js"

/**
 * How far back an advantage looks: a number from 0 to 1, or one that grows with the tokens of the whole episode,
 * 1 - 1 / max(alpha * tokens, 1).
 *
 * @since 0.1.0
 * @category models
 */
export type Lambda = number | { readonly alpha: number }

/**
 * @since 0.1.0
 * @category models
 */
export interface GaeOptions {
  readonly gamma: number
  /** Of the advantages. */
  readonly lambdaPolicy: Lambda
  /** Of the returns that the value model learns. */
  readonly lambdaValue: Lambda
  /** Advantages to mean 0 and deviation 1 over all tokens that train. */
  readonly whiten: boolean
}

/**
 * The lambda of a row of `tokens` tokens, in [0, 1]: the number itself, or 1 - 1 / (alpha tokens).
 *
 * @since 0.1.0
 * @category operations
 */
export const lambdaOf = (lambda: Lambda, tokens: number): number =>
  typeof lambda === "number" ? lambda : Math.min(Math.max(1 - 1 / Math.max(lambda.alpha * tokens, 1), 0), 1)

/**
 * Advantages of the places `[from, to)` of one row, from the last to the first:
 * A_t = r_t + gamma V_next - V_t + gamma lambda A_next. A place that is masked passes V_next and A on as they are, and is
 * given the A that it passes on. `terminal` is added to the reward of the last place that is not masked.
 *
 * @since 0.1.0
 * @category estimators
 */
export const gae = (
  row: {
    readonly from: number
    readonly to: number
    readonly mask: Uint8Array
    readonly values: Float64Array
    /** Of single tokens; all 0 unless given. */
    readonly rewards?: Float64Array
    readonly terminal?: number
  },
  gamma: number,
  lambda: number,
  out: Float64Array
): void => {
  const { from, mask, rewards, to, values } = row
  let terminal = row.terminal ?? 0
  let [next, advantage] = [0, 0]
  for (let place = to - 1; place >= from; place--) {
    if (mask[place] === 1) {
      const value = values[place] ?? 0
      const reward = terminal + (rewards === undefined ? 0 : (rewards[place] ?? 0))
      terminal = 0
      advantage = reward + gamma * next - value + gamma * lambda * advantage
      next = value
    }
    out[place] = advantage
  }
}

/**
 * A step whose owners' rows are segments of their episodes.
 *
 * @since 0.1.0
 * @category models
 */
export interface GaeStep {
  readonly batch: Pick<TokenBatch, "mask" | "offsets" | "sampleMask">
  /** `[rows]` */
  readonly rowIds: ReadonlyArray<string>
  /** `[rows]`: index of the owner, or -1. */
  readonly owner: Int32Array
  /** `[rows]`: which segment of its owner, from 0, each once. */
  readonly segment: Int32Array
  /** `[owners]` */
  readonly reward: Float64Array
  /** `[places]`: what the value model expects, before each token. */
  readonly values: Float64Array
}

const checkValues = ({ batch, owner, rowIds, values }: GaeStep): StepError | undefined => {
  const { mask, offsets } = batch
  if (values.length !== mask.length)
    return new StepError({ reason: "Length", field: "values", detail: `${values.length} for ${mask.length} places` })
  for (let row = 0; row < rowIds.length; row++) {
    const from = offsets[row] ?? 0
    const end = offsets[row + 1] ?? 0
    for (let place = from; place < end; place++) {
      if (mask[place] === 1 && batch.sampleMask[row] === 1 && !Number.isFinite(values[place]))
        return new StepError({
          reason: "NotFinite",
          field: "values",
          detail: `${values[place]} is no value`,
          row: rowIds[row] ?? row,
          owner: owner[row] ?? -1,
          place: place - from
        })
    }
  }
  return undefined
}

/** Rows of each owner from its last segment to its first; or what is wrong with their numbers. */
const backwards = ({ owner, reward, rowIds, segment }: GaeStep): Either.Either<Int32Array, StepError> => {
  const rows = Array.from(owner.keys()).filter((row) => (owner[row] ?? -1) >= 0)
  rows.sort((a, b) => (owner[a] ?? 0) - (owner[b] ?? 0) || (segment[b] ?? 0) - (segment[a] ?? 0))
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at] ?? 0
    const mine = owner[row] ?? 0
    const next = rows[at + 1]
    const last = next === undefined || owner[next] !== mine
    const wanted = last ? 0 : (segment[next] ?? 0) + 1
    if (mine >= reward.length || segment[row] !== wanted)
      return Either.left(
        new StepError({
          reason:
            mine >= reward.length
              ? "Foreign"
              : !last && segment[row] === segment[next]
                ? "DuplicateOwner"
                : "MissingOwner",
          field: "segment",
          detail: `${segment[row]} where ${wanted} belongs: give each segment of an owner once, counted from 0`,
          row: rowIds[row] ?? row,
          owner: mine
        })
      )
  }
  return Either.right(Int32Array.from(rows))
}

const whitenPlaces = (values: Float64Array, { mask, offsets, sampleMask }: GaeStep["batch"]): void => {
  const each = (visit: (place: number) => void) => {
    for (let row = 0; row + 1 < offsets.length; row++) {
      if (sampleMask[row] !== 1) continue
      const end = offsets[row + 1] ?? 0
      for (let place = offsets[row] ?? 0; place < end; place++) if (mask[place] === 1) visit(place)
    }
  }
  let [sum, count, squares] = [0, 0, 0]
  each((place) => {
    sum += values[place] ?? 0
    count++
  })
  // Of a single token there is no unbiased variance.
  if (count < 2) return
  const mean = sum / count
  each((place) => {
    squares += ((values[place] ?? 0) - mean) ** 2
  })
  const scale = 1 / Math.sqrt(squares / (count - 1) + 1e-8)
  each((place) => {
    values[place] = ((values[place] ?? 0) - mean) * scale
  })
}

/**
 * Advantages and returns for each token of a step, written into `[places]`; 0 where the token or its row is masked. Each segment
 * ends with its owner's reward; what a segment's tokens get is then discounted by all tokens of the owner's later segments, as
 * if the episode were one row: advantages by (gamma lambda_policy)^later, and what is added to V to make a return by
 * (gamma lambda_value)^later. An owner of one segment gets plain GAE. Refuses values that are not finite and segments that are
 * missing or there twice.
 *
 * @since 0.1.0
 * @category estimators
 */
export const gaeOfStep = (
  step: GaeStep,
  options: GaeOptions,
  out: { readonly advantage: Float64Array; readonly returns: Float64Array }
): Either.Either<void, StepError> =>
  Either.gen(function* () {
    const { batch, owner, reward, values } = step
    const wrong = checkValues(step)
    if (wrong !== undefined) yield* Either.left(wrong)
    const order = yield* backwards(step)
    const counts = rowTokens(batch)
    const totals = ownerTokens(owner, counts, reward.length)
    out.advantage.fill(0)
    out.returns.fill(0)
    let [before, later] = [-1, 0]
    for (const row of order) {
      const mine = owner[row] ?? 0
      if (mine !== before) later = 0
      before = mine
      if (batch.sampleMask[row] !== 1) continue
      const lambdaPolicy = lambdaOf(options.lambdaPolicy, totals[mine] ?? 0)
      const lambdaValue = lambdaOf(options.lambdaValue, totals[mine] ?? 0)
      const [from, to] = [batch.offsets[row] ?? 0, batch.offsets[row + 1] ?? 0]
      const places = { from, to, mask: batch.mask, values, terminal: reward[mine] ?? 0 }
      gae(places, options.gamma, lambdaPolicy, out.advantage)
      gae(places, options.gamma, lambdaValue, out.returns)
      const policyDiscount = (options.gamma * lambdaPolicy) ** later
      const valueDiscount = (options.gamma * lambdaValue) ** later
      for (let place = from; place < to; place++) {
        const trains = batch.mask[place] === 1
        out.advantage[place] = trains ? (out.advantage[place] ?? 0) * policyDiscount : 0
        out.returns[place] = trains ? (out.returns[place] ?? 0) * valueDiscount + (values[place] ?? 0) : 0
      }
      later += counts[row] ?? 0
    }
    if (options.whiten) whitenPlaces(out.advantage, batch)
  })
