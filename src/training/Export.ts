/**
 * Batches as files: JSON Lines and Parquet with the columns that are documented here, and rollouts in the form that NeMo RL
 * reads.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ByteWriter, ParquetWriter } from "hyparquet-writer"
import type { Batch } from "./Batch.js"
import { type Cell, cellsOf } from "./internal/cells.js"
import { columnData, parquetSchema } from "./internal/parquet.js"
import * as RouterReplay from "./RouterReplay.js"
import type { Row } from "./Row.js"
import { tagsOf } from "./RowTags.js"

// -----------------------------------------------------------------------------
// Columns
// -----------------------------------------------------------------------------

/**
 * Types of columns. Parquet has them as INT32, DOUBLE, BOOLEAN, STRING and three-level LIST.
 *
 * @since 0.1.0
 * @category models
 */
export type ColumnType = "boolean" | "int32" | "double" | "string" | "list<int32>" | "list<double>" | "list<string>"

/**
 * One column of an exported batch.
 *
 * @since 0.1.0
 * @category models
 */
export interface Column {
  readonly name: string
  readonly type: ColumnType
  readonly nullable: boolean
  /** `none` for names and flags. */
  readonly unit: string
  readonly meaning: string
}

const column = (name: string, type: ColumnType, unit: string, meaning: string, nullable = false): Column => ({
  name,
  type,
  nullable,
  unit,
  meaning
})

/**
 * The columns, in order. Lists by token have one entry for each of `input_ids`, lists by call one for each of `call_ids`,
 * lists by picture one for each of `image_ids`.
 *
 * @since 0.1.0
 * @category constants
 */
export const columns = [
  column("row_id", "string", "none", "`{group}_g{slot}_s{segment}`, or `{group}_pad{index}` where the row pads"),
  column("dispatch_group_id", "string", "none", "the group: one prompt, dispatched once for all of its owners"),
  column("logical_rollout_id", "string", "none", "the owner, `{group}_g{slot}`; null where the row pads", true),
  column("logical_slot", "int32", "slots, from 0", "the owner's place in its group; null where the row pads", true),
  column("logical_group_size", "int32", "owners", "how many owners the group has"),
  column("segment_index", "int32", "segments, from 0", "which of the owner's segments; null where the row pads", true),
  column("segment_count", "int32", "segments", "how many segments the owner has; 0 where the row pads"),
  column("is_execution_padding", "boolean", "none", "whether the row only fills up the batch"),
  column("reward", "double", "reward", "the owner's, the same on all of its rows; 0 where the row pads"),
  column("sample_mask", "boolean", "none", "whether the row may train"),
  column("truncated", "boolean", "none", "whether the segment has as many tokens as a row may have"),
  column("uses_borrowed_input", "boolean", "none", "whether the tokens are another row's, because this one has none"),
  column("weight_version", "int32", "optimizer steps", "the lowest number of steps behind the weights that sampled"),
  column("input_ids", "list<int32>", "token ids", "prompts and replies of the segment, by token"),
  column("token_mask", "list<int32>", "0 or 1", "1 where the policy generated the token and it may train, by token"),
  column("generation_logprobs", "list<double>", "natural log", "as sampled where `token_mask` is 1, else 0, by token"),
  column("prompt_ids", "list<int32>", "token ids", "the prompt that the owner was dispatched with"),
  column("call_ids", "list<string>", "none", "the model calls of the segment; empty where the row pads"),
  column("call_prompt_lengths", "list<int32>", "tokens", "how many of `input_ids` were the call's prompt, by call"),
  column("call_generation_lengths", "list<int32>", "tokens", "how many follow as its reply, by call"),
  column("call_owned", "list<int32>", "0 or 1", "1 where the reply trains in this row, by call"),
  column("image_ids", "list<string>", "none", "digests of the pictures in the prompts"),
  column("image_offsets", "list<int32>", "tokens", "the picture's first token in `input_ids`, by picture"),
  column("image_lengths", "list<int32>", "tokens", "how many tokens stand for it, by picture"),
  column("image_token_ids", "list<int32>", "token ids", "the token that stands for it, by picture"),
  column("image_heights", "list<int32>", "pixels", "as processed, by picture"),
  column("image_widths", "list<int32>", "pixels", "as processed, by picture"),
  column("routed_experts", "string", "expert indices", "`nrlre1` envelope `[tokens, layers, topK]`; null without", true)
] as const satisfies ReadonlyArray<Column>

/**
 * The columns as a Markdown table.
 *
 * @since 0.1.0
 * @category documentation
 */
export const columnsMarkdown = [
  "| column | type | unit | meaning |",
  "|---|---|---|---|",
  ...columns.map(
    ({ meaning, name, nullable, type, unit }) =>
      `| \`${name}\` | ${type}${nullable ? " or null" : ""} | ${unit} | ${meaning} |`
  )
].join("\n")

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/**
 * A batch could not be written. What was at the path is still there.
 *
 * @since 0.1.0
 * @category errors
 */
export class ExportError extends Schema.TaggedError<ExportError>("deskhand/training/ExportError")("ExportError", {
  path: Schema.String,
  detail: Schema.String,
  row: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message() {
    return `${this.path}${this.row === undefined ? "" : ` (row ${this.row})`} was not written: ${this.detail}`
  }
}

const failed =
  (path: string) =>
  (error: { readonly message: string }): ExportError =>
    new ExportError({ path, detail: error.message })

// -----------------------------------------------------------------------------
// Rows
// -----------------------------------------------------------------------------

/**
 * A row with the keys of `columns`. Fails where routed experts cannot be encoded.
 *
 * @since 0.1.0
 * @category conversions
 */
export const record = (row: Row): Either.Either<Readonly<Record<string, Cell>>, RouterReplay.RouteError> =>
  Either.map(routesOf(row, row.segment.tokenIds.length), (routes) => cellsOf(row, routes))

const routesOf = ({ segment }: Row, length: number): Either.Either<string | null, RouterReplay.RouteError> => {
  const { routes } = segment
  if (routes === undefined) return Either.right(null)
  const { layers, topK } = routes
  const experts = routes.experts.subarray(0, length * layers * topK)
  return RouterReplay.encode({ tokens: length, layers, topK, experts }, RouterReplay.smallestType(experts))
}

/**
 * A row as NeMo RL reads a rollout of NeMo Gym: a response whose output items carry tokens, a reward, and `mask_sample`;
 * and the row's seven tags. A segment is contiguous, so each row is one record. `undefined` for rows that pad.
 *
 * The prompt of an item is counted from the very first token, and begins with all tokens of the items before it.
 *
 * @since 0.1.0
 * @category conversions
 */
export const nemoRecord = (
  row: Row
): Either.Either<Readonly<Record<string, unknown>> | undefined, RouterReplay.RouteError> =>
  Either.gen(function* () {
    const { owner, segment } = row
    if (owner === undefined) return undefined
    const output: Array<unknown> = []
    for (const { generationLength, modelCallId, owned, promptLength } of segment.calls) {
      // What does not train is part of the next call's prompt.
      if (!owned) continue
      const end = promptLength + generationLength
      const routes = yield* routesOf(row, end)
      output.push({
        id: `msg_${modelCallId}`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [],
        prompt_token_ids: Array.from(segment.tokenIds.subarray(0, promptLength)),
        generation_token_ids: Array.from(segment.tokenIds.subarray(promptLength, end)),
        generation_log_probs: Array.from(segment.generationLogProbs.subarray(promptLength, end)),
        ...(routes === null ? {} : { routed_experts: routes })
      })
    }
    return {
      _ng_group_id: row.groupId,
      _ng_rollout_index: owner.slot,
      response: { id: row.id, object: "response", output },
      reward: row.reward,
      mask_sample: row.sampleMask === 0,
      truncated: row.truncated,
      uses_borrowed_input: row.usesBorrowedInput,
      weight_version: row.weightVersion,
      ...tagsOf(row)
    }
  })

// -----------------------------------------------------------------------------
// Files
// -----------------------------------------------------------------------------

type Append = (bytes: Uint8Array) => Effect.Effect<void, ExportError>

/** Writes beside the path, and puts the file in its place once it is whole and on disk. */
const whole = <A, E, R>(path: string, write: (append: Append) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const partial = `${path}.partial`
    const lost = failed(path)
    return yield* Effect.scoped(
      Effect.gen(function* () {
        const file = yield* Effect.mapError(fs.open(partial, { flag: "w" }), lost)
        const written = yield* write((bytes) => Effect.mapError(file.writeAll(bytes), lost))
        yield* Effect.mapError(file.sync, lost)
        return written
      })
    ).pipe(
      Effect.tap(() => Effect.mapError(fs.rename(partial, path), lost)),
      Effect.onError(() =>
        fs
          .remove(partial, { force: true })
          .pipe(Effect.catchAll((error) => Effect.logWarning(`${partial} is left behind: ${error.message}`)))
      )
    )
  })

const lines =
  (encode: (row: Row) => Either.Either<unknown, RouterReplay.RouteError>) =>
  <E, R>(path: string, batches: Stream.Stream<Pick<Batch, "rows">, E, R>) =>
    whole(path, (append) =>
      Effect.gen(function* () {
        let count = 0
        yield* Stream.runForEach(batches, ({ rows }) =>
          Effect.gen(function* () {
            for (const row of rows) {
              const found = encode(row)
              if (Either.isLeft(found)) {
                return yield* new ExportError({ path, row: row.id, detail: found.left.message })
              }
              if (found.right === undefined) continue
              yield* append(Buffer.from(`${JSON.stringify(found.right)}\n`))
              count++
            }
          })
        )
        return count
      })
    )

/**
 * Writes batches as JSON Lines, a row each, as they come: one row is in memory at a time beside its batch. Returns how many
 * rows were written.
 *
 * @since 0.1.0
 * @category files
 */
export const writeJsonLines = lines(record)

/**
 * Writes batches as JSON Lines in the form that NeMo RL reads, a row each; rows that pad are left out. Returns how many
 * rows were written.
 *
 * @since 0.1.0
 * @category files
 */
export const writeNemoRows = lines(nemoRecord)

/**
 * Writes batches as Parquet, compressed by Snappy, a row group each. Returns how many rows were written.
 *
 * @since 0.1.0
 * @category files
 */
export const writeParquet = <E, R>(path: string, batches: Stream.Stream<Pick<Batch, "rows">, E, R>) =>
  whole(path, (append) =>
    Effect.gen(function* () {
      const writer = new ByteWriter()
      const flush = Effect.suspend(() => {
        const bytes = writer.getBytes().slice()
        // Places in the file go on counting in `offset`.
        writer.index = 0
        return append(bytes)
      })
      const attempt = <A>(run: () => A) =>
        Effect.try({ try: run, catch: (error) => new ExportError({ path, detail: String(error) }) })
      const parquet = yield* attempt(() => new ParquetWriter({ writer, schema: parquetSchema(columns) }))
      let count = 0
      yield* Stream.runForEach(batches, ({ rows }) =>
        Effect.gen(function* () {
          if (rows.length === 0) return
          const records: Array<Readonly<Record<string, Cell>>> = []
          for (const row of rows) {
            const found = record(row)
            if (Either.isLeft(found)) return yield* new ExportError({ path, row: row.id, detail: found.left.message })
            records.push(found.right)
          }
          yield* attempt(() => parquet.write({ columnData: columnData(columns, records), rowGroupSize: rows.length }))
          yield* flush
          count += rows.length
        })
      )
      yield* attempt(() => parquet.finish())
      yield* flush
      return count
    })
  )
