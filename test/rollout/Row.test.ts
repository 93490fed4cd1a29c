import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { contractId } from "../../src/rollout/Contract.js"
import { StepFacts } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { Failed, Masked, RolloutOutcome, Scored, Step, StepCalls, Unresolved } from "../../src/rollout/Outcome.js"
import * as Row from "../../src/rollout/Row.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import {
  AgentDone,
  AgentFail,
  EnvironmentDone,
  MaxSteps,
  PolicyStop,
  type Termination
} from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

const { contract, identity, row } = Simulator

const step = (index: number, calls?: StepCalls) =>
  new Step({
    step: index,
    text: `text ${index}`,
    actions: [`a${index}`],
    facts: [new StepFacts({ exitCode: 0, milliseconds: 2, done: false })],
    screenshot: "0".repeat(64),
    observeMilliseconds: 1,
    decideMilliseconds: 3,
    ...(calls === undefined ? {} : { calls })
  })

const scored = (termination: Termination, steps: ReadonlyArray<Step> = [step(0), step(1)]) =>
  new Scored({
    identity: identity(),
    termination,
    steps,
    milliseconds: 9,
    evaluation: new Evaluation({ score: 0.5, details: ["half"] }),
    reward: 0
  })

const masked = (reason: string, termination: Termination, evaluationCompleted: boolean) =>
  new Masked({
    identity: identity(),
    termination,
    steps: [step(0)],
    milliseconds: 9,
    reason,
    detail: "no gold",
    evaluationCompleted
  })

const about = { model: "served-model", contract }

/** As much of a row as is asserted on. */
const Read = Schema.Struct({
  response: Schema.Struct({ id: Schema.String, model: Schema.String, output: Schema.Array(Schema.Unknown) }),
  verifier_metadata: Schema.Struct({
    osworld_steps: Schema.Array(Schema.Struct({ done: Schema.Boolean, info: Schema.Unknown }))
  }).pipe(Schema.extend(Schema.Record({ key: Schema.String, value: Schema.Unknown })))
})

const read = (encoded: Row.Row) => Schema.decodeUnknownSync(Read)(encoded)

describe("Row.encode", () => {
  it("has the keys that trainers read", () => {
    const encoded = Row.encode(scored(new AgentDone()), row(), about)
    assert.deepInclude(encoded, {
      _ng_task_index: 0,
      _ng_rollout_index: 0,
      _ng_attempt_index: 0,
      _ng_rollout_id: "0-0",
      rollout_purpose: null,
      reward: 0,
      mask_sample: false,
      horizon_reached: false,
      evaluation_completed: true,
      runtime_eligible: true,
      runtime_admission_reason: "valid_evaluated_outcome",
      runtime_admission_policy_id: "osworld-runtime-admission-v1",
      identity_source: "derived"
    })
    assert.deepInclude(read(encoded).verifier_metadata, {
      task_id: "task-0",
      domain: "os",
      osworld_score: 0.5,
      osworld_finished: true,
      osworld_error: null,
      osworld_model_name: "served-model",
      osworld_termination_reason: "agent_done",
      osworld_terminal_action: "DONE",
      osworld_horizon_reached: false,
      osworld_evaluation_completed: true,
      osworld_runtime_eligible: true,
      osworld_runtime_admission_reason: "valid_evaluated_outcome",
      osworld_runtime_admission_policy_id: "osworld-runtime-admission-v1",
      osworld_agent_contract_id: contractId(contract),
      osworld_proxy_required: false,
      osworld_proxy_enabled: false,
      osworld_proxy_configured: false
    })
    assert.deepStrictEqual(encoded["response"], {
      id: "osworld-task-0",
      object: "response",
      created_at: 0,
      model: "served-model",
      output: [0, 1].map((index) => ({
        id: `msg-step-${index}`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", annotations: [], text: `text ${index}` }]
      })),
      parallel_tool_calls: true,
      tool_choice: "auto",
      tools: [],
      agent_contract: contract
    })
  })

  // osworld-gym.md section 6.2 and 3.2; what is finished here is a word of the agent's or of the environment's.
  const stop = new PolicyStop({ kind: "model_response_empty", attempts: 5, modelCallCompleted: true, detail: "" })
  for (const [termination, reason, finished, horizon, word] of [
    [new AgentDone(), "agent_done", true, false, "DONE"],
    [new AgentFail(), "agent_fail", true, false, "FAIL"],
    [new EnvironmentDone(), "environment_done", true, false, null],
    [new MaxSteps(), "max_steps", false, true, null],
    [stop, "model_response_empty", false, false, null]
  ] as const) {
    it(`tells of ${reason}`, () => {
      const encoded = Row.encode(scored(termination), row(), about)
      assert.deepInclude(encoded, { mask_sample: false, horizon_reached: horizon })
      const { osworld_steps, ...metadata } = read(encoded).verifier_metadata
      assert.deepInclude(metadata, {
        osworld_termination_reason: reason,
        osworld_finished: finished,
        osworld_horizon_reached: horizon,
        osworld_terminal_action: word
      })
      assert.deepStrictEqual(
        osworld_steps.map(({ done }) => done),
        [false, finished]
      )
    })
  }

  it("keeps both facts of an episode that was ended by the agent and could not be evaluated", () => {
    const encoded = Row.encode(masked("evaluator_error", new AgentDone(), false), row(), about)
    assert.deepInclude(encoded, { reward: null, mask_sample: true, runtime_admission_reason: "evaluator_error" })
    assert.deepInclude(read(encoded).verifier_metadata, {
      osworld_score: null,
      osworld_error: "no gold",
      osworld_termination_reason: "evaluator_error",
      osworld_terminal_action: "DONE"
    })
  })

  it("says of a spoilt episode whether it was evaluated and whether it reached the step cap", () => {
    assert.deepInclude(Row.encode(masked("evidence_failed", new MaxSteps(), true), row(), about), {
      evaluation_completed: true,
      horizon_reached: true,
      runtime_eligible: false
    })
  })

  it("has the empty response for an episode that did not take place", () => {
    const failed = new Failed({ identity: identity(), fault: "task", detail: "no such file", milliseconds: 1 })
    const encoded = Row.encode(failed, row(), about)
    assert.deepInclude(read(encoded).response, { id: "osworld-error", model: "", output: [] })
    assert.deepInclude(encoded, { reward: null, mask_sample: true, _ng_failure_class: "task" })
    assert.deepInclude(read(encoded).verifier_metadata, {
      osworld_error: "no such file",
      osworld_termination_reason: "rollout_error",
      osworld_finished: false
    })
    const cancelled = new Failed({ identity: identity(), fault: "cancelled", detail: "it was", milliseconds: 1 })
    assert.deepInclude(Row.encode(cancelled, row(), about), {
      reward: null,
      mask_sample: true,
      runtime_admission_reason: "cancelled",
      _ng_failure_class: "cancelled"
    })
    assert.deepInclude(read(Row.encode(cancelled, row(), about)).verifier_metadata, {
      osworld_termination_reason: "cancelled"
    })
    assert.deepInclude(read(Row.encode(new Unresolved({ identity: identity() }), row(), about)).verifier_metadata, {
      osworld_error: null,
      osworld_termination_reason: null
    })
  })

  it("tells of model calls in a step's info, and of trouble only where there was some", () => {
    const clean = new StepCalls({ count: 1, failures: {}, shrinks: [], action: "click" })
    const troubled = new StepCalls({
      count: 3,
      failures: { context_overflow: 1, unparseable: 1 },
      shrinks: [{ parseAttempt: 0, fromImages: 4, toImages: 3 }]
    })
    const encoded = Row.encode(scored(new AgentDone(), [step(0, clean), step(1, troubled), step(2)]), row(), about)
    assert.deepStrictEqual(
      read(encoded).verifier_metadata.osworld_steps.map(({ info }) => info),
      [
        { agent: { model_call_count: 1, action: "click" } },
        {
          agent: {
            model_call_count: 3,
            failure_kind_counts: { context_overflow: 1, unparseable: 1 },
            prompt_shrink_events: [{ parse_attempt: 0, from_images: 4, to_images: 3, reason: "context_overflow" }]
          }
        },
        {}
      ]
    )
  })

  it("forwards the names and the purpose that the row came with", () => {
    const trajectory = {
      schema_version: 1,
      rollout_id: "r",
      group_id: "g",
      task_id: "task-0",
      rollout_index: 4,
      attempt_index: 0
    } as const
    const named = new RolloutIdentity({ ...identity(), callerId: "step1.s2", trajectory })
    const encoded = Row.encode(
      new Scored({ ...scored(new AgentDone()), identity: named }),
      new TaskRow({ ...row(), rolloutId: "step1.s2", trajectory, purpose: "training" }),
      about
    )
    assert.deepInclude(encoded, {
      _ng_rollout_id: "step1.s2",
      trajectory_identity: trajectory,
      identity_source: "caller",
      rollout_purpose: "training"
    })
  })

  it("says that a task wants a proxy", () => {
    const wanting = new TaskRow({ ...row(), task: { proxy: true } })
    assert.deepInclude(read(Row.encode(scored(new AgentDone()), wanting, about)).verifier_metadata, {
      osworld_proxy_required: true
    })
  })

  // osworld-gym.md section 3.2: what the field's validators hold a row to.
  it.prop(
    "is eligible exactly where it is not masked, and then evaluated",
    { outcome: Arbitrary.make(RolloutOutcome) },
    ({ outcome }) => {
      const encoded = Row.encode(outcome, row(), about)
      assert.strictEqual(encoded.mask_sample, encoded["runtime_eligible"] !== true)
      assert.isTrue(encoded.mask_sample || encoded["evaluation_completed"] === true)
      assert.strictEqual(encoded.reward === null, encoded.mask_sample)
      if (outcome._tag !== "Masked") assert.notStrictEqual(encoded["runtime_admission_reason"], "")
    }
  )
})
