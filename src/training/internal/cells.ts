/**
 * The values of an exported row, by column.
 */
import type { Row } from "../Row.js"
import { tagsOf } from "../RowTags.js"

export type Cell = string | number | boolean | null | ReadonlyArray<number> | ReadonlyArray<string>

export const cellsOf = (row: Row, routedExperts: string | null): Readonly<Record<string, Cell>> => {
  const { calls, generationLogProbs, images, tokenIds, tokenMask } = row.segment
  return {
    row_id: row.id,
    ...tagsOf(row),
    reward: row.reward,
    sample_mask: row.sampleMask === 1,
    truncated: row.truncated,
    uses_borrowed_input: row.usesBorrowedInput,
    weight_version: row.weightVersion,
    input_ids: Array.from(tokenIds),
    token_mask: Array.from(tokenMask),
    generation_logprobs: Array.from(generationLogProbs),
    prompt_ids: Array.from(row.promptTokenIds),
    call_ids: calls.map(({ modelCallId }) => modelCallId),
    call_prompt_lengths: calls.map(({ promptLength }) => promptLength),
    call_generation_lengths: calls.map(({ generationLength }) => generationLength),
    call_owned: calls.map(({ owned }) => (owned ? 1 : 0)),
    image_ids: images.map(({ id }) => id),
    image_offsets: images.map(({ offset }) => offset),
    image_lengths: images.map(({ length }) => length),
    image_token_ids: images.map(({ tokenId }) => tokenId),
    image_heights: images.map(({ height }) => height),
    image_widths: images.map(({ width }) => width),
    routed_experts: routedExperts
  }
}
