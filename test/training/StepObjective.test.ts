import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { type KlEstimator, klPenalty } from "../../src/training/Divergence.js"
import { importanceWeight, truncate } from "../../src/training/ImportanceSampling.js"
import { clippedLoss, type PolicyLoss, tokenLoss } from "../../src/training/Loss.js"
import {
  evaluate,
  evaluateRows,
  type Objective,
  prepare,
  type StepInputs,
  tokenWeights,
  workspace
} from "../../src/training/Objective.js"
import { mulberry32 } from "../../src/training/Random.js"
import { left, right, vector } from "./dataFixture.js"
import {
  byRow,
  close,
  flash,
  molt,
  near,
  type OwnerSpec,
  type RowSpec,
  randomSpecs,
  type Specs,
  sameSlope,
  standard,
  stepOf
} from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const seeds = FC.integer({ min: 0, max: 2 ** 31 - 1 })

const PublishedRow = Schema.Struct({
  id: Schema.String,
  group: Schema.String,
  slot: Schema.NullOr(Schema.Number),
  reward: Schema.Number,
  sample_mask: Schema.Number,
  token_mask: Numbers,
  gen: Numbers,
  cur: Numbers
})
const PublishedResult = Schema.Struct({
  owner_order: Schema.Array(Schema.String),
  owner_advantage: Numbers,
  T: Schema.Number,
  P: Schema.Number,
  loss: Schema.Number,
  rows: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      advantage: Schema.Number,
      weight: Schema.Number,
      gate_stat: Schema.Number,
      gate_keep: Schema.Boolean,
      dloss_dlogprob: Numbers
    })
  )
})
const published = vector(
  "loss.flash_cc_batch",
  Schema.Struct({ rows: Schema.Array(PublishedRow) }),
  Schema.Struct({ dr_grpo: PublishedResult, reinforce_baseline: PublishedResult })
)

const publishedStep = (): StepInputs => {
  const owners = new Map<string, OwnerSpec>()
  const rows: Array<RowSpec> = []
  for (const { cur, gen, group, id, reward, sample_mask, slot, token_mask } of published.inputs.rows) {
    const owner = slot === null ? null : `${group}_g${slot}`
    if (owner !== null) owners.set(owner, { id: owner, group, reward, valid: sample_mask })
    // Places are those of predicted tokens: the first token of a row has none.
    const [mask, generation, current] = [token_mask.slice(1), gen.slice(1), cur.slice(1)]
    rows.push({ id, owner, group, sampleMask: sample_mask, mask, generation, current })
  }
  return stepOf(Array.from(owners.values()), rows)
}

describe("the objective of a step", () => {
  it("is the published one (training-vectors.json `loss.flash_cc_batch`)", () => {
    const step = publishedStep()
    for (const [name, advantage] of [
      ["dr_grpo", { name: "dr_grpo", population: "all_owners" }],
      ["reinforce_baseline", { name: "reinforce_baseline", population: "all_owners" }]
    ] as const) {
      const wanted = published.outputs[name]
      const objective: Objective = { ...flash, advantage }
      const space = workspace(step.batch)
      const result = right(evaluate(objective, step, space))
      near(result.loss, wanted.loss, 1e-12, name)
      assert.deepStrictEqual(step.owners.ids, wanted.owner_order)
      close(result.advantage, wanted.owner_advantage)
      assert.strictEqual(result.tokens, wanted.T)
      assert.strictEqual(result.prompts, wanted.P)
      const gradients = byRow(step, result.gradient)
      const { counts, rowWeight } = right(prepare(objective, step))
      for (const [row, { advantage, dloss_dlogprob, gate_keep, gate_stat, id, weight }] of wanted.rows.entries()) {
        close(gradients.get(id) ?? [], dloss_dlogprob, 1e-12, id)
        const owner = step.rows.owner[row] ?? -1
        near(owner < 0 ? 0 : result.advantage[owner], advantage)
        if (step.batch.sampleMask[row] !== 1) continue
        near(space.statistic[row], gate_stat)
        assert.strictEqual(space.kept[row] === 1, gate_keep)
        near((rowWeight[row] ?? 0) * counts.tokens, weight)
      }
      assert.strictEqual(result.rejectedRows, 1)
      assert.strictEqual(result.rejectedTokens, 3)
      assert.strictEqual(result.rows, 4)
      assert.strictEqual(result.validOwners, 3)
      assert.strictEqual(result.zeroVarianceShare, 0)
      assert.strictEqual(result.meanReward, 0.375)
    }
  })

  it("is 0 with gradient 0 where the gate rejects all", () => {
    FC.assert(
      FC.property(seeds, (seed) => {
        const { owners, rows } = randomSpecs(seed)
        const step = stepOf(
          owners,
          rows.map((row) => ({ ...row, current: row.generation.map((value) => value - 2) }))
        )
        const result = right(evaluate({ ...flash, gate: { statistic: "binary_kl", min: 0, max: 1e-9 } }, step))
        assert.strictEqual(result.loss, 0)
        assert.isTrue(result.gradient.every((value) => value === 0))
        assert.strictEqual(result.rejectedTokens, result.tokens)
        assert.isAbove(result.tokens, 0)
      })
    )
  })

  it("is legal, and 0, where all rewards are 0, or the same in each group", () => {
    FC.assert(
      FC.property(seeds, FC.constantFrom(flash, molt, standard), (seed, objective) => {
        const { owners, rows } = randomSpecs(seed)
        const result = right(
          evaluate(
            objective,
            stepOf(
              owners.map((owner) => ({ ...owner, reward: 0 })),
              rows
            )
          )
        )
        assert.isTrue(result.loss === 0 && result.gradient.every((value) => value === 0))
        assert.strictEqual(result.zeroVarianceShare, 1)
        assert.isAbove(result.tokens, 0)
      })
    )
    const winners = [
      { id: "A_g0", group: "A", reward: 0.1 },
      { id: "A_g1", group: "A", reward: 0.1 },
      { id: "B_g0", group: "B", reward: 1 },
      { id: "B_g1", group: "B", reward: 0 }
    ]
    const rows = winners.map(({ group, id }) => ({
      id: `${id}_s0`,
      owner: id,
      group,
      mask: [1],
      generation: [-1],
      current: [-1]
    }))
    const result = right(
      evaluate({ ...flash, advantage: { name: "dr_grpo", population: "all_owners" } }, stepOf(winners, rows))
    )
    assert.strictEqual(result.zeroVarianceShare, 0.5)
    assert.strictEqual(result.prompts, 2)
    close(result.gradient, [0, 0, -0.125, 0.125])
  })

  it("counts failed owners in the baseline or not, as it is told", () => {
    const owners = [
      { id: "A_g0", group: "A", reward: 1 },
      { id: "A_g1", group: "A", reward: 0 },
      { id: "A_g2", group: "A", reward: 0.8, valid: 0 }
    ]
    const rows = owners.map(({ group, id, valid }) => ({
      id: `${id}_s0`,
      owner: id,
      group,
      sampleMask: valid ?? 1,
      mask: [1],
      generation: [-1],
      current: [-1]
    }))
    const advantages = (population: "all_owners" | "valid_owners") =>
      right(evaluate({ ...standard, advantage: { name: "dr_grpo", population } }, stepOf(owners, rows))).advantage
    close(advantages("all_owners").subarray(0, 2), [0.4, -0.6])
    close(advantages("valid_owners").subarray(0, 2), [0.5, -0.5])
  })

  it("clips advantages, shapes rewards and takes components where it is told", () => {
    const owners = [
      { id: "A_g0", group: "A", reward: 3 },
      { id: "A_g1", group: "A", reward: -1 }
    ]
    const rows = owners.map(({ group, id }) => ({
      id: `${id}_s0`,
      owner: id,
      group,
      mask: [1],
      generation: [-1],
      current: [-1]
    }))
    const step = stepOf(owners, rows)
    const raw: Objective = { ...standard, advantage: { name: "raw_reward", whiten: false } }
    assert.deepStrictEqual(Array.from(right(evaluate({ ...raw, advantageClip: [-0.5, 2] }, step)).advantage), [2, -0.5])
    assert.deepStrictEqual(Array.from(right(evaluate({ ...raw, shaping: { clip: [0, 1] } }, step)).advantage), [1, 0])
    assert.deepStrictEqual(
      Array.from(
        right(evaluate({ ...raw, shaping: { stopProperly: 0.5 } }, { ...step, facts: { truncated: [0, 1] } })).advantage
      ),
      [3, -0.5]
    )
    assert.include(left(evaluate({ ...raw, shaping: { stopProperly: 0.5 } }, step)).message, "truncated")
    // Rewards become 3 and -0.5; the spread stays that of 3 and -1.
    const grpo: Objective = {
      ...standard,
      advantage: { name: "grpo", leaveOneOut: false, normalize: true, population: "all_owners" }
    }
    const shaped = right(
      evaluate({ ...grpo, shaping: { stopProperly: 0.5 } }, { ...step, facts: { truncated: [0, 1] } })
    ).advantage
    close(shaped, [1.75 / (Math.sqrt(8) + 1e-6), -1.75 / (Math.sqrt(8) + 1e-6)])
    const gdpo: Objective = { ...standard, advantage: { name: "gdpo", leaveOneOut: false, normalize: true } }
    const components = [
      { name: "reward/a", reward: Float64Array.of(2, -1) },
      { name: "reward/b", reward: Float64Array.of(1, 0) }
    ]
    // Both components order the two owners alike, so that the whitened sum is one deviation of two: 1 / sqrt 2.
    close(right(evaluate(gdpo, { ...step, components })).advantage, [Math.SQRT1_2, -Math.SQRT1_2], 1e-5)
    assert.include(left(evaluate(gdpo, step)).message, "gdpo wants two")
  })
})

// -----------------------------------------------------------------------------
// Gradients
// -----------------------------------------------------------------------------

interface Held {
  readonly current: Float64Array
  readonly advantage: (row: number, place: number) => number
}

/** The loss by its definition, over places, with what a gradient holds still given apart. */
const byDefinition = (objective: Objective, step: StepInputs, current: Float64Array, held: Held): number => {
  const { batch, owners, rows } = step
  const { aggregation, importance, kl, loss, positiveNll } = objective
  const previous = loss.name === "on_policy" ? held.current : batch.previous
  const parts: Array<{ readonly group: number; readonly losses: ReadonlyArray<number> }> = []
  const imitated: Array<number> = []
  for (let row = 0; row < rows.ids.length; row++) {
    if (batch.sampleMask[row] !== 1) continue
    const places: Array<number> = []
    for (let place = batch.offsets[row] ?? 0; place < (batch.offsets[row + 1] ?? 0); place++)
      if (batch.mask[place] === 1) places.push(place)
    if (places.length === 0) continue
    const at = (values: Float64Array | undefined, place: number) => values?.[place] ?? Number.NaN
    const mean = (of: (place: number) => number) => places.reduce((sum, place) => sum + of(place), 0) / places.length
    const together = Math.exp(mean((place) => at(current, place) - at(previous, place)))
    const sequence = Math.exp(places.length * mean((place) => at(previous, place) - at(batch.generation, place)))
    const losses = places.map((place) => {
      const [now, before, sampled] = [at(current, place), at(previous, place), at(batch.generation, place)]
      const raw = importance?.level === "sequence" ? sequence : importanceWeight(before, sampled)
      const weight = importance === undefined ? 1 : truncate(raw, importance.truncation)
      const advantage = held.advantage(row, place)
      const own = (): number => {
        switch (loss.name) {
          case "gspo":
            return clippedLoss(together, advantage, loss.clipLow, loss.clipHigh)
          case "on_policy":
            return -advantage * Math.exp(now - before)
          case "cispo": {
            const ratio = Math.exp(at(held.current, place) - before)
            return -advantage * Math.min(Math.max(ratio, 1 - loss.clipLow), 1 + loss.clipHigh) * now
          }
          default:
            return tokenLoss(loss, now, before, advantage)
        }
      }
      const penalty =
        kl === undefined
          ? 0
          : kl.coefficient *
            klPenalty(
              kl.estimator,
              now,
              at(step.reference, place),
              kl.behaviour === "current" ? at(held.current, place) : sampled
            )
      return weight * own() + penalty
    })
    parts.push({ group: rows.group[row] ?? -1, losses })
    if (positiveNll !== undefined && (owners.reward[rows.owner[row] ?? -1] ?? 0) >= positiveNll.minReward)
      imitated.push(...places.map((place) => -at(current, place)))
  }
  const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)
  const mean = (values: ReadonlyArray<number>) => (values.length === 0 ? 0 : sum(values) / values.length)
  const aggregated = (): number => {
    switch (aggregation.name) {
      case "token-mean":
        return mean(parts.flatMap(({ losses }) => losses))
      case "seq-mean-token-mean":
        return mean(parts.map(({ losses }) => mean(losses)))
      case "seq-mean-token-sum":
        return mean(parts.map(({ losses }) => sum(losses) / (aggregation.constant ?? 1)))
      case "prompt-mean-token-mean": {
        const groups = Array.from(new Set(parts.map(({ group }) => group)))
        return mean(groups.map((group) => mean(parts.flatMap((part) => (part.group === group ? part.losses : [])))))
      }
    }
  }
  return aggregated() + (positiveNll?.coefficient ?? 0) * mean(imitated)
}

const losses: ReadonlyArray<PolicyLoss> = [
  { name: "ppo", clipLow: 0.1, clipHigh: 0.15 },
  { name: "ppo", clipLow: 0.1, clipHigh: 0.1, dualClip: 1.2 },
  { name: "on_policy" },
  { name: "reinforce" },
  { name: "cispo", clipLow: 0.1, clipHigh: 0.15 },
  { name: "gspo", clipLow: 0.05, clipHigh: 0.05 }
]

const importances: ReadonlyArray<Objective["importance"]> = [
  undefined,
  { truncation: { name: "none" }, level: "token" },
  { truncation: { name: "none" }, level: "sequence" },
  { truncation: { name: "tis", max: 1.05 }, level: "token" },
  { truncation: { name: "icepop", min: 0.9, max: 1.1 }, level: "token" }
]

const aggregations: ReadonlyArray<Objective["aggregation"]> = [
  { name: "token-mean" },
  { name: "seq-mean-token-mean" },
  { name: "seq-mean-token-sum", constant: 7 },
  { name: "prompt-mean-token-mean" }
]

const kls: ReadonlyArray<readonly [KlEstimator, "current" | "generation"] | undefined> = [
  undefined,
  ["k1", "current"],
  ["k2", "current"],
  ["k3", "current"],
  ["k3", "generation"]
]

const anyObjective: FC.Arbitrary<Objective> = FC.record({
  loss: FC.constantFrom(...losses),
  importance: FC.constantFrom(...importances),
  aggregation: FC.constantFrom(...aggregations),
  kl: FC.constantFrom(...kls),
  nll: FC.boolean(),
  tokens: FC.boolean()
}).map(({ aggregation, importance, kl, loss, nll, tokens }) => ({
  advantage: tokens ? { name: "per_token" } : { name: "dr_grpo", population: "all_owners" },
  loss,
  aggregation:
    loss.name === "gspo"
      ? { name: "seq-mean-token-mean" }
      : loss.name === "cispo"
        ? { name: "token-mean" }
        : aggregation,
  ...(importance === undefined || (loss.name === "cispo" && importance.level === "sequence") ? {} : { importance }),
  ...(kl === undefined ? {} : { kl: { estimator: kl[0], behaviour: kl[1], coefficient: 0.1 } }),
  ...(nll ? { positiveNll: { coefficient: 0.3, minReward: 0.5 } } : {})
}))

describe("gradients of a step", () => {
  it("are what central differences measure, for each loss with each weight, penalty and aggregation", () => {
    const seen = { places: 0, edges: 0 }
    FC.assert(
      FC.property(seeds, anyObjective, (seed, objective) => {
        const { owners, rows } = randomSpecs(seed, 1)
        const random = mulberry32(seed + 1)
        const plain = stepOf(owners, rows)
        const step: StepInputs = {
          ...plain,
          reference: plain.batch.current.map((value) => value - random()),
          tokenAdvantages: plain.batch.current.map(() => random() - 0.5)
        }
        const result = right(evaluate(objective, step))
        const { batch } = step
        const held: Held = {
          current: batch.current.slice(),
          advantage: (row, place) =>
            objective.advantage.name === "per_token"
              ? (step.tokenAdvantages?.[place] ?? 0)
              : (result.advantage[step.rows.owner[row] ?? -1] ?? 0)
        }
        near(result.loss, byDefinition(objective, step, batch.current, held), 1e-12, "loss")
        const moved = batch.current.slice()
        for (let place = 0; place < moved.length; place++) {
          const x = batch.current[place] ?? 0
          const slope = (h: number) => {
            moved[place] = x + h
            const up = byDefinition(objective, step, moved, held)
            moved[place] = x - h
            const down = byDefinition(objective, step, moved, held)
            moved[place] = x
            return (up - down) / (2 * h)
          }
          // Over a clip's edge there is no one slope: a narrower difference gives another, by half of it.
          const [wide, narrow] = [slope(1e-5), slope(2e-6)]
          if (Math.abs(wide - narrow) > 1e-3 * Math.max(Math.abs(wide), Math.abs(narrow)) + 1e-8) {
            seen.edges++
            continue
          }
          seen.places++
          sameSlope(result.gradient[place] ?? Number.NaN, wide, `place ${place}`)
        }
      }),
      { numRuns: 300 }
    )
    assert.isBelow(seen.edges, seen.places / 1000)
  })

  it("are those that a trainer gets from weights and the loss of a token", () => {
    FC.assert(
      FC.property(seeds, FC.constantFrom(flash, molt, standard), FC.boolean(), (seed, objective, byOwner) => {
        const { owners, rows } = randomSpecs(seed, 3, 0.1)
        const leveled: Objective =
          byOwner && objective.gate !== undefined
            ? { ...objective, gate: { ...objective.gate, level: "owner" } }
            : objective
        // Where a step starts the two are the same.
        const step = stepOf(
          owners,
          rows.map((row) => ({ ...row, previous: row.current }))
        )
        const result = right(evaluate(leveled, step))
        const prepared = right(prepare(leveled, step))
        const space = workspace(step.batch)
        const weights = right(tokenWeights(prepared, space, new Float64Array(step.batch.mask.length)))
        const [loss, gradient] = [{ sum: 0 }, new Float64Array(weights.length)]
        for (let row = 0; row < rows.length; row++) {
          const advantage = result.advantage[step.rows.owner[row] ?? -1] ?? 0
          for (let place = step.batch.offsets[row] ?? 0; place < (step.batch.offsets[row + 1] ?? 0); place++) {
            loss.sum += (weights[place] ?? 0) * -advantage
            gradient[place] = (weights[place] ?? 0) * -advantage
          }
        }
        near(loss.sum, result.loss)
        close(gradient, result.gradient)
      })
    )
  })
})

// -----------------------------------------------------------------------------
// Invariance
// -----------------------------------------------------------------------------

const evaluated = (objective: Objective, specs: Specs) => {
  const step = stepOf(specs.owners, specs.rows)
  const result = right(evaluate(objective, step))
  return { loss: result.loss, gradients: byRow(step, result.gradient), result }
}

/** Of each owner, all its gradients end to end, by segment. */
const byOwner = ({ owners, rows }: Specs, gradients: ReadonlyMap<string, ReadonlyArray<number>>) =>
  owners.map(({ id }) => rows.filter(({ owner }) => owner === id).flatMap((row) => gradients.get(row.id) ?? []))

describe("loss and gradient do not depend on", () => {
  const objectives = FC.constantFrom<Objective>(flash, molt, standard, {
    ...flash,
    advantage: { name: "dr_grpo", population: "all_owners" }
  })

  it("microbatches", () => {
    FC.assert(
      FC.property(seeds, anyObjective, FC.array(FC.nat(30), { maxLength: 5 }), (seed, objective, cuts) => {
        const { owners, rows } = randomSpecs(seed, 1)
        const plain = stepOf(owners, rows)
        const step = { ...plain, reference: plain.batch.previous, tokenAdvantages: plain.batch.generation }
        const whole = right(evaluate(objective, step))
        const prepared = right(prepare(objective, step))
        const space = workspace(step.batch)
        const ends = [...cuts.map((cut) => cut % (rows.length + 1)), 0, rows.length].sort((a, b) => a - b)
        const sum = { loss: 0, rows: 0, tokens: 0, weightSum: 0, klSum: 0, clippedTokens: 0 }
        for (const [at, end] of ends.entries()) {
          const part = right(evaluateRows(prepared, space, ends[at - 1] ?? 0, end))
          for (const key of ["loss", "rows", "tokens", "weightSum", "klSum", "clippedTokens"] as const)
            sum[key] += part[key]
        }
        for (const key of ["loss", "rows", "tokens", "weightSum", "klSum", "clippedTokens"] as const)
          near(sum[key], whole[key])
        close(space.gradient, whole.gradient, 0)
      })
    )
  })

  it("the order of rows", () => {
    FC.assert(
      FC.property(seeds, objectives, FC.array(FC.nat(), { minLength: 40, maxLength: 40 }), (seed, objective, keys) => {
        const specs = randomSpecs(seed)
        const order = specs.rows.map((row, at) => [keys[at] ?? 0, row] as const).sort(([a], [b]) => a - b)
        const [before, after] = [
          evaluated(objective, specs),
          evaluated(objective, { ...specs, rows: order.map(([, row]) => row) })
        ]
        near(after.loss, before.loss)
        for (const [id, values] of before.gradients) close(after.gradients.get(id) ?? [], values)
      })
    )
  })

  it("rows that pad", () => {
    FC.assert(
      FC.property(seeds, objectives, FC.integer({ min: 1, max: 5 }), (seed, objective, count) => {
        const specs = randomSpecs(seed)
        const [model] = specs.rows
        const padding = Array.from(
          { length: count },
          (_, at): RowSpec => ({
            id: `A_pad${at + 5}`,
            owner: null,
            group: "A",
            sampleMask: 0,
            mask: model?.mask ?? [],
            generation: model?.generation ?? [],
            // What does not train is not looked at.
            current: (model?.current ?? []).map(() => Number.NaN)
          })
        )
        const [before, after] = [
          evaluated(objective, specs),
          evaluated(objective, { ...specs, rows: [...padding, ...specs.rows] })
        ]
        near(after.loss, before.loss, 0)
        for (const [id, values] of before.gradients) close(after.gradients.get(id) ?? [], values, 0)
        for (const { id } of padding) assert.isTrue(after.gradients.get(id)?.every((value) => value === 0))
      })
    )
  })

  const cut = ({ owners, rows }: Specs, keys: ReadonlyArray<number>): Specs => ({
    owners,
    rows: rows.flatMap((row, index): ReadonlyArray<RowSpec> => {
      if (row.owner === null) return [row]
      const at = (keys[index] ?? 0) % (row.mask.length + 1)
      const part = (name: string, from: number, to: number): RowSpec => ({
        ...row,
        id: `${row.id}${name}`,
        mask: row.mask.slice(from, to),
        generation: row.generation.slice(from, to),
        previous: (row.previous ?? row.current).slice(from, to),
        current: row.current.slice(from, to)
      })
      return [part("a", 0, at), part("b", at, row.mask.length)]
    })
  })

  it("where episodes are split, but for a gate of rows", () => {
    FC.assert(
      FC.property(
        seeds,
        FC.constantFrom(flash, molt, standard),
        FC.array(FC.nat(), { minLength: 40, maxLength: 40 }),
        (seed, family, keys) => {
          // A family without its gate may not train segments, so the gate is opened as wide as it goes instead.
          const objective: Objective =
            family.gate === undefined
              ? family
              : {
                  ...family,
                  gate: { ...family.gate, max: 1e9, ...(family.gate.statistic === "ratio" ? { min: 1e-9 } : {}) }
                }
          const specs = randomSpecs(seed)
          const split = cut(specs, keys)
          const [before, after] = [evaluated(objective, specs), evaluated(objective, split)]
          near(after.loss, before.loss)
          const [one, other] = [byOwner(specs, before.gradients), byOwner(split, after.gradients)]
          for (const [owner, values] of one.entries()) close(other[owner] ?? [], values)
        }
      )
    )
  })

  it("where episodes are split, with a gate of owners", () => {
    FC.assert(
      FC.property(seeds, FC.array(FC.nat(), { minLength: 40, maxLength: 40 }), (seed, keys) => {
        const objective: Objective = { ...flash, gate: { statistic: "binary_kl", min: 0, max: 0.01, level: "owner" } }
        const specs = randomSpecs(seed)
        const split = cut(specs, keys)
        const [before, after] = [evaluated(objective, specs), evaluated(objective, split)]
        near(after.loss, before.loss)
        assert.strictEqual(after.result.rejectedTokens, before.result.rejectedTokens)
        const [one, other] = [byOwner(specs, before.gradients), byOwner(split, after.gradients)]
        for (const [owner, values] of one.entries()) close(other[owner] ?? [], values)
      })
    )
  })

  it("the gate's rejects, in what the rest is divided by", () => {
    const owners = ["A_g0", "A_g1"].map((id, slot) => ({ id, group: "A", reward: slot }))
    const rows = owners.map(({ id }) => ({
      id: `${id}_s0`,
      owner: id,
      group: "A",
      mask: [1],
      generation: [-1],
      current: [-1]
    }))
    const far = rows.map((row, at) => (at === 0 ? { ...row, current: [-3] } : row))
    const objective: Objective = { ...flash, advantage: { name: "dr_grpo", population: "all_owners" } }
    assert.deepStrictEqual(Array.from(right(evaluate(objective, stepOf(owners, rows))).gradient), [0.25, -0.25])
    assert.deepStrictEqual(Array.from(right(evaluate(objective, stepOf(owners, far))).gradient), [0, -0.25])
  })
})

// -----------------------------------------------------------------------------
// What is refused
// -----------------------------------------------------------------------------

describe("a step is refused", () => {
  const owners: ReadonlyArray<OwnerSpec> = [
    { id: "A_g0", group: "A", reward: 1 },
    { id: "A_g1", group: "A", reward: 0 },
    { id: "B_g0", group: "B", reward: 0.5, valid: 0 }
  ]
  const row = (id: string, owner: string | null, group: string, sampleMask = 1): RowSpec => ({
    id,
    owner,
    group,
    sampleMask,
    mask: [1, 0, 1],
    generation: [-1, 0, -1],
    previous: [-1, 0, -1],
    current: [-1, 0, -1]
  })
  const rows = [
    row("A_g0_s0", "A_g0", "A"),
    row("A_g0_s1", "A_g0", "A"),
    row("A_g1_s0", "A_g1", "A"),
    row("B_g0_s0", "B_g0", "B", 0),
    row("B_pad0", null, "B", 0)
  ]
  const good = (): StepInputs => stepOf(owners, rows)
  const facts = (objective: Objective, step: StepInputs) => {
    const {
      detail: _,
      message,
      ...error
    } = Either.match(evaluate(objective, step), {
      onLeft: (error) =>
        error._tag === "StepError"
          ? { ...error, message: error.message }
          : { ...error, detail: "", message: error.message },
      onRight: () => ({ _tag: "none", detail: "", message: "" })
    })
    return { ...error, message }
  }

  it("for a log-probability that is none, where a token trains", () => {
    right(evaluate(flash, good()))
    for (const field of ["generation", "previous", "current"] as const)
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.5]) {
        const step = good()
        step.batch[field][5] = value
        for (const objective of [
          flash,
          { ...flash, gate: { statistic: "binary_kl", min: 0, max: 1, level: "owner" } } as const
        ]) {
          const space = workspace(step.batch)
          space.gradient.fill(7)
          const error = left(evaluate(objective, step, space))
          assert.deepInclude(
            { ...error },
            {
              _tag: "StepError",
              reason: value === 0.5 ? "OutOfRange" : "NotFinite",
              field,
              row: "A_g0_s1",
              owner: "A_g0",
              group: "A",
              place: 2
            }
          )
          assert.include(
            error.message,
            `${field} (place 2, row A_g0_s1, owner A_g0, group A): ${value} is no log-probability`
          )
          assert.isTrue(space.gradient.every((slope) => slope === 0))
        }
        // Where nothing trains it does not matter.
        const masked = good()
        for (const place of [1, 9, 11, 13]) masked.batch[field][place] = value
        near(right(evaluate(flash, masked)).loss, right(evaluate(flash, good())).loss, 0)
      }
  })

  it("for a reference or an advantage of a token that is none", () => {
    const single = stepOf(
      owners,
      rows.filter(({ id }) => id !== "A_g0_s1")
    )
    const reference = single.batch.current.slice()
    reference[5] = Number.NaN
    const kl: Objective = { ...standard, kl: { estimator: "k3", coefficient: 0.1, behaviour: "current" } }
    assert.deepInclude(facts(kl, { ...single, reference }), {
      reason: "NotFinite",
      field: "reference",
      row: "A_g1_s0",
      place: 2
    })
    assert.deepInclude(facts(kl, single), { reason: "Length", field: "reference" })
    const perToken: Objective = { ...standard, advantage: { name: "per_token" } }
    const tokenAdvantages = new Float64Array(single.batch.mask.length)
    tokenAdvantages[3] = Number.POSITIVE_INFINITY
    assert.deepInclude(facts(perToken, { ...single, tokenAdvantages }), {
      reason: "NotFinite",
      field: "tokenAdvantages",
      owner: "A_g1",
      place: 0
    })
    assert.deepInclude(facts(perToken, { ...single, tokenAdvantages: new Float64Array(2) }), {
      reason: "Length",
      field: "tokenAdvantages"
    })
  })

  it("for rewards that are none", () => {
    for (const reward of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const step = good()
      // A failed owner's too: it votes.
      step.owners.reward[2] = reward
      assert.deepInclude(facts(flash, step), { reason: "NotFinite", field: "owners.reward", owner: "B_g0", group: "B" })
    }
    const step = good()
    step.owners.reward.set([1e308, -1e308])
    assert.deepInclude(facts(flash, step), { reason: "NotFinite", field: "advantage", group: "A" })
  })

  it("for a ratio that no number holds", () => {
    const step = good()
    step.batch.previous[6] = -1000
    step.batch.current[6] = -0.1
    // The loser's ratio is not clipped from above.
    assert.deepInclude(facts(standard, step), {
      reason: "NotFinite",
      field: "loss",
      row: "A_g1_s0",
      owner: "A_g1",
      group: "A"
    })
  })

  it("for columns that do not fit together", () => {
    const { batch, owners: table, rows: columns } = good()
    const step = (more: {
      readonly batch?: Partial<StepInputs["batch"]>
      readonly owners?: Partial<StepInputs["owners"]>
      readonly rows?: Partial<StepInputs["rows"]>
    }): StepInputs => ({
      batch: { ...batch, ...more.batch },
      owners: { ...table, ...more.owners },
      rows: { ...columns, ...more.rows }
    })
    const bad: ReadonlyArray<readonly [StepInputs, Readonly<Record<string, unknown>>]> = [
      [step({ batch: { generation: new Float64Array(3) } }), { reason: "Length", field: "generation" }],
      [step({ batch: { previous: new Float64Array(3) } }), { reason: "Length", field: "previous" }],
      [step({ batch: { current: new Float64Array(3) } }), { reason: "Length", field: "current" }],
      [step({ batch: { sampleMask: new Uint8Array(3) } }), { reason: "Length", field: "sampleMask" }],
      [step({ batch: { offsets: Int32Array.of(0, 3) } }), { reason: "Length", field: "offsets" }],
      [
        step({ batch: { offsets: Int32Array.of(0, 3, 2, 9, 12, 15) } }),
        { reason: "OutOfRange", field: "offsets", row: "A_g0_s1" }
      ],
      [step({ batch: { offsets: Int32Array.of(0, 3, 6, 9, 12, 14) } }), { reason: "Length", field: "offsets" }],
      [
        step({ batch: { offsets: Int32Array.of(1, 3, 6, 9, 12, 15) } }),
        { reason: "OutOfRange", field: "offsets", row: "A_g0_s0" }
      ],
      [
        step({ batch: { mask: batch.mask.map((one, at) => (at === 7 ? 2 : one)) } }),
        { reason: "OutOfRange", field: "mask", row: "A_g1_s0", place: 1 }
      ],
      [
        step({ batch: { sampleMask: Uint8Array.of(1, 1, 3, 0, 0) } }),
        { reason: "OutOfRange", field: "sampleMask", row: "A_g1_s0" }
      ],
      [
        step({ batch: { sampleMask: Uint8Array.of(1, 1, 1, 1, 0) } }),
        { field: "sampleMask", row: "B_g0_s0", owner: "B_g0", group: "B" }
      ],
      [
        step({ batch: { sampleMask: Uint8Array.of(1, 1, 1, 0, 1) } }),
        { reason: "Foreign", field: "sampleMask", row: "B_pad0", group: "B" }
      ],
      [step({ batch: { sampleMask: new Uint8Array(5) } }), { reason: "Empty", field: "mask" }],
      [step({ batch: { mask: new Uint8Array(15) } }), { reason: "Empty", field: "mask" }],
      [step({ owners: { reward: new Float64Array(2) } }), { reason: "Length", field: "owners.reward" }],
      [step({ owners: { valid: new Uint8Array(2) } }), { reason: "Length", field: "owners.valid" }],
      [step({ owners: { group: new Int32Array(2) } }), { reason: "Length", field: "owners.group" }],
      [
        step({ owners: { group: Int32Array.of(0, 5, 1) } }),
        { reason: "Foreign", field: "owners.group", owner: "A_g1" }
      ],
      [
        step({ owners: { group: Int32Array.of(0, 0, 0) } }),
        { reason: "MissingOwner", field: "owners.group", group: "B" }
      ],
      [
        step({ owners: { valid: Uint8Array.of(1, 4, 0) } }),
        { reason: "OutOfRange", field: "owners.valid", owner: "A_g1" }
      ],
      [
        step({ owners: { ids: ["A_g0", "A_g0", "B_g0"] } }),
        { reason: "DuplicateOwner", field: "owners.ids", owner: "A_g0" }
      ],
      [step({ owners: { groupIds: ["A", "A"] } }), { reason: "DuplicateOwner", field: "owners.groupIds", group: "A" }],
      [
        step({ rows: { ids: columns.ids.map(() => "A_g0_s0") } }),
        { reason: "DuplicateOwner", field: "rows.ids", row: "A_g0_s0" }
      ],
      [
        step({ rows: { owner: Int32Array.of(0, 0, 0, 2, -1) } }),
        { reason: "MissingOwner", field: "rows.owner", owner: "A_g1", group: "A" }
      ],
      [
        step({ rows: { owner: Int32Array.of(0, 0, 9, 2, -1) } }),
        { reason: "Foreign", field: "rows.owner", row: "A_g1_s0" }
      ],
      [step({ rows: { owner: Int32Array.of(0, 0) } }), { reason: "Length", field: "rows.owner" }],
      [step({ rows: { group: Int32Array.of(0, 0) } }), { reason: "Length", field: "rows.group" }],
      [
        step({ rows: { group: Int32Array.of(0, 0, 1, 1, 1) } }),
        { reason: "Foreign", field: "rows.group", row: "A_g1_s0", owner: "A_g1" }
      ],
      [
        step({ rows: { group: Int32Array.of(0, 0, 7, 1, 1) } }),
        { reason: "Foreign", field: "rows.group", row: "A_g1_s0" }
      ],
      [
        {
          batch: { ...batch, offsets: Int32Array.of(0), mask: new Uint8Array(0) },
          owners: {
            ids: [],
            groupIds: [],
            group: new Int32Array(0),
            reward: new Float64Array(0),
            valid: new Uint8Array(0)
          },
          rows: { ids: [], owner: new Int32Array(0), group: new Int32Array(0) }
        },
        { reason: "Empty", field: "owners" }
      ]
    ]
    for (const [inputs, wanted] of bad) assert.deepInclude(facts(flash, inputs), { _tag: "StepError", ...wanted })
  })

  it("in a workspace that is too small, or in a range that is none or cuts an owner that is judged whole", () => {
    const step = good()
    const prepared = right(prepare(flash, step))
    const space = workspace(step.batch)
    assert.include(
      left(evaluateRows(prepared, { ...space, weight: new Float64Array(2) }, 0, 5)).message,
      "workspace.weight"
    )
    assert.include(left(tokenWeights(prepared, space, new Float64Array(2))).message, "out")
    for (const [from, to] of [
      [-1, 2],
      [3, 2],
      [0, 6],
      [0.5, 2]
    ] as const)
      assert.strictEqual(left(evaluateRows(prepared, space, from, to)).reason, "OutOfRange")
    const whole = right(
      prepare({ ...flash, gate: { statistic: "binary_kl", min: 0, max: 0.01, level: "owner" } }, step)
    )
    assert.deepInclude(
      { ...left(evaluateRows(whole, space, 0, 1)) },
      { reason: "MissingOwner", row: "A_g0_s0", owner: "A_g0" }
    )
    right(evaluateRows(whole, space, 0, 2))
  })
})
