import { readFileSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { parquetMetadata, parquetReadObjects } from "hyparquet"
import * as Batch from "../../src/training/Batch.js"
import * as Export from "../../src/training/Export.js"
import * as Owner from "../../src/training/Owner.js"
import * as RouterReplay from "../../src/training/RouterReplay.js"
import { segments } from "../../src/training/Segment.js"
import { call, facts, right, valid } from "./dataFixture.js"

/** Two segments, the first of two calls; with a picture and routed experts. */
const rich = (groupId: string): Owner.Owner => {
  const image = { id: "sha-x", offset: 1, length: 2, tokenId: 99, height: 28, width: 56 }
  const routed = (tokens: number) =>
    Array.from({ length: tokens }, (_, token) => [
      [token % 4, 4],
      [5, 300]
    ])
  const made = right(
    segments([
      call("a", [1, 99, 99, 2], [10, 11], { images: [image], routedExperts: routed(5) }),
      call("b", [1, 99, 99, 2, 10, 11, 3], [12], { images: [image], routedExperts: routed(7) }),
      call("c", [1, 7], [13])
    ])
  )
  return right(Owner.fromSegments(facts(groupId, 0, { reward: 0.5 }), made))
}

const batchOf = (groupId: string): Batch.Batch => {
  const owners = [rich(groupId), Owner.rejected(facts(groupId, 1), "rollout_failed", "")]
  return right(Batch.make(right(Owner.assemble(owners, 2)).rows, { groupSize: 2, rowQuantum: 4 }))
}

const batches = [batchOf("A"), batchOf("B")]
const rows = batches.flatMap((batch) => batch.rows)
const records = rows.map((row) => right(Export.record(row)))

const inFolder = <A, E, R>(use: (file: (name: string) => string) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const folder = yield* fs.makeTempDirectoryScoped()
    return yield* use((name) => path.join(folder, name))
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const readLines = (file: string): ReadonlyArray<unknown> =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))

describe("the columns", () => {
  it("are those of every row, each with its type", () => {
    const names = Export.columns.map(({ name }) => name)
    for (const record of records) {
      assert.deepStrictEqual(Object.keys(record).sort(), names.toSorted())
      for (const { name, nullable, type } of Export.columns) {
        const value = record[name]
        if (value === null) assert.isTrue(nullable, name)
        else if (type.startsWith("list")) assert.isTrue(Array.isArray(value), name)
        else assert.strictEqual(typeof value, type === "int32" || type === "double" ? "number" : type, name)
      }
    }
  })

  it("are documented, one line each", () => {
    const lines = Export.columnsMarkdown.split("\n")
    assert.strictEqual(lines.length, Export.columns.length + 2)
    for (const line of lines) assert.strictEqual(line.match(/\|/g)?.length, 5, line)
    assert.include(Export.columnsMarkdown, "| `generation_logprobs` | list<double> | natural log |")
  })
})

describe("exported batches", () => {
  it.effect("are JSON Lines, a row each", () =>
    inFolder((file) =>
      Effect.gen(function* () {
        const path = file("rows.jsonl")
        assert.strictEqual(yield* Export.writeJsonLines(path, Stream.fromIterable(batches)), 8)
        assert.deepStrictEqual(readLines(path), JSON.parse(JSON.stringify(records)))
      })
    )
  )

  it.effect("are Parquet with the same values, a row group for each batch", () =>
    inFolder((file) =>
      Effect.gen(function* () {
        const path = file("rows.parquet")
        assert.strictEqual(yield* Export.writeParquet(path, Stream.fromIterable(batches)), 8)
        const bytes = readFileSync(path)
        const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
        const { row_groups, schema } = parquetMetadata(buffer)
        assert.strictEqual(row_groups.length, 2)
        assert.strictEqual(schema[0]?.num_children, Export.columns.length)
        const found = yield* Effect.promise(() => parquetReadObjects({ file: buffer }))
        assert.deepStrictEqual(found, JSON.parse(JSON.stringify(records)))
      })
    )
  )

  it.effect("are not there when their source fails, and what was there stays", () =>
    inFolder((file) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const failing = Stream.concat(Stream.fromIterable(batches), Stream.fail("the source broke"))
        for (const write of [Export.writeJsonLines, Export.writeParquet]) {
          const path = file("kept")
          yield* fs.writeFileString(path, "before")
          assert.strictEqual(yield* Effect.flip(write(path, failing)), "the source broke")
          assert.strictEqual(yield* fs.readFileString(path), "before")
          assert.isFalse(yield* fs.exists(`${path}.partial`))
        }
        const error = yield* Effect.flip(Export.writeParquet(file("no/folder"), Stream.fromIterable(batches)))
        assert.instanceOf(error, Export.ExportError)
      })
    )
  )

  it.effect("hold 100,000 tokens and empty streams too", () =>
    inFolder((file) =>
      Effect.gen(function* () {
        const large = right(
          Batch.make(right(Owner.assemble([valid("L", 0, [60_000]), valid("L", 1, [40_000])], 2)).rows, {
            groupSize: 2
          })
        )
        assert.strictEqual(yield* Export.writeParquet(file("large"), Stream.make(large)), 2)
        const bytes = readFileSync(file("large"))
        const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
        const found = yield* Effect.promise(() => parquetReadObjects({ file: buffer, columns: ["input_ids"] }))
        assert.deepStrictEqual(
          found.map(({ input_ids }) => input_ids.length),
          [60_002, 40_002]
        )
        assert.strictEqual(yield* Export.writeParquet(file("none"), Stream.empty), 0)
        assert.strictEqual(yield* Export.writeJsonLines(file("nothing"), Stream.empty), 0)
      })
    )
  )
})

const Item = Schema.Struct({
  prompt_token_ids: Schema.Array(Schema.Int),
  generation_token_ids: Schema.Array(Schema.Int),
  generation_log_probs: Schema.Array(Schema.Number),
  routed_experts: Schema.optional(Schema.String)
})
const Rollout = Schema.Struct({
  response: Schema.Struct({ output: Schema.Array(Item) }),
  reward: Schema.Number,
  mask_sample: Schema.Boolean,
  logical_rollout_id: Schema.String
})

describe("rollouts for NeMo RL", () => {
  it.effect("read as its message log does, they give the row again", () =>
    inFolder((file) =>
      Effect.gen(function* () {
        const path = file("rollouts.jsonl")
        // Rows that pad are left out.
        assert.strictEqual(yield* Export.writeNemoRows(path, Stream.fromIterable(batches)), 6)
        const owned = rows.filter(({ owner }) => owner !== undefined)
        for (const [index, line] of readLines(path).entries()) {
          const { logical_rollout_id, mask_sample, response, reward } = Schema.decodeUnknownSync(Rollout)(line)
          const row = owned[index]
          if (row === undefined) return assert.fail()
          // What the trainer does: the new part of each prompt is masked, the reply is not, and each prompt begins with
          // all tokens before it.
          const seen: Array<number> = []
          const mask: Array<number> = []
          const logProbs: Array<number> = []
          for (const item of response.output) {
            assert.deepStrictEqual([...item.prompt_token_ids.slice(0, seen.length)], seen)
            const fresh = item.prompt_token_ids.slice(seen.length)
            seen.push(...fresh, ...item.generation_token_ids)
            mask.push(...fresh.map(() => 0), ...item.generation_token_ids.map(() => 1))
            logProbs.push(...fresh.map(() => 0), ...item.generation_log_probs)
          }
          assert.deepStrictEqual(seen, Array.from(row.segment.tokenIds))
          assert.deepStrictEqual(mask, Array.from(row.segment.tokenMask))
          assert.deepStrictEqual(logProbs, Array.from(row.segment.generationLogProbs))
          assert.deepStrictEqual([mask_sample, reward], [row.sampleMask === 0, row.reward])
          assert.strictEqual(logical_rollout_id, row.owner?.id)
        }
      })
    )
  )

  it("routes cover the prompt and the reply of each item", () => {
    const [first] = rows
    if (first === undefined) return assert.fail()
    const { response } = Schema.decodeUnknownSync(Rollout)(right(Export.nemoRecord(first)))
    assert.deepStrictEqual(
      response.output.map(({ routed_experts }) => right(RouterReplay.decode(routed_experts)).tokens),
      [6, 8]
    )
    // The last token of the first reply was routed by the second call; of the second reply nothing is known.
    const last = right(RouterReplay.decode(response.output[1]?.routed_experts))
    assert.deepStrictEqual(Array.from(last.experts.subarray(5 * 4, 6 * 4)), [1, 4, 5, 300])
    assert.deepStrictEqual(Array.from(last.experts.subarray(7 * 4)), [-1, -1, -1, -1])
    assert.match(response.output[0]?.routed_experts ?? "", /^nrlre1:int16:6x2x2:/)
  })
})
