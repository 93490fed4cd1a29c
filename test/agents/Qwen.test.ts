import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { keyName } from "../../src/agents/internal/keys.js"
import * as Qwen from "../../src/agents/Qwen.js"
import * as QwenReply from "../../src/agents/QwenReply.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import * as SinkWindow from "../../src/history/SinkWindow.js"
import { type AssistantMessage, assistant, ReasoningPart, ToolCallPart, text } from "../../src/model/Conversation.js"
import { linesOf, tedious, textReplies } from "./textReplies.js"
import { brokenPrefixes, episode, pictures, screen, turnOf, view, written } from "./views.js"

const grid = { width: 999, height: 999 }

const read = (reply: string | AssistantMessage, space = grid) =>
  QwenReply.read(typeof reply === "string" ? assistant(text(reply)) : reply, { screen, space })

const commands = (reply: string | AssistantMessage) =>
  Either.match(read(reply), {
    onLeft: ({ kind }) => kind,
    onRight: ({ decisions }) => decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase()))
  })

const callOf = (use: unknown) => JSON.stringify({ name: "computer_use", arguments: use })
const replyOf = (...uses: ReadonlyArray<unknown>) =>
  `Action: Do it.\n${uses.map((use) => `<tool_call>\n${callOf(use)}\n</tool_call>`).join("\n")}`

describe("QwenReply.read", () => {
  // The actions of the table in osworld-upstream.md 6.3. Points by hand: value * pixels / 999, rounded down.
  for (const [use, expected] of [
    [{ action: "left_click", coordinate: [500, 250] }, ["pyautogui.click(960, 270)"]],
    [{ action: "left_click", coordinate: [999, 999] }, ["pyautogui.click(1919, 1079)"]],
    [{ action: "left_click" }, ["pyautogui.click()"]],
    [{ action: "right_click", coordinate: [0, 0] }, ["pyautogui.click(0, 0, button='right')"]],
    [{ action: "middle_click", coordinate: [0, 0] }, ["pyautogui.click(0, 0, button='middle')"]],
    [{ action: "double_click", coordinate: [500, 250] }, ["pyautogui.doubleClick(960, 270)"]],
    [{ action: "triple_click", coordinate: [500, 250] }, ["pyautogui.tripleClick(960, 270)"]],
    [{ action: "mouse_move", coordinate: [500, 250] }, ["pyautogui.moveTo(960, 270)"]],
    [{ action: "mouse_move" }, "unparseable"],
    [
      { action: "left_click_drag", coordinate: [500, 250] },
      ["pyautogui.dragTo(960, 270, duration=0.5, button='left')"]
    ],
    [
      { action: "left_click_drag", start_coordinate: [0, 0], coordinate: [500, 250] },
      ["pyautogui.moveTo(0, 0)\npyautogui.dragTo(960, 270, duration=0.5, button='left')"]
    ],
    [{ action: "key", keys: ["ctrl", "C"] }, ["pyautogui.hotkey('ctrl', 'c')"]],
    [{ action: "key", keys: ["ctrl+shift+t"] }, ["pyautogui.hotkey('ctrl', 'shift', 't')"]],
    [{ action: "key", keys: ["Return"] }, ["pyautogui.press('enter')"]],
    [{ action: "key", keys: "esc" }, ["pyautogui.press('esc')"]],
    [{ action: "key", keys: [] }, "unparseable"],
    [{ action: "key", keys: ["ctrl", "nonsense"] }, "unparseable"],
    [{ action: "type", text: "it's\n<é>" }, ["pyautogui.write('it\\'s\\n<\\xe9>')"]],
    [{ action: "type", text: "');import os#" }, ["pyautogui.write('\\');import os#')"]],
    [{ action: "type", text: "" }, "unparseable"],
    [{ action: "scroll", pixels: -5 }, ["pyautogui.scroll(-5)"]],
    [{ action: "scroll", pixels: 3.7, coordinate: [500, 250] }, ["pyautogui.scroll(3, x=960, y=270)"]],
    [{ action: "hscroll", pixels: 5 }, ["pyautogui.hscroll(5)"]],
    [{ action: "scroll", pixels: 0 }, "unparseable"],
    [{ action: "scroll", pixels: 1e9 }, "unparseable"],
    [{ action: "wait", time: 3 }, ["WAIT"]],
    [{ action: "terminate", status: "success" }, ["DONE"]],
    // Upstream makes a DONE of this one.
    [{ action: "terminate", status: "failure" }, ["FAIL"]],
    [{ action: "terminate" }, "unparseable"],
    [{ action: "terminate", status: "done" }, "unparseable"],
    [{ action: "answer", text: "3" }, "unparseable"],
    [{ action: "left_click", coordinate: [1500, 2] }, "unparseable"],
    [{ action: "left_click", coordinate: ["1", "2"] }, "unparseable"],
    [{ action: "left_click", coordinate: [1, 2, 3] }, "unparseable"],
    [{ action: "nonsense" }, "unparseable"],
    [null, "unparseable"]
  ] as const) {
    it(JSON.stringify(use), () => {
      assert.deepStrictEqual(commands(replyOf(use)), typeof expected === "string" ? expected : [...expected])
    })
  }

  const wait = callOf({ action: "wait" })

  for (const [what, reply, expected] of [
    ["several calls", replyOf({ action: "left_click" }, { action: "wait" }), ["pyautogui.click()", "WAIT"]],
    [
      "several calls, one of which cannot be read",
      replyOf({ action: "left_click" }, { action: "nonsense" }),
      "unparseable"
    ],
    ["a tag that is left open", `<tool_call>${wait}`, ["WAIT"]],
    ["a call without tags on a line of its own", `Action: wait\n${wait}\n`, ["WAIT"]],
    ["a call that was cut off", `<tool_call>${wait.slice(0, -1)}`, "unparseable"],
    ["a call in a thought", `<think><tool_call>${wait}</tool_call></think>`, "unparseable"],
    ["another function", `<tool_call>{"name": "run", "arguments": {}}</tool_call>`, "unparseable"],
    [
      "arguments that are JSON in a text",
      `<tool_call>${JSON.stringify({ name: "computer_use", arguments: '{"action":"wait"}' })}</tool_call>`,
      ["WAIT"]
    ],
    ["prose", "I think that the task is complete. terminate", "unparseable"]
  ] as const) {
    it(what, () => {
      assert.deepStrictEqual(commands(reply), typeof expected === "string" ? expected : [...expected])
    })
  }

  const native = assistant(
    new ReasoningPart({ text: "why" }),
    text("Action: Wait."),
    new ToolCallPart({ callId: "1", name: "computer_use", arguments: '{"action": "wait"}' })
  )

  it("reads native tool calls, and repeats them as the text that they were", () => {
    assert.deepStrictEqual(
      read(native),
      Either.right({ decisions: [{ _tag: "Wait" }], thought: "why", action: "Wait.", code: "WAIT" })
    )
    const repeated = QwenReply.repeated(native)
    assert.strictEqual(repeated, `Action: Wait.\n<tool_call>\n${wait}\n</tool_call>`)
    assert.deepStrictEqual(commands(repeated), ["WAIT"])
  })
})

const good = [
  replyOf({ action: "left_click", coordinate: [500, 250] }),
  replyOf({ action: "double_click", coordinate: [1, 999] }),
  replyOf({ action: "type", text: 'it\'s "quoted"\nand <more> é' }),
  replyOf({ action: "key", keys: ["ctrl", "shift", "t"] }),
  replyOf({ action: "scroll", pixels: -10, coordinate: [10, 20] }),
  replyOf({ action: "left_click_drag", coordinate: [3, 4] }),
  replyOf({ action: "wait", time: 2 }),
  replyOf({ action: "terminate", status: "success" }),
  replyOf({ action: "terminate", status: "failure" }),
  replyOf(
    { action: "left_click", coordinate: [7, 8] },
    { action: "type", text: "a" },
    { action: "key", keys: ["enter"] }
  ),
  `Action: x\n${callOf({ action: "mouse_move", coordinate: [5, 6] })}`
]

const words = [
  "Action: x\n",
  "<tool_call>",
  "</tool_call>",
  '{"name": "computer_use", "arguments": ',
  '{"action": "left_click"}',
  '{"action": "wait"}',
  '{"action": "terminate", "status": "failure"}',
  '{"action": "type", "text": "x"}',
  '"coordinate": [1, 2]',
  '"status": "success"',
  "}",
  "}}",
  "[",
  "]",
  ",",
  '"',
  "\\",
  "\\n",
  "\\u00e9",
  "1e3",
  "-",
  "null",
  "\n",
  "__proto__"
]

/** For each function of the code the names that may stand behind it. */
const verbs: Readonly<Record<string, ReadonlyArray<string>>> = {
  click: ["left_click", "right_click", "middle_click"],
  doubleClick: ["double_click"],
  tripleClick: ["triple_click"],
  moveTo: ["mouse_move", "start_coordinate"],
  dragTo: ["left_click_drag"],
  scroll: ["scroll"],
  hscroll: ["hscroll"],
  hotkey: ["key"],
  press: ["key"],
  write: ["type"]
}

/** Every text and number in the JSON objects of a reply, wherever they may begin: found without the reader's own rules. */
const held = (reply: string) => {
  const texts = new Set<string>()
  const literalAt = /"(?:[^"\\]|\\.)*"/y
  for (let at = reply.indexOf('"'); at >= 0; at = reply.indexOf('"', at + 1)) {
    literalAt.lastIndex = at
    const literal = literalAt.exec(reply)?.[0] ?? ""
    const value = Either.getOrUndefined(Either.try((): unknown => JSON.parse(literal)))
    if (typeof value === "string") texts.add(value)
  }
  const numbers = Array.from(reply.matchAll(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g), ([number]) => Number(number))
  return { texts, numbers }
}

describe("QwenReply.read, fuzzed", () => {
  /**
   * There is an action's name in quotes for each function of the code; each number of it is one of the reply's (points scaled to
   * the screen, scrolls cut to whole notches); each text that is typed is a JSON text of the reply; each key is named in one.
   * DONE, FAIL and WAIT come of `terminate` with that status and of `wait` alone.
   */
  const property = (reply: string): boolean => {
    const result = read(reply)
    if (Either.isLeft(result)) {
      assert.notStrictEqual(result.left.message, "")
      return false
    }
    const { numbers, texts } = held(reply)
    const isFrom = (pixels: number, extent: number) =>
      numbers.some((value) => Math.min(extent - 1, Math.floor((value * extent) / 999)) === pixels)
    const keys = new Set(
      Array.from(texts)
        .flatMap((one) => [one, ...one.split(/[\s+]+/), one.slice(-1)])
        .map(keyName)
    )
    assert.isAbove(result.right.decisions.length, 0)
    for (const decision of result.right.decisions) {
      switch (decision._tag) {
        case "Done":
          assert.isTrue(texts.has("terminate") && texts.has("success"))
          break
        case "Fail":
          assert.isTrue(texts.has("terminate") && texts.has("failure"))
          break
        case "Wait":
          assert.isTrue(texts.has("wait"))
          break
        case "Act": {
          const lines = linesOf(decision.action.code)
          assert.isDefined(lines, decision.action.code)
          for (const line of lines ?? []) {
            assert.isTrue(
              verbs[line.name]?.some((name) => texts.has(name)),
              `${line.name} in ${reply}`
            )
            const scrolls = line.name.endsWith("croll")
            const [x, y] = scrolls ? line.numbers.slice(1) : line.numbers
            if (scrolls) assert.isTrue(numbers.some((value) => Math.trunc(value) === line.numbers[0]))
            if (x !== undefined) assert.isTrue(isFrom(x, screen.width), `${x} in ${reply}`)
            if (y !== undefined) assert.isTrue(isFrom(y, screen.height), `${y} in ${reply}`)
            for (const one of line.texts) {
              if (line.name === "write")
                assert.isTrue(Array.from(texts).some((text) => text.replaceAll("\r\n", "\n") === one))
              else assert.isTrue(keys.has(one), `${one} in ${reply}`)
            }
          }
        }
      }
    }
    return true
  }

  it("throws never, and acts only as the calls say: 10,000 replies", { timeout: 240_000 }, () => {
    let readable = 0
    FastCheck.assert(
      FastCheck.property(textReplies(good, words), (reply) => {
        if (property(reply)) readable++
      }),
      { numRuns: 10_000 }
    )
    // Otherwise the property would say nothing.
    assert.isAbove(readable, 1000)
  })

  it("does the same with native tool calls: 1,000 arguments", { timeout: 240_000 }, () => {
    FastCheck.assert(
      FastCheck.property(textReplies([...good, ...words], words), FastCheck.jsonValue(), (one, other) => {
        for (const given of [one, JSON.stringify(other)]) {
          const call = new ToolCallPart({ callId: "1", name: "computer_use", arguments: given })
          assert.isTrue(Either.isEither(read(assistant(call))))
        }
      }),
      { numRuns: 1000 }
    )
  })

  it("is done with long replies at once", { timeout: 240_000 }, () => {
    for (const reply of tedious([...words, ...good])) {
      const started = performance.now()
      read(reply)
      read(`<tool_call>${reply}`)
      assert.isBelow(performance.now() - started, 2000, reply.slice(0, 20))
    }
  })
})

describe("Qwen prompts", () => {
  const protocols = [Qwen.make("2.5")({}), Qwen.make("3")({})]
  const replies = Array.from(
    { length: 12 },
    (_, turn) =>
      `Action: Click ${turn}.\n<tool_call>\n${callOf({ action: "left_click", coordinate: [turn, 2] })}\n</tool_call>`
  )

  it("shows four turns and the newest picture, and older actions as a list in front of them", () => {
    for (const protocol of protocols) {
      assert.strictEqual(protocol.historyPolicy, "fixed:5")
      const last = episode(protocol, FixedWindow.make({ keepImages: 5 }), replies).at(-1)?.messages ?? []
      assert.deepStrictEqual(pictures(last), [8, 9, 10, 11, 12])
      const steps = Array.from({ length: 8 }, (_, turn) => `Step ${turn + 1}: Click ${turn}.`)
      assert.deepStrictEqual(last.slice(1), [
        ["user: [8]|The task: Open the file\n\nWhat you did before, step by step:", ...steps].join("\n"),
        ...[8, 9, 10, 11].flatMap((turn) => [
          ...(turn === 8 ? [] : [`user: [${turn}]`]),
          `assistant: ${replies[turn]}`
        ]),
        "user: [12]"
      ])
    }
  })

  it("says the size that its coordinates are in, and sends pictures of it", () => {
    const sizes = protocols.map((protocol) => {
      const [first = ""] = episode(protocol, FixedWindow.make({ keepImages: 5 }), []).at(0)?.messages ?? []
      return [
        /Its screen is (\d+) pixels wide and (\d+) pixels high/.exec(first)?.slice(1),
        protocol.imageSize?.(screen)
      ]
    })
    assert.deepStrictEqual(sizes, [
      [["1932", "1092"], { width: 1932, height: 1092 }],
      [["1000", "1000"], { width: 1920, height: 1088 }]
    ])
  })

  it("holds a tool that is JSON, whatever the password", () => {
    const [first] = protocols.flatMap((protocol) =>
      protocol.render(view([], () => true, { password: 'a"b\\{width}' })).map(written)
    )
    const tool: unknown = JSON.parse(/<tools>\n([\s\S]*)\n<\/tools>/.exec(first ?? "")?.[1] ?? "")
    const Tool = Schema.Struct({ function: Schema.Struct({ name: Schema.String, description: Schema.String }) })
    assert.isTrue(Schema.is(Tool)(tool) && tool.function.description.endsWith('it is: a"b\\{width}'))
  })

  it("adds to the prompt before, but where the policy breaks it", () => {
    for (const policy of [
      Hysteresis.make({ lowWater: 3, highWater: 7 }),
      SinkWindow.make({ sink: 1, lowWater: 3, highWater: 7 })
    ]) {
      for (const protocol of protocols) {
        const prompts = episode(protocol, policy, replies)
        assert.isTrue(prompts.some(({ plan }) => plan.compaction))
        assert.deepStrictEqual(brokenPrefixes(prompts), [])
      }
    }
  })

  it("puts a summary in the place of the turns that it stands for", () => {
    const [protocol] = protocols
    assert.isDefined(protocol)
    if (protocol === undefined) return
    const turns = replies.slice(0, 3).map((reply, turn) => turnOf(protocol, turn, reply))
    const messages = protocol.render(view(turns, (turn) => turn === 2, { summary: { turns: 1, text: "One click." } }))
    assert.deepStrictEqual(messages.slice(1).map(written), [
      "user: [2]|The task: Open the file\n\nWhat was done before, in short:\nOne click.\n\nWhat you did before, step by step:\nStep 2: Click 1.",
      `assistant: ${replies[2]}`,
      "user: [3]"
    ])
  })
})
