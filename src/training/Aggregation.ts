/**
 * What the loss of one token counts in the loss of a step.
 *
 * @since 0.1.0
 */

/**
 * - `token-mean`: all tokens of the step count the same (arXiv 2503.14476).
 * - `seq-mean-token-mean`: the mean over rows of each row's mean (arXiv 2402.03300).
 * - `seq-mean-token-sum`: the mean over rows of each row's sum, over a constant where one is given (arXiv 2503.20783).
 * - `prompt-mean-token-mean`: the mean over prompts of the mean over all tokens of each.
 *
 * Rows and prompts without a token that trains are not counted. Only the first and the last stay as they are when an owner's
 * tokens are split over more rows.
 *
 * @since 0.1.0
 * @category models
 */
export type Aggregation =
  | { readonly name: "token-mean" }
  | { readonly name: "seq-mean-token-mean" }
  | { readonly name: "seq-mean-token-sum"; readonly constant?: number }
  | { readonly name: "prompt-mean-token-mean" }

/**
 * Counts of a step: of the whole optimizer batch, over all microbatches and ranks.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepCounts {
  /** Tokens that train. */
  readonly tokens: number
  /** Rows with at least one of them. */
  readonly rows: number
  /** Prompts with at least one of them. */
  readonly prompts: number
  /** `[groups]`: tokens of each prompt. */
  readonly promptTokens: Float64Array
}

/**
 * Counts from the tokens of each row, `[rows]`, and its group.
 *
 * @since 0.1.0
 * @category operations
 */
export const countStep = (rowTokens: Float64Array, rowGroup: Int32Array, groups: number): StepCounts => {
  const promptTokens = new Float64Array(groups)
  let [tokens, rows, prompts] = [0, 0, 0]
  for (let row = 0; row < rowTokens.length; row++) {
    const count = rowTokens[row] ?? 0
    if (count === 0) continue
    tokens += count
    rows++
    const group = rowGroup[row] ?? 0
    const before = promptTokens[group] ?? 0
    if (before === 0) prompts++
    promptTokens[group] = before + count
  }
  return { tokens, rows, prompts, promptTokens }
}

/**
 * The weights that make a token mean over a whole step a mean over prompts: T / (P * T_prompt) for each row, with T the tokens,
 * P the prompts that have some and T_prompt those of the row's prompt; 0 for prompts that have none. Over all tokens they add
 * up to T. `[rows]`
 *
 * @since 0.1.0
 * @category operations
 */
export const promptLossWeights = (rowGroup: Int32Array, { promptTokens, prompts, tokens }: StepCounts): Float64Array =>
  Float64Array.from(rowGroup, (group) => {
    const own = promptTokens[group] ?? 0
    return own === 0 ? 0 : tokens / (prompts * own)
  })

const weightOf = (
  aggregation: Aggregation,
  own: number,
  group: number,
  { promptTokens, prompts, rows, tokens }: StepCounts
): number => {
  switch (aggregation.name) {
    case "token-mean":
      return 1 / tokens
    case "seq-mean-token-mean":
      return 1 / (rows * own)
    case "seq-mean-token-sum":
      return 1 / (rows * (aggregation.constant ?? 1))
    case "prompt-mean-token-mean":
      return 1 / (prompts * (promptTokens[group] ?? 0))
  }
}

/**
 * What each row's tokens are multiplied with, so that the sum over all rows of `weight * sum of the row's token losses` is the
 * loss. `[rows]`, 0 for rows without tokens. Made once for a step: a microbatch, a rank or another order of rows adds up to the
 * same.
 *
 * @since 0.1.0
 * @category operations
 */
export const rowWeights = (
  aggregation: Aggregation,
  rowTokens: Float64Array,
  rowGroup: Int32Array,
  counts: StepCounts
): Float64Array => rowTokens.map((own, row) => (own === 0 ? 0 : weightOf(aggregation, own, rowGroup[row] ?? 0, counts)))
