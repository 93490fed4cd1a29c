import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Batch from "../../src/training/Batch.js"
import * as ChainPolicy from "../../src/training/ChainPolicy.js"
import type { Objective } from "../../src/training/Objective.js"
import * as Owner from "../../src/training/Owner.js"
import { flash, objectiveOf } from "../../src/training/Recipe.js"
import { callsOf } from "../../src/training/ReferenceLoop.js"
import * as ReferenceTrainer from "../../src/training/ReferenceTrainer.js"
import type { Row } from "../../src/training/Row.js"
import type { UpdateBatch } from "../../src/training/Trainer.js"
import * as Update from "../../src/training/Update.js"

const right = <A, E>(either: Either.Either<A, E>): A => Either.getOrThrowWith(either, (error) => error)
const left = <A, E>(either: Either.Either<A, E>): E => Either.getOrThrow(Either.flip(either))

const task = ChainPolicy.standardTask

/** A policy that is somewhere on its way. */
const somewhere: ChainPolicy.ChainPolicy = {
  decisions: 3,
  actions: 4,
  logits: Float64Array.of(0.3, -0.2, 0.9, 0, 1.1, 0.4, -0.7, 0.2, 0, 0.1, -0.3, 0.8)
}

interface Drawn {
  readonly actions: ReadonlyArray<number>
  readonly failed?: boolean
  readonly reward?: number
}

/** Groups of owners with the actions that they took; the reward is 1 where all are right, unless it is given. */
const rowsOf = (groups: ReadonlyArray<ReadonlyArray<Drawn>>, split = true): ReadonlyArray<Row> => {
  const logs = ChainPolicy.logProbabilities(somewhere)
  const size = groups[0]?.length ?? 0
  const owners = groups.flatMap((group, index) =>
    group.map(({ actions, failed = false, reward }, slot): Owner.Owner => {
      const facts = {
        groupId: `g${index}`,
        slot,
        groupSize: size,
        reward: reward ?? (actions.join() === task.targets.join() ? 1 : 0),
        promptTokenIds: Int32Array.of(7, 4),
        weightVersion: 0
      }
      const rolloutId = `r${index}-${slot}`
      const entries = callsOf(somewhere, logs, actions, split).map((call) => ({ ...call, rolloutId }))
      return failed
        ? Owner.rejected(facts, "rollout_failed", "the desktop was lost")
        : right(Owner.fromCapture(facts, rolloutId, { rolloutId, entries, incomplete: false }))
    })
  )
  return right(Owner.assemble(owners, size)).rows
}

const two: ReadonlyArray<ReadonlyArray<Drawn>> = [
  [{ actions: [2, 0, 3] }, { actions: [2, 0, 1] }, { actions: [0, 0, 0] }],
  [{ actions: [1, 0, 3] }, { actions: [2, 0, 3] }, { actions: [2, 0, 3] }]
]

const updateOf = (
  rows: ReadonlyArray<Row>,
  groupSize: number,
  options: { readonly objective?: Objective; readonly quantum?: number } = {}
): UpdateBatch => {
  const batch = right(
    Batch.make(rows, { groupSize, ...(options.quantum === undefined ? {} : { rowQuantum: options.quantum }) })
  )
  const all = ChainPolicy.logProbabilities(somewhere)
  const previous = Update.scoreRows(batch).map(({ tokenIds }) => ChainPolicy.scoreTokens(somewhere, all, tokenIds))
  const objective = options.objective ?? objectiveOf(flash)
  return right(Update.make(objective, batch, { id: "s", version: 0, previous })).update
}

const gradientOf = (update: UpdateBatch) => right(ReferenceTrainer.step(somewhere, update, 1)).gradient

const assertSame = (found: Float64Array, wanted: Float64Array) => {
  for (const [at, value] of wanted.entries()) assert.closeTo(found[at] ?? Number.NaN, value, 1e-12)
}

describe("a step of the reference trainer", () => {
  it("has the gradient that finite differences have", () => {
    const update = updateOf(rowsOf(two), 3)
    // The loss is -advantage with derivative -advantage: its surrogate is -weight * advantage * current.
    const surrogate = (policy: ChainPolicy.ChainPolicy): number => {
      const all = ChainPolicy.logProbabilities(policy)
      let sum = 0
      for (const { advantage, tokenIds, weight } of update.rows) {
        const current = ChainPolicy.scoreTokens(policy, all, tokenIds)
        for (const [at, own] of weight.entries()) sum -= own * advantage * (current[at] ?? 0)
      }
      return sum
    }
    const gradient = gradientOf(update)
    const nudged = (at: number, by: number): ChainPolicy.ChainPolicy => ({
      ...somewhere,
      logits: somewhere.logits.map((logit, index) => (index === at ? logit + by : logit))
    })
    for (const [at, slope] of gradient.entries()) {
      assert.closeTo((surrogate(nudged(at, 1e-5)) - surrogate(nudged(at, -1e-5))) / 2e-5, slope, 1e-9)
    }
    assert.isAbove(Math.max(...gradient.map(Math.abs)), 0.01)
  })

  it("is the same with rows that pad, in another order, in one segment or two", () => {
    const rows = rowsOf(two)
    const gradient = gradientOf(updateOf(rows, 3))
    assertSame(gradientOf(updateOf(rows, 3, { quantum: 16 })), gradient)
    assertSame(gradientOf(updateOf(rows.toReversed(), 3)), gradient)
    assertSame(gradientOf(updateOf(rowsOf(two, false), 3)), gradient)
  })

  it("adds up from parts of the batch", () => {
    const update = updateOf(rowsOf(two), 3)
    const parts = update.rows.map((row) => gradientOf({ ...update, rows: [row] }))
    const sum = parts.reduce((sum, part) => sum.map((value, at) => value + (part[at] ?? 0)), new Float64Array(12))
    assertSame(sum, gradientOf(update))
  })

  it("moves by a failed owner's reward where all owners are the population, and not where the valid ones are", () => {
    const withReward = (reward: number, population: "all_owners" | "valid_owners") => {
      const [first = [], second = []] = two
      const failing = [[...first.slice(0, 2), { actions: [0, 0, 0], failed: true, reward }], second]
      // Baselines of the valid ones alone are for owners of one row.
      const objective: Objective = { ...objectiveOf(flash), advantage: { name: "dr_grpo", population } }
      return gradientOf(updateOf(rowsOf(failing, false), 3, { objective }))
    }
    assert.notDeepEqual(withReward(1, "all_owners"), withReward(0, "all_owners"))
    assert.deepStrictEqual(withReward(1, "valid_owners"), withReward(0, "valid_owners"))
  })

  it("is of weight 0, not absent, for a failed owner: it stays in the batch", () => {
    const [first = [], second = []] = two
    const update = updateOf(rowsOf([[...first.slice(0, 2), { actions: [0, 0, 0], failed: true }], second]), 3)
    const failed = update.rows.find(({ id }) => id === "g0_g2_s0")
    assert.isTrue(failed?.weight.every((weight) => weight === 0))
  })

  it("leaves every bit as it is when all rewards are the same", () => {
    const update = updateOf(rowsOf([[{ actions: [0, 0, 0] }, { actions: [1, 1, 1] }]]), 2)
    const { loss, policy } = right(ReferenceTrainer.step(somewhere, update, 4))
    assert.deepStrictEqual(policy.logits, somewhere.logits)
    assert.strictEqual(Math.abs(loss), 0)
  })

  it("refuses weights on what is no choice, and numbers that are none", () => {
    const update = updateOf(rowsOf(two), 3)
    const [row] = update.rows
    if (row === undefined) return
    const told = (fields: Partial<typeof row>) =>
      left(ReferenceTrainer.step(somewhere, { ...update, rows: [{ ...row, ...fields }] }, 1)).detail
    assert.include(told({ weight: row.weight.map(() => 1) }), "row g0_g0_s0, token 1: it is no action")
    assert.include(told({ advantage: Number.NaN }), "row g0_g0_s0, token 2: its loss is no number")
    assert.include(told({ weight: new Float64Array(2) }), "5 tokens have 2 weights")
  })

  it("keeps probabilities and their logarithms together, whatever the logits", () => {
    FC.assert(
      FC.property(
        FC.array(FC.double({ min: -600, max: 600, noNaN: true }), { minLength: 12, maxLength: 12 }),
        (logits) => {
          const policy = { ...somewhere, logits: Float64Array.from(logits) }
          const all = ChainPolicy.probabilities(policy)
          const logs = ChainPolicy.logProbabilities(policy)
          for (let decision = 0; decision < 3; decision++) {
            const own = all.subarray(decision * 4, decision * 4 + 4)
            assert.closeTo(
              own.reduce((sum, one) => sum + one, 0),
              1,
              1e-12
            )
          }
          for (const [at, log] of logs.entries()) {
            assert.isAtMost(log, 0)
            assert.closeTo(Math.exp(log), all[at] ?? Number.NaN, 1e-12)
          }
        }
      )
    )
  })
})

describe("a step as it is made up", () => {
  const rows = rowsOf(two)

  it("is refused when a group lacks a slot, before anything trains", () => {
    const fewer = rows.filter(({ id }) => !id.startsWith("g0_g2"))
    const error = left(Batch.make(fewer, { groupSize: 3 }))
    assert.deepStrictEqual([error.reason, error.group], ["MissingOwner", "g0"])
  })

  it("is refused when scores are missing or too short, by row", () => {
    const batch = right(Batch.make(rows, { groupSize: 3 }))
    const scores = batch.rows.map(({ segment }) => new Float64Array(segment.tokenIds.length - 1))
    const told = (previous: ReadonlyArray<Float64Array>) =>
      left(Update.make(objectiveOf(flash), batch, { id: "s", version: 0, previous })).message
    assert.include(told(scores.slice(1)), "12 rows have log-probabilities for 11")
    assert.include(told(scores.with(2, new Float64Array(1))), "row g0_g1_s0")
    assert.include(told(scores.with(2, new Float64Array([0, Number.NaN, 0, 0]))), "row g0_g1_s0")
  })

  it("is refused with an objective that weights and advantages cannot say", () => {
    const batch = right(Batch.make(rowsOf(two, false), { groupSize: 3 }))
    const previous = batch.rows.map(({ segment }) => new Float64Array(segment.tokenIds.length - 1))
    const objective: Objective = {
      ...objectiveOf(flash),
      kl: { estimator: "k3", coefficient: 0.01, behaviour: "current" }
    }
    const error = left(Update.make(objective, batch, { id: "s", version: 0, previous }))
    assert.strictEqual(error.field, "kl")
  })
})

describe("the reference trainer as a service", () => {
  const update = (id: string, version: number) => ({ ...updateOf(rowsOf(two), 3), id, version })

  it.effect("counts versions, takes a step once, and publishes what it is at", () =>
    Effect.gen(function* () {
      const trainer = yield* ReferenceTrainer.make({ task, learningRate: 1, policy: somewhere })
      const first = yield* trainer.update(update("s0", 0))
      assert.deepStrictEqual(yield* trainer.update(update("s0", 0)), first)
      assert.strictEqual(yield* trainer.version, 1)
      assert.deepStrictEqual((yield* trainer.published).policy.logits, somewhere.logits)
      yield* trainer.publish(1)
      assert.deepStrictEqual(yield* trainer.published, yield* trainer.current)
      assert.strictEqual((yield* Effect.flip(trainer.publish(0))).reason, "conflict")
      assert.strictEqual((yield* Effect.flip(trainer.update(update("s9", 0)))).reason, "conflict")
      assert.strictEqual((yield* trainer.update(update("s1", 1))).version, 2)
    })
  )
})
