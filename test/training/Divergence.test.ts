import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import {
  binaryKl,
  binaryTv,
  type KlEstimator,
  kl,
  klGradient,
  klPenalty,
  klPenaltyGradient
} from "../../src/training/Divergence.js"
import { vector } from "./dataFixture.js"
import { close, derivative, near, sameSlope } from "./objectiveFixture.js"

const Numbers = Schema.Array(Schema.Number)
const Pairs = Schema.Array(Schema.Tuple(Schema.Number, Schema.Number))
const logprob = FC.double({ min: -30, max: 0, noNaN: true })

describe("divergences of one token", () => {
  it("are the published ones (training-vectors.json `div.binary_kl.token`, 1e-11)", () => {
    const { inputs, outputs } = vector(
      "div.binary_kl.token",
      Schema.Struct({ pairs_gen_train_logprob: Pairs }),
      Schema.Struct({ binary_kl: Numbers, binary_tv: Numbers })
    )
    const pairs = inputs.pairs_gen_train_logprob
    close(
      pairs.map(([generation, trainer]) => binaryKl(generation, trainer)),
      outputs.binary_kl,
      1e-11
    )
    close(
      pairs.map(([generation, trainer]) => binaryTv(generation, trainer)),
      outputs.binary_tv
    )
  })

  it("are 0 for the same policy, never negative beyond rounding, and bounded (arXiv 2602.04879)", () => {
    FC.assert(
      FC.property(logprob, logprob, (generation, trainer) => {
        assert.strictEqual(binaryKl(generation, generation), 0)
        const divergence = binaryKl(generation, trainer)
        assert.isTrue(divergence >= -1e-15 && divergence < 13.8156, String(divergence))
        // Pinsker: TV^2 <= KL / 2, with what the clamp may hide.
        assert.isAtMost(binaryTv(generation, trainer) ** 2, divergence / 2 + 3e-6)
      })
    )
  })
})

describe("KL estimates", () => {
  it("are the published ones (training-vectors.json `kl.k123`)", () => {
    const { inputs, outputs } = vector(
      "kl.k123",
      Schema.Struct({ pairs_cur_ref: Pairs }),
      Schema.Struct({ k1: Numbers, k2: Numbers, k3: Numbers })
    )
    for (const estimator of ["k1", "k2", "k3"] as const)
      close(
        inputs.pairs_cur_ref.map(([current, reference]) => kl(estimator, current, reference)),
        outputs[estimator],
        1e-12,
        estimator
      )
  })

  it("have the derivative that central differences measure", () => {
    FC.assert(
      FC.property(
        FC.constantFrom<KlEstimator>("k1", "k2", "k3"),
        logprob,
        logprob,
        logprob,
        (estimator, current, reference, gen) => {
          const x = reference - current
          // Where a clamp begins there are two slopes.
          const kinks = [-20, 20, -10, 10, Math.sqrt(20), -Math.sqrt(20), 2.61087, 10.99998]
          FC.pre(kinks.every((kink) => Math.abs(Math.abs(x) - Math.abs(kink)) > 1e-3) && Math.abs(current - gen) < 3)
          sameSlope(
            klGradient(estimator, current, reference),
            derivative((at) => kl(estimator, at, reference), current, 1e-6)
          )
          sameSlope(
            klPenaltyGradient(estimator, current, reference, gen) / 10,
            derivative((at) => klPenalty(estimator, at, reference, gen) / 10, current, 1e-6)
          )
          near(klPenalty(estimator, current, reference, current), kl(estimator, current, reference))
        }
      )
    )
  })
})
