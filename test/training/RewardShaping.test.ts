import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { clip, overlong, scale, shape, stopProperly } from "../../src/training/RewardShaping.js"
import { left, right, vector } from "./dataFixture.js"
import { close } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Pair = Schema.Tuple(Schema.Number, Schema.Number)

describe("reward shaping", () => {
  it("is the published one (training-vectors.json `reward.overlong`; arXiv 2503.14476 equation 13)", () => {
    const { inputs, outputs } = vector(
      "reward.overlong",
      Schema.Struct({
        rewards: Numbers,
        lengths: Numbers,
        max_response_length: Schema.Number,
        overlong_buffer_length: Schema.Number,
        overlong_buffer_penalty: Schema.Number,
        truncated: Numbers,
        coef: Schema.Number,
        clip: Pair,
        raw: Numbers,
        scale: Schema.Struct({ source: Pair, target: Pair, values: Numbers })
      }),
      Schema.Struct({ overlong: Numbers, stop_properly: Numbers, clip: Numbers, scale: Numbers })
    )
    const options = {
      maxResponseLength: inputs.max_response_length,
      bufferLength: inputs.overlong_buffer_length,
      penalty: inputs.overlong_buffer_penalty
    }
    close(
      inputs.rewards.map((reward, at) => overlong(reward, inputs.lengths[at] ?? 0, options)),
      outputs.overlong
    )
    close(
      inputs.rewards.map((reward, at) => stopProperly(reward, inputs.truncated[at] === 1, inputs.coef)),
      outputs.stop_properly
    )
    close(
      inputs.raw.map((reward) => clip(reward, inputs.clip)),
      outputs.clip
    )
    close(
      inputs.scale.values.map((reward) => scale(reward, inputs.scale)),
      outputs.scale
    )
    close(right(shape({ overlong: options }, inputs.rewards, { length: inputs.lengths })), outputs.overlong)
    // All of it in its order: scaled, shortened, then clipped.
    const all = {
      scaling: { source: [0, 1], target: [0, 2] },
      overlong: options,
      stopProperly: inputs.coef,
      clip: [0, 1]
    } as const
    close(right(shape(all, inputs.rewards, { length: inputs.lengths, truncated: inputs.truncated })), [1, 1, 0, 0])
  })

  it("refuses facts that are missing and rewards that are no numbers", () => {
    const long = { overlong: { maxResponseLength: 10, bufferLength: 2, penalty: 1 } }
    assert.include(left(shape(long, [1, 2])).message, "none given and 2 owners")
    assert.include(left(shape({ stopProperly: 0 }, [1, 2], { truncated: [1] })).message, "1 given and 2 owners")
    for (const reward of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const error = left(shape({ clip: [0, 1] }, [0, reward]))
      assert.strictEqual(error.reason, "NotFinite")
      assert.strictEqual(error.owner, 1)
    }
  })
})
