import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import {
  decide,
  type NoEvaluation,
  RunnerFacts,
  runnerFacts,
  type Verdict,
  verdict
} from "../../src/rollout/Admission.js"
import { Evaluation, reward } from "../../src/rollout/Evaluation.js"
import {
  AgentDone,
  AgentFail,
  EnvironmentDone,
  finished,
  horizonReached,
  Infrastructure,
  MaxSteps,
  PolicyStop,
  Termination
} from "../../src/rollout/Termination.js"

const evaluated = Either.right(new Evaluation({ score: 1, details: [] }))
const none = (reason: NoEvaluation["reason"]) => Either.left<NoEvaluation>({ reason, detail: `it was ${reason}` })
const spoilt = (kind: Infrastructure["kind"]) => new Infrastructure({ kind, detail: `it was ${kind}` })
const stopped = (kind: PolicyStop["kind"], modelCallCompleted = true) =>
  new PolicyStop({ kind, attempts: 5, modelCallCompleted, detail: "no Code section" })

const admitted = "valid_evaluated_outcome"

describe("Admission.verdict", () => {
  const clean: RunnerFacts = { evaluationCompleted: true, environmentDone: false, horizonReached: false }

  // Every row of the table in osworld-gym.md section 6.4: condition, termination reason, eligible, admission reason.
  const table: ReadonlyArray<readonly [string, RunnerFacts, string, boolean, string]> = [
    [
      "1: an infrastructure reason",
      { ...clean, infrastructureFailure: "action_timeout" },
      "action_timeout",
      false,
      "action_timeout"
    ],
    [
      "1: the same with everything else as it should be",
      { ...clean, infrastructureFailure: "timeout", terminalAction: "DONE" },
      "timeout",
      false,
      "timeout"
    ],
    [
      "1: the same without an evaluation",
      { ...clean, evaluationCompleted: false, infrastructureFailure: "timeout" },
      "timeout",
      false,
      "timeout"
    ],
    [
      "2: not evaluated",
      { ...clean, evaluationCompleted: false },
      "evaluation_incomplete",
      false,
      "evaluation_incomplete"
    ],
    [
      "2: not evaluated, at the step cap",
      { ...clean, evaluationCompleted: false, horizonReached: true },
      "evaluation_incomplete",
      false,
      "evaluation_incomplete"
    ],
    ...(
      [
        "model_response_unparseable",
        "model_output_truncated",
        "model_response_empty",
        "model_context_overflow"
      ] as const
    ).map((kind) => [`3: ${kind}`, { ...clean, policyStop: kind }, kind, true, admitted] as const),
    ["4: DONE", { ...clean, terminalAction: "DONE" }, "agent_done", true, admitted],
    ["4: FAIL", { ...clean, terminalAction: "FAIL" }, "agent_fail", true, admitted],
    [
      "4: DONE, before the environment's word",
      { ...clean, terminalAction: "DONE", environmentDone: true },
      "agent_done",
      true,
      admitted
    ],
    ["5: the environment's word", { ...clean, environmentDone: true }, "environment_done", true, admitted],
    ["6: the step cap", { ...clean, horizonReached: true }, "max_steps", true, admitted],
    ["7: none of them", clean, "rollout_state_incomplete", false, "rollout_state_incomplete"]
  ]
  for (const [name, facts, terminationReason, eligible, admissionReason] of table) {
    it(name, () => {
      assert.isTrue(Schema.is(RunnerFacts)(facts), "facts that contradict each other show nothing")
      assert.deepStrictEqual(verdict(facts), { terminationReason, eligible, admissionReason })
    })
  }

  it.prop(
    "eligible implies evaluated, and gives a reason in every case",
    { facts: Arbitrary.make(RunnerFacts) },
    ({ facts }) => {
      const { admissionReason, eligible, terminationReason } = verdict(facts)
      assert.isTrue(!eligible || facts.evaluationCompleted)
      assert.notStrictEqual(admissionReason.trim(), "")
      assert.notStrictEqual(terminationReason.trim(), "")
      assert.strictEqual(eligible, admissionReason === admitted)
    }
  )

  // osworld-gym.md section 6.4: what is no set of facts.
  const refused: ReadonlyArray<readonly [string, unknown]> = [
    ["the step cap and a word of the agent", { ...clean, horizonReached: true, terminalAction: "DONE" }],
    ["the step cap and the environment's word", { ...clean, horizonReached: true, environmentDone: true }],
    ["the step cap and a policy that stopped", { ...clean, horizonReached: true, policyStop: "model_response_empty" }],
    [
      "a policy that stopped and a word of the agent",
      { ...clean, policyStop: "model_response_empty", terminalAction: "FAIL" }
    ],
    [
      "a policy that stopped and the environment's word",
      { ...clean, policyStop: "model_response_empty", environmentDone: true }
    ],
    ["a number for a truth value", { ...clean, horizonReached: 1 }],
    ["a blank reason", { ...clean, infrastructureFailure: " " }],
    ["another terminal action", { ...clean, terminalAction: "WAIT" }],
    ["another stop", { ...clean, policyStop: "bored" }]
  ]
  for (const [name, facts] of refused) {
    it(`is not asked about ${name}`, () => {
      assert.isFalse(Schema.is(RunnerFacts)(facts))
    })
  }
})

describe("Admission.decide", () => {
  interface Expected extends Omit<Verdict, "admissionReason"> {
    readonly finished: boolean
  }

  // osworld-gym.md section 6.2, with two rows turned over: the step cap and a policy without a readable reply are facts of
  // the agent, to which nothing is added (section 6.4), so they are no FAIL and are not masked. Rows about setup and about
  // proxies are failures before an episode.
  const table: ReadonlyArray<
    readonly [string, Termination, Either.Either<Evaluation, NoEvaluation>, string, boolean, boolean]
  > = [
    ["model DONE", new AgentDone(), evaluated, "agent_done", true, true],
    ["model FAIL", new AgentFail(), evaluated, "agent_fail", true, true],
    ["environment done without a word", new EnvironmentDone(), evaluated, "environment_done", true, true],
    ["the step cap", new MaxSteps(), evaluated, "max_steps", true, false],
    [
      "parse retries exhausted",
      stopped("model_response_unparseable"),
      evaluated,
      "model_response_unparseable",
      true,
      false
    ],
    [
      "transport retries exhausted",
      stopped("model_response_empty", false),
      evaluated,
      "model_call_failed",
      false,
      false
    ],
    [
      "an overflow that the server refused",
      stopped("model_context_overflow", false),
      evaluated,
      "model_call_failed",
      false,
      false
    ],
    ["the attempt's time is over", spoilt("timeout"), none("evaluation_incomplete"), "timeout", false, false],
    ["the attempt's time is over, and it was evaluated", spoilt("timeout"), evaluated, "timeout", false, false],
    [
      "a model exception",
      spoilt("model_call_failed"),
      none("evaluation_incomplete"),
      "model_call_failed",
      false,
      false
    ],
    [
      "a step exception",
      spoilt("environment_failed"),
      none("evaluation_incomplete"),
      "environment_failed",
      false,
      false
    ],
    ["an evaluator exception after DONE", new AgentDone(), none("evaluator_error"), "evaluator_error", false, true],
    [
      "an evaluator exception at the step cap",
      new MaxSteps(),
      none("evaluator_error"),
      "evaluator_error",
      false,
      false
    ],
    ["time over in the evaluation", new AgentDone(), none("timeout"), "timeout", false, true],
    [
      "an environment lost in the evaluation",
      new AgentDone(),
      none("environment_lost"),
      "environment_lost",
      false,
      true
    ],
    ["no evaluation", new AgentDone(), none("evaluation_incomplete"), "evaluation_incomplete", false, true],
    ["any other exception", spoilt("rollout_error"), none("evaluation_incomplete"), "rollout_error", false, false]
  ]
  for (const [name, termination, evaluation, reason, eligible, isFinished] of table) {
    it(name, () => {
      const facts = { termination, evaluation }
      const found = verdict(runnerFacts(facts))
      const expected: Expected = { terminationReason: reason, eligible, finished: isFinished }
      assert.deepStrictEqual(
        { terminationReason: found.terminationReason, eligible: found.eligible, finished: finished(termination) },
        expected
      )
      const admission = decide(facts)
      assert.strictEqual(admission._tag, eligible ? "Admitted" : "Refused")
      assert.strictEqual(admission.reason, eligible ? admitted : reason)
    })
  }

  // osworld-gym.md section 6.4: timeout > model_timeout, action_timeout > evaluator_error > model_call_failed > rollout_error.
  for (const [termination, evaluation, first] of [
    [spoilt("rollout_error"), "timeout", "timeout"],
    [spoilt("model_timeout"), "timeout", "timeout"],
    [spoilt("action_timeout"), "evaluator_error", "action_timeout"],
    [spoilt("model_timeout"), "evaluator_error", "model_timeout"],
    [spoilt("model_call_failed"), "evaluator_error", "evaluator_error"],
    [stopped("model_response_empty", false), "evaluator_error", "evaluator_error"],
    [spoilt("rollout_error"), "evaluator_error", "evaluator_error"]
  ] as const) {
    it(`names ${first} where ${termination.kind} and ${evaluation} came together, with its detail`, () => {
      assert.deepStrictEqual(decide({ termination, evaluation: none(evaluation) }), {
        _tag: "Refused",
        reason: first,
        detail: `it was ${first}`,
        evaluationCompleted: false
      })
    })
  }

  it.prop(
    "never admits what the infrastructure spoilt, whatever was scored",
    { termination: Arbitrary.make(Termination), evaluation: Arbitrary.make(Evaluation) },
    ({ termination, evaluation }) => {
      const admission = decide({ termination, evaluation: Either.right(evaluation) })
      const failed =
        termination._tag === "Infrastructure" || (termination._tag === "PolicyStop" && !termination.modelCallCompleted)
      assert.strictEqual(admission._tag, failed ? "Refused" : "Admitted")
    }
  )

  it.prop(
    "makes facts that do not contradict each other, of which at most one is the end",
    { termination: Arbitrary.make(Termination) },
    ({ termination }) => {
      const facts = runnerFacts({ termination, evaluation: evaluated })
      assert.isTrue(Schema.is(RunnerFacts)(facts))
      assert.strictEqual(facts.horizonReached, horizonReached(termination))
      assert.notStrictEqual(verdict(facts).terminationReason, "rollout_state_incomplete")
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
