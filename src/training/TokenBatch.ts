/**
 * The numbers of a batch's rows, laid end to end: what losses and gates walk over without allocating.
 *
 * @since 0.1.0
 */

/**
 * Rows of tokens in the view of predicted tokens: the first token of a row is predicted by nothing and is left out, so a
 * row of `n` tokens has `n - 1` places. Row `r` has the places `offsets[r]` up to, and not including, `offsets[r + 1]`.
 *
 * All log-probabilities are natural logarithms, at most 0, one for each place; where `mask` is 0 they don't count.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenBatch {
  /** `[rows + 1]`, from 0, never falling. */
  readonly offsets: Int32Array
  /** `[places]`: 1 where the policy generated the token and it may train, else 0. */
  readonly mask: Uint8Array
  /** `[rows]`: 0 for rows that must not train: failed owners, padding. */
  readonly sampleMask: Uint8Array
  /** `[places]`: as the engine that generated the tokens reported them. */
  readonly generation: Float64Array
  /** `[places]`: by the trainer, with the weights from before this step. */
  readonly previous: Float64Array
  /** `[places]`: by the trainer, with the weights that are being trained. */
  readonly current: Float64Array
}

/**
 * Rows of the batch, padding among them.
 *
 * @since 0.1.0
 * @category queries
 */
export const rowCount = (batch: TokenBatch): number => batch.offsets.length - 1
