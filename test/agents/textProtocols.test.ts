import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import sharp from "sharp"
import { DesktopAgent } from "../../src/agents/DesktopAgent.js"
import * as OpenCUA from "../../src/agents/OpenCUA.js"
import type { Protocol } from "../../src/agents/Protocol.js"
import * as Qwen from "../../src/agents/Qwen.js"
import * as Registry from "../../src/agents/Registry.js"
import * as UITars from "../../src/agents/UITars.js"
import * as BuiltIn from "../../src/history/BuiltIn.js"
import type { ModelRequest } from "../../src/model/ModelClient.js"
import { Sampling } from "../../src/model/Sampling.js"
import { ModelCall } from "../../src/rollout/Agent.js"
import { contractId } from "../../src/rollout/Contract.js"
import { Observation } from "../../src/rollout/Environment.js"
import { identity, row } from "../rollout/simulator.js"
import { memory, model, picture, policy, reply } from "./support.js"

const screen = { width: 1920, height: 1080 }

const call = (use: object) => `<tool_call>${JSON.stringify({ name: "computer_use", arguments: use })}</tool_call>`
const code = (text: string) => `## Action:\nA\n## Code:\n\`\`\`python\n${text}\n\`\`\``

interface Case {
  readonly protocol: Protocol
  readonly layer: ReturnType<typeof UITars.layer>
  /** To click the middle of the screen, and to say that the task cannot be done. */
  readonly click: string
  readonly fail: string
  readonly picture: readonly [width: number, height: number]
  /** Of the call after one that could not be read, when the first one's is 0. */
  readonly hotter: number
}

const cases: ReadonlyArray<Case> = [
  {
    protocol: UITars.make(Schema.decodeSync(UITars.Options)({ call_user_tolerance: 0 })),
    layer: UITars.layer({ call_user_tolerance: 0 }, { screen, sampling: new Sampling({ temperature: 0 }) }),
    click: "Thought: x\nAction: click(start_box='(966,546)')",
    fail: "Action: call_user()",
    picture: [1932, 1092],
    hotter: 1
  },
  {
    protocol: Qwen.make("2.5")({}),
    layer: Qwen.layer("2.5", {}, { screen, sampling: new Sampling({ temperature: 0 }) }),
    click: call({ action: "left_click", coordinate: [966, 546] }),
    fail: call({ action: "terminate", status: "failure" }),
    picture: [1932, 1092],
    hotter: 0.2
  },
  {
    protocol: Qwen.make("3")({}),
    layer: Qwen.layer("3", {}, { screen, sampling: new Sampling({ temperature: 0 }) }),
    click: call({ action: "left_click", coordinate: [499.5, 499.5] }),
    fail: call({ action: "terminate", status: "failure" }),
    picture: [1920, 1088],
    hotter: 0.2
  },
  {
    protocol: OpenCUA.make(Schema.decodeSync(OpenCUA.Options)({})),
    layer: OpenCUA.layer({}, { screen, sampling: new Sampling({ temperature: 0 }) }),
    click: code("pyautogui.click(966, 546)"),
    fail: code("computer.terminate(status='failure')"),
    picture: [1932, 1092],
    hotter: 0.2
  },
  {
    protocol: OpenCUA.makeKimi(Schema.decodeSync(OpenCUA.KimiOptions)({})),
    layer: OpenCUA.layerKimi({}, { screen, sampling: new Sampling({ temperature: 0 }) }),
    click: code("pyautogui.click(0.5, 0.5)"),
    fail: code("computer.terminate(status='failure')"),
    picture: [1920, 1080],
    hotter: 0.2
  }
]

const play = ({ layer, protocol }: Case, answers: ReadonlyArray<string>, steps: number) =>
  Effect.gen(function* () {
    const asked: Array<ModelRequest> = []
    const calls: Array<ModelCall> = []
    const turns: Array<string> = []
    const store = memory()
    const history = Either.getOrThrow(BuiltIn.fromText(protocol.historyPolicy))
    const screenshot = yield* Effect.promise(() => picture(screen.width, screen.height))
    const agent = yield* Effect.gen(function* () {
      const agent = yield* DesktopAgent
      const session = yield* agent.open({
        row: row(),
        identity: identity(),
        record: (call) => Effect.sync(() => void calls.push(call))
      })
      for (let step = 0; step < steps; step++) {
        const observation = new Observation({ screenshot: store.put(screenshot, "image/png"), milliseconds: 1 })
        const { decisions, stop } = yield* session.decide(observation, step)
        turns.push(
          stop?.kind ??
            decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase())).join("; ")
        )
      }
      return agent
    }).pipe(
      Effect.scoped,
      Effect.provide(
        Layer.provide(layer, [
          model(
            answers.map((said) => reply(said)),
            asked
          ),
          policy(history),
          store.layer
        ])
      )
    )
    return { agent, asked, calls, turns, store }
  })

describe("text protocols in the loop", () => {
  for (const one of cases) {
    const { protocol } = one

    it.effect(
      `${protocol.name}: asks again, hotter, after a reply that it cannot read; clicks; and ends in a FAIL`,
      () =>
        Effect.gen(function* () {
          const played = yield* play(one, ["I do not know.", one.click, one.fail], 2)
          assert.deepStrictEqual(played.turns, ["pyautogui.click(960, 540)", "FAIL"])
          assert.deepStrictEqual(
            played.calls.map(({ parseAttempt, sampling, step }) => [step, parseAttempt, sampling.temperature]),
            [
              [0, 0, 0],
              [0, 1, one.hotter],
              [1, 0, 0]
            ]
          )
          const shown = played.asked
            .at(0)
            ?.messages.flatMap(({ content }) => content.filter((part) => part._tag === "ImagePart"))
          assert.lengthOf(shown ?? [], 1)
          for (const { blob } of shown ?? []) {
            const { height, width } = yield* Effect.promise(() => sharp(played.store.bytes(blob)).metadata())
            assert.deepStrictEqual([width, height], one.picture)
          }
          // From evidence, through JSON, the same prompts come out.
          const replay = Option.getOrThrow(
            Registry.replay({
              settings: JSON.parse(JSON.stringify(played.agent.settings)),
              contract: played.agent.contract,
              instruction: row().instruction,
              sampling: new Sampling({ temperature: 0 })
            })
          )
          for (const call of played.calls) {
            const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(ModelCall)(call)))
            const replayed = Either.getOrThrow(replay(Schema.decodeUnknownSync(ModelCall)(json)))
            assert.deepStrictEqual(replayed.messages, call.messages)
            assert.deepStrictEqual(replayed.read, call.result._tag === "Replied" ? call.result.read : undefined)
          }
        })
    )

    it.effect(`${protocol.name}: stops, and makes nothing up, when no reply can be read`, () =>
      Effect.gen(function* () {
        const { attempts } = protocol.retries
        const played = yield* play(
          one,
          Array.from({ length: attempts }, () => "I am done. FAIL DONE finished"),
          1
        )
        assert.deepStrictEqual(played.turns, ["model_response_unparseable"])
        assert.lengthOf(played.calls, attempts)
      })
    )
  }

  it.effect("are different contracts", () =>
    Effect.gen(function* () {
      const ids = yield* Effect.forEach(cases, (one) =>
        Effect.map(play(one, [], 0), ({ agent }) => contractId(agent.contract))
      )
      assert.strictEqual(new Set(ids).size, cases.length)
      const tars = (options: typeof UITars.Options.Encoded) =>
        UITars.make(Schema.decodeSync(UITars.Options)(options)).wire.contract
      assert.notDeepEqual(tars({ form: "v2" }), tars({}))
      assert.notDeepEqual(tars({ coordinates: "thousandths" }), tars({}))
    })
  )
})
