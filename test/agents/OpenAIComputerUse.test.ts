import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as OpenAIComputerUse from "../../src/agents/OpenAIComputerUse.js"
import * as OpenAIComputerUseReply from "../../src/agents/OpenAIComputerUseReply.js"
import * as BuiltIn from "../../src/history/BuiltIn.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import {
  type AssistantMessage,
  assistant,
  ComputerCallPart,
  type OutputPart,
  ReasoningPart,
  ReasoningSeal,
  ToolCallPart,
  text
} from "../../src/model/Conversation.js"
import * as Convert from "../../src/model/Convert.js"
import { ParseFailure } from "../../src/rollout/Agent.js"
import { check, computerReplies, type Fields } from "./computerCalls.js"
import { brokenPrefixes, episode, pictures, screen, turnOf, view } from "./views.js"

const read = (reply: AssistantMessage, acknowledge = false) =>
  OpenAIComputerUseReply.read(reply, { screen, acknowledge })

const commands = (reply: AssistantMessage, acknowledge = false) =>
  Either.match(read(reply, acknowledge), {
    onLeft: ({ kind }) => kind,
    onRight: ({ decisions }) => decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase()))
  })

const batch = (actions: ReadonlyArray<Fields>, callId = "c", safetyChecks: ReadonlyArray<Fields> = []) =>
  new ComputerCallPart({ callId, form: "actions", actions, safetyChecks })

const single = (action: Fields, callId = "c") =>
  new ComputerCallPart({ callId, form: "action", actions: [action], safetyChecks: [] })

describe("OpenAIComputerUseReply.read", () => {
  // The actions of the table in osworld-upstream.md 6.3, with the fields of the official client's types.
  for (const [action, expected] of [
    [{ type: "click", button: "left", x: 100, y: 200 }, ["pyautogui.click(100, 200)"]],
    [{ type: "click", button: "left", x: 100.6, y: 200, keys: null }, ["pyautogui.click(100, 200)"]],
    [{ type: "click", button: "right", x: 1, y: 2 }, ["pyautogui.click(1, 2, button='right')"]],
    [{ type: "click", button: "wheel", x: 1, y: 2 }, ["pyautogui.click(1, 2, button='middle')"]],
    [{ type: "click", button: "back", x: 1, y: 2 }, "unparseable"],
    [{ type: "click", x: 1, y: 2 }, "unparseable"],
    [{ type: "click", button: "left", x: 1920, y: 1080 }, ["pyautogui.click(1919, 1079)"]],
    [{ type: "click", button: "left", x: 1922, y: 2 }, "unparseable"],
    [{ type: "click", button: "left", x: -1, y: 2 }, "unparseable"],
    [{ type: "click", button: "left", x: "1", y: "2" }, "unparseable"],
    [
      { type: "click", button: "left", x: 1, y: 2, keys: ["CTRL", "SHIFT"] },
      [
        "pyautogui.keyDown('ctrl')\npyautogui.keyDown('shift')\npyautogui.click(1, 2)\npyautogui.keyUp('shift')\npyautogui.keyUp('ctrl')"
      ]
    ],
    [{ type: "click", button: "left", x: 1, y: 2, keys: ["nonsense"] }, "unparseable"],
    [{ type: "double_click", x: 1, y: 2, keys: null }, ["pyautogui.doubleClick(1, 2)"]],
    [{ type: "move", x: 1, y: 2 }, ["pyautogui.moveTo(1, 2)"]],
    [
      {
        type: "drag",
        path: [
          { x: 1, y: 2 },
          { x: 3, y: 4 },
          { x: 5, y: 6 }
        ]
      },
      [
        "pyautogui.moveTo(1, 2)\npyautogui.mouseDown()\npyautogui.moveTo(3, 4, duration=0.2)\npyautogui.moveTo(5, 6, duration=0.2)\npyautogui.mouseUp()"
      ]
    ],
    [{ type: "drag", path: [{ x: 1, y: 2 }] }, "unparseable"],
    [{ type: "drag", path: [] }, "unparseable"],
    // A hundred pixels a notch; down is positive there and negative here.
    [{ type: "scroll", x: 1, y: 2, scroll_x: 0, scroll_y: 300 }, ["pyautogui.scroll(-3, x=1, y=2)"]],
    [{ type: "scroll", x: 1, y: 2, scroll_x: 0, scroll_y: -20 }, ["pyautogui.scroll(1, x=1, y=2)"]],
    [
      { type: "scroll", x: 1, y: 2, scroll_x: 200, scroll_y: 100 },
      ["pyautogui.scroll(-1, x=1, y=2)\npyautogui.hscroll(2, x=1, y=2)"]
    ],
    [{ type: "scroll", x: 1, y: 2, scroll_x: 0, scroll_y: 0 }, "unparseable"],
    [{ type: "scroll", x: 1, y: 2, scroll_x: 0, scroll_y: 1e9 }, "unparseable"],
    [{ type: "keypress", keys: ["CTRL", "A"] }, ["pyautogui.hotkey('ctrl', 'a')"]],
    [{ type: "keypress", keys: ["ENTER"] }, ["pyautogui.press('enter')"]],
    [{ type: "keypress", keys: ["ARROWDOWN"] }, ["pyautogui.press('down')"]],
    [{ type: "keypress", keys: [] }, "unparseable"],
    [{ type: "keypress", keys: ["nonsense"] }, "unparseable"],
    [{ type: "type", text: "'); import os #\né" }, ["pyautogui.write('\\'); import os #\\n\\xe9')"]],
    [{ type: "type", text: "" }, "unparseable"],
    [{ type: "wait" }, ["WAIT"]],
    [{ type: "wait", ms: 500 }, ["WAIT"]],
    [{ type: "screenshot" }, ["WAIT"]],
    [{ type: "exec", command: "rm -rf /" }, "unparseable"],
    [{}, "unparseable"]
  ] as const) {
    it(JSON.stringify(action), () => {
      const commanded = typeof expected === "string" ? expected : [...expected]
      assert.deepStrictEqual(commands(assistant(single(action))), commanded)
      assert.deepStrictEqual(commands(assistant(batch([action]))), commanded)
    })
  }

  const click = { type: "click", button: "left", x: 1, y: 2 }
  const check = [{ id: "sc_1", code: "malicious_instructions", message: "Look at this." }]

  for (const [what, reply, expected] of [
    [
      "a batch",
      [batch([click, { type: "wait" }, { type: "screenshot" }, { type: "type", text: "a" }])],
      ["pyautogui.click(1, 2)", "WAIT", "pyautogui.write('a')"]
    ],
    ["a batch, one of which cannot be read", [batch([click, { type: "exec" }])], "unparseable"],
    ["a batch of nothing", [batch([])], "unparseable"],
    ["two calls", [batch([click]), batch([{ type: "wait" }], "d")], ["pyautogui.click(1, 2)", "WAIT"]],
    ["no call", [text("The file is open.")], ["DONE"]],
    ["the mark", [text("[INFEASIBLE] there is no such file")], ["FAIL"]],
    ["the mark beside a call", [text("[INFEASIBLE]"), batch([click])], ["FAIL"]],
    // OSWorld's words for it.
    ["infeasible", [text("This is Infeasible here.")], ["FAIL"]],
    ["unfeasible", [text("unfeasible")], ["FAIL"]],
    ["impossible", [text("That is impossible.")], ["FAIL"]],
    ["not feasible", [text("It is not feasible.")], ["FAIL"]],
    ["cannot be done", [text("This cannot be done.")], ["FAIL"]],
    ["a word beside a call", [text("It seems impossible, but I try."), batch([click])], ["pyautogui.click(1, 2)"]],
    ["a word in a thought", [new ReasoningPart({ text: "impossible" }), text("Done.")], ["DONE"]],
    ["a function", [batch([click]), new ToolCallPart({ callId: "d", name: "run", arguments: "{}" })], "unparseable"],
    ["safety checks", [batch([click], "c", check)], "unparseable"],
    ["safety checks of the second call", [batch([click]), batch([click], "d", check)], "unparseable"],
    ["nothing", [], "unparseable"]
  ] as const satisfies ReadonlyArray<readonly [string, ReadonlyArray<OutputPart>, unknown]>) {
    it(what, () => {
      assert.deepStrictEqual(commands(assistant(...reply)), typeof expected === "string" ? expected : [...expected])
    })
  }

  it("says what the safety checks are, and carries them out where they are acknowledged", () => {
    const reply = assistant(batch([click], "c", check))
    const failure = Either.getOrThrow(Either.flip(read(reply)))
    assert.include(failure.message, "malicious_instructions: Look at this.")
    assert.deepStrictEqual(commands(reply, true), ["pyautogui.click(1, 2)"])
  })
})

const good: ReadonlyArray<Fields> = [
  { type: "click", button: "left", x: 640, y: 360 },
  { type: "click", button: "right", x: 1, y: 2, keys: ["CTRL"] },
  { type: "click", button: "wheel", x: 3, y: 4, keys: null },
  { type: "double_click", x: 5, y: 6, keys: ["SHIFT"] },
  {
    type: "drag",
    path: [
      { x: 7, y: 8 },
      { x: 9, y: 10 },
      { x: 11, y: 12 }
    ]
  },
  { type: "keypress", keys: ["CTRL", "SHIFT", "T"] },
  { type: "keypress", keys: ["ENTER"] },
  { type: "move", x: 13, y: 14 },
  { type: "scroll", x: 15, y: 16, scroll_x: 0, scroll_y: 320 },
  { type: "scroll", x: 15, y: 16, scroll_x: -50, scroll_y: 0, keys: ["CTRL"] },
  { type: "type", text: 'it\'s "quoted"\r\nand é' },
  { type: "wait" },
  { type: "screenshot" }
]

const modified = ["click", "double_click", "drag", "move", "scroll"]

const rules = {
  name: "type",
  verbs: {
    click: ["click"],
    doubleClick: ["double_click"],
    moveTo: ["move", "drag"],
    mouseDown: ["drag"],
    mouseUp: ["drag"],
    scroll: ["scroll"],
    hscroll: ["scroll"],
    press: ["keypress"],
    hotkey: ["keypress"],
    keyDown: modified,
    keyUp: modified,
    write: ["type"]
  },
  across: (value: number) => Math.min(1919, Math.floor(value)),
  down: (value: number) => Math.min(1079, Math.floor(value)),
  notches: (value: number) => Math.max(1, Math.round(Math.abs(value) / 100)),
  refusals: ["infeasible", "unfeasible", "impossible", "not feasible", "cannot be done"]
}

describe("OpenAIComputerUseReply.read, fuzzed", () => {
  for (const [what, form] of [
    ["the preview", "action"],
    ["batches", "actions"]
  ] as const) {
    it(`throws never, and acts only as the calls say: 10,000 replies of ${what}`, () => {
      let acted = 0
      let refused = 0
      FastCheck.assert(
        FastCheck.property(computerReplies(good, form), FastCheck.boolean(), (reply, acknowledge) => {
          const result = read(reply, acknowledge)
          if (Either.isLeft(result)) {
            refused++
            return assert.notStrictEqual(result.left.message, "")
          }
          const acts = result.right.decisions.some(({ _tag }) => _tag === "Act")
          if (acts) acted++
          assert.isFalse(acts && !acknowledge && reply.computerCalls.some((call) => call.safetyChecks.length > 0))
          check(reply, result.right, rules)
        }),
        { numRuns: 10_000 }
      )
      // Otherwise the property would say nothing.
      assert.isAbove(acted, 1000)
      assert.isAbove(refused, 1000)
    })
  }

  it("is done with long replies at once", () => {
    const started = performance.now()
    for (const words of ["[INFEASIBLE", "not feasibl", "in", "+ "]) {
      const long = words.repeat(20_000)
      read(assistant(text(long)))
      read(assistant(single({ type: "type", text: long })))
      read(assistant(single({ type: "keypress", keys: [long] })))
    }
    read(assistant(batch(Array.from({ length: 20_000 }, () => ({ type: "wait" })))))
    assert.isBelow(performance.now() - started, 5000)
  })
})

describe("OpenAI prompts", () => {
  const protocol = OpenAIComputerUse.make({})
  const seal = new ReasoningSeal({ kind: "encrypted", value: "x", id: "rs_1" })
  const replies = Array.from({ length: 6 }, (_, turn) =>
    assistant(
      new ReasoningPart({ text: "", seal }),
      text(`Click ${turn}.`),
      batch([{ type: "click", button: "left", x: turn, y: 2 }], `c${turn}`)
    )
  )
  const own = Either.getOrThrow(BuiltIn.fromText(protocol.historyPolicy))

  it("shows all turns and pictures, its reasoning as it came", () => {
    const last = episode(protocol, own, replies).at(-1)?.messages ?? []
    assert.deepStrictEqual(pictures(last), [0, 1, 2, 3, 4, 5, 6])
    assert.deepStrictEqual(last.slice(1), [
      "user: The task: Open the file|[0]",
      ...replies.flatMap((_, turn) => [`assistant: ()|Click ${turn}.|ComputerCallPart`, `tool: [${turn + 1}]`])
    ])
  })

  it("tells a turn in words whose screenshot its history policy leaves out", () => {
    const last = episode(protocol, FixedWindow.make({ keepImages: 3 }), replies).at(-1)?.messages ?? []
    assert.deepStrictEqual(last.slice(1), [
      "user: The task: Open the file",
      ...[0, 1, 2].map((turn) => `assistant: Click ${turn}.\n{"type":"click","button":"left","x":${turn},"y":2}`),
      ...[3, 4, 5].flatMap((turn) => [`assistant: ()|Click ${turn}.|ComputerCallPart`, `tool: [${turn + 1}]`])
    ])
  })

  it("only adds to a prompt until its history policy breaks it", () => {
    for (const policy of [own, Hysteresis.make({ lowWater: 2, highWater: 4 })]) {
      assert.deepStrictEqual(brokenPrefixes(episode(protocol, policy, replies)), [])
    }
  })

  const wireOf = (options: OpenAIComputerUse.Options, replies: ReadonlyArray<AssistantMessage>) => {
    const made = OpenAIComputerUse.make(options)
    const turns = replies.map((message, number) => turnOf(made, number, message))
    const messages = made.render(view(turns, () => true))
    return {
      items: Either.getOrThrow(Convert.toResponsesInput(messages, { image: () => "data:image/png;base64,AQ==" })),
      tools: Either.getOrThrow(Convert.toResponsesTools(made.tools?.(screen) ?? []))
    }
  }

  it("answers each call on the wire of its generation, checks acknowledged only by the option", () => {
    const check = [{ id: "sc_1" }]
    const checked = assistant(batch([{ type: "wait" }], "a", check), batch([{ type: "wait" }], "b"))
    const screenshot = { type: "computer_screenshot", image_url: "data:image/png;base64,AQ==", detail: "original" }
    const { items, tools } = wireOf({ acknowledge_safety_checks: true }, [checked])
    assert.deepStrictEqual(tools, [{ type: "computer" }])
    assert.deepStrictEqual(items.slice(4), [
      { type: "computer_call_output", call_id: "a", acknowledged_safety_checks: check, output: screenshot },
      { type: "computer_call_output", call_id: "b", output: screenshot }
    ])
    const preview = wireOf({ preview: true }, [assistant(single({ type: "wait" }, "a"))])
    assert.deepStrictEqual(preview.tools, [
      { type: "computer_use_preview", display_width: 1920, display_height: 1080, environment: "linux" }
    ])
    assert.deepStrictEqual(preview.items.slice(3), [
      {
        type: "computer_call_output",
        call_id: "a",
        output: { type: "input_image", image_url: "data:image/png;base64,AQ==" }
      }
    ])
  })

  it("asks again after a reply that cannot be read, without a call that nobody answers", () => {
    const failure = new ParseFailure({ kind: "unparseable", message: "exec is unknown" })
    for (const reply of [assistant(batch([{ type: "exec" }])), assistant(text("hm")), assistant()]) {
      const more = protocol.retries.feedback?.(failure, reply) ?? []
      const sent = JSON.stringify(Either.getOrThrow(Convert.toResponsesInput(more, { image: () => "" })))
      assert.include(sent, "exec is unknown")
      assert.notInclude(sent, '"computer_call"')
    }
  })
})
