import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Registry from "../../src/agents/Registry.js"
import { type AgentAsked, choose, print } from "../../src/cli/internal/agentChoice.js"
import { policyId } from "../../src/history/HistoryPolicy.js"
import { contractId } from "../../src/rollout/Contract.js"

const asked = (more: Partial<AgentAsked> = {}): AgentAsked => ({
  agent: "prompt",
  history: Option.none(),
  wireContract: Option.none(),
  contract: Option.none(),
  contractMode: "strict",
  maxSteps: 15,
  ...more
})

/** Writes a file into a folder that the test has for itself, and gives its path. */
const file = (content: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = `${yield* fs.makeTempDirectoryScoped()}/contract.json`
    yield* fs.writeFileString(path, content)
    return path
  })

const refused = (more: Partial<AgentAsked>) => Effect.map(Effect.flip(choose(asked(more))), ({ message }) => message)

const it_ = (name: string, test: Effect.Effect<void, unknown, FileSystem.FileSystem | Scope.Scope>) =>
  it.effect(name, () => Effect.orDie(Effect.scoped(test)).pipe(Effect.provide(NodeContext.layer)))

describe("the agent of a run", () => {
  it_(
    "has its own history policy, or the one that was asked for",
    Effect.gen(function* () {
      const own = yield* choose(asked())
      const other = yield* choose(asked({ history: Option.some("hysteresis:3,10") }))
      // osworld-gym.md section 3.6: the published id of hysteresis 3, 10.
      assert.strictEqual(
        other.contract.history_policy?.history_policy_id,
        "osworld-history-policy-df73e1447137486cb16fa3a6"
      )
      const { history_policy } = own.contract
      assert.isNotNull(history_policy)
      if (history_policy === null) return
      const { name, params, schema_version } = history_policy
      assert.strictEqual(history_policy.history_policy_id, policyId({ name, params, schema_version }))
      assert.notStrictEqual(contractId(own.contract), contractId(other.contract))
    })
  )

  for (const name of ["noop", ...Registry.names]) {
    it_(
      `has the steps of the run in its contract: ${name}`,
      Effect.gen(function* () {
        assert.strictEqual((yield* choose(asked({ agent: name, maxSteps: 33 }))).contract.max_steps, 33)
      })
    )

    it_(
      `is the same under the contract that it printed: ${name}`,
      Effect.gen(function* () {
        const { contract } = yield* choose(asked({ agent: name }))
        const path = yield* file(print(contract))
        const again = yield* choose(asked({ agent: name, contract: Option.some(path) }))
        assert.deepStrictEqual(
          Option.map(again.parity, ({ differences }) => differences),
          Option.some([])
        )
      })
    )
  }

  it_(
    "does not start where it must be another one, and says in what",
    Effect.gen(function* () {
      const { contract } = yield* choose(asked({ maxSteps: 100, history: Option.some("fixed:10") }))
      const path = yield* file(print(contract))
      const message = yield* refused({ contract: Option.some(path), history: Option.some("fixed:1") })
      assert.include(message, `this is not the agent of ${path}`)
      assert.include(message, "max_steps: 100 there, 15 here")
      assert.include(message, "history_policy.params.keep_images: 10 there, 1 here")
      assert.include(message, "--contract-mode declared")
    })
  )

  it_(
    "starts all the same where the differences are declared, and keeps them",
    Effect.gen(function* () {
      const training = yield* choose(asked({ maxSteps: 100 }))
      const path = yield* file(print(training.contract))
      const here = yield* choose(asked({ contract: Option.some(path), contractMode: "declared" }))
      assert.deepStrictEqual(
        here.parity,
        Option.some({
          mode: "declared" as const,
          training_contract_id: contractId(training.contract),
          evaluation_contract_id: contractId(here.contract),
          differences: [{ path: "max_steps", left: 100, right: 15 }]
        })
      )
    })
  )

  it_(
    "asks no model as noop, and takes nothing that is for one",
    Effect.gen(function* () {
      assert.isTrue(Option.isNone((yield* choose(asked({ agent: "noop" }))).layer))
      const message = yield* refused({ agent: "noop", history: Option.some("fixed:3") })
      assert.include(message, "--history")
    })
  )

  it_(
    "is refused by name: agents, policies, files",
    Effect.gen(function* () {
      const unknown = yield* refused({ agent: "promt" })
      for (const name of Registry.names) assert.include(unknown, name)
      assert.include(yield* refused({ history: Option.some("fixed") }), "fixed:IMAGES")
      assert.include(yield* refused({ contract: Option.some("/no/such.json") }), "/no/such.json")
      const broken = yield* file('{"schema_version": 1')
      assert.include(yield* refused({ contract: Option.some(broken) }), broken)
      const { contract } = yield* choose(asked())
      const excess = yield* file(JSON.stringify({ ...contract, more: 1 }))
      assert.include(yield* refused({ contract: Option.some(excess) }), "more")
      const float = yield* file(JSON.stringify({ ...contract, agent_options: { x: 2 ** 60 } }))
      assert.include(yield* refused({ contract: Option.some(float) }), "expected a smaller integer")
    })
  )

  it_(
    "takes the texts of its prompts from a file, and is another agent with them",
    Effect.gen(function* () {
      const path = yield* file(
        JSON.stringify({
          system_prompt_template: "Work on the desktop. The password is {password}.",
          instruction_template: "Do this: {instruction}",
          step_template: "Step {step}",
          text_history_template: "Step {step}: {action}",
          assistant_history_template: "{action}"
        })
      )
      const agent = "nano-omni"
      const own = yield* choose(asked({ agent }))
      const other = yield* choose(asked({ agent, wireContract: Option.some(path) }))
      assert.notStrictEqual(
        own.contract.model_protocol?.wire_contract_id,
        other.contract.model_protocol?.wire_contract_id
      )
      assert.include(yield* refused({ wireContract: Option.some(path) }), "wire")
    })
  )
})
