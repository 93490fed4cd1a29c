import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import {
  componentsOf,
  drGrpo,
  flashReinforce,
  gdpo,
  grpo,
  ownerAdvantages,
  rawReward,
  reinforceBaseline,
  reinforcePlusPlus,
  rloo,
  whiten
} from "../../src/training/Advantage.js"
import { baselineAndSpread, type GroupedRewards } from "../../src/training/Baseline.js"
import { groupBy } from "../../src/training/StepColumns.js"
import { left, right, vector } from "./dataFixture.js"
import { close, near } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Strings = Schema.Array(Schema.String)
const Grouped = Schema.Struct({ groups: Strings, rewards: Numbers })

const grouped = ({ groups, rewards }: typeof Grouped.Type): GroupedRewards => ({
  group: groupBy(groups).group,
  reward: Float64Array.from(rewards)
})

const Baselines = Schema.Struct({ baseline: Numbers, std: Numbers, advantage: Numbers })

describe("advantages", () => {
  it("of GRPO (training-vectors.json `adv.grpo.*`)", () => {
    for (const [id, leaveOneOut] of [
      ["adv.grpo.loo_norm", true],
      ["adv.grpo.group_norm", false],
      ["adv.grpo.edges", true]
    ] as const) {
      const { inputs, outputs } = vector(id, Grouped, Baselines)
      const { baseline, spread } = baselineAndSpread(grouped(inputs), { leaveOneOut })
      close(baseline, outputs.baseline, 1e-12, id)
      close(spread, outputs.std, 1e-12, id)
      close(grpo(grouped(inputs), { leaveOneOut, normalize: true }), outputs.advantage, 1e-12, id)
    }
  })

  it("of Dr. GRPO over both populations (training-vectors.json `adv.dr_grpo.population`)", () => {
    const Part = Schema.Struct({ baseline: Numbers, advantage: Numbers })
    const { inputs, outputs } = vector(
      "adv.dr_grpo.population",
      Schema.extend(Grouped, Schema.Struct({ owner_valid: Numbers })),
      Schema.Struct({
        all_owners: Part,
        valid_owners: Part,
        loo_with_mask: Schema.Struct({ baseline: Numbers, std: Numbers })
      })
    )
    const rewards = { ...grouped(inputs), valid: Uint8Array.from(inputs.owner_valid) }
    close(drGrpo(rewards, "all_owners"), outputs.all_owners.advantage)
    close(drGrpo(rewards, "valid_owners"), outputs.valid_owners.advantage)
    close(baselineAndSpread(grouped(inputs), { leaveOneOut: false }).baseline, outputs.all_owners.baseline)
    close(baselineAndSpread(rewards, { leaveOneOut: false }).baseline, outputs.valid_owners.baseline)
    const others = baselineAndSpread(rewards, { leaveOneOut: true })
    close(others.baseline, outputs.loo_with_mask.baseline)
    close(others.spread, outputs.loo_with_mask.std)
  })

  it("of RLOO, which is N / (N - 1) of Dr. GRPO's (training-vectors.json `adv.rloo`)", () => {
    const { inputs, outputs } = vector(
      "adv.rloo",
      Grouped,
      Schema.Struct({ baseline: Numbers, advantage: Numbers, n_over_n_minus_1_times_dr: Numbers })
    )
    close(rloo(grouped(inputs)), outputs.advantage)
    close(
      drGrpo(grouped(inputs), "all_owners").map((value) => (4 / 3) * value),
      outputs.n_over_n_minus_1_times_dr
    )
  })

  it("of a REINFORCE baseline, whitened over the step (training-vectors.json `adv.reinforce_baseline.*`)", () => {
    const whole = vector(
      "adv.reinforce_baseline.whiten",
      Schema.extend(Grouped, Schema.Struct({ token_counts: Numbers })),
      Schema.Struct({ centered: Numbers, mu: Schema.Number, var: Schema.Number, advantage: Numbers })
    )
    close(drGrpo(grouped(whole.inputs), "all_owners"), whole.outputs.centered)
    const { advantage, mean, variance } = reinforceBaseline(grouped(whole.inputs), whole.inputs.token_counts)
    close(advantage, whole.outputs.advantage)
    near(mean, whole.outputs.mu)
    near(variance, whole.outputs.var)

    const Case = Schema.extend(Grouped, Schema.Struct({ token_counts: Numbers }))
    const edges = vector(
      "adv.reinforce_baseline.edges",
      Schema.Struct({ case_no_tokens: Case, case_homogeneous: Case }),
      Schema.Struct({ case_no_tokens: Numbers, case_homogeneous: Schema.Struct({ advantage: Numbers }) })
    )
    const none = edges.inputs.case_no_tokens
    assert.deepStrictEqual(
      Array.from(reinforceBaseline(grouped(none), none.token_counts).advantage),
      edges.outputs.case_no_tokens
    )
    const same = edges.inputs.case_homogeneous
    const found = reinforceBaseline(grouped(same), same.token_counts)
    close(found.advantage, edges.outputs.case_homogeneous.advantage, 0)
    assert.strictEqual(found.variance, 0)
  })

  it("of GDPO (training-vectors.json `adv.gdpo`)", () => {
    const { inputs, outputs } = vector(
      "adv.gdpo",
      Schema.Struct({ groups: Strings, components: Schema.Record({ key: Schema.String, value: Numbers }) }),
      Schema.Struct({ advantage: Numbers })
    )
    const owners = inputs.groups.map((_, owner) =>
      Object.fromEntries(Object.entries(inputs.components).map(([name, values]) => [name, values[owner] ?? 0]))
    )
    const components = componentsOf(owners)
    assert.deepStrictEqual(
      components.map(({ name }) => name),
      ["reward/correct", "reward/format"]
    )
    const rewards = grouped({
      groups: inputs.groups,
      rewards: owners.map((own) => Object.values(own).reduce((sum, value) => sum + value, 0))
    })
    close(right(gdpo(rewards, components, { leaveOneOut: true, normalize: true })), outputs.advantage)
  })

  it("GDPO: a component that an owner lacks is 0; one alone, and ones that don't add up, are refused", () => {
    const components = componentsOf([{ "reward/a": 1, other: 9 }, { "reward/b": 2 }])
    assert.deepStrictEqual(
      components.map(({ reward }) => Array.from(reward)),
      [
        [1, 0],
        [0, 2]
      ]
    )
    const rewards = grouped({ groups: ["A", "A"], rewards: [1, 2] })
    const options = { leaveOneOut: true, normalize: true }
    right(gdpo(rewards, components, options))
    assert.include(left(gdpo(rewards, components.slice(1), options)).message, "1 given: gdpo wants two")
    const off = { ...rewards, reward: Float64Array.of(1, 2.1) }
    assert.strictEqual(left(gdpo(off, components, options)).owner, 1)
    const bad = [...components.slice(1), { name: "reward/c", reward: Float64Array.of(1, Number.NaN) }]
    assert.strictEqual(left(gdpo(rewards, bad, options)).reason, "NotFinite")
  })

  it("of REINFORCE++, without and with a KL penalty (training-vectors.json `adv.reinforce_pp`)", () => {
    const Rows = Schema.Array(Numbers)
    const Part = Schema.Struct({ mu: Schema.Number, var: Schema.Number, advantage: Rows })
    const { inputs, outputs } = vector(
      "adv.reinforce_pp",
      Schema.extend(Grouped, Schema.Struct({ mask: Rows, logprobs: Rows, ref_logprobs: Rows, kl_coef: Schema.Number })),
      Schema.Struct({ no_kl: Part, with_kl: Part })
    )
    const batch = {
      offsets: Int32Array.of(0, 4, 8, 12, 16),
      mask: Uint8Array.from(inputs.mask.flat()),
      sampleMask: Uint8Array.of(1, 1, 1, 1)
    }
    const kl = {
      estimator: "k3" as const,
      coefficient: inputs.kl_coef,
      logprobs: Float64Array.from(inputs.logprobs.flat()),
      reference: Float64Array.from(inputs.ref_logprobs.flat())
    }
    const rows = Int32Array.of(0, 1, 2, 3)
    for (const [options, wanted] of [
      [{ subtractGroupMean: true }, outputs.no_kl],
      [{ subtractGroupMean: true, kl }, outputs.with_kl]
    ] as const) {
      const out = new Float64Array(16)
      const { mean, variance } = reinforcePlusPlus(grouped(inputs), rows, batch, options, out)
      near(mean, wanted.mu)
      near(variance, wanted.var)
      close(out, wanted.advantage.flat())
    }
    // Without a penalty it is one number for each owner, as an objective has it.
    const { ids, groupIds, valid, ...owners } = {
      ...grouped(inputs),
      ids: inputs.groups,
      groupIds: ["A", "B"],
      valid: Uint8Array.of(1, 1, 1, 1)
    }
    const found = right(
      ownerAdvantages(
        { name: "reinforce_plus_plus", subtractGroupMean: true },
        { ...owners, ids, valid },
        Float64Array.of(3, 1, 2, 2)
      )
    )
    close(
      found,
      outputs.no_kl.advantage.map(([first = 0]) => first)
    )
  })

  it("of FlashREINFORCE are over the whole step, and each rollout has tokens", () => {
    close(right(flashReinforce(Float64Array.of(1, 0, 0), [1, 3, 2])), [2 / 3, -1 / 3, -1 / 3])
    assert.deepStrictEqual(Array.from(right(flashReinforce(Float64Array.of(0.1, 0.1, 0.1), [1, 1, 1]))), [0, 0, 0])
    const error = left(flashReinforce(Float64Array.of(1, 0), [3, 0]))
    assert.strictEqual(error.reason, "Empty")
    assert.strictEqual(error.owner, 1)
  })

  it("that are raw rewards may be whitened over tokens", () => {
    assert.deepStrictEqual(Array.from(rawReward(Float64Array.of(1, 0.5))), [1, 0.5])
    // Mean 0.75 and variance 3/16 by hand.
    close(rawReward(Float64Array.of(1, 0), [3, 1]), [0.25 / Math.sqrt(3 / 16), -0.75 / Math.sqrt(3 / 16)])
  })

  it("are refused token counts that are none", () => {
    const owners = { ...grouped({ groups: ["A"], rewards: [1] }), ids: ["A_g0"], valid: Uint8Array.of(1) }
    for (const count of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      const error = left(
        ownerAdvantages({ name: "reinforce_baseline", population: "all_owners" }, owners, Float64Array.of(count))
      )
      assert.strictEqual(error.owner, "A_g0")
      assert.include(error.message, "is no number of tokens")
    }
  })

  it("are exactly 0 in a group whose rewards are the same, whatever rounding does to their mean", () => {
    FC.assert(
      FC.property(
        FC.double({ min: -10, max: 10, noNaN: true }),
        FC.integer({ min: 1, max: 12 }),
        FC.boolean(),
        (reward, size, leaveOneOut) => {
          const rewards = { group: new Int32Array(size), reward: new Float64Array(size).fill(reward) }
          const all = [
            grpo(rewards, { leaveOneOut, normalize: true }),
            drGrpo(rewards, "all_owners"),
            rloo(rewards),
            reinforceBaseline(rewards, new Float64Array(size).fill(3)).advantage
          ]
          for (const values of all) assert.isTrue(values.every((value) => value === 0))
        }
      )
    )
  })

  it("of a lone winner are not divided by what rounding makes of the others' spread", () => {
    // 0.3 + 0.3 + 0.3 is not 0.9: a spread from moments would be about 1e-9, and the advantage in the hundred thousands.
    const rewards = { group: new Int32Array(4), reward: Float64Array.of(1, 0.3, 0.3, 0.3) }
    near(grpo(rewards, { leaveOneOut: true, normalize: true })[0], 0.7)
  })

  it("do not depend on the order of owners, sum to 0 over a group, and follow the spread of shaped rewards if told", () => {
    FC.assert(
      FC.property(
        FC.array(FC.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 8 }),
        FC.array(FC.integer({ min: 0, max: 9 }), { minLength: 8, maxLength: 8 }),
        (values, tokens) => {
          const reward = Float64Array.from(values)
          const group = Int32Array.from(values, (_, owner) => owner % 2)
          const advantage = drGrpo({ group, reward }, "all_owners")
          for (const index of [0, 1])
            near(
              advantage.reduce((sum, value, owner) => sum + (group[owner] === index ? value : 0), 0),
              0
            )
          const reversed = drGrpo({ group: group.slice().reverse(), reward: reward.slice().reverse() }, "all_owners")
          close(reversed.reverse(), advantage)
          const whitened = whiten(advantage, tokens)
          const weight = values.reduce((sum, _, owner) => sum + (tokens[owner] ?? 0), 0)
          if (whitened.variance > 1e-6) {
            const sum = (power: number) =>
              whitened.advantage.reduce((total, value, owner) => total + (tokens[owner] ?? 0) * value ** power, 0)
            near(sum(1) / weight, 0, 1e-9)
            near(sum(2) / weight, 1, 1e-9)
          }
        }
      )
    )
    const spreadReward = Float64Array.of(2, 0, 2, 0)
    const { spread } = baselineAndSpread(
      { group: new Int32Array(4), reward: Float64Array.of(1, 0, 1, 0) },
      { leaveOneOut: false, spreadReward }
    )
    near(spread[0], Math.sqrt(4 / 3))
  })
})
