import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import {
  cispoGradient,
  cispoLoss,
  clippedGradient,
  clippedLoss,
  dapo,
  type PolicyLoss,
  ppo,
  sequenceRatio,
  tokenGradient,
  tokenLoss
} from "../../src/training/Loss.js"
import { evaluate, type Objective } from "../../src/training/Objective.js"
import { right, vector } from "./dataFixture.js"
import { byRow, close, derivative, near, sameSlope, stepOf } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Rows = Schema.Array(Numbers)

describe("losses of a token", () => {
  it("are the published ones (training-vectors.json `loss.ppo_family`)", () => {
    const { inputs, outputs } = vector(
      "loss.ppo_family",
      Schema.Struct({ cur: Numbers, prev: Numbers, adv: Numbers, gspo_seq_adv: Schema.Number }),
      Schema.Struct({
        ratio: Numbers,
        ppo_02: Numbers,
        dapo_02_028: Numbers,
        dual_c3: Numbers,
        dual_c1_1: Numbers,
        cispo_02_028: Numbers,
        disable_ppo_ratio: Numbers,
        gspo_ratio: Schema.Number,
        gspo_loss_eps_3e4_4e4: Schema.Number
      })
    )
    const losses = (loss: Exclude<PolicyLoss, { readonly name: "gspo" }>) =>
      inputs.cur.map((current, at) => tokenLoss(loss, current, inputs.prev[at] ?? 0, inputs.adv[at] ?? 0))
    close(
      inputs.cur.map((current, at) => Math.exp(current - (inputs.prev[at] ?? 0))),
      outputs.ratio
    )
    for (const [name, loss] of [
      ["ppo_02", { name: "ppo", clipLow: 0.2, clipHigh: 0.2 }],
      ["dapo_02_028", { name: "ppo", clipLow: 0.2, clipHigh: 0.28 }],
      ["dual_c3", { name: "ppo", clipLow: 0.2, clipHigh: 0.2, dualClip: 3 }],
      ["dual_c1_1", { name: "ppo", clipLow: 0.2, clipHigh: 0.2, dualClip: 1.1 }],
      ["cispo_02_028", { name: "cispo", clipLow: 0.2, clipHigh: 0.28 }],
      ["disable_ppo_ratio", { name: "reinforce" }]
    ] as const)
      close(losses(loss), outputs[name], 1e-12, name)
    assert.deepStrictEqual(
      [ppo, dapo],
      [
        { name: "ppo", clipLow: 0.2, clipHigh: 0.2 },
        { name: "ppo", clipLow: 0.2, clipHigh: 0.28 }
      ]
    )
    const ratio = sequenceRatio(
      Float64Array.from(inputs.cur),
      Float64Array.from(inputs.prev),
      Uint8Array.of(1, 1, 1, 1),
      0,
      4
    )
    near(ratio, outputs.gspo_ratio)
    near(clippedLoss(ratio, inputs.gspo_seq_adv, 3e-4, 4e-4), outputs.gspo_loss_eps_3e4_4e4)

    // Through an objective, on a row of its own for each token: the mean over all.
    const rows = (loss: PolicyLoss, advantages: ReadonlyArray<number>) =>
      right(
        evaluate(
          { advantage: { name: "raw_reward", whiten: false }, loss, aggregation: { name: "token-mean" } },
          stepOf(
            advantages.map((reward, at) => ({ id: `A_g${at}`, group: "A", reward })),
            advantages.map((_, at) => ({
              id: `A_g${at}_s0`,
              owner: `A_g${at}`,
              group: "A",
              mask: [1],
              generation: [-1],
              previous: [inputs.prev[at] ?? 0],
              current: [inputs.cur[at] ?? 0]
            }))
          )
        )
      )
    const mean = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0) / values.length
    near(rows(dapo, inputs.adv).loss, mean(outputs.dapo_02_028))
    assert.strictEqual(rows(dapo, inputs.adv).clippedTokens, 2)
    near(rows({ name: "cispo", clipLow: 0.2, clipHigh: 0.28 }, inputs.adv).loss, mean(outputs.cispo_02_028))
    near(rows({ name: "reinforce" }, inputs.adv).loss, mean(outputs.disable_ppo_ratio))
    const gspo: Objective = {
      advantage: { name: "raw_reward", whiten: false },
      loss: { name: "gspo", clipLow: 3e-4, clipHigh: 4e-4 },
      aggregation: { name: "seq-mean-token-mean" }
    }
    const whole = stepOf(
      [{ id: "A_g0", group: "A", reward: inputs.gspo_seq_adv }],
      [
        {
          id: "A_g0_s0",
          owner: "A_g0",
          group: "A",
          mask: [1, 1, 1, 1],
          generation: [-1, -1, -1, -1],
          previous: inputs.prev,
          current: inputs.cur
        }
      ]
    )
    near(right(evaluate(gspo, whole)).loss, outputs.gspo_loss_eps_3e4_4e4)
  })

  it("are the larger of the free and the clipped one, and have the slope that central differences measure", () => {
    FC.assert(
      FC.property(
        FC.double({ min: -4, max: -0.01, noNaN: true }),
        FC.double({ min: -4, max: -0.01, noNaN: true }),
        FC.double({ min: -3, max: 3, noNaN: true }),
        FC.double({ min: 0, max: 0.9, noNaN: true }),
        FC.double({ min: 0, max: 0.9, noNaN: true }),
        FC.option(FC.double({ min: 1.05, max: 4, noNaN: true })),
        (current, previous, advantage, clipLow, clipHigh, dual) => {
          const ratio = Math.exp(current - previous)
          const kinks = [1 - clipLow, 1 + clipHigh, dual ?? 1e9]
          FC.pre(kinks.every((kink) => Math.abs(ratio - kink) > 1e-3))
          const dualClip = dual ?? Number.POSITIVE_INFINITY
          const clip = Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh)
          const larger = Math.max(-advantage * ratio, -advantage * clip)
          near(
            clippedLoss(ratio, advantage, clipLow, clipHigh, dualClip),
            advantage < 0 ? Math.min(larger, -advantage * dualClip) : larger
          )
          sameSlope(
            clippedGradient(ratio, advantage, clipLow, clipHigh, dualClip),
            derivative((at) => clippedLoss(Math.exp(at - previous), advantage, clipLow, clipHigh, dualClip), current)
          )
          const all = { name: "ppo", clipLow, clipHigh, ...(dual === null ? {} : { dualClip }) } as const
          for (const loss of [all, { name: "reinforce" } as const])
            sameSlope(
              tokenGradient(loss, current, previous, advantage),
              derivative((at) => tokenLoss(loss, at, previous, advantage), current)
            )
          // What CISPO holds still is the ratio; on policy, it is the previous log-probability.
          const held = cispoLoss(current, previous, advantage, clipLow, clipHigh) / current
          sameSlope(
            cispoGradient(current, previous, advantage, clipLow, clipHigh),
            derivative((at) => held * at, current)
          )
          sameSlope(
            tokenGradient({ name: "on_policy" }, current, previous, advantage),
            derivative((at) => tokenLoss(ppo, at, current, advantage), current)
          )
          near(tokenLoss({ name: "on_policy" }, current, previous, advantage), -advantage)
        }
      )
    )
  })
})

describe("FlashREINFORCE of single rollouts", () => {
  it("is the published one (training-vectors.json `loss.flash_paper`)", () => {
    const { inputs, outputs } = vector(
      "loss.flash_paper",
      Schema.Struct({ rewards: Numbers, logp: Rows, mask: Rows, behaviour: Rows, delta: Schema.Number }),
      Schema.Struct({
        kl: Numbers,
        accept: Schema.Array(Schema.Boolean),
        acceptance_rate: Schema.Number,
        surrogate_loss: Schema.Number,
        gradient: Rows
      })
    )
    const step = stepOf(
      inputs.rewards.map((reward, at) => ({ id: `P${at}_g0`, group: `P${at}`, reward })),
      inputs.rewards.map((_, at) => ({
        id: `P${at}_g0_s0`,
        owner: `P${at}_g0`,
        group: `P${at}`,
        mask: inputs.mask[at] ?? [],
        generation: inputs.behaviour[at] ?? [],
        current: inputs.logp[at] ?? []
      }))
    )
    const flash = {
      advantage: { name: "flash_reinforce" },
      gate: { statistic: "binary_kl", min: 0, max: inputs.delta },
      importance: { truncation: { name: "seq-mask-tis" }, level: "token" },
      aggregation: { name: "seq-mean-token-mean" }
    } as const
    // Their surrogate is sg(gate A rho) log pi; ours on policy has that gradient, and -A rho as its value.
    const result = right(evaluate({ ...flash, loss: { name: "on_policy" } }, step))
    for (const [row, values] of Array.from(byRow(step, result.gradient).values()).entries())
      close(values, outputs.gradient[row] ?? [])
    near(1 - result.rejectedRows / result.rows, outputs.acceptance_rate)
    const surrogate = right(evaluate({ ...flash, loss: { name: "reinforce" } }, step))
    near(surrogate.loss, outputs.surrogate_loss)
    for (const [row, values] of Array.from(byRow(step, surrogate.gradient).values()).entries())
      close(values, outputs.gradient[row] ?? [])
  })
})
