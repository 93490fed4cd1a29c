/** The agents with a computer tool, from the loop to the bytes on the wire of a stub server. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import sharp from "sharp"
import { DesktopAgent } from "../../src/agents/DesktopAgent.js"
import * as Registry from "../../src/agents/Registry.js"
import { clientOf } from "../../src/cli/internal/modelClient.js"
import * as BuiltIn from "../../src/history/BuiltIn.js"
import * as Connections from "../../src/model/Connections.js"
import { ModelCall } from "../../src/rollout/Agent.js"
import { Observation } from "../../src/rollout/Environment.js"
import { type Answer, json, quick, stub } from "../model/stub.js"
import { identity, row } from "../rollout/simulator.js"
import { memory, picture, policy } from "./support.js"

const screen = { width: 60, height: 30 }

const play = (agent: string, answers: ReadonlyArray<Answer>, options: { steps: number; history?: string }) =>
  Effect.gen(function* () {
    const { received, url } = yield* stub(...answers)
    const store = memory()
    const chosen = Either.getOrThrow(Registry.fromText(agent))
    const client = clientOf(chosen.protocol.dialect ?? "chat", { url, model: "m", retry: quick })
    const layer = Registry.layer(chosen, { screen }).pipe(
      Layer.provide(client),
      Layer.provide([
        policy(Either.getOrThrow(BuiltIn.fromText(options.history ?? chosen.protocol.historyPolicy))),
        store.layer,
        Connections.layer({})
      ])
    )
    const calls: Array<ModelCall> = []
    const turns: Array<string> = []
    return yield* Effect.gen(function* () {
      const made = yield* DesktopAgent
      const session = yield* made.open({
        row: row(),
        identity: identity(),
        record: (call) => Effect.sync(() => void calls.push(call))
      })
      for (let step = 0; step < options.steps; step++) {
        const box = { left: step, top: 0, width: 2, height: 2 }
        const png = yield* Effect.promise(() => picture(screen.width, screen.height, [box]))
        const observation = new Observation({ screenshot: store.put(png, "image/png"), milliseconds: 1 })
        const { decisions, stop } = yield* session.decide(observation, step)
        turns.push(
          stop === undefined
            ? decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag)).join("; ")
            : `${stop.kind}: ${stop.detail}`
        )
      }
      const replay = Option.getOrThrow(
        Registry.replay({
          settings: JSON.parse(JSON.stringify(made.settings)),
          contract: made.contract,
          instruction: row().instruction
        })
      )
      for (const call of calls) {
        // As evidence has it: through JSON.
        const read = Schema.decodeUnknownSync(ModelCall)(JSON.parse(JSON.stringify(Schema.encodeSync(ModelCall)(call))))
        assert.deepStrictEqual(Either.getOrThrow(replay(read)).messages, call.messages)
      }
      return { received, calls, turns }
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (inner, key) => (typeof inner === "object" && inner !== null ? Reflect.get(inner, key) : undefined),
    value
  )

const sizeOf = (base64: unknown) =>
  Effect.promise(async () => {
    const { height, width } = await sharp(Buffer.from(String(base64), "base64")).metadata()
    return { width, height }
  })

const claude = (...content: ReadonlyArray<unknown>) =>
  json({ id: "msg", type: "message", role: "assistant", model: "m", content, stop_reason: "tool_use", usage: {} })

const use = (id: string, input: unknown) => ({ type: "tool_use", id, name: "computer", input })

const openai = (...output: ReadonlyArray<unknown>) =>
  json({ id: "resp", object: "response", model: "m", status: "completed", output })

const click = { type: "click", button: "left", x: 10, y: 20 }

describe("Claude's computer use", () => {
  it.scopedLive("shows small pictures, sends thinking back as it came and answers each call", () =>
    Effect.gen(function* () {
      const { received, turns } = yield* play(
        "claude-computer-use:width=30,height=15",
        [
          claude(
            { type: "thinking", thinking: "hm", signature: "sig" },
            use("a", { action: "left_click", coordinate: [5, 10] }),
            use("b", { action: "type", text: "é" })
          ),
          claude(use("c", { action: "screenshot" })),
          claude({ type: "text", text: "It is done." })
        ],
        { steps: 3 }
      )
      assert.deepStrictEqual(turns, ["pyautogui.click(10, 20); pyautogui.write('\\xe9')", "Wait", "Done"])
      const [first, second, third] = received
      assert.strictEqual(first?.path, "/v1/messages")
      assert.strictEqual(first?.headers["anthropic-beta"], "computer-use-2025-11-24")
      assert.deepStrictEqual(first?.body["tools"], [
        { type: "computer_20251124", name: "computer", display_width_px: 30, display_height_px: 15 }
      ])
      const picture = at(first?.body, "messages", 0, "content", 1, "source", "data")
      assert.deepStrictEqual(yield* sizeOf(picture), { width: 30, height: 15 })
      assert.deepStrictEqual(at(second?.body, "messages", 1, "content", 0), {
        type: "thinking",
        thinking: "hm",
        signature: "sig"
      })
      assert.strictEqual(at(second?.body, "messages", 2, "content", 0, "tool_use_id"), "a")
      assert.strictEqual(at(second?.body, "messages", 2, "content", 1, "tool_use_id"), "b")
      const after = at(second?.body, "messages", 2, "content", 1, "content", 1, "source", "data")
      assert.deepStrictEqual(yield* sizeOf(after), { width: 30, height: 15 })
      // The third prompt is the second and more.
      assert.deepStrictEqual(at(third?.body, "messages", 0), at(second?.body, "messages", 0))
      assert.deepStrictEqual(at(third?.body, "messages", 2), at(second?.body, "messages", 2))
    })
  )

  it.scopedLive("asks again after what it cannot do, and stops where the model insists", () =>
    Effect.gen(function* () {
      const { calls, received, turns } = yield* play(
        "claude-computer-use",
        [claude(use("a", { action: "zoom", region: [0, 0, 1, 1] }))],
        { steps: 1 }
      )
      assert.lengthOf(calls, 3)
      assert.match(turns[0] ?? "", /^model_response_unparseable: the action zoom is not supported/)
      assert.strictEqual(at(received[1]?.body, "messages", 2, "content", 0, "tool_use_id"), "a")
    })
  )

  it.scopedLive("sums up under a policy that wants it, with no call left open", () =>
    Effect.gen(function* () {
      const { calls, received } = yield* play(
        "claude-computer-use",
        [
          claude(use("a", { action: "left_click" })),
          claude(use("b", { action: "left_click" })),
          claude({ type: "text", text: "I clicked twice." }),
          claude(use("c", { action: "left_click" }))
        ],
        { steps: 3, history: "compaction:1,2" }
      )
      assert.deepStrictEqual(
        calls.map(({ purpose }) => purpose),
        ["act", "act", "summary", "act"]
      )
      const asked = at(received[2]?.body, "messages", 3, "content")
      assert.deepStrictEqual(asked, [{ type: "text", text: '{"action":"left_click"}' }])
      assert.include(JSON.stringify(received[3]?.body["messages"]), "I clicked twice.")
    })
  )

  it.scopedLive("speaks of its toolset without a beta", () =>
    Effect.gen(function* () {
      const member = { type: "tool_use", id: "a", name: "left_click", toolset_name: "computer", input: {} }
      const { received, turns } = yield* play(
        "claude-computer-use:version=2026-08-01",
        [claude(member), claude({ type: "text", text: "[INFEASIBLE]" })],
        { steps: 2 }
      )
      assert.deepStrictEqual(turns, ["pyautogui.click()", "Fail"])
      assert.deepStrictEqual(received[0]?.body["tools"], [{ type: "computer_toolset_20260801" }])
      assert.notProperty(received[0]?.headers, "anthropic-beta")
      assert.deepStrictEqual(at(received[1]?.body, "messages", 1, "content", 0), member)
    })
  )
})

describe("OpenAI's computer use", () => {
  it.scopedLive("carries batches out and sends sealed reasoning, calls and screenshots back", () =>
    Effect.gen(function* () {
      const reasoning = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: "x" }
      const call = {
        id: "cu_1",
        type: "computer_call",
        call_id: "a",
        actions: [click, { type: "type", text: "b" }],
        pending_safety_checks: [],
        status: "completed"
      }
      const { received, turns } = yield* play(
        "openai-computer-use",
        [
          openai(reasoning, call),
          openai({
            id: "msg_1",
            type: "message",
            role: "assistant",
            content: [{ type: "output_text", text: "It cannot be done.", annotations: [] }]
          })
        ],
        { steps: 2 }
      )
      assert.deepStrictEqual(turns, ["pyautogui.click(10, 20); pyautogui.write('b')", "Fail"])
      const [first, second] = received
      assert.strictEqual(first?.path, "/v1/responses")
      assert.deepStrictEqual(first?.body["tools"], [{ type: "computer" }])
      assert.deepStrictEqual(first?.body["include"], ["reasoning.encrypted_content"])
      assert.notProperty(first?.body, "truncation")
      assert.deepStrictEqual(at(second?.body, "input", 2), reasoning)
      assert.deepStrictEqual(at(second?.body, "input", 3), call)
      assert.strictEqual(at(second?.body, "input", 4, "type"), "computer_call_output")
      assert.strictEqual(at(second?.body, "input", 4, "output", "detail"), "original")
      const image = String(at(second?.body, "input", 4, "output", "image_url"))
      assert.deepStrictEqual(yield* sizeOf(image.replace("data:image/png;base64,", "")), screen)
    })
  )

  it.scopedLive("is the preview by option, whose server may shorten the prompt", () =>
    Effect.gen(function* () {
      const call = { type: "computer_call", id: "cu_1", call_id: "a", action: click, pending_safety_checks: [] }
      const { received, turns } = yield* play("openai-computer-use:preview=true", [openai(call), openai(call)], {
        steps: 2
      })
      assert.deepStrictEqual(turns, ["pyautogui.click(10, 20)", "pyautogui.click(10, 20)"])
      assert.strictEqual(received[0]?.body["truncation"], "auto")
      assert.strictEqual(at(received[0]?.body, "tools", 0, "type"), "computer_use_preview")
      assert.strictEqual(at(received[1]?.body, "input", 3, "output", "type"), "input_image")
    })
  )

  it.scopedLive("stops at safety checks that nobody acknowledges, and does nothing of the call", () =>
    Effect.gen(function* () {
      const check = { id: "sc_1", code: "malicious_instructions", message: "Look." }
      const call = { type: "computer_call", id: "cu", call_id: "a", actions: [click], pending_safety_checks: [check] }
      const stopped = yield* play("openai-computer-use", [openai(call)], { steps: 1 })
      assert.match(stopped.turns[0] ?? "", /^model_response_unparseable: .*malicious_instructions: Look\./)
      const going = yield* play("openai-computer-use:acknowledge_safety_checks=true", [openai(call)], { steps: 2 })
      assert.deepStrictEqual(going.turns, ["pyautogui.click(10, 20)", "pyautogui.click(10, 20)"])
      assert.deepStrictEqual(at(going.received[1]?.body, "input", 3, "acknowledged_safety_checks"), [check])
    })
  )
})
