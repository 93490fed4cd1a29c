import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { calls } from "../../src/agents/internal/calls.js"
import { keyName } from "../../src/agents/internal/keys.js"
import * as UITars from "../../src/agents/UITars.js"
import * as UITarsReply from "../../src/agents/UITarsReply.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import * as SinkWindow from "../../src/history/SinkWindow.js"
import { linesOf, tedious, textReplies } from "./textReplies.js"
import { brokenPrefixes, episode, pictures, screen, turnOf, view, written } from "./views.js"

const protocolOf = (options: typeof UITars.Options.Encoded = {}) =>
  UITars.make(Schema.decodeSync(UITars.Options)(options))

const thousandths = { width: 1000, height: 1000 }

const read = (reply: string, options: Partial<UITarsReply.ReadOptions> = {}) =>
  UITarsReply.read(reply, { screen, space: thousandths, form: "v1", callsBefore: () => 0, tolerance: 3, ...options })

const commands = (reply: string, options: Partial<UITarsReply.ReadOptions> = {}) =>
  Either.match(read(reply, options), {
    onLeft: ({ kind }) => kind,
    onRight: ({ decisions }) => decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase()))
  })

describe("UITarsReply.read", () => {
  // The verbs of the table in osworld-upstream.md 6.3. Points by hand: thousandths of 1920 by 1080.
  for (const [action, expected] of [
    ["click(start_box='<|box_start|>(500,250)<|box_end|>')", ["pyautogui.click(960, 270)"]],
    ["click(start_box='(500, 250)')", ["pyautogui.click(960, 270)"]],
    ["click(point='<point>500 250</point>')", ["pyautogui.click(960, 270)"]],
    ["click(start_box='[400, 200, 600, 300]')", ["pyautogui.click(960, 270)"]],
    ['click(start_box="(500,250)")', ["pyautogui.click(960, 270)"]],
    ["left_single(point='<point>0 0</point>')", ["pyautogui.click(0, 0)"]],
    ["left_double(start_box='(500,250)')", ["pyautogui.doubleClick(960, 270)"]],
    ["right_single(start_box='(1000,1000)')", ["pyautogui.click(1919, 1079, button='right')"]],
    ["hover(point='<point>500 250</point>')", ["pyautogui.moveTo(960, 270)"]],
    [
      "drag(start_box='(0,0)', end_box='(500,250)')",
      ["pyautogui.moveTo(0, 0)\npyautogui.dragTo(960, 270, duration=1, button='left')"]
    ],
    [
      "select(start_point='<point>0 0</point>', end_point='<point>500 250</point>')",
      ["pyautogui.moveTo(0, 0)\npyautogui.dragTo(960, 270, duration=1, button='left')"]
    ],
    ["hotkey(key='ctrl c')", ["pyautogui.hotkey('ctrl', 'c')"]],
    ["hotkey(key='arrowdown')", ["pyautogui.hotkey('down')"]],
    ["press(key='enter')", ["pyautogui.press('enter')"]],
    ["keydown(key='shift')", ["pyautogui.keyDown('shift')"]],
    ["release(key='shift')", ["pyautogui.keyUp('shift')"]],
    ["type(content='hello\\n')", ["pyautogui.write('hello\\n')"]],
    ["type(content='it's \\'so\\', isn't it')", ["pyautogui.write('it\\'s \\'so\\', isn\\'t it')"]],
    ["type(content='f(\\'a\\')')", ["pyautogui.write('f(\\'a\\')')"]],
    ["type(content='a\nb')", ["pyautogui.write('a\\nb')"]],
    ["type(content='C:\\\\dir \\d')", ["pyautogui.write('C:\\\\dir \\\\d')"]],
    // A quote that the call cannot go on behind is typed, and so is what looks like code: none of it is run.
    ["type(content=''); import os; f('x')", ["pyautogui.write('\\'); import os; f(\\'x')"]],
    ["type(content='x'); import os", "unparseable"],
    ["type(content='')", "unparseable"],
    ["scroll(start_box='(500,250)', direction='down')", ["pyautogui.scroll(-5, x=960, y=270)"]],
    ["scroll(direction='up')", ["pyautogui.scroll(5)"]],
    ["scroll(point='<point>500 250</point>', direction='right')", ["pyautogui.hscroll(5, x=960, y=270)"]],
    ["scroll(direction='sideways')", "unparseable"],
    ["wait()", ["WAIT"]],
    ["finished()", ["DONE"]],
    ["finished(content='the answer is 3')", ["DONE"]],
    ["error_env()", ["FAIL"]],
    ["click(start_box='(1,2)')\n\nfinished()", ["pyautogui.click(1, 2)", "DONE"]],
    ["click(start_box='(1,2)')\n\nnonsense()", "unparseable"],
    ["click()", "unparseable"],
    ["click(start_box='(1500,2)')", "unparseable"],
    ["click(start_box='(1)')", "unparseable"],
    ["click(1, 2)", "unparseable"],
    ["click(start_box='(1,2)') and then wait", "unparseable"],
    ["wait() for the window", "unparseable"],
    ["finished()\n\nThen I rest.", "unparseable"],
    ["hotkey(key='ctrl nonsense')", "unparseable"],
    ["hotkey(key='')", "unparseable"],
    ["", "unparseable"]
  ] as const) {
    it(action === "" ? "no action" : action, () => {
      assert.deepStrictEqual(
        commands(`Thought: I see it.\nAction: ${action}`),
        typeof expected === "string" ? expected : [...expected]
      )
    })
  }

  it("presses a key for good in v2, where releasing it is an action of its own", () => {
    assert.deepStrictEqual(commands("Action: press(key='shift')", { form: "v2" }), ["pyautogui.keyDown('shift')"])
  })

  it("keeps the thought and the action, and reads nothing in a thought", () => {
    const reply = "<think>Action: finished()</think>Thought: Press it.\nAction: click(start_box='(1,2)')"
    assert.deepStrictEqual(
      Either.map(read(reply), ({ action, thought }) => ({ action, thought })),
      Either.right({ action: "click(start_box='(1,2)')", thought: "Press it." })
    )
    assert.strictEqual(commands("<think>Action: finished()</think>"), "unparseable")
    assert.deepStrictEqual(commands("Thought: I do it. Action: wait()"), ["WAIT"])
  })

  it("takes pixels of the picture for what they are, 1932 by 1092 for a screen of 1920 by 1080", () => {
    const { read } = protocolOf()
    const turn = (reply: string) => turnOf({ ...protocolOf(), read }, 0, reply).read
    assert.deepStrictEqual(
      Either.map(turn("Action: click(start_box='(966,546)')"), ({ code }) => code),
      Either.right("pyautogui.click(960, 540)")
    )
    assert.isTrue(Either.isLeft(turn("Action: click(start_box='(1950,546)')")))
  })

  it("waits when the user is called, until that has been in vain as often as is tolerated; then it is a FAIL", () => {
    const protocol = protocolOf({ call_user_tolerance: 2 })
    const called = turnOf(protocol, 0, "Action: call_user()")
    const typed = turnOf(protocol, 1, "Action: type(content='call_user()')")
    const decided = (turns: ReadonlyArray<typeof called>) =>
      Either.map(
        protocol.read(called.message, { screen, finishReason: "stop", shown: called.shown, turns }),
        ({ code }) => code
      )
    assert.deepStrictEqual(decided([]), Either.right("WAIT"))
    assert.deepStrictEqual(decided([called, typed, typed]), Either.right("WAIT"))
    assert.deepStrictEqual(decided([called, typed, called]), Either.right("FAIL"))
  })
})

const good = [
  "Thought: I click it.\nAction: click(start_box='<|box_start|>(500,250)<|box_end|>')",
  "Thought: I click it.\nAction: left_double(point='<point>12 999</point>')",
  "Action: drag(start_point='<point>1 2</point>', end_point='<point>3 4</point>')",
  "Thought: x\nAction: type(content='it's \\'quoted\\'\\nand more\\n')",
  'Thought: x\nAction: type(content="é 𝄞 \\\\ <b>")',
  "Thought: x\nAction: hotkey(key='ctrl shift t')",
  "Thought: x\nAction: scroll(start_box='(1,2)', direction='left')",
  "Thought: x\nAction: click(start_box='(1,2)')\n\ntype(content='a')\n\nhotkey(key='enter')\n\nwait()",
  "Thought: x\nAction: finished(content='yes')",
  "Thought: x\nAction: call_user()",
  "<think>y</think>Thought: x\nAction: wait()"
]

const words = [
  "Thought: ",
  "\nAction: ",
  "Action:",
  "click(",
  "type(",
  "content=",
  "start_box=",
  "point=",
  "'(1,2)'",
  "'<point>3 4</point>'",
  "'",
  '"',
  "\\",
  "\\'",
  ")",
  "('",
  "')",
  ", ",
  "\n\n",
  "hotkey(key='a')",
  "direction='up'",
  "wait()",
  "finished()",
  "call_user()",
  "error_env()",
  "[EOS]",
  "<think>",
  "</think>"
]

/** For each function of the code the verbs that may stand behind it. */
const verbs: Readonly<Record<string, RegExp>> = {
  click: /\b(?:click|left_single|right_single)\s*\(/,
  doubleClick: /\bleft_double\s*\(/,
  moveTo: /\b(?:hover|drag|select)\s*\(/,
  dragTo: /\b(?:drag|select)\s*\(/,
  scroll: /\bscroll\s*\([\s\S]*(?:up|down)/i,
  hscroll: /\bscroll\s*\([\s\S]*(?:left|right)/i,
  hotkey: /\bhotkey\s*\(/,
  press: /\bpress\s*\(/,
  keyDown: /\bkeydown\s*\(/,
  keyUp: /\b(?:keyup|release)\s*\(/,
  write: /\btype\s*\(/
}

const unescaped = (text: string): string =>
  text.replace(/\\([nrt\\'"])/g, (_, one: string) =>
    one === "n" ? "\n" : one === "r" ? "\r" : one === "t" ? "\t" : one
  )

describe("UITarsReply.read, fuzzed", () => {
  /**
   * What is decided is in the text behind the last `Action:`. There is a verb for each function of the code; each point is that
   * of a pair (or the middle of a box) of numbers in the text; each text that is typed is a stretch of it with its escapes
   * undone; each key is named in it. DONE, FAIL and WAIT come of their own verbs alone.
   */
  const property = (reply: string): boolean => {
    const result = read(reply)
    if (Either.isLeft(result)) {
      assert.notStrictEqual(result.left.message, "")
      return false
    }
    const { action = "", decisions } = result.right
    assert.include(reply, action)
    assert.isAbove(decisions.length, 0)
    const numbers = Array.from(action.matchAll(/\d+(?:\.\d+)?/g), ([number]) => Number(number))
    const sums = new Set(numbers.flatMap((a) => [a, ...numbers.map((b) => (a + b) / 2)]))
    const named = (key: string) =>
      unescaped(action)
        .split(/[^A-Za-z0-9_]+|(?=[^A-Za-z0-9_])/)
        .some((word) => keyName(word) === key) || action.includes(key)
    const isFrom = (pixels: number, extent: number) =>
      Array.from(sums).some((value) => Math.min(extent - 1, Math.floor((value * extent) / 1000)) === pixels)
    for (const decision of decisions) {
      switch (decision._tag) {
        case "Done":
          assert.match(action, /finished\s*\(/)
          break
        case "Wait":
          assert.match(action, /(?:wait|call_user)\s*\(/)
          break
        case "Fail":
          assert.match(action, /error_env\s*\(/)
          break
        case "Act": {
          const lines = linesOf(decision.action.code)
          assert.isDefined(lines, decision.action.code)
          for (const { name, numbers, texts } of lines ?? []) {
            assert.match(action, verbs[name] ?? /^\b$/)
            const [x, y] = name.endsWith("croll") ? numbers.slice(1) : numbers
            if (name.endsWith("croll")) assert.strictEqual(Math.abs(numbers[0] ?? 0), 5)
            if (x !== undefined) assert.isTrue(isFrom(x, screen.width), `${x} in ${action}`)
            if (y !== undefined) assert.isTrue(isFrom(y, screen.height), `${y} in ${action}`)
            for (const text of texts) {
              if (name === "write") assert.include(unescaped(action).replaceAll("\r\n", "\n"), text)
              else assert.isTrue(named(text), `${text} in ${action}`)
            }
          }
        }
      }
    }
    return true
  }

  it("throws never, and acts only as the Action says: 10,000 replies", { timeout: 240_000 }, () => {
    let readable = 0
    FastCheck.assert(
      FastCheck.property(textReplies(good, words), (reply) => {
        if (property(reply)) readable++
      }),
      { numRuns: 10_000 }
    )
    // Otherwise the property would say nothing.
    assert.isAbove(readable, 1500)
  })

  it("is done with long replies at once", { timeout: 240_000 }, () => {
    for (const reply of tedious([...words, "wait()\n", "click(start_box='(1,2)') "])) {
      const started = performance.now()
      read(`Action: ${reply}`)
      read(`Action: type(content='${reply}`)
      read(reply)
      assert.isBelow(performance.now() - started, 2000, reply.slice(0, 20))
    }
  })

  it("reads back what is typed, whatever it is", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ unit: "binary", minLength: 1 }), (typed) => {
        const content = typed.replace(/[\\'"]/g, (one) => `\\${one}`).replaceAll("\n", "\\n")
        const found = calls(`type(content='${content}')`)
        assert.deepStrictEqual(
          found?.map((call) => call.arguments.get("content")),
          [typed]
        )
      })
    )
  })
})

describe("UITars prompts", () => {
  const replies = Array.from({ length: 12 }, (_, turn) => `Thought: ${turn}\nAction: click(start_box='(${turn},2)')`)

  it("shows the newest five pictures and every reply, box tokens put back", () => {
    const protocol = protocolOf()
    assert.strictEqual(protocol.historyPolicy, "fixed:5")
    const prompts = episode(protocol, FixedWindow.make({ keepImages: 5 }), replies)
    const last = prompts.at(-1)?.messages ?? []
    assert.deepStrictEqual(pictures(last), [8, 9, 10, 11, 12])
    assert.deepStrictEqual(
      last.slice(1),
      replies
        .flatMap((_, turn) => [
          ...(turn < 8 ? [] : [`user: [${turn}]`]),
          `assistant: Thought: ${turn}\nAction: click(start_box='<|box_start|>(${turn},2)<|box_end|>')`
        ])
        .concat("user: [12]")
    )
    assert.match(last[0] ?? "", /^user: [\s\S]*Open the file$/)
    assert.include(last[0] ?? "", "secret")
  })

  it("adds to the prompt before, but where the policy breaks it", () => {
    for (const policy of [
      Hysteresis.make({ lowWater: 3, highWater: 7 }),
      SinkWindow.make({ sink: 1, lowWater: 3, highWater: 7 })
    ]) {
      for (const form of ["v1", "v2"] as const) {
        const prompts = episode(protocolOf({ form }), policy, replies)
        assert.isTrue(prompts.some(({ plan }) => plan.compaction))
        assert.deepStrictEqual(brokenPrefixes(prompts), [])
      }
    }
  })

  it("puts a summary in the place of the turns that it stands for", () => {
    const protocol = protocolOf({ form: "v2" })
    const turns = replies.slice(0, 3).map((reply, turn) => turnOf(protocol, turn, reply))
    const messages = protocol
      .render(view(turns, () => true, { summary: { turns: 2, text: "Two clicks." } }))
      .map(written)
    assert.deepStrictEqual(messages.slice(1), ["user: [2]", `assistant: ${replies[2]}`, "user: [3]"])
    assert.match(messages[0] ?? "", /Two clicks\.$/)
  })

  it("sends pictures in the size that points are in", () => {
    assert.deepStrictEqual(protocolOf().imageSize?.(screen), { width: 1932, height: 1092 })
    assert.deepStrictEqual(protocolOf({ coordinates: "thousandths" }).imageSize?.(screen), screen)
  })
})
