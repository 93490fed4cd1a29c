import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import type { HistoryPolicy } from "../../src/history/HistoryPolicy.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import {
  AgentContract,
  compare,
  contractId,
  parity,
  describe as tell,
  withMaxSteps
} from "../../src/rollout/Contract.js"

const historyOf = (policy: HistoryPolicy["Type"]) => ({
  ...policy.config,
  history_policy_id: policy.id,
  supports_append_stable_intervals: policy.supportsAppendStableIntervals
})

/** The published agent, with the published id of its prompt texts in the place of the texts. */
const published: AgentContract = {
  schema_version: 1,
  runner: {
    name: "nemotron_v3_nano_omni_agent",
    kind: "nemotron_v3_nano_omni_agent",
    action_space: "pyautogui",
    observation_type: "screenshot",
    agent_class_path: "responses_api_agents.osworld_agent.adapter_agents.NemotronV3NanoOmniAgent",
    platform: "ubuntu",
    screen_size: [1920, 1080]
  },
  max_steps: 100,
  model_protocol: {
    schema_version: 1,
    protocol_id: "nano-omni-v3-osworld-v1",
    parser_id: "nemotron-v3-nano-omni-parser-v1",
    thinking: true,
    wire_contract_id: "osworld-model-wire-1059d01a59755ee9b4f5bb87"
  },
  history_policy: historyOf(FixedWindow.make({ keepImages: 3 })),
  agent_options: {
    coordinate_type: "relative",
    thinking: true,
    parse_retries: 5,
    parse_error_feedback: false,
    parse_retry_temperature: null,
    pre_done_checklist: false,
    repeated_action_warning_threshold: 0,
    repeated_action_window: 12
  }
}

describe("Contract.contractId", () => {
  // osworld-gym.md section 3.6.
  for (const [steps, id] of [
    [15, "0b810886c2d70210e87cfdec"],
    [30, "66f5479768e23c6df96510db"],
    [50, "566221f3e68521b4e029bf6d"],
    [100, "cb1698f34a75d3dbf5fd5063"],
    [200, "87e0e71de975a7368ac1bc07"]
  ] as const) {
    it(`is the published one for ${steps} steps`, () => {
      assert.strictEqual(contractId(withMaxSteps(published, steps)), `osworld-agent-contract-${id}`)
    })
  }

  it("is the same after a file", () => {
    const text = Schema.encodeSync(Schema.parseJson(AgentContract))(published)
    assert.strictEqual(contractId(Schema.decodeSync(Schema.parseJson(AgentContract))(text)), contractId(published))
  })
})

describe("Contract.compare", () => {
  const at = (left: AgentContract, right: AgentContract) => compare(left, right).map(({ path }) => path)

  it("finds nothing between a contract and itself", () => {
    assert.deepStrictEqual(compare(published, { ...published }), [])
  })

  it("names the place of each difference, and what is there", () => {
    const other: AgentContract = {
      ...published,
      max_steps: 15,
      runner: { ...published.runner, screen_size: [1280, 1080] },
      history_policy: historyOf(Hysteresis.make({ lowWater: 3, highWater: 10 })),
      agent_options: { ...published.agent_options, thinking: false, extra: [1] }
    }
    assert.deepStrictEqual(at(published, other), [
      "agent_options.extra",
      "agent_options.thinking",
      "history_policy.history_policy_id",
      "history_policy.name",
      "history_policy.params.high_water",
      "history_policy.params.keep_images",
      "history_policy.params.low_water",
      "history_policy.supports_append_stable_intervals",
      "max_steps",
      "runner.screen_size"
    ])
    const lines = compare(published, other).map((difference) => tell(difference, "in training", "here"))
    assert.include(lines, "max_steps: 100 in training, 15 here")
    assert.include(lines, "history_policy.params.low_water: nothing in training, 3 here")
    assert.include(lines, "runner.screen_size: [1920,1080] in training, [1280,1080] here")
  })

  it("compares a part that only one of them has as a whole", () => {
    assert.deepStrictEqual(at({ ...published, agent_options: null }, published), ["agent_options"])
  })

  it.prop(
    "finds a difference exactly where ids differ, and the same ones from the other side",
    { left: Arbitrary.make(AgentContract), right: Arbitrary.make(AgentContract) },
    ({ left, right }) => {
      assert.deepStrictEqual(compare(left, left), [])
      assert.strictEqual(compare(left, right).length === 0, contractId(left) === contractId(right))
      assert.deepStrictEqual(at(left, right), at(right, left))
    }
  )

  it("is kept with both ids in the manifest", () => {
    const other = withMaxSteps(published, 15)
    assert.deepStrictEqual(parity("declared", published, other), {
      mode: "declared",
      training_contract_id: contractId(published),
      evaluation_contract_id: contractId(other),
      differences: [{ path: "max_steps", left: 100, right: 15 }]
    })
  })
})
