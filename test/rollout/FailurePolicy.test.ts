import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as Admission from "../../src/rollout/Admission.js"
import {
  ClassPolicy,
  causeLength,
  classify,
  count,
  decide,
  type FailureClass,
  FailureClass as FailureClasses,
  FailurePolicy,
  mayTryAgain,
  once,
  standard,
  type Tally
} from "../../src/rollout/FailurePolicy.js"
import { Failed, Masked } from "../../src/rollout/Outcome.js"
import { AgentDone, Infrastructure } from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

const masked = (reason: string, detail = "so it was") =>
  new Masked({
    identity: Simulator.identity(),
    termination: new AgentDone(),
    steps: [],
    milliseconds: 1,
    reason,
    detail,
    evaluationCompleted: false
  })

const failures = (classes: ReadonlyArray<FailureClass>): Tally =>
  classes.reduce<Tally>((tally, each) => count(tally, { class: each }), {})

const classes = FailureClasses.literals

describe("FailurePolicy", () => {
  it("knows whose every reason to mask is", () => {
    // All kinds of `Infrastructure` and all reasons of `NoEvaluation`; a word that nobody knows is our own bug.
    const table: ReadonlyArray<readonly [string, FailureClass]> = [
      ["timeout", "infrastructure"],
      ["evidence_failed", "infrastructure"],
      ["model_timeout", "model"],
      ["model_call_failed", "model"],
      ["action_timeout", "environment"],
      ["environment_lost", "environment"],
      ["environment_failed", "environment"],
      ["evaluator_error", "evaluator"],
      ["evaluation_incomplete", "evaluator"],
      ["rollout_error", "defect"],
      ["rollout_state_incomplete", "defect"],
      ["toString", "defect"]
    ]
    for (const [reason, expected] of table) assert.strictEqual(classify(masked(reason)).class, expected, reason)
    const kinds = Infrastructure.fields.kind.literals.map((kind) => kind as string)
    assert.deepStrictEqual(
      kinds.filter((kind) => !table.some(([reason]) => reason === kind)),
      []
    )
  })

  it("takes the admission's word for a reason, and keeps no more of a cause than it says", () => {
    const verdict = Admission.verdict({ evaluationCompleted: false, environmentDone: false, horizonReached: false })
    assert.strictEqual(classify(masked(verdict.admissionReason)).class, "evaluator")
    assert.strictEqual(classify(masked("timeout", "x".repeat(causeLength + 5))).cause.length, causeLength)
    const task = new Failed({ identity: Simulator.identity(), fault: "task", detail: "no such file", milliseconds: 1 })
    assert.deepStrictEqual(classify(task), { class: "task", kind: "task", cause: "no such file" })
  })

  const failed = FastCheck.array(FastCheck.constantFrom(...classes), { minLength: 1, maxLength: 40 })

  it.prop(
    "retries no more often than either bound says, in a run and in all runs",
    { policy: Arbitrary.make(FailurePolicy), each: FastCheck.constantFrom(...classes), before: failed },
    ({ before, each, policy }) => {
      let inAll = failures(before)
      let inRun: Tally = {}
      const seen = { inRun: 0, inAll: inAll[each] ?? 0 }
      for (let attempt = 0; attempt < 200; attempt++) {
        inAll = count(inAll, { class: each })
        inRun = count(inRun, { class: each })
        seen.inRun += 1
        seen.inAll += 1
        const decision = decide(policy, { inRun, inAll }, { class: each })
        if (decision._tag === "GiveUp") {
          assert.strictEqual(decision.terminal, seen.inAll >= policy[each].inAll)
          assert.isTrue(decision.terminal || each === "cancelled" || seen.inRun >= policy[each].inRun)
          return
        }
        assert.notStrictEqual(each, "cancelled", "what was called off is not tried again by the same run")
        assert.isTrue(seen.inRun < policy[each].inRun && seen.inAll < policy[each].inAll)
        assert.isAtMost(decision.afterMilliseconds, policy[each].capMilliseconds)
      }
      assert.isAbove(Math.min(policy[each].inRun, policy[each].inAll - (failures(before)[each] ?? 0)), 200)
    }
  )

  it("waits a second, two, four, and no longer than a minute", () => {
    const waits = Array.from({ length: 8 }, (_, failure) => {
      const tally = failures(Array.from({ length: failure + 1 }, () => "model" as const))
      const many = new FailurePolicy({ ...standard, model: new ClassPolicy({ inRun: 99, inAll: 99 }) })
      const decision = decide(many, { inRun: tally, inAll: tally }, { class: "model" })
      return decision._tag === "Retry" ? decision.afterMilliseconds : undefined
    })
    assert.deepStrictEqual(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
  })

  it("does not try a task again that is wrong or that was called off, and anything else as often as it is told", () => {
    for (const policy of [standard, once]) {
      for (const each of ["task", "cancelled"] as const) assert.isFalse(mayTryAgain(policy, failures([each]), each))
      assert.isTrue(mayTryAgain(policy, failures(["unresolved", "unresolved"]), "unresolved"))
      assert.isFalse(mayTryAgain(policy, failures(["unresolved", "unresolved", "unresolved"]), "unresolved"))
    }
    assert.isTrue(mayTryAgain(once, failures(Array.from({ length: 50 }, () => "model" as const)), "model"))
    assert.isFalse(mayTryAgain(standard, failures(Array.from({ length: 6 }, () => "model" as const)), "model"))
  })
})
