import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import {
  afterFailure,
  backoff,
  classifyStatus,
  contextCompaction,
  DropDecision,
  DropRules,
  type DropState,
  fewestGroups,
  standard
} from "../../src/training/DropRules.js"

const state: DropState = {
  infrastructure: 0,
  data: 0,
  skipped: 0,
  consecutiveDropped: 0,
  prompts: 17,
  lost: 0,
  replacements: 0,
  reserve: 1
}

// Values and meanings are those of NeMo RL's rollout_failure settings.
describe("DropRules", () => {
  it("tries again, waiting longer each time, and each kind by its own count", () => {
    assert.deepStrictEqual(
      [1, 2, 3, 4, 5, 6, 7].map((failures) => backoff(standard, failures)),
      [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    )
    assert.deepStrictEqual(
      afterFailure(standard, "infrastructure", { ...state, infrastructure: 4, data: 1 }),
      DropDecision.Retry({ afterMillis: 8_000 })
    )
    assert.deepStrictEqual(
      afterFailure(standard, "data", { ...state, infrastructure: 4, data: 1 }),
      DropDecision.Retry({ afterMillis: 1_000 })
    )
  })

  it("ends the run with the first prompt that is given up, unless it is told otherwise", () => {
    const infrastructure = afterFailure(standard, "infrastructure", { ...state, infrastructure: 5 })
    assert.deepStrictEqual(
      infrastructure,
      DropDecision.Fatal({ reason: "1 prompts in a row were given up for infrastructure, and 0 may be" })
    )
    assert.strictEqual(afterFailure(standard, "data", { ...state, data: 2 })._tag, "Fatal")
  })

  it("shrinks a step no further than its floor (training-vectors.json `ctl.in_order_gate`, min_fraction_floor)", () => {
    assert.strictEqual(fewestGroups(standard, 8), 8)
    assert.strictEqual(fewestGroups(standard, 17), 16)
    assert.strictEqual(fewestGroups(contextCompaction, 8), 8)
    // 0.55 * 100 is 55.00000000000001 in float64.
    assert.strictEqual(fewestGroups(new DropRules({ minStepFraction: 0.55 }), 100), 55)
    const lenient = new DropRules({ maxSkipped: 9, maxConsecutiveDropped: 9 })
    const failed = { ...state, infrastructure: 5 }
    assert.deepStrictEqual(afterFailure(lenient, "infrastructure", failed), DropDecision.Shrink({ groups: 16 }))
    assert.deepStrictEqual(
      afterFailure(lenient, "infrastructure", { ...failed, lost: 1 }),
      DropDecision.Fatal({ reason: "the step is left with 15 of 17 groups, and it needs 16" })
    )
  })

  it("replaces while it may and there is a spare prompt, then shrinks", () => {
    const rules = new DropRules({ maxSkipped: 9, onDropped: "replace" })
    const failed = { ...state, data: 2 }
    assert.deepStrictEqual(afterFailure(rules, "data", failed), DropDecision.Replace())
    assert.strictEqual(afterFailure(rules, "data", { ...failed, replacements: 1 })._tag, "Shrink")
    assert.strictEqual(afterFailure(rules, "data", { ...failed, reserve: 0 })._tag, "Shrink")
  })

  it("dispatches nothing again for compacted owners: one attempt each, every group, errors end the run", () => {
    const { dataAttempts, infrastructureAttempts, minStepFraction, onDropped, rowAttempts } = contextCompaction
    assert.deepStrictEqual(
      [infrastructureAttempts, dataAttempts, rowAttempts, minStepFraction, onDropped],
      [1, 1, 1, 1, "shrink"]
    )
    for (const kind of ["infrastructure", "data"] as const) {
      assert.strictEqual(afterFailure(contextCompaction, kind, { ...state, infrastructure: 1, data: 1 })._tag, "Fatal")
    }
  })

  it("knows whose fault a status is", () => {
    assert.deepStrictEqual([400, 404, 408, 422, 429, 499, 500, 503].map(classifyStatus), [
      "data",
      "data",
      "infrastructure",
      "data",
      "infrastructure",
      "data",
      "infrastructure",
      "infrastructure"
    ])
  })

  it("refuses rules that contradict themselves", () => {
    const told = (rules: unknown) =>
      Either.match(Schema.decodeUnknownEither(DropRules)(rules), {
        onLeft: ({ message }) => message,
        onRight: () => ""
      })
    assert.include(told({ onDropped: "replace", replacementReserve: 0 }), "needs at least one replacement")
    assert.include(told({ backoffMillis: 5_000, backoffCapMillis: 1_000 }), "shorter than the first")
    assert.notStrictEqual(told({ minStepFraction: 0 }), "")
    assert.strictEqual(told({}), "")
  })

  it("comes to an end: whatever fails is given up after its attempts", () => {
    FC.assert(
      FC.property(
        FC.nat(20),
        FC.nat(20),
        FC.constantFrom("infrastructure" as const, "data" as const),
        (infrastructure, data, kind) => {
          const decided = afterFailure(standard, kind, { ...state, infrastructure, data })
          const failures = kind === "infrastructure" ? infrastructure : data
          assert.strictEqual(decided._tag === "Retry", failures < (kind === "infrastructure" ? 5 : 2))
        }
      )
    )
  })
})
