import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Computer13 from "../../src/agents/Computer13.js"
import { spans, syntaxError } from "../../src/agents/internal/python.js"
import { replies, tedious } from "./replies.js"

const actions = (reply: string) =>
  Either.match(Computer13.parse(reply), {
    onLeft: ({ message }) => message,
    onRight: (decisions) =>
      decisions.map((decision) => (decision._tag === "Act" ? decision.action.code : decision._tag.toUpperCase()))
  })

// The actions of osworld-upstream.md 2.2, and the other ways to write them of osworld-gym.md 4.6.
const readings = [
  [`{"action_type": "MOVE_TO", "parameters": {"x": 10, "y": 20}}`, "pyautogui.moveTo(10, 20)"],
  [`{"action_type": "CLICK"}`, "pyautogui.click(clicks=1, button='left')"],
  [
    `{"action_type": "CLICK", "x": 1.5, "y": 2, "num_clicks": 2, "button": "RIGHT"}`,
    "pyautogui.click(x=1.5, y=2, clicks=2, button='right')"
  ],
  [`{"action_type": "MOUSE_DOWN", "parameters": {}}`, "pyautogui.mouseDown(button='left')"],
  [`{"action_type": "MOUSE_UP", "parameters": {"button": "middle"}}`, "pyautogui.mouseUp(button='middle')"],
  [`{"action_type": "RIGHT_CLICK", "parameters": {"x": 1, "y": 2}}`, "pyautogui.rightClick(x=1, y=2)"],
  [`{"action_type": "DOUBLE_CLICK"}`, "pyautogui.doubleClick()"],
  [`{"action_type": "DRAG_TO", "parameters": {"x": 1, "y": 2}}`, "pyautogui.dragTo(1, 2, duration=1.0, button='left')"],
  [`{"action_type": "SCROLL", "parameters": {"dx": 0, "dy": -3}}`, "pyautogui.hscroll(0)\npyautogui.scroll(-3)"],
  [
    `{"action_type": "TYPING", "parameters": {"text": "it's\\n<é>"}}`,
    "pyautogui.write('it\\'s\\n<\\xe9>', interval=0.01)"
  ],
  [`{"action_type": "PRESS", "parameters": {"key": "Enter"}}`, "pyautogui.press('enter')"],
  [`{"action_type": "KEY_DOWN", "parameters": {"key": "shift"}}`, "pyautogui.keyDown('shift')"],
  [`{"action_type": "KEY_UP", "parameters": {"key": "shift"}}`, "pyautogui.keyUp('shift')"],
  [`{"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "s"]}}`, "pyautogui.hotkey('ctrl', 's')"],
  [`{"action_type": "WAIT"}`, "WAIT"],
  [`{"action_type": "DONE", "parameters": {}}`, "DONE"],
  [`"FAIL"`, "FAIL"],
  [`{"action_type": "left_click", "x": 1, "y": 2}`, "pyautogui.click(x=1, y=2, clicks=1, button='left')"],
  [`{"action_type": "MOUSE_MOVE", "x": 1, "varies": 2}`, "pyautogui.moveTo(1, 2)"],
  [`{"action_type": "TYPE", "text": "a"}`, "pyautogui.write('a', interval=0.01)"],
  [`{"action_type": "KEY", "key": "a"}`, "pyautogui.press('a')"],
  [`{"action_type": "CLICK", "click_type": "MIDDLE"}`, "pyautogui.click(clicks=1, button='middle')"],
  [`{"action_type": "CLICK", "click_type": "WHEEL_DOWN", "x": 1, "y": 2}`, "pyautogui.scroll(-1)"],
  [`{"action_type": "TRIPLE_CLICK", "x": 1, "y": 2}`, "pyautogui.click(x=1, y=2, clicks=3, button='left')"]
] as const

describe("Computer13.parse", () => {
  for (const [json, expected] of readings) {
    it(json, () => {
      assert.deepStrictEqual(actions(`I will.\n\`\`\`json\n${json}\n\`\`\``), [expected])
      assert.deepStrictEqual(actions(json), [expected])
    })
  }

  for (const [reply, expected] of [
    ["done", ["DONE"]],
    ["```WAIT```", ["WAIT"]],
    ["```\nFAIL\n```", ["FAIL"]],
    ['```json\n[[{"action_type": "PRESS", "key": "a"}], "WAIT"]\n```', ["pyautogui.press('a')", "WAIT"]],
    ['<think>```FAIL```</think>```json\n{"action_type": "WAIT"}\n```', ["WAIT"]],
    ['```\n{"action_type": "WAIT"}\n```\n```json\n"DONE"\n```', ["DONE"]]
  ] as const) {
    it(JSON.stringify(reply), () => assert.deepStrictEqual(actions(reply), [...expected]))
  }

  for (const [reply, expected] of [
    ["", /no JSON/],
    ["I cannot do this", /no JSON/],
    ["```python\npyautogui.click(1, 2)\n```", /no action/],
    ["```json\n[]\n```", /no action/],
    ['{"action_type": "FLY"}', /FLY/],
    ['{"action_type": "CLICK", "x": 1}', /both x and y/],
    ['{"action_type": "CLICK", "x": 1, "y": 1e999}', /finite|y/],
    ['{"action_type": "SCROLL"}', /dx or dy/],
    ['{"action_type": "CLICK", "x": "1); import os #", "y": 2}', /x/],
    ['```json\n{"action_type": "WAIT"}\n```\n```json\n{"action_type": "WAI\n```', /no JSON/]
  ] as const) {
    it(`${JSON.stringify(reply)} cannot be read`, () => assert.match(String(actions(reply)), expected))
  }

  /** The statements that actions come to; nothing else is ever sent. */
  const statement =
    /^(?:pyautogui\.(?:moveTo|click|mouseDown|mouseUp|rightClick|doubleClick|dragTo|scroll|hscroll|write|press|keyDown|keyUp|hotkey)\((?:(?:(?:x|y|clicks|button|duration|interval)=)?(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|S)(?:, )?)*\)\n?)+$/

  it("throws never, and sends nothing but statements of its own with texts and numbers of the reply in them: 10,000 replies", () => {
    let readable = 0
    const property = (reply: string) => {
      const found = Computer13.parse(reply)
      if (Either.isLeft(found)) return
      readable++
      assert.isAbove(found.right.length, 0)
      for (const decision of found.right) {
        if (decision._tag !== "Act") {
          assert.include(reply.toUpperCase(), decision._tag.toUpperCase())
          continue
        }
        const { code } = decision.action
        assert.isUndefined(syntaxError(code))
        assert.match(
          spans(code)
            .map(({ kind, text }) => (kind === "string" ? "S" : text))
            .join(""),
          statement
        )
      }
    }
    FastCheck.assert(FastCheck.property(replies(readings.map(([json]) => `\`\`\`json\n${json}\n\`\`\``)), property), {
      numRuns: 10_000
    })
    assert.isAbove(readable, 500)
    for (const reply of tedious) {
      const started = performance.now()
      property(reply)
      assert.isBelow(performance.now() - started, 10_000, reply.slice(0, 20))
    }
  })

  it("takes any text to type, and its Python is one literal of exactly that text", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ unit: "binary" }), (text) => {
        const reply = JSON.stringify({ action_type: "TYPING", parameters: { text } })
        const [code] = actions(reply)
        const literals = spans(String(code)).filter(({ kind }) => kind === "string")
        assert.lengthOf(literals, 1)
        assert.match(String(code), /^pyautogui\.write\('[ -~]*', interval=0\.01\)$/)
      }),
      { numRuns: 1000 }
    )
  })
})
