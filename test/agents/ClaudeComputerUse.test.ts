import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as ClaudeComputerUse from "../../src/agents/ClaudeComputerUse.js"
import * as ClaudeComputerUseReply from "../../src/agents/ClaudeComputerUseReply.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import {
  type AssistantMessage,
  assistant,
  ComputerCallPart,
  type OutputPart,
  ReasoningPart,
  ToolCallPart,
  text
} from "../../src/model/Conversation.js"
import * as ConvertMessages from "../../src/model/ConvertMessages.js"
import { ParseFailure } from "../../src/rollout/Agent.js"
import { check, computerReplies, type Fields } from "./computerCalls.js"
import { brokenPrefixes, episode, pictures, screen, view } from "./views.js"

const space = { width: 1280, height: 720 }

const read = (reply: AssistantMessage) => ClaudeComputerUseReply.read(reply, { screen, space })

const commands = (reply: AssistantMessage) =>
  Either.match(read(reply), {
    onLeft: ({ kind }) => kind,
    onRight: ({ decisions }) => decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase()))
  })

const call = (action: Fields, callId = "c") =>
  new ComputerCallPart({ callId, form: "action", actions: [action], safetyChecks: [] })

describe("ClaudeComputerUseReply.read", () => {
  // The actions of the table in osworld-upstream.md 6.3 and of Anthropic's guide. 1280 by 720 is two thirds of the screen.
  for (const [action, expected] of [
    [{ action: "left_click", coordinate: [640, 360] }, ["pyautogui.click(960, 540)"]],
    [{ action: "left_click", coordinate: [1279, 719] }, ["pyautogui.click(1918, 1078)"]],
    [{ action: "left_click", coordinate: [1280, 720] }, ["pyautogui.click(1919, 1079)"]],
    [{ action: "left_click", coordinate: [1290, 2] }, "unparseable"],
    [{ action: "left_click", coordinate: [-1, 2] }, "unparseable"],
    [{ action: "left_click", coordinate: null }, ["pyautogui.click()"]],
    [{ action: "left_click" }, ["pyautogui.click()"]],
    [
      { action: "left_click", coordinate: [0, 0], text: "ctrl+shift" },
      [
        "pyautogui.keyDown('ctrl')\npyautogui.keyDown('shift')\npyautogui.click(0, 0)\npyautogui.keyUp('shift')\npyautogui.keyUp('ctrl')"
      ]
    ],
    [{ action: "left_click", coordinate: [0, 0], text: "nonsense" }, "unparseable"],
    [{ action: "right_click", coordinate: [2, 2] }, ["pyautogui.click(3, 3, button='right')"]],
    [{ action: "middle_click", coordinate: [2, 2] }, ["pyautogui.click(3, 3, button='middle')"]],
    [{ action: "double_click", coordinate: [2, 2] }, ["pyautogui.doubleClick(3, 3)"]],
    [{ action: "triple_click", coordinate: [2, 2] }, ["pyautogui.tripleClick(3, 3)"]],
    [{ action: "mouse_move", coordinate: [2, 2] }, ["pyautogui.moveTo(3, 3)"]],
    [{ action: "mouse_move" }, "unparseable"],
    [
      { action: "left_click_drag", start_coordinate: [0, 0], coordinate: [2, 2] },
      ["pyautogui.moveTo(0, 0)\npyautogui.dragTo(3, 3, duration=0.5, button='left')"]
    ],
    [{ action: "left_click_drag", coordinate: [2, 2] }, ["pyautogui.dragTo(3, 3, duration=0.5, button='left')"]],
    [{ action: "left_mouse_down" }, ["pyautogui.mouseDown()"]],
    [{ action: "left_mouse_up" }, ["pyautogui.mouseUp()"]],
    [{ action: "key", text: "Return" }, ["pyautogui.press('enter')"]],
    [{ action: "key", text: "ctrl+s" }, ["pyautogui.hotkey('ctrl', 's')"]],
    [
      { action: "key", text: "Down Down ctrl+a" },
      ["pyautogui.press('down')\npyautogui.press('down')\npyautogui.hotkey('ctrl', 'a')"]
    ],
    [{ action: "key", text: " " }, ["pyautogui.press('space')"]],
    [{ action: "key", text: "nonsense" }, "unparseable"],
    // Upstream never lets go of it.
    [
      { action: "hold_key", text: "shift", duration: 1.5 },
      ["pyautogui.keyDown('shift')\ntime.sleep(1.5)\npyautogui.keyUp('shift')"]
    ],
    [{ action: "hold_key", text: "shift", duration: 1e9 }, "unparseable"],
    [{ action: "hold_key", text: "shift" }, "unparseable"],
    [{ action: "type", text: "it's\n<é>" }, ["pyautogui.write('it\\'s\\n<\\xe9>')"]],
    [{ action: "type", text: "" }, "unparseable"],
    [
      { action: "scroll", coordinate: [2, 2], scroll_direction: "down", scroll_amount: 5 },
      ["pyautogui.scroll(-5, x=3, y=3)"]
    ],
    [{ action: "scroll", scroll_direction: "right", scroll_amount: 3 }, ["pyautogui.hscroll(3)"]],
    [
      { action: "scroll", scroll_direction: "up", scroll_amount: 1, text: "ctrl" },
      ["pyautogui.keyDown('ctrl')\npyautogui.scroll(1)\npyautogui.keyUp('ctrl')"]
    ],
    [{ action: "scroll", scroll_direction: "down", scroll_amount: 0 }, "unparseable"],
    [{ action: "scroll", scroll_direction: "away", scroll_amount: 1 }, "unparseable"],
    [{ action: "wait", duration: 2 }, ["WAIT"]],
    [{ action: "screenshot" }, ["WAIT"]],
    [{ action: "zoom", region: [0, 0, 10, 10] }, "unparseable"],
    [{ action: "cursor_position" }, "unparseable"],
    [{ action: "nonsense" }, "unparseable"],
    [{}, "unparseable"]
  ] as const) {
    it(JSON.stringify(action), () => {
      assert.deepStrictEqual(commands(assistant(call(action))), typeof expected === "string" ? expected : [...expected])
    })
  }

  const click = call({ action: "left_click" })

  for (const [what, reply, expected] of [
    [
      "several calls",
      [click, call({ action: "screenshot" }, "d"), call({ action: "wait" }, "e")],
      ["pyautogui.click()", "WAIT"]
    ],
    ["several calls, one of which cannot be read", [click, call({ action: "zoom" }, "d")], "unparseable"],
    ["a call of the toolset", [new ComputerCallPart({ ...click, form: "member" })], ["pyautogui.click()"]],
    ["no call", [text("The file is open.")], ["DONE"]],
    // OSWorld takes words of refusal from OpenAI's models alone.
    ["no call and a word", [text("It was not impossible.")], ["DONE"]],
    ["the mark", [text("[INFEASIBLE] there is no such file")], ["FAIL"]],
    ["the mark beside a call", [text("[INFEASIBLE]"), click], ["FAIL"]],
    ["the mark in a thought", [new ReasoningPart({ text: "[INFEASIBLE]?" }), click], ["pyautogui.click()"]],
    ["another tool", [click, new ToolCallPart({ callId: "d", name: "bash", arguments: "{}" })], "unparseable"],
    ["nothing", [], "unparseable"],
    ["a thought alone", [new ReasoningPart({ text: "hm" })], "unparseable"]
  ] as const satisfies ReadonlyArray<readonly [string, ReadonlyArray<OutputPart>, unknown]>) {
    it(what, () => {
      assert.deepStrictEqual(commands(assistant(...reply)), typeof expected === "string" ? expected : [...expected])
    })
  }
})

describe("what the model is told of an action that cannot be read", () => {
  for (const [action, words] of [
    [{ action: "mouse_move" }, "an action cannot be read: coordinate is missing"],
    [{ action: "nonsense" }, '"triple_click"'],
    [{ action: "scroll", scroll_direction: "down", scroll_amount: 0 }, "scroll_amount Expected"],
    [{ action: "zoom" }, "the action zoom is not supported: use the newest screenshot"]
  ] as const) {
    it(JSON.stringify(action), () => {
      const { message } = Either.getOrThrow(Either.flip(read(assistant(call(action)))))
      assert.include(message, words)
      assert.isBelow(message.length, 1100)
    })
  }
})

const good: ReadonlyArray<Fields> = [
  { action: "left_click", coordinate: [640, 360] },
  { action: "right_click", coordinate: [1, 2], text: "ctrl" },
  { action: "double_click", coordinate: [3, 4] },
  { action: "triple_click", coordinate: [5, 6] },
  { action: "middle_click" },
  { action: "mouse_move", coordinate: [100, 200] },
  { action: "left_click_drag", start_coordinate: [7, 8], coordinate: [9, 10] },
  { action: "left_mouse_down" },
  { action: "left_mouse_up" },
  { action: "key", text: "ctrl+shift+t Return" },
  { action: "hold_key", text: "shift", duration: 2 },
  { action: "type", text: 'it\'s "quoted"\r\nand é' },
  { action: "scroll", coordinate: [11, 12], scroll_direction: "down", scroll_amount: 5 },
  { action: "scroll", scroll_direction: "left", scroll_amount: 3, text: "shift" },
  { action: "wait", duration: 1 },
  { action: "screenshot" }
]

const modified = [
  "left_click",
  "right_click",
  "middle_click",
  "double_click",
  "triple_click",
  "left_click_drag",
  "scroll"
]

const rules = {
  name: "action",
  verbs: {
    click: ["left_click", "right_click", "middle_click"],
    doubleClick: ["double_click"],
    tripleClick: ["triple_click"],
    moveTo: ["mouse_move", "left_click_drag"],
    dragTo: ["left_click_drag"],
    mouseDown: ["left_mouse_down"],
    mouseUp: ["left_mouse_up"],
    scroll: ["scroll"],
    hscroll: ["scroll"],
    press: ["key"],
    hotkey: ["key"],
    keyDown: ["hold_key", ...modified],
    keyUp: ["hold_key", ...modified],
    write: ["type"]
  },
  across: (value: number) => Math.min(1919, Math.floor((value * 1920) / 1280)),
  down: (value: number) => Math.min(1079, Math.floor((value * 1080) / 720)),
  notches: (value: number) => value,
  refusals: []
}

describe("ClaudeComputerUseReply.read, fuzzed", () => {
  it("throws never, and acts only as the calls say: 10,000 replies", () => {
    let acted = 0
    let refused = 0
    const replies = FastCheck.oneof(computerReplies(good, "action"), computerReplies(good, "member"))
    FastCheck.assert(
      FastCheck.property(replies, (reply) => {
        const result = read(reply)
        if (Either.isLeft(result)) {
          refused++
          return assert.notStrictEqual(result.left.message, "")
        }
        if (result.right.decisions.some(({ _tag }) => _tag === "Act")) acted++
        check(reply, result.right, rules)
      }),
      { numRuns: 10_000 }
    )
    // Otherwise the property would say nothing.
    assert.isAbove(acted, 1000)
    assert.isAbove(refused, 1000)
  })

  it("is done with long replies at once", () => {
    const started = performance.now()
    for (const words of ["[INFEASIBLE", "impossible ", "+ ", "a+"]) {
      const long = words.repeat(20_000)
      read(assistant(text(long)))
      read(assistant(call({ action: "key", text: long })))
      read(assistant(call({ action: "type", text: long })))
    }
    read(assistant(...Array.from({ length: 10_000 }, (_, index) => call({ action: "left_click" }, `c${index}`))))
    assert.isBelow(performance.now() - started, 5000)
  })
})

describe("Claude prompts", () => {
  const protocol = ClaudeComputerUse.make({})
  const replies = Array.from({ length: 12 }, (_, turn) =>
    assistant(text(`Click ${turn}.`), call({ action: "left_click", coordinate: [turn, 2] }, `c${turn}`))
  )

  it("keeps every message, and the pictures of the last ten", () => {
    assert.strictEqual(protocol.historyPolicy, "fixed:10")
    const last = episode(protocol, FixedWindow.make({ keepImages: 10 }), replies).at(-1)?.messages ?? []
    assert.deepStrictEqual(pictures(last), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    assert.deepStrictEqual(last.slice(1), [
      "user: The task: Open the file",
      ...replies.flatMap((_, turn) => [
        `assistant: Click ${turn}.|ComputerCallPart`,
        turn < 2 ? "tool: Success" : `tool: Success|[${turn + 1}]`
      ])
    ])
  })

  it("answers each of several calls, the last with the screenshot", () => {
    const two = assistant(call({ action: "left_click" }, "a"), call({ action: "wait" }, "b"))
    const messages = episode(protocol, FixedWindow.make({ keepImages: 10 }), [two]).at(-1)?.messages ?? []
    assert.deepStrictEqual(messages.slice(1), [
      "user: The task: Open the file|[0]",
      "assistant: ComputerCallPart|ComputerCallPart",
      "tool: Success",
      "tool: Success|[1]"
    ])
  })

  it("only adds to a prompt until its history policy breaks it", () => {
    const prompts = episode(protocol, Hysteresis.make({ lowWater: 2, highWater: 5 }), replies)
    assert.deepStrictEqual(brokenPrefixes(prompts), [])
  })

  it("begins after the turns that a summary stands for", () => {
    const prompts = protocol.render(view([], () => true, { summary: { turns: 0, text: "Opened it." } }))
    const [, first] = prompts
    assert.include(JSON.stringify(first), "Opened it.")
  })

  it("is a request that the wire takes, its calls answered: all of it and what comes after a reply that cannot be read", () => {
    const [first] = episode(protocol, FixedWindow.make({ keepImages: 10 }), [])
    assert.isDefined(first)
    const messages = protocol.render(view([], () => true))
    const failure = new ParseFailure({ kind: "unparseable", message: "zoom is not supported" })
    for (const reply of [
      assistant(call({ action: "zoom" }, "z"), new ToolCallPart({ callId: "y", name: "bash", arguments: "{}" })),
      assistant(text("hm")),
      assistant()
    ]) {
      const all = [...messages, ...(protocol.retries.feedback?.(failure, reply) ?? [])]
      const wire = Either.getOrThrow(ConvertMessages.toMessages(all, { image: () => "https://example.org/a.png" }))
      const sent = JSON.stringify(wire.messages)
      assert.include(sent, "zoom is not supported")
      for (const part of reply.content) if ("callId" in part) assert.include(sent, `"tool_use_id":"${part.callId}"`)
    }
  })

  it("offers the tool at the size of its pictures", () => {
    assert.deepStrictEqual(protocol.imageSize?.(screen), space)
    const tools = Either.getOrThrow(ConvertMessages.toMessagesTools(protocol.tools?.(screen) ?? []))
    assert.deepStrictEqual(tools, [
      { type: "computer_20251124", name: "computer", display_width_px: 1280, display_height_px: 720 }
    ])
  })
})
