import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { stableId } from "../../src/identity/StableId.js"
import * as Batch from "../../src/training/Batch.js"
import * as Owner from "../../src/training/Owner.js"
import * as Plan from "../../src/training/Plan.js"
import * as Row from "../../src/training/Row.js"
import * as RowTags from "../../src/training/RowTags.js"
import * as StepColumns from "../../src/training/StepColumns.js"
import { facts, left, right, valid, vector } from "./dataFixture.js"

/** Two groups of two owners; the second owner of the first group failed. */
const rows = right(
  Owner.assemble(
    [valid("A", 0, [3, 1]), Owner.rejected(facts("A", 1), "rollout_failed", ""), valid("B", 0), valid("B", 1, [2])],
    2
  )
).rows

const replaced = (index: number, more: Partial<Row.Row>): ReadonlyArray<Row.Row> =>
  rows.map((row, at) => (at === index ? { ...row, ...more } : row))

const owner = (id: string, slot: number, segment: number, segmentCount: number) => ({ id, slot, segment, segmentCount })

describe("ids", () => {
  const { inputs, outputs } = vector(
    "id.rollout",
    Schema.Struct({
      task_id: Schema.String,
      group_id: Schema.String,
      rollout_index: Schema.Number,
      attempt_index: Schema.Number,
      stable_id_parts: Schema.Array(Schema.Union(Schema.String, Schema.Number))
    }),
    Schema.Struct({
      rollout_id: Schema.String,
      trace_id: Schema.String,
      stable_id: Schema.String,
      owner_id: Schema.String,
      row_id: Schema.String,
      padding_row_id: Schema.String
    })
  )

  it("from training-vectors.json id.rollout", () => {
    const id = Plan.rolloutId({
      taskId: inputs.task_id,
      groupId: inputs.group_id,
      rolloutIndex: inputs.rollout_index,
      attemptIndex: inputs.attempt_index
    })
    assert.strictEqual(id, outputs.rollout_id)
    assert.strictEqual(Plan.traceId(id, 0), outputs.trace_id)
    assert.strictEqual(stableId("trace", ...inputs.stable_id_parts), outputs.stable_id)
    assert.strictEqual(Row.ownerId("G", 3), outputs.owner_id)
    assert.strictEqual(Row.rowId("G_g3", 1), outputs.row_id)
    assert.strictEqual(Row.paddingRowId("G", 0), outputs.padding_row_id)
    // base*N + row mod N
    assert.strictEqual(Plan.rolloutIndex(2, 8, 11), 19)
  })
})

describe("execution padding", () => {
  const { inputs, outputs } = vector(
    "data.execution_padding",
    Schema.Struct({
      cases: Schema.Array(Schema.Tuple(Schema.Number, Schema.Number, Schema.Number, Schema.Number, Schema.Boolean))
    }),
    Schema.Struct({ results: Schema.Array(Schema.Struct({ quantum: Schema.Number, padding: Schema.Number })) })
  )

  it("from training-vectors.json data.execution_padding", () => {
    const found = inputs.cases.map(([count, dataParallel, trainMicroBatch, logProbMicroBatch, sequencePacking]) => {
      const quantum = right(Batch.rowQuantum({ dataParallel, trainMicroBatch, logProbMicroBatch, sequencePacking }))
      return { quantum, padding: Batch.paddingCount(count, quantum) }
    })
    assert.deepStrictEqual(found, outputs.results)
  })

  it("rows that pad are masked, named after a group, and no owner's", () => {
    const batch = right(Batch.make(rows, { groupSize: 2, rowQuantum: 4 }))
    assert.strictEqual(batch.rows.length, 8)
    assert.strictEqual(batch.paddingRows, 3)
    const padding = batch.rows.slice(5)
    assert.deepStrictEqual(
      padding.map(({ id }) => id),
      ["A_pad0", "A_pad1", "A_pad2"]
    )
    for (const row of padding) {
      assert.isTrue(row.segment.tokenMask.every((value) => value === 0))
      assert.deepStrictEqual(RowTags.tagsOf(row), {
        dispatch_group_id: "A",
        logical_rollout_id: null,
        logical_slot: null,
        logical_group_size: 2,
        segment_index: null,
        segment_count: 0,
        is_execution_padding: true
      })
    }
    assert.deepStrictEqual(Array.from(batch.owners.rowOwner), [0, 0, 1, 2, 3, -1, -1, -1])
    assert.deepStrictEqual(Array.from(batch.tokens.sampleMask), [1, 1, 0, 1, 1, 0, 0, 0])
    assert.isTrue(Either.isLeft(Batch.make(rows, { groupSize: 2, rowQuantum: 0 })))
  })
})

describe("tags", () => {
  it("go out and come in, also of rows that pad", () => {
    const batch = right(Batch.make(rows, { groupSize: 2, rowQuantum: 8 }))
    for (const row of batch.rows) {
      const { groupId, groupSize, owner } = row
      const tags = right(RowTags.decodeTags(JSON.parse(JSON.stringify(RowTags.tagsOf(row)))))
      assert.deepStrictEqual(RowTags.fromTags(tags), { groupId, groupSize, owner })
    }
  })

  it("are not mended", () => {
    const [first] = rows
    if (first === undefined) return assert.fail()
    const good = RowTags.tagsOf(first)
    const bad: ReadonlyArray<Readonly<Record<string, unknown>>> = [
      { is_execution_padding: 0 },
      { is_execution_padding: "false" },
      { is_execution_padding: true },
      { logical_slot: "0" },
      { logical_slot: 2 },
      { logical_slot: null },
      { logical_rollout_id: "A_g1" },
      { dispatch_group_id: "" },
      { logical_group_size: 0 },
      { logical_group_size: 2.5 },
      { segment_index: 2 },
      { segment_count: -1 }
    ]
    for (const change of bad) {
      assert.isTrue(Either.isLeft(RowTags.decodeTags({ ...good, ...change })), JSON.stringify(change))
    }
    const { logical_slot: _, ...missing } = good
    assert.isTrue(Either.isLeft(RowTags.decodeTags(missing)))
    assert.isTrue(RowTags.carriesOwnerTags({ reward: 1, segment_index: 0 }))
    assert.isFalse(RowTags.carriesOwnerTags({ reward: 1 }))
  })
})

describe("rows", () => {
  it("name their owners, by group and slot, and fan out to rows", () => {
    const table = right(Row.validate(rows, { groupSize: 2, groupIds: ["B", "A"], weights: { min: 3, max: 3 } }))
    assert.deepStrictEqual(
      table.owners.map(({ group, id, reward, rows, valid }) => [id, group, reward, valid, rows]),
      [
        ["A_g0", 0, 0, true, [0, 1]],
        ["A_g1", 0, 1, false, [2]],
        ["B_g0", 1, 0, true, [3]],
        ["B_g1", 1, 1, true, [4]]
      ]
    )
    const padded = right(Batch.make(rows, { groupSize: 2, rowQuantum: 6 })).owners
    assert.deepStrictEqual(Array.from(right(Row.fanOut(padded, [1, 2, 3, 4]))), [1, 1, 2, 3, 4, 0])
    assert.strictEqual(left(Row.fanOut(table, [1])).reason, "Length")
    const error = left(Row.fanOut(table, [1, 2, Number.NaN, 4]))
    assert.deepStrictEqual([error.reason, error.owner, error.group], ["NotFinite", "B_g0", "B"])
  })

  it("an owner is valid when all its rows are, and none of its rows trains otherwise", () => {
    const { owners, tokens } = right(Batch.make(replaced(0, { sampleMask: 0 }), { groupSize: 2 }))
    assert.isFalse(owners.owners[0]?.valid)
    assert.deepStrictEqual(Array.from(tokens.sampleMask), [0, 0, 0, 1, 1])
  })

  it("whose rewards are all zero are legal", () => {
    const zero = rows.map((row) => ({ ...row, reward: 0 }))
    assert.isTrue(Either.isRight(Batch.make(zero, { groupSize: 2 })))
  })

  it("are refused, with row, owner and group, when something is not right", () => {
    const of = (given: ReadonlyArray<Row.Row>, more: Partial<Row.RowsExpected> = {}) => {
      const { field, group, owner, reason, row } = left(Row.validate(given, { groupSize: 2, ...more }))
      return [reason, field, row, owner, group]
    }
    const segmentOf = (more: Partial<Row.Row["segment"]>) => {
      const segment = rows[0]?.segment
      return segment === undefined ? assert.fail() : { segment: { ...segment, ...more } }
    }
    const nan = new Float64Array(5).fill(-1)
    nan[4] = Number.NaN
    const pad: Partial<Row.Row> = { id: "B_pad0", owner: undefined, sampleMask: 0 }
    const cases: ReadonlyArray<readonly [ReadonlyArray<unknown>, ReadonlyArray<unknown>]> = [
      [of([]), ["Empty", "rows", undefined, undefined, undefined]],
      [of(replaced(1, { id: "A_g0_s0" })), ["DuplicateOwner", "id", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { promptTokenIds: new Int32Array() })), ["Empty", "promptTokenIds", "A_g0_s0", "A_g0", "A"]],
      [
        of(replaced(0, { promptTokenIds: Int32Array.of(1, -2) })),
        ["OutOfRange", "promptTokenIds", "A_g0_s0", "A_g0", "A"]
      ],
      [of(replaced(0, { reward: Number.NaN })), ["NotFinite", "reward", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { reward: -Infinity })), ["NotFinite", "reward", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { sampleMask: 2 })), ["OutOfRange", "sampleMask", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { sampleMask: Number.NaN })), ["OutOfRange", "sampleMask", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(2, { sampleMask: 1 })), ["OutOfRange", "sampleMask", "A_g1_s0", "A_g1", "A"]],
      [of(replaced(0, { weightVersion: 1.5 })), ["OutOfRange", "weightVersion", "A_g0_s0", "A_g0", "A"]],
      [of(rows, { weights: { min: 4, max: 5 } }), ["OutOfRange", "weightVersion", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { groupSize: 3 })), ["Inconsistent", "groupSize", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { owner: owner("A_g1", 0, 0, 2) })), ["Inconsistent", "owner", "A_g0_s0", "A_g1", "A"]],
      [of(replaced(0, { owner: owner("A_g0", 0, 2, 2) })), ["OutOfRange", "segment", "A_g0_s0", "A_g0", "A"]],
      [of(replaced(0, { owner: owner("A_g2", 2, 0, 2) })), ["Foreign", "slot", "A_g0_s0", "A_g2", "A"]],
      [of(replaced(0, { id: "A_g0_s1" })), ["Inconsistent", "id", "A_g0_s1", "A_g0", "A"]],
      [of(replaced(1, { reward: 5 })), ["Inconsistent", "reward", "A_g0_s1", "A_g0", "A"]],
      [
        of(replaced(1, { promptTokenIds: Int32Array.of(9) })),
        ["Inconsistent", "promptTokenIds", "A_g0_s1", "A_g0", "A"]
      ],
      [of(rows.slice(1)), ["MissingOwner", "segmentCount", "A_g0_s1", "A_g0", "A"]],
      [of(rows.slice(0, 4)), ["MissingOwner", "slot", undefined, "B_g1", "B"]],
      [of(rows, { groupIds: ["A"] }), ["Foreign", "groupId", "B_g0_s0", "B_g0", "B"]],
      [of(rows, { groupIds: ["A", "B", "C"] }), ["MissingOwner", "groupId", undefined, undefined, "C"]],
      [of(replaced(3, { ...pad, id: "B_padx" })), ["Inconsistent", "id", "B_padx", undefined, "B"]],
      [of(replaced(3, { ...pad, sampleMask: 1 })), ["OutOfRange", "sampleMask", "B_pad0", undefined, "B"]],
      [of(rows.slice(3, 4).map((row) => ({ ...row, ...pad }))), ["Empty", "rows", undefined, undefined, undefined]],
      [
        of(rows.map((row, at) => (at === 0 ? { ...row, ...pad, groupId: "Z", id: "Z_pad0" } : row)).slice(0, 1)),
        ["Empty", "rows", undefined, undefined, undefined]
      ],
      [
        of([...rows, ...rows.slice(0, 1).map((row) => ({ ...row, ...pad, groupId: "Z", id: "Z_pad0" }))]),
        ["Foreign", "groupId", "Z_pad0", undefined, "Z"]
      ],
      [of(replaced(0, segmentOf({ tokenMask: new Uint8Array(4) }))), ["Length", "tokenMask", "A_g0_s0", "A_g0", "A"]],
      [
        of(replaced(0, segmentOf({ generationLogProbs: nan }))),
        ["NotFinite", "generationLogProbs", "A_g0_s0", "A_g0", "A"]
      ],
      [
        of(replaced(0, segmentOf({ generationLogProbs: new Float64Array(5).fill(0.5) }))),
        ["OutOfRange", "generationLogProbs", "A_g0_s0", "A_g0", "A"]
      ],
      [
        of(replaced(0, segmentOf({ tokenMask: new Uint8Array(5).fill(2) }))),
        ["OutOfRange", "tokenMask", "A_g0_s0", "A_g0", "A"]
      ],
      [
        of(replaced(0, segmentOf({ tokenIds: Int32Array.of(1, -1, 1, 1, 1) }))),
        ["OutOfRange", "tokenIds", "A_g0_s0", "A_g0", "A"]
      ]
    ]
    for (const [found, expected] of cases) assert.deepStrictEqual(found, expected)
  })
})

describe("a batch", () => {
  const batch = right(Batch.make(rows, { groupSize: 2, rowQuantum: 2 }))

  it("has the rows' places without their first token", () => {
    // A_g0: 2 + 3 and 2 + 1 tokens; A_g1 borrows 5; B: 5 and 4; the padding is the shortest row again.
    assert.deepStrictEqual(Array.from(batch.tokens.offsets), [0, 4, 6, 10, 14, 17, 19])
    assert.deepStrictEqual(Array.from(batch.tokens.mask.subarray(0, 6)), [0, 1, 1, 1, 0, 1])
    assert.deepStrictEqual(Array.from(batch.tokens.generation.subarray(0, 4)), [0, -0.1, -0.2, -0.1 * 3])
  })

  it("becomes a step that objectives take, or says which log-probability is wrong", () => {
    const of = (value: number, at = 1) => {
      const values = new Float64Array(19).fill(-1)
      values[at] = value
      return values
    }
    const good = of(-2)
    const step = right(Batch.trainingStep(batch, { previous: good, current: good }))
    assert.isTrue(Either.isRight(StepColumns.validate(step)))
    assert.deepStrictEqual(Array.from(step.rows.group), [0, 0, 0, 1, 1, 0])
    assert.deepStrictEqual(Array.from(step.owners.valid), [1, 0, 1, 1])
    const error = (previous: Float64Array, current: Float64Array) => {
      const { field, group, owner, place, reason, row } = left(Batch.trainingStep(batch, { previous, current }))
      return [reason, field, row, owner, group, place]
    }
    assert.deepStrictEqual(error(of(Number.NaN), good), ["NotFinite", "previous", "A_g0_s0", "A_g0", "A", 1])
    assert.deepStrictEqual(error(good, of(-Infinity, 15)), ["NotFinite", "current", "B_g1_s0", "B_g1", "B", 1])
    assert.deepStrictEqual(error(good, of(0.5)), ["OutOfRange", "current", "A_g0_s0", "A_g0", "A", 1])
    assert.deepStrictEqual(error(good.subarray(1), good).slice(0, 2), ["Length", "previous"])
  })

  it("has a plan that counts what trains", () => {
    const options = {
      optimizerStepId: "step-1",
      advantageEstimator: "dr_grpo",
      lossNormalization: "prompt-mean-token-mean",
      batchQuantum: 2,
      advantages: [1, 0, -1, 1],
      duplicates: 0
    }
    const plan = right(Plan.make(batch, options))
    assert.deepStrictEqual(
      [
        plan.comparison_group_count,
        plan.logical_rollout_count,
        plan.physical_trace_count,
        plan.padding_row_count,
        plan.total_row_count,
        plan.eligible_action_token_count
      ],
      // 3 + 1 of A_g0, 3 and 2 of B.
      [2, 4, 5, 1, 6, 9]
    )
    assert.deepStrictEqual(plan.parent_indices, [0, 0, 1, 2, 3, -1])
    assert.deepStrictEqual(
      plan.rows.map(({ advantage, completion_ids }) => [advantage, completion_ids]),
      [
        [1, ["c0"]],
        [1, ["c1"]],
        [0, []],
        [-1, ["c0"]],
        [1, ["c0"]],
        [0, []]
      ]
    )
    assert.strictEqual(plan.plan_id, right(Plan.make(batch, options)).plan_id)
    assert.strictEqual(left(Plan.make(batch, { ...options, advantages: [1] })).reason, "Length")
    assert.strictEqual(left(Plan.make(batch, { ...options, advantages: [1, 0, Number.NaN, 0] })).owner, "B_g0")
    assert.strictEqual(left(Plan.make(batch, { ...options, batchQuantum: 4 })).reason, "Length")
    assert.notStrictEqual(plan.plan_id, right(Plan.make(batch, { ...options, advantages: [1, 0, -1, 2] })).plan_id)
  })

  it.prop(
    "holds the same trained tokens whatever it is padded to",
    { quantum: FC.integer({ min: 1, max: 12 }) },
    ({ quantum }) => {
      const { owners, tokens } = right(Batch.make(rows, { groupSize: 2, rowQuantum: quantum }))
      const trained = StepColumns.ownerTokens(owners.rowOwner, StepColumns.rowTokens(tokens), owners.owners.length)
      assert.deepStrictEqual(Array.from(trained), [4, 0, 3, 2])
      assert.strictEqual((tokens.offsets.length - 1) % quantum, 0)
    }
  )
})
