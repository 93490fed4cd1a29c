import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Either from "effect/Either"
import { decide, type NoEvaluation } from "../../src/rollout/Admission.js"
import { Evaluation, reward } from "../../src/rollout/Evaluation.js"
import {
  AgentDone,
  AgentFail,
  EnvironmentDone,
  Infrastructure,
  MaxSteps,
  Termination
} from "../../src/rollout/Termination.js"

const evaluated = Either.right(new Evaluation({ score: 1, details: [] }))
const undecided = Either.left<NoEvaluation>({ reason: "evaluator_error", detail: "no gold file" })

describe("Admission.decide", () => {
  // The table of osworld-gym.md section 6.4.
  for (const termination of [new AgentDone(), new AgentFail(), new EnvironmentDone(), new MaxSteps()]) {
    it(`admits ${termination._tag} once it is evaluated`, () => {
      assert.strictEqual(decide({ termination, evaluation: evaluated })._tag, "Admitted")
      assert.deepStrictEqual(decide({ termination, evaluation: undecided }), {
        _tag: "Refused",
        reason: "evaluator_error",
        detail: "no gold file"
      })
    })
  }

  it.prop(
    "never admits what the infrastructure spoilt, whatever was scored",
    { termination: Arbitrary.make(Termination), evaluation: Arbitrary.make(Evaluation) },
    ({ termination, evaluation }) => {
      const admission = decide({ termination, evaluation: Either.right(evaluation) })
      assert.strictEqual(admission._tag, termination instanceof Infrastructure ? "Refused" : "Admitted")
    }
  )
})

describe("Evaluation.reward", () => {
  it("is the score, or 1 for a full score alone", () => {
    const of = (score: number) => new Evaluation({ score, details: [] })
    assert.deepStrictEqual(
      [0, 0.5, 1].map((score) => reward(of(score), "raw")),
      [0, 0.5, 1]
    )
    assert.deepStrictEqual(
      [0, 0.5, 0.999, 1].map((score) => reward(of(score), "binary")),
      [0, 0, 0, 1]
    )
  })
})
