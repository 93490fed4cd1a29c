/**
 * What can be wrong with the evidence of a run, by name.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * - `torn_tail`: the file ends in the middle of a line
 * - `chain_broken`: a line's digest is not that of the line and of all before it
 * - `unreadable`: a line is no record, or a file cannot be read
 * - `gap`: a record, a message or a call is missing
 * - `foreign_id`: an id is another rollout's, another policy's or another agent's
 * - `out_of_order`: a record stands where it cannot
 * - `unfinished`: the episode's end is not on record
 * - `missing_blob`, `damaged_blob`: a picture or a text is not there, or is not what its name says
 * - `plan_differs`, `prompt_differs`, `sampling_differs`, `reading_differs`: made again, it comes out otherwise
 * - `tokens_not_contiguous`: a prompt goes on from the one before, and its tokens do not
 * - `row_differs`: the row in `rollouts.jsonl` or `failures.jsonl` says something else
 * - `row_missing`, `evidence_missing`: there is one of the two and not the other
 *
 * @since 0.1.0
 * @category models
 */
export const FaultKind = Schema.Literal(
  "torn_tail",
  "chain_broken",
  "unreadable",
  "gap",
  "foreign_id",
  "out_of_order",
  "unfinished",
  "missing_blob",
  "damaged_blob",
  "plan_differs",
  "prompt_differs",
  "sampling_differs",
  "reading_differs",
  "tokens_not_contiguous",
  "row_differs",
  "row_missing",
  "evidence_missing"
)

/**
 * @since 0.1.0
 * @category models
 */
export type FaultKind = typeof FaultKind.Type

/**
 * One thing that is wrong, and where.
 *
 * @since 0.1.0
 * @category errors
 */
export class EvidenceFault extends Schema.TaggedError<EvidenceFault>("deskhand/EvidenceFault")("EvidenceFault", {
  kind: FaultKind,
  path: Schema.String,
  /** From 1; absent where it is the file as a whole. */
  line: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { exact: true }),
  detail: Schema.String
}) {
  override get message() {
    const at = this.line === undefined ? this.path : `${this.path}:${this.line}`
    return `${at}: ${this.kind}: ${this.detail}`
  }
}
