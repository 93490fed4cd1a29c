import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { contractOf } from "../../src/agents/internal/loop.js"
import { projectCode, repairNewlines, roundHalfEven } from "../../src/agents/internal/projection.js"
import { spans, syntaxError } from "../../src/agents/internal/python.js"
import * as NanoOmni from "../../src/agents/NanoOmni.js"
import * as NanoOmniReply from "../../src/agents/NanoOmniReply.js"
import type { PromptView, Shown, Turn } from "../../src/agents/Protocol.js"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import { DesktopAction } from "../../src/desktop/Action.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import { AssistantMessage, assistant, type Message, ReasoningPart, text } from "../../src/model/Conversation.js"
import { Decision, ParseFailure } from "../../src/rollout/Agent.js"
import * as Contract from "../../src/rollout/Contract.js"
import vectors from "../vectors/osworld-gym-vectors.json" with { type: "json" }
import { replies, tedious } from "./replies.js"

const screen = { width: 1920, height: 1080 }

const read = (reply: string | AssistantMessage, options: Partial<NanoOmniReply.ReadOptions> = {}) =>
  NanoOmniReply.read(typeof reply === "string" ? assistant(text(reply)) : reply, {
    screen,
    finishReason: "stop",
    thinking: true,
    coordinateType: "relative",
    ...options
  })

const show = (decision: Decision<DesktopAction>): string =>
  decision._tag === "Act" ? decision.action.code : decision._tag.toUpperCase()

const commands = (reply: string, options: Partial<NanoOmniReply.ReadOptions> = {}) =>
  Either.match(read(reply, options), {
    onLeft: ({ message }) => message,
    onRight: ({ decisions }) => decisions.map(show)
  })

describe("NanoOmniReply.read", () => {
  for (const vector of vectors.nano_parse_1920x1080) {
    it(JSON.stringify(vector.text), () => {
      const reply = read(vector.text, { thinking: vector.thinking })
      // The program that made the vectors pairs what it cannot read with a FAIL that the model never said; we say why.
      if (vector.action.startsWith("<Error>")) {
        assert.deepStrictEqual(reply, Either.left(new ParseFailure({ kind: "unparseable", message: vector.action })))
      } else if (vector.syntax_error !== null) {
        assert.isTrue(Either.isLeft(reply))
        assert.match(Either.isLeft(reply) ? reply.left.message : "", /^Invalid Python action: .* \(line 1, offset 8\)$/)
      } else {
        assert.deepStrictEqual(
          Either.map(reply, ({ action, decisions, thought }) => ({ action, thought, commands: decisions.map(show) })),
          Either.right({ action: vector.action, thought: vector.thought, commands: vector.commands })
        )
      }
    })
  }

  // The table of coordinates in osworld-gym.md 4.4.
  for (const [code, type, expected] of [
    ["pyautogui.click(0.5, 0.25)", "absolute", "pyautogui.click(0, 0)"],
    ["pyautogui.click(500, 250)", "qwen25", "pyautogui.click(960, 270)"],
    ["pyautogui.tripleClick(y=0.5, x=0.25)", "relative", "pyautogui.tripleClick(y=540, x=480)"],
    ["pyautogui.click(True, 0.5)", "relative", "pyautogui.click(True, 0.5)"],
    ["pyautogui.write('pyautogui.click(0.5, 0.5)')", "relative", "pyautogui.write('pyautogui.click(0.5, 0.5)')"],
    ["a() # pyautogui.click(0.5, 0.5)", "relative", "a() # pyautogui.click(0.5, 0.5)"],
    ["pyautogui.click(0.5,\n0.5)", "relative", "pyautogui.click(0.5,\n0.5)"],
    ["pyautogui.click(*p, 0.5)", "relative", "pyautogui.click(*p, 0.5)"],
    ["pyautogui.click(.5, 5e-1, button='a, b')", "relative", "pyautogui.click(960, 540, button='a, b')"],
    ["my.pyautogui.click(0.5, 0.5)", "relative", "my.pyautogui.click(0.5, 0.5)"]
  ] as const) {
    it(`${JSON.stringify(code)} in ${type} units`, () => {
      assert.strictEqual(projectCode(code, screen, type), expected)
    })
  }

  it("rounds halves to even numbers, as Python does: 0.5 of 1081 and of 1083", () => {
    assert.deepStrictEqual([540.5, 541.5, -0.5, -1.5, 0.4, 0.6].map(roundHalfEven), [540, 542, 0, -2, 0, 1])
  })

  for (const [reply, expected] of [
    ["## Code:\n```python\na()\n## no heading\nb()\n```", ["a()\n## no heading\nb()"]],
    ["## Code:\n```python\na()\n```\n## Thought:\n```python\nb()\n```", ["a()"]],
    ["## Action:\nA\n## Code:\n```python\n## Action: open\n## Code\na()\n```", ["## Action: open\n## Code\na()"]],
    ["## Code:\na()\\nb()", ["a()\nb()"]],
    ["## Code:\n```python\nx = 'a\\nb'\\ny()\n```", ["x = 'a\\nb'\ny()"]],
    ['## Code:\n```json\n{"action": "computer.terminate", "status": "failure"}\n```', ["FAIL"]],
    ["## Code:\n```python\nraise SystemExit('failure')\n```", ["raise SystemExit('failure')"]],
    [
      "## Code:\n```python\nreturn\n```",
      "Invalid Python action: `return` statement outside of a function/method (line 1, offset 1)"
    ],
    ["## Code:\n```python\na()\n  b()\n```", "Invalid Python action: Unexpected indentation (line 2, offset 1)"]
  ] as const) {
    it(JSON.stringify(reply), () => {
      assert.deepStrictEqual(commands(reply), typeof expected === "string" ? expected : [...expected])
    })
  }

  it("takes the thought from the reasoning, or from its section when the model is not to think", () => {
    const reply = assistant(
      new ReasoningPart({ text: "why" }),
      text("## Thought:\nbecause\n## Action:\nA\n## Code:\na()")
    )
    const thought = (thinking: boolean) => Either.map(read(reply, { thinking }), ({ thought }) => thought)
    assert.deepStrictEqual([thought(true), thought(false)], [Either.right("why"), Either.right("because")])
  })

  it("reads no reply that did not end by itself", () => {
    const reply = "## Code:\na()"
    assert.deepStrictEqual(commands(reply, { finishReason: "tool_calls" }), ["a()"])
    assert.match(String(commands(reply, { finishReason: "abort" })), /finish_reason=abort/)
  })
})

const good = [
  ...vectors.nano_parse_1920x1080.map(({ text }) => text),
  "<think>I see it</think>\n## Action:\nClick the menu\n## Code:\n```python\npyautogui.click(0.1, 0.9)\ntime.sleep(1)\npyautogui.write('hello\\nworld')\n```",
  "## Thought:\nx\n## Action:\ny\n## Code:\n```code\ncomputer.terminate(status='failure')\n```"
]

/** What is left of code when numbers, line breaks and blanks are gone, and the names of arguments with their equals signs stay. */
const skeleton = (code: string): string =>
  code.replace(/\\r\\n|\\n|\s|[-\d._]+(?:[eE][+-]?\d+)?|0[xXoObB][\da-fA-F]+/g, "")

describe("NanoOmniReply.read, fuzzed", () => {
  // The text that an action is read from is what follows the first Code heading.
  const property = (reply: string) => {
    const result = read(reply)
    if (Either.isLeft(result)) {
      assert.notStrictEqual(result.left.message, "")
      return false
    }
    const plain = reply.replace(/\\r\\n|\\n/g, "\n")
    const section = plain.slice(plain.search(/^[^\S\n]*##[ \t]*code\b/im))
    assert.lengthOf(result.right.decisions, 1)
    for (const decision of result.right.decisions) {
      switch (decision._tag) {
        case "Act":
          assert.include(skeleton(section), skeleton(decision.action.code))
          assert.isUndefined(syntaxError(decision.action.code))
          break
        case "Done":
          assert.match(section, /DONE|computer\.terminate[\s\S]*success/i)
          break
        case "Fail":
          assert.match(section, /FAIL|computer\.terminate[\s\S]*failure/i)
          break
        case "Wait":
          assert.match(section, /WAIT|computer\.wait/i)
          break
      }
    }
    return true
  }

  it("throws never, and acts only as the Code section says, in Python that compiles: 10,000 replies", () => {
    let readable = 0
    FastCheck.assert(
      FastCheck.property(replies(good), (reply) => {
        if (property(reply)) readable++
      }),
      { numRuns: 10_000 }
    )
    // Otherwise the property would say nothing.
    assert.isAbove(readable, 500)
  })

  it("is done with long replies at once", () => {
    for (const reply of tedious) {
      const started = performance.now()
      property(`## Code:\n${reply}`)
      property(reply)
      assert.isBelow(performance.now() - started, 10_000, reply.slice(0, 20))
    }
  })
})

describe("what is done to code", () => {
  const code = FastCheck.array(
    FastCheck.constantFrom(
      "'",
      '"',
      "'''",
      "\\",
      "\\n",
      "\\r\\n",
      "\n",
      "#",
      "a",
      "(",
      ")",
      ",",
      " ",
      "0.5",
      "1",
      "pyautogui.click(",
      "pyautogui.moveTo(",
      "x=",
      "y="
    ),
    { maxLength: 30 }
  ).map((parts) => parts.join(""))

  it("spans join to the code again", () => {
    FastCheck.assert(
      FastCheck.property(code, (code) =>
        assert.strictEqual(
          spans(code)
            .map(({ text }) => text)
            .join(""),
          code
        )
      ),
      { numRuns: 5000 }
    )
  })

  it("mending line breaks changes no byte of a string or a comment", () => {
    const kept = (code: string) =>
      spans(code)
        .filter(({ kind }) => kind !== "code")
        .map(({ text }) => text)
    FastCheck.assert(
      FastCheck.property(code, (code) => {
        const repaired = spans(code).map((span) =>
          span.kind === "code" ? { ...span, text: repairNewlines(span.text) } : span
        )
        assert.strictEqual(repairNewlines(code), repaired.map(({ text }) => text).join(""))
        // Read anew, the strings are the same ones wherever the code was sound Python.
        if (syntaxError(repairNewlines(code)) === undefined)
          assert.deepStrictEqual(kept(repairNewlines(code)), kept(code))
      }),
      { numRuns: 2000 }
    )
  })

  it("projection leaves pixels as they are: twice is once", () => {
    const argument = FastCheck.oneof(
      FastCheck.integer({ min: 2, max: 4000 }),
      FastCheck.double({ min: 1.51, max: 4000, noNaN: true })
    )
    FastCheck.assert(
      FastCheck.property(argument, argument, (x, y) => {
        const once = projectCode(`pyautogui.click(${x}, ${y})`, screen, "relative")
        assert.strictEqual(projectCode(once, screen, "relative"), once)
        assert.strictEqual(once, `pyautogui.click(${roundHalfEven(x)}, ${roundHalfEven(y)})`)
      })
    )
  })
})

// -----------------------------------------------------------------------------
// Prompts and contract
// -----------------------------------------------------------------------------

const options = (encoded: typeof NanoOmni.Options.Encoded = {}) => Schema.decodeSync(NanoOmni.Options)(encoded)

const shown = (turn: number): Shown => ({
  image: new BlobRef({ sha256: String(turn).padStart(64, "0"), bytes: 1, mediaType: "image/png" })
})

const turn = (at: number, code = `a(${at})`): Turn => ({
  shown: shown(at),
  message: assistant(text(`reply ${at}`)),
  read: Either.right({
    decisions: [Decision.Act({ action: DesktopAction.Python({ code }) })],
    thought: `thought ${at}`,
    action: `action ${at}`,
    code
  })
})

const view = (completed: number, live: ReadonlyArray<number>, more: Partial<PromptView> = {}): PromptView => ({
  instruction: "Do it",
  password: "secret",
  screen,
  turns: Array.from({ length: completed }, (_, at) => turn(at)),
  now: shown(completed),
  isLive: (at) => at === completed || live.includes(at),
  ...more
})

/** A letter for each message: its role, the images by turn, and the steps that its text names. */
const drawn = (messages: ReadonlyArray<Message>): ReadonlyArray<string> =>
  messages.map((message) => {
    const parts = message.content.map((part) => {
      if (part._tag === "ImagePart") return `[${Number(part.blob.sha256)}]`
      return part._tag === "TextPart"
        ? Array.from(part.text.matchAll(/# Step (\d+)|on Step (\d+)|action (\d+)/g), ([, folded, now, action]) =>
            folded !== undefined ? `#${folded}` : now !== undefined ? `@${now}` : `a${action}`
          ).join("")
        : ""
    })
    return `${message.role} ${parts.join("")}`.trim()
  })

describe("NanoOmni prompts", () => {
  const protocol = NanoOmni.make(options())

  it("one image: all that was done is text on the current message", () => {
    assert.deepStrictEqual(drawn(protocol.render(view(3, []))), ["system", "user [3]#1a0#2a1#3a2@4"])
  })

  it("three images: older turns are text on the first of them", () => {
    assert.deepStrictEqual(drawn(protocol.render(view(4, [2, 3]))), [
      "system",
      "user [2]#1a0#2a1@3",
      "assistant a2",
      "user [3]@4",
      "assistant a3",
      "user [4]@5"
    ])
  })

  it("a sink: what was folded comes between it and the newest", () => {
    assert.deepStrictEqual(drawn(protocol.render(view(4, [0, 3]))), [
      "system",
      "user [0]@1",
      "assistant a0",
      "user [3]#2a1#3a2@4",
      "assistant a3",
      "user [4]@5"
    ])
  })

  it("never repeats code", () => {
    const all = JSON.stringify(protocol.render(view(6, [3, 4, 5])))
    assert.notInclude(all, "a(")
    assert.include(all, "thought 0")
  })

  it("tells the password and leaves other braces alone", () => {
    const wire = {
      system_prompt_template: "{password} {passoword} {x}",
      instruction_template: "{instruction}",
      step_template: "{step_num}",
      text_history_template: "{thought}{action}",
      assistant_history_template: "{thought}{action}"
    }
    const [first] = NanoOmni.make(options({ wire })).render(view(0, []))
    assert.deepStrictEqual(first.content, [text("secret {passoword} {x}")])
  })

  it("warns of code that comes again and again, and not of pressing Return", () => {
    const warned = (codes: ReadonlyArray<string>, window = 12) => {
      const protocol = NanoOmni.make(options({ repeated_action_warning_threshold: 3, repeated_action_window: window }))
      return JSON.stringify(protocol.render(view(0, [], { turns: codes.map((code, at) => turn(at, code)) }))).includes(
        "run the same code"
      )
    }
    assert.isTrue(warned(["a()", "b()", "a()", "a()"]))
    assert.isFalse(warned(["a()", "a()", "a()", "b()"]))
    assert.isFalse(warned(["a()", "b()", "a()", "a()"], 3))
    assert.isFalse(warned(["pyautogui.press('enter')", "pyautogui.press('enter')", "pyautogui.press('enter')"]))
  })

  it("shows the checklist in every prompt, last, when asked to", () => {
    const [, now] = NanoOmni.make(options({ pre_done_checklist: true })).render(view(0, []))
    assert.include(JSON.stringify(now), "Before you say that the task is complete")
    assert.notInclude(JSON.stringify(protocol.render(view(0, []))), "Before you say that the task is complete")
  })

  it("asks again at a temperature of at least 0.2, or at the one that is given", () => {
    const { temperature } = protocol.retries
    assert.deepStrictEqual([temperature?.(0), temperature?.(0.6), temperature?.(undefined)], [0.2, 0.6, undefined])
    assert.strictEqual(NanoOmni.make(options({ parse_retry_temperature: 0 })).retries.temperature?.(0.6), 0)
  })

  it("cuts what it repeats of a reply and of an error to their ends", () => {
    const { feedback } = NanoOmni.make(options({ parse_error_feedback: true })).retries
    const [said, asked] =
      feedback?.(
        new ParseFailure({ kind: "unparseable", message: `${"e".repeat(3000)}!` }),
        assistant(text(`${"r".repeat(9000)}!`))
      ) ?? []
    assert.strictEqual(said instanceof AssistantMessage ? said.text : "", `${"r".repeat(7999)}!`)
    assert.include(JSON.stringify(asked), `${"e".repeat(1999)}!`)
    assert.notInclude(JSON.stringify(asked), "e".repeat(2000))
  })
})

describe("NanoOmni contract", () => {
  const wire = {
    system_prompt_template: "s",
    instruction_template: "i",
    step_template: "p",
    text_history_template: "t",
    assistant_history_template: "a"
  }
  const policy = FixedWindow.make({ keepImages: 3 })
  const contract = (encoded: typeof NanoOmni.Options.Encoded = {}, maxSteps = 15) =>
    contractOf(NanoOmni.make(options(encoded)), policy, { maxSteps })

  // osworld-gym.md 3.6. The wire contract's id is the published one; the texts that it is made of are not ours to have.
  for (const [steps, id] of [
    [15, "osworld-agent-contract-0b810886c2d70210e87cfdec"],
    [30, "osworld-agent-contract-66f5479768e23c6df96510db"],
    [50, "osworld-agent-contract-566221f3e68521b4e029bf6d"],
    [100, "osworld-agent-contract-cb1698f34a75d3dbf5fd5063"],
    [200, "osworld-agent-contract-87e0e71de975a7368ac1bc07"]
  ] as const) {
    it(`is the published one but for the texts: ${steps} steps`, () => {
      const { model_protocol, ...rest } = contract({}, steps)
      assert.isNotNull(model_protocol)
      if (model_protocol === null) return
      const wire_contract_id = "osworld-model-wire-1059d01a59755ee9b4f5bb87"
      assert.strictEqual(Contract.contractId({ ...rest, model_protocol: { ...model_protocol, wire_contract_id } }), id)
    })
  }

  it("hashes the texts of a file: its own id, whatever else the file repeats", () => {
    const id = (encoded: typeof NanoOmni.Options.Encoded) => contract(encoded).model_protocol?.wire_contract_id
    // SHA-256 of [{"assistant_history_template":"a",...}], computed with Python's json and hashlib.
    assert.strictEqual(id({ wire }), "osworld-model-wire-653450388ec5494bb2099cb5")
    assert.strictEqual(
      id({ wire: { ...wire, schema_version: 1, protocol_id: "nano-omni-v3-osworld-v1", thinking: true } }),
      id({ wire })
    )
    assert.notStrictEqual(id({}), id({ wire }))
    assert.notStrictEqual(id({ wire, thinking: false }), id({ wire }))
  })

  it("has an id of its own when texts are in use that no contract names", () => {
    const id = (encoded: typeof NanoOmni.Options.Encoded) => contract(encoded).model_protocol?.wire_contract_id
    assert.notStrictEqual(id({ wire, pre_done_checklist: true }), id({ wire }))
    assert.notStrictEqual(id({ wire, parse_error_feedback: true }), id({ wire }))
    assert.strictEqual(id({ wire: { ...wire, pre_done_template: "unused" } }), id({ wire }))
  })

  it("refuses a file for thinking where thinking is off", () => {
    assert.throws(() => options({ thinking: false, wire: { ...wire, thinking: true } }), /thinking/)
  })
})
