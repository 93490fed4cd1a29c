import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { type Aggregation, countStep, promptLossWeights, rowWeights } from "../../src/training/Aggregation.js"
import { groupBy } from "../../src/training/StepColumns.js"
import { vector } from "./dataFixture.js"
import { close, near } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Strings = Schema.Array(Schema.String)

const aggregate = (
  aggregation: Aggregation,
  losses: ReadonlyArray<ReadonlyArray<number>>,
  prompts: ReadonlyArray<string>
): number => {
  const { group, groupIds } = groupBy(prompts)
  const tokens = Float64Array.from(losses, (row) => row.length)
  const weights = rowWeights(aggregation, tokens, group, countStep(tokens, group, groupIds.length))
  return losses.reduce((total, row, at) => total + (weights[at] ?? 0) * row.reduce((sum, loss) => sum + loss, 0), 0)
}

describe("aggregation", () => {
  it("gives prompts the published weights (training-vectors.json `agg.prompt_loss_weight`)", () => {
    const { inputs, outputs } = vector(
      "agg.prompt_loss_weight",
      Schema.Struct({ prompt: Strings, valid_tokens: Numbers }),
      Schema.Struct({ weights: Numbers, T: Schema.Number, P: Schema.Number, check_sum_w_tokens: Schema.Number })
    )
    const { group, groupIds } = groupBy(inputs.prompt)
    const counts = countStep(Float64Array.from(inputs.valid_tokens), group, groupIds.length)
    assert.strictEqual(counts.tokens, outputs.T)
    assert.strictEqual(counts.prompts, outputs.P)
    assert.deepStrictEqual(Array.from(counts.promptTokens), [8, 4, 0])
    const weights = promptLossWeights(group, counts)
    close(weights, outputs.weights)
    near(
      weights.reduce((sum, weight, row) => sum + weight * (inputs.valid_tokens[row] ?? 0), 0),
      outputs.check_sum_w_tokens
    )
  })

  it("is the published one in each mode, split or not (training-vectors.json `agg.modes`, `agg.segment_invariance`)", () => {
    for (const id of ["agg.modes", "agg.segment_invariance"]) {
      const { inputs, outputs } = vector(
        id,
        Schema.Struct({ token_losses: Schema.Array(Numbers), prompt: Strings }),
        Schema.Struct({
          token_mean: Schema.Number,
          seq_mean_token_mean: Schema.Number,
          seq_mean_token_sum: Schema.Number,
          seq_mean_token_sum_norm_L10: Schema.Number,
          prompt_mean_token_mean: Schema.Number
        })
      )
      for (const [aggregation, wanted] of [
        [{ name: "token-mean" }, outputs.token_mean],
        [{ name: "seq-mean-token-mean" }, outputs.seq_mean_token_mean],
        [{ name: "seq-mean-token-sum" }, outputs.seq_mean_token_sum],
        [{ name: "seq-mean-token-sum", constant: 10 }, outputs.seq_mean_token_sum_norm_L10],
        [{ name: "prompt-mean-token-mean" }, outputs.prompt_mean_token_mean]
      ] as const)
        near(aggregate(aggregation, inputs.token_losses, inputs.prompt), wanted, 1e-12, `${id} ${aggregation.name}`)
    }
  })

  it("of nothing is nothing", () => {
    for (const name of ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "prompt-mean-token-mean"] as const)
      assert.strictEqual(aggregate({ name }, [[], []], ["A", "B"]), 0)
  })
})
