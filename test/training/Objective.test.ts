import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import type { Objective, ObjectiveSurroundings } from "../../src/training/Objective.js"
import { evaluate, validateObjective } from "../../src/training/Objective.js"
import { left, right } from "./dataFixture.js"
import { flash, molt, standard, stepOf } from "./objectiveFixture.js"

const gate = { statistic: "binary_kl", min: 0, max: 0.01 } as const
const drGrpo = { name: "dr_grpo", population: "all_owners" } as const
const masked = { truncation: { name: "seq-mask-tis" }, level: "token" } as const

/** `_tag` of what fails, with the field that is at fault. */
const verdict = (objective: Objective, surroundings?: ObjectiveSurroundings): string =>
  Either.match(validateObjective(objective, surroundings), { onLeft: ({ field }) => field, onRight: () => "allowed" })

describe("validateObjective", () => {
  // The table of families is that of the context-compaction recipes; see the docstring.
  it("allows the three families", () => {
    const grpo = (more: Partial<Extract<Objective["advantage"], { readonly name: "grpo" }>>): Objective => ({
      ...standard,
      advantage: { name: "grpo", leaveOneOut: true, normalize: true, population: "all_owners", ...more }
    })
    for (const objective of [
      standard,
      grpo({}),
      grpo({ leaveOneOut: false, normalize: false, population: "valid_owners" }),
      { ...standard, importance: { truncation: { name: "tis", max: 2 }, level: "token" } },
      { ...standard, importance: { truncation: { name: "icepop", min: 0.5, max: 5 }, level: "token" } },
      { ...standard, kl: { estimator: "k3", coefficient: 0.01, behaviour: "current" } },
      { ...standard, shaping: { clip: [0, 1] } },
      molt,
      { ...molt, gate: { statistic: "ratio", min: 1, max: 1 } },
      flash,
      { ...flash, advantage: drGrpo },
      { ...flash, gate: { ...gate, min: -1, level: "owner" } },
      { ...flash, shaping: { clip: [0, 1] } }
    ] satisfies ReadonlyArray<Objective>)
      assert.strictEqual(verdict(objective), "allowed", JSON.stringify(objective))
  })

  it("refuses each step out of a family, by the field to change", () => {
    const refused: ReadonlyArray<readonly [field: string, objective: Objective, surroundings?: ObjectiveSurroundings]> =
      [
        // Families.
        ["gate", { ...standard, gate, importance: masked }],
        ["gate", { ...standard, gate: { statistic: "ratio", min: 0.99, max: 1.01 }, importance: masked }],
        ["loss.name", { ...standard, loss: { name: "on_policy" } }],
        ["loss.name", { ...standard, loss: { name: "reinforce" } }],
        ["loss.name", { ...standard, loss: { name: "cispo", clipLow: 0.2, clipHigh: 0.2 } }],
        ["aggregation.name", { ...standard, aggregation: { name: "prompt-mean-token-mean" } }],
        ["advantage.name", { ...molt, advantage: drGrpo }],
        ["aggregation.name", { ...molt, aggregation: { name: "prompt-mean-token-mean" } }],
        ["loss.name", { ...molt, loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.2 } }],
        ["gate.min", { ...molt, gate: { statistic: "ratio", min: 0, max: 1.01 } }],
        ["gate", { ...molt, gate: { statistic: "ratio", min: 1.01, max: 0.99 } }],
        ["aggregation.name", { ...flash, aggregation: { name: "token-mean" } }],
        ["loss.name", { ...flash, loss: { name: "reinforce" } }],
        ["gate.min", { ...flash, gate: { ...gate, min: 0.001 } }],
        ["gate.max", { ...flash, gate: { ...gate, max: 0 } }],
        ["gate.max", { ...flash, gate: { ...gate, min: -2, max: -1 } }],
        ["gate.statistic", { ...flash, gate: { ...gate, statistic: "tv" } }],
        ["advantage.population", { ...flash, advantage: { name: "dr_grpo", population: "valid_owners" } }],
        ...(["rloo", "flash_reinforce", "per_token"] as const).map(
          (name) => ["advantage.name", { ...flash, advantage: { name } }] as const
        ),
        ["advantage.name", { ...standard, advantage: { name: "raw_reward", whiten: true } }],
        ["advantage.name", { ...standard, advantage: { name: "gdpo", leaveOneOut: true, normalize: true } }],
        ["advantage.name", { ...standard, advantage: { name: "reinforce_plus_plus", subtractGroupMean: true } }],
        // What no family has.
        [
          "loss.name",
          { ...standard, loss: { name: "gspo", clipLow: 0, clipHigh: 0 }, aggregation: { name: "seq-mean-token-mean" } }
        ],
        ["aggregation.name", { ...flash, aggregation: { name: "seq-mean-token-mean" } }],
        ["aggregation.name", { ...flash, aggregation: { name: "seq-mean-token-sum", constant: 10 } }],
        ["importance.level", { ...standard, importance: { truncation: { name: "none" }, level: "sequence" } }],
        ["maxSequenceError", { ...standard, maxSequenceError: 1.05 }],
        ["positiveNll", { ...standard, positiveNll: { coefficient: 0.1, minReward: 1 } }],
        ["advantageClip", { ...flash, advantageClip: [-5, 5] }],
        ["tokenMask", { ...standard, tokenMask: { divergence: "tv", threshold: 0.2, side: "asymmetric" } }],
        ["shaping.scaling", { ...flash, shaping: { scaling: { source: [0, 1], target: [-1, 1] } } }],
        [
          "shaping.overlong",
          { ...flash, shaping: { overlong: { maxResponseLength: 9, bufferLength: 2, penalty: 1 } } }
        ],
        ["shaping.stopProperly", { ...flash, shaping: { stopProperly: 0.5 } }],
        ["shaping.clip", { ...flash, shaping: { clip: [-1, 1] } }],
        ["dynamicSampling", flash, { dynamicSampling: true }],
        ["klInReward", standard, { klInReward: true }]
      ]
    for (const [field, objective, surroundings] of refused)
      assert.strictEqual(verdict(objective, surroundings), field, JSON.stringify([objective, surroundings]))
  })

  it("says what is wrong and what to set", () => {
    assert.strictEqual(
      left(validateObjective({ ...flash, aggregation: { name: "token-mean" } })).message,
      "aggregation.name is token-mean: the flash family has prompt-mean-token-mean. Set it to prompt-mean-token-mean"
    )
    const { gate: _, ...open } = flash
    assert.include(
      left(validateObjective({ ...open, importance: { truncation: { name: "none" }, level: "token" } })).message,
      "gate.statistic is absent"
    )
  })

  it("refuses in any step what makes no sense, and numbers that are none", () => {
    const bad: ReadonlyArray<readonly [field: string, objective: Objective]> = [
      ["importance.truncation.name", { ...standard, gate }],
      ["gate", { ...standard, importance: masked }],
      ["importance.level", { ...flash, importance: { ...masked, level: "sequence" } }],
      ["aggregation.name", { ...standard, loss: { name: "gspo", clipLow: 0, clipHigh: 0 } }],
      [
        "aggregation.name",
        { ...standard, loss: { name: "cispo", clipLow: 0, clipHigh: 0 }, aggregation: { name: "seq-mean-token-mean" } }
      ],
      ["loss.clipLow", { ...standard, loss: { name: "ppo", clipLow: Number.NaN, clipHigh: 0.2 } }],
      ["loss.clipHigh", { ...standard, loss: { name: "ppo", clipLow: 0.2, clipHigh: -0.2 } }],
      ["loss.dualClip", { ...standard, loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.2, dualClip: 1 } }],
      ["gate.high", { ...flash, gate: { ...gate, max: Number.POSITIVE_INFINITY } }],
      ["gate.high", { ...flash, gate: { ...gate, max: Number.NaN } }],
      ["kl.coefficient", { ...standard, kl: { estimator: "k1", coefficient: Number.NaN, behaviour: "current" } }],
      ["advantageClip", { ...standard, advantageClip: [1, -1] }],
      ["aggregation.constant", { ...standard, aggregation: { name: "seq-mean-token-sum", constant: 0 } }],
      [
        "shaping.overlong.bufferLength",
        { ...standard, shaping: { overlong: { maxResponseLength: 9, bufferLength: 0, penalty: 1 } } }
      ],
      ["shaping.scaling.source", { ...standard, shaping: { scaling: { source: [1, 1], target: [0, 1] } } }],
      ["tokenMask.threshold", { ...standard, tokenMask: { divergence: "kl", threshold: -1, side: "symmetric" } }],
      [
        "importance.truncation",
        { ...standard, importance: { truncation: { name: "tis", min: 3, max: 2 }, level: "token" } }
      ]
    ]
    const step = stepOf(
      [{ id: "A_g0", group: "A", reward: 1 }],
      [{ id: "A_g0_s0", owner: "A_g0", group: "A", mask: [1], generation: [-1], current: [-1] }]
    )
    for (const [field, objective] of bad) {
      const error = left(evaluate(objective, step))
      assert.strictEqual(error._tag, "ObjectiveError", field)
      assert.strictEqual(error.field, field)
      assert.strictEqual(verdict(objective), field)
    }
  })

  it("is asked before a step with segments, and only then", () => {
    const owners = [{ id: "A_g0", group: "A", reward: 1 }]
    const row = (segment: number) => ({
      id: `A_g0_s${segment}`,
      owner: "A_g0",
      group: "A",
      mask: [1],
      generation: [-1],
      current: [-1]
    })
    const loss: Objective = { ...standard, advantage: { name: "rloo" } }
    right(evaluate(loss, stepOf(owners, [row(0)])))
    const error = left(evaluate(loss, stepOf(owners, [row(0), row(1)])))
    assert.strictEqual(error._tag, "ObjectiveError")
    assert.strictEqual(error.field, "advantage.name")
  })
})
