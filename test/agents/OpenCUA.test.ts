import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { syntaxError } from "../../src/agents/internal/python.js"
import * as OpenCUA from "../../src/agents/OpenCUA.js"
import * as OpenCUAReply from "../../src/agents/OpenCUAReply.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import * as SinkWindow from "../../src/history/SinkWindow.js"
import { type AssistantMessage, assistant, ReasoningPart, text } from "../../src/model/Conversation.js"
import { tedious, textReplies } from "./textReplies.js"
import { brokenPrefixes, episode, pictures, screen, turnOf, view, written } from "./views.js"

const image = { width: 1932, height: 1092 }

const read = (reply: string | AssistantMessage, options: Partial<OpenCUAReply.ReadOptions> = {}) =>
  OpenCUAReply.read(typeof reply === "string" ? assistant(text(reply)) : reply, { screen, ...options })

const commands = (reply: string | AssistantMessage, options: Partial<OpenCUAReply.ReadOptions> = {}) =>
  Either.match(read(reply, options), {
    onLeft: ({ kind }) => kind,
    onRight: ({ decisions }) => decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase()))
  })

const replyOf = (code: string, tag = "python") =>
  `## Thought:\nT\n\n## Action:\nA\n\n## Code:\n\`\`\`${tag}\n${code}\n\`\`\``

describe("OpenCUAReply.read", () => {
  // The row of the table in osworld-upstream.md 6.3; shares by hand, as in osworld-gym.md 4.4.
  for (const [code, expected] of [
    ["pyautogui.click(x=0.5, y=0.25)", ["pyautogui.click(x=960, y=270)"]],
    ["pyautogui.click(0.5, 0.25)\npyautogui.write('a')", ["pyautogui.click(960, 270)\npyautogui.write('a')"]],
    ["pyautogui.click(960, 270)", ["pyautogui.click(960, 270)"]],
    ["computer.triple_click(x=0.5, y=0.25)", ["pyautogui.tripleClick(x=960, y=270)"]],
    [
      "pyautogui.write('computer.triple_click(x=0.5, y=0.25)')",
      ["pyautogui.write('computer.triple_click(x=0.5, y=0.25)')"]
    ],
    ["computer.wait()", ["WAIT"]],
    ["computer.wait(20)", ["WAIT"]],
    ["Computer.Wait() # for the window", ["WAIT"]],
    ["# it is done\ncomputer.terminate(status='success')", ["DONE"]],
    ["computer.terminate(status='success')", ["DONE"]],
    ['computer.terminate(status="failure")', ["FAIL"]],
    ['computer.terminate(\n    status="failure",\n    answer="it (the file) is gone; sorry"\n)', ["FAIL"]],
    ['computer.terminate({"status": "success"})', ["DONE"]],
    ["computer.terminate('failure')", ["FAIL"]],
    ["computer.terminate()", "unparseable"],
    ["computer.terminate(status='done')", "unparseable"],
    ["computer.terminate(status='success', status='failure')", "unparseable"],
    ["WAIT", ["WAIT"]],
    ["DONE", ["DONE"]],
    ["pyautogui.press('enter')\ncomputer.wait()", ["pyautogui.press('enter')", "WAIT"]],
    [
      "pyautogui.press('enter')\ncomputer.wait()\npyautogui.press('esc')\ncomputer.terminate(status='success')",
      ["pyautogui.press('enter')", "WAIT", "pyautogui.press('esc')", "DONE"]
    ],
    // Upstream reads a WAIT in the first of these, and a DONE in the second.
    ["pyautogui.write('computer.wait')", ["pyautogui.write('computer.wait')"]],
    ["pyautogui.write('computer.terminate success')", ["pyautogui.write('computer.terminate success')"]],
    ["x = '''\nDONE\n'''", "unparseable"],
    ["computer.wait(); pyautogui.click(1, 2)", "unparseable"],
    ["if True:\n    computer.wait()", "unparseable"],
    ["computer.nonsense()", "unparseable"],
    ["for i in range(2) print(i)", "unparseable"],
    ["# nothing", "unparseable"],
    ["", "unparseable"]
  ] as const) {
    it(code === "" ? "an empty fence" : code, () => {
      assert.deepStrictEqual(commands(replyOf(code)), typeof expected === "string" ? expected : [...expected])
    })
  }

  for (const [what, reply, expected] of [
    ["no fence", "## Action:\nA\n## Code:\npyautogui.click(1, 2)", "unparseable"],
    ["a fence that is not closed", "## Action:\nA\n## Code:\n```python\npyautogui.click(1, 2)", "unparseable"],
    ["a fence in the thought alone", "## Thought:\n```python\na()\n```\n## Action:\nA", "unparseable"],
    ["a fence in a <think>", "<think>```python\na()\n```</think>", "unparseable"],
    ["a fence and no sections", "I do it.\n```python\na()\n```", ["a()"]],
    ["the last of two fences", "## Code:\n```python\na()\n```\n```python\nb()\n```", ["b()"]],
    ["a fence for another language", replyOf("ls", "bash"), "unparseable"],
    ["a fence for code", replyOf("computer.wait()", "code"), ["WAIT"]],
    ["a fence on one line", "## Code:\n```python pyautogui.click(1, 2)```", ["pyautogui.click(1, 2)"]],
    ["a variable of a language's name", "## Code:\n```\ncode = 1\n```", ["code = 1"]],
    ["headings with more blanks, and other line ends", "##  code :\r\n```python\r\na()\r\nb()\r\n```", ["a()\nb()"]],
    ["prose", "The task is complete. computer.terminate(status='success')", "unparseable"]
  ] as const) {
    it(what, () => {
      assert.deepStrictEqual(commands(reply), typeof expected === "string" ? expected : [...expected])
    })
  }

  it("takes pixels of the picture for what they are, and shares for shares", () => {
    assert.deepStrictEqual(commands(replyOf("pyautogui.click(966, 546)"), { image }), ["pyautogui.click(960, 540)"])
    assert.deepStrictEqual(commands(replyOf("pyautogui.moveTo(1931, 1091)"), { image }), [
      "pyautogui.moveTo(1919, 1079)"
    ])
    assert.deepStrictEqual(commands(replyOf("pyautogui.click(0.5, 0.25)"), { image }), ["pyautogui.click(960, 270)"])
  })

  it("keeps the words: the reasoning of Kimi is its thought, and its tags are none of the reply", () => {
    const kimi = assistant(
      new ReasoningPart({ text: "why" }),
      text("◁think▷no◁/think▷## Action:\nA\n## Code:\n```code\ncomputer.wait()\n```")
    )
    assert.deepStrictEqual(
      read(kimi),
      Either.right({ decisions: [{ _tag: "Wait" }], thought: "why", action: "A", code: "WAIT" })
    )
    assert.deepStrictEqual(
      Either.map(read(replyOf("a()")), ({ action, thought }) => ({ action, thought })),
      Either.right({ action: "A", thought: "T" })
    )
  })
})

const good = [
  replyOf("pyautogui.click(x=0.5, y=0.25)"),
  replyOf("pyautogui.moveTo(0.1, 0.2); pyautogui.dragTo(0.3, 0.4, duration=0.5, button='left')"),
  replyOf("pyautogui.write('hello\\nworld', interval=0.01)\npyautogui.press('enter')\ntime.sleep(1)\ncomputer.wait()"),
  replyOf("computer.triple_click(x=0.5, y=0.25)\npyautogui.hotkey('ctrl', 'c')"),
  replyOf('for i in range(3):\n    pyautogui.click(i, 3)\n# computer.wait()\nx = """computer.wait\n"""'),
  replyOf("computer.wait()", "code"),
  replyOf("computer.terminate(status='success')", "code"),
  replyOf('computer.terminate(\n  status="failure",\n  answer="no"\n)', "code"),
  `## Observation:\nO\n\n${replyOf("pyautogui.scroll(-5)")}`,
  "◁think▷T◁/think▷## Action:\nA\n## Code:\n```python\npyautogui.click(1, 2)\n```"
]

const words = [
  "## Thought:\n",
  "## Action:\nA\n",
  "## Code:\n",
  "```python\n",
  "```\n",
  "```code\n",
  "\n",
  "computer.wait()\n",
  "computer.terminate(status='success')\n",
  "computer.terminate(status='failure')",
  "computer.triple_click(0.5, 0.5)\n",
  "computer.",
  "pyautogui.click(0.5, 0.5)\n",
  "status='failure'",
  "DONE\n",
  "FAIL\n",
  "'",
  '"""',
  "#",
  "(",
  ")",
  ";",
  "    ",
  "if x:\n",
  "\\\n",
  "◁think▷",
  "◁/think▷",
  "<think>",
  "</think>"
]

/** What is left of code when numbers and white space are gone, and the one function that is renamed has its new name. */
const skeleton = (code: string): string =>
  code
    .replaceAll("computer.triple_click", "pyautogui.tripleClick")
    .replace(/\s|[-\d._]+(?:[eE][+-]?\d+)?|0[xXoObB][\da-fA-F]+/g, "")

describe("OpenCUAReply.read, fuzzed", () => {
  /**
   * All Python is, but for its numbers and white space, a stretch of the reply between its first fence and its last one, and
   * compiles. DONE, FAIL and WAIT are of commands in there.
   */
  const property = (reply: string): boolean => {
    const result = read(reply)
    if (Either.isLeft(result)) {
      assert.notStrictEqual(result.left.message, "")
      return false
    }
    const said = reply
      .replace(/◁(\/?)think▷/g, "<$1think>")
      // A thought may stand in the middle of the code, too.
      .replace(/<think>[\s\S]*?<\/think>/g, "")
    const fenced = said.slice(said.indexOf("```"), said.lastIndexOf("```"))
    assert.isAbove(result.right.decisions.length, 0)
    for (const decision of result.right.decisions) {
      switch (decision._tag) {
        case "Act":
          assert.include(skeleton(fenced), skeleton(decision.action.code))
          assert.isUndefined(syntaxError(decision.action.code))
          break
        case "Done":
          assert.match(fenced, /DONE|computer\.terminate[ \t]*\([\s\S]*success/i)
          break
        case "Fail":
          assert.match(fenced, /FAIL|computer\.terminate[ \t]*\([\s\S]*failure/i)
          break
        case "Wait":
          assert.match(fenced, /WAIT|computer\.wait[ \t]*\(/i)
          break
      }
    }
    return true
  }

  it("throws never, and acts only as the code says, in Python that compiles: 10,000 replies", {
    timeout: 240_000
  }, () => {
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
    for (const reply of tedious(words, 20_000)) {
      const started = performance.now()
      read(reply)
      read(`## Code:\n\`\`\`python\n${reply}\n\`\`\``)
      assert.isBelow(performance.now() - started, 10_000, reply.slice(0, 20))
    }
  })
})

describe("OpenCUA prompts", () => {
  const openCua = (options: typeof OpenCUA.Options.Encoded = {}) =>
    OpenCUA.make(Schema.decodeSync(OpenCUA.Options)(options))
  const kimi = (options: typeof OpenCUA.KimiOptions.Encoded = {}) =>
    OpenCUA.makeKimi(Schema.decodeSync(OpenCUA.KimiOptions)(options))
  const replies = Array.from(
    { length: 6 },
    (_, turn) =>
      `## Observation:\nO${turn}\n\n## Thought:\nT${turn}\n\n## Action:\nA${turn}\n\n## Code:\n\`\`\`python\na(${turn})\n\`\`\``
  )

  it("shows the newest three pictures, the turns before as text, and no code", () => {
    const protocol = openCua({ history: "thought" })
    assert.strictEqual(protocol.historyPolicy, "fixed:3")
    const last = episode(protocol, FixedWindow.make({ keepImages: 3 }), replies).at(-1)?.messages ?? []
    assert.deepStrictEqual(pictures(last), [4, 5, 6])
    const step = (turn: number) => `# Step ${turn + 1}:\n## Thought:\nT${turn}\n\n## Action:\nA${turn}\n`
    const task = "# The task:\nOpen the file\n\nSay what to do next."
    assert.deepStrictEqual(last.slice(1), [
      `assistant: ${[0, 1, 2, 3].map(step).join("\n")}`,
      `user: [4]|${task}`,
      `assistant: ${step(4)}`,
      `user: [5]|${task}`,
      `assistant: ${step(5)}`,
      `user: [6]|${task}`
    ])
  })

  it("repeats as much of a turn as it is told to", () => {
    const told = (["action", "thought", "observation"] as const).map((history) =>
      episode(openCua({ history }), FixedWindow.make({ keepImages: 3 }), replies.slice(0, 1))
        .at(-1)
        ?.messages.at(2)
    )
    assert.deepStrictEqual(told, [
      "assistant: # Step 1:\n## Action:\nA0\n",
      "assistant: # Step 1:\n## Thought:\nT0\n\n## Action:\nA0\n",
      "assistant: # Step 1:\n## Observation:\nO0\n\n## Thought:\nT0\n\n## Action:\nA0\n"
    ])
  })

  it("gives Kimi its reasoning back as reasoning", () => {
    const reply = assistant(
      new ReasoningPart({ text: "why" }),
      text("## Action:\nA\n## Code:\n```code\ncomputer.wait()\n```")
    )
    const messages = episode(kimi(), FixedWindow.make({ keepImages: 3 }), [reply]).at(-1)?.messages
    assert.strictEqual(messages?.at(2), "assistant: (why)|# Step 1:\n## Action:\nA\n")
    assert.include(messages?.at(0) ?? "", "secret")
  })

  it("adds to the prompt before, but where the policy breaks it", () => {
    const many = [...replies, ...replies]
    for (const policy of [
      Hysteresis.make({ lowWater: 3, highWater: 7 }),
      SinkWindow.make({ sink: 1, lowWater: 3, highWater: 7 })
    ]) {
      for (const protocol of [openCua(), kimi(), kimi({ thinking: false })]) {
        const prompts = episode(protocol, policy, many)
        assert.isTrue(prompts.some(({ plan }) => plan.compaction))
        assert.deepStrictEqual(brokenPrefixes(prompts), [])
      }
    }
  })

  it("puts a summary in the place of the turns that it stands for", () => {
    const protocol = openCua()
    const turns = replies.slice(0, 2).map((reply, turn) => turnOf(protocol, turn, reply))
    const messages = protocol
      .render(view(turns, () => true, { summary: { turns: 2, text: "Two steps." } }))
      .map(written)
    assert.deepStrictEqual(messages.slice(1), [
      "user: [2]|# What was done before:\nTwo steps.\n\n# The task:\nOpen the file\n\nSay what to do next."
    ])
  })

  it("sends pictures in the size that points are in, where they are pixels", () => {
    assert.deepStrictEqual(openCua().imageSize?.(screen), image)
    assert.isUndefined(kimi().imageSize)
  })
})
