import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { validateObjective } from "../../src/training/Objective.js"
import { baseCompaction, derived, flash, molt, objectiveOf, Recipe, recipes } from "../../src/training/Recipe.js"

const named = (name: string): Recipe => {
  const recipe = recipes.get(name)
  if (recipe === undefined) throw new Error(`no recipe ${name}`)
  return recipe
}

// The figures are those of the published recipes.
describe("recipes", () => {
  it("are these", () => {
    assert.deepStrictEqual(
      Array.from(recipes.values(), (recipe) => [
        recipe.name,
        derived(recipe).owners,
        recipe.estimator.name,
        recipe.gate?.max ?? null,
        recipe.aggregation,
        recipe.sampler.name,
        recipe.limits.minGroups,
        recipe.limits.maxInFlight,
        recipe.limits.maxBuffered,
        recipe.steps
      ]),
      [
        ["standard", 512, "grpo", null, "token-mean", "windowed", 32, 32, 64, undefined],
        ["base-cc", 2, "grpo", null, "token-mean", "in_order", 1, 1, 1, 1],
        ["molt-b8k8", 64, "reinforce_baseline", 1.01, "token-mean", "windowed", 8, 8, 16, 300],
        ["flash-b8n8-reinforce", 64, "reinforce_baseline", 0.01, "prompt-mean-token-mean", "windowed", 8, 8, 8, 300],
        ["flash-b8n8-dr-grpo", 64, "dr_grpo", 0.01, "prompt-mean-token-mean", "windowed", 8, 8, 8, 300],
        ["flash-b17n16-dr-grpo", 272, "dr_grpo", 0.01, "prompt-mean-token-mean", "windowed", 17, 8, 17, 300],
        [
          "flash-b17n16-reinforce",
          272,
          "reinforce_baseline",
          0.01,
          "prompt-mean-token-mean",
          "windowed",
          17,
          8,
          17,
          300
        ]
      ]
    )
  })

  it("have objectives that may train segments, where they say so", () => {
    for (const recipe of recipes.values()) {
      const validated = validateObjective(objectiveOf(recipe))
      assert.isTrue(
        Either.isRight(validated),
        `${recipe.name}: ${Either.isLeft(validated) ? validated.left.message : ""}`
      )
    }
  })

  it("derive what follows", () => {
    assert.deepStrictEqual(derived(named("flash-b17n16-dr-grpo")), {
      owners: 272,
      fewestGroups: 17,
      maxStaleness: 1,
      groupsAhead: 17,
      totalOwners: 81_600,
      gpus: { training: 8, generation: 24 }
    })
    assert.deepStrictEqual(derived(baseCompaction), {
      owners: 2,
      fewestGroups: 1,
      maxStaleness: 0,
      groupsAhead: 1,
      totalOwners: 2,
      gpus: undefined
    })
    assert.strictEqual(derived(named("standard")).fewestGroups, 29)
  })

  it("survive being written and read", () => {
    for (const recipe of recipes.values()) {
      const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(Recipe)(recipe)))
      assert.deepStrictEqual(Schema.decodeUnknownSync(Recipe)(json), recipe)
    }
  })

  it("are refused where they contradict themselves", () => {
    const told = (fields: object): string =>
      Either.match(Schema.decodeUnknownEither(Recipe)({ ...Schema.encodeSync(Recipe)(flash), ...fields }), {
        onLeft: ({ message }) => message,
        onRight: () => ""
      })
    assert.strictEqual(told({}), "")
    assert.include(told({ gate: { statistic: "binary_kl", min: 0.02, max: 0.01 } }), "the gate keeps nothing")
    assert.include(told({ loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.2 } }), "a gate goes with the loss on_policy")
    assert.include(told({ prompts: 16 }), "over the whole step")
    assert.include(told({ limits: { minGroups: 8, maxBuffered: 4 } }), "only 4 can be kept")
    assert.notStrictEqual(told({ generations: 0 }), "")
    assert.strictEqual(molt.gate?.min, 0.99)
  })
})
