import { readdirSync, readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { syntaxError } from "../../src/agents/internal/python.js"
import * as Prompt from "../../src/agents/Prompt.js"
import type { PromptView, ReadContext, Shown, Turn } from "../../src/agents/Protocol.js"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import { assistant, type Message, text } from "../../src/model/Conversation.js"
import vectors from "../vectors/osworld-gym-vectors.json" with { type: "json" }
import { replies, tedious } from "./replies.js"

const screen = { width: 1920, height: 1080 }
const protocol = (options: typeof Prompt.Options.Encoded = {}) =>
  Prompt.make(Schema.decodeSync(Prompt.Options)(options))

const shown = (turn: number, more: Partial<Shown> = {}): Shown => ({
  image: new BlobRef({ sha256: String(turn).padStart(64, "0"), bytes: 1, mediaType: "image/png" }),
  ...more
})

const read = (reply: string, options: typeof Prompt.Options.Encoded = {}, marks?: Shown["marks"]) => {
  const context: ReadContext = {
    screen,
    finishReason: "stop",
    shown: shown(0, marks === undefined ? {} : { marks }),
    turns: []
  }
  return protocol(options).read(assistant(text(reply)), context)
}

const actions = (reply: string, options: typeof Prompt.Options.Encoded = {}, marks?: Shown["marks"]) =>
  Either.match(read(reply, options, marks), {
    onLeft: ({ message }) => message,
    onRight: ({ decisions }) =>
      decisions.map((decision) => (decision._tag === "Act" ? decision.action.code : decision._tag.toUpperCase()))
  })

const turn = (at: number, said = `reply ${at}`, more: Partial<Shown> = {}): Turn => ({
  shown: shown(at, more),
  message: assistant(text(said)),
  read: Either.right({ decisions: [] })
})

const view = (turns: ReadonlyArray<Turn>, live: ReadonlyArray<number>, more: Partial<PromptView> = {}): PromptView => ({
  instruction: "Do {step} it",
  password: "secret",
  screen,
  turns,
  now: shown(turns.length),
  isLive: (at) => at === turns.length || live.includes(at),
  ...more
})

const drawn = (messages: ReadonlyArray<Message>): ReadonlyArray<string> =>
  messages
    .slice(1)
    .map(({ content, role }) =>
      [role, ...content.map((part) => (part._tag === "TextPart" ? part.text : part._tag))].join(" | ")
    )

describe("Prompt.render", () => {
  it("is the task, then each screen and each answer", () => {
    assert.deepStrictEqual(drawn(protocol().render(view([turn(0), turn(1, "")], [1]))), [
      "user | The task: Do {step} it\n\nThis is the desktop now. (What it showed is no longer shown.)",
      "assistant | reply 0",
      "user | The desktop after step 1. | ImagePart",
      "assistant | (no reply)",
      "user | The desktop after step 2. | ImagePart"
    ])
  })

  it("keeps the task when the turn that told it is summed up", () => {
    const summary = { turns: 1, text: "I did {instruction}" }
    assert.deepStrictEqual(drawn(protocol().render(view([turn(0), turn(1)], [1], { summary }))), [
      "user | The task: Do {step} it\n\nA summary of what came before, in your own words:\nI did {instruction}\n\nThe desktop after step 1. | ImagePart",
      "assistant | reply 1",
      "user | The desktop after step 2. | ImagePart"
    ])
  })

  for (const [observation, expected] of [
    ["screenshot", ["TextPart", "ImagePart"]],
    ["a11y_tree", ["TextPart"]],
    ["screenshot_a11y_tree", ["TextPart", "ImagePart"]],
    ["som", ["TextPart", "ImagePart"]]
  ] as const) {
    it(`shows ${observation}, and of a turn that has gone neither picture nor tree`, () => {
      const tree = observation === "screenshot" ? {} : { tree: "tag\tname" }
      const [, gone, , now] = protocol({ observation }).render(view([turn(0, "a", tree)], [], { now: shown(1, tree) }))
      assert.deepStrictEqual(
        now?.content.map(({ _tag }) => _tag),
        [...expected]
      )
      assert.deepStrictEqual(
        gone?.content.map(({ _tag }) => _tag),
        ["TextPart"]
      )
      assert.strictEqual(JSON.stringify(now).includes("tag\\tname"), observation !== "screenshot")
      assert.notInclude(JSON.stringify(gone), "tag\\tname")
    })
  }

  it("tells the password, and how to act", () => {
    const told = (options: typeof Prompt.Options.Encoded) => JSON.stringify(protocol(options).render(view([], []))[0])
    assert.include(told({}), "password, it is: secret")
    assert.include(told({}), "```python")
    assert.include(told({ action_space: "computer_13" }), "action_type")
    assert.include(told({ observation: "som" }), "tag_1")
  })

  it("wire contracts differ where prompts do", () => {
    const all = (["screenshot", "a11y_tree", "screenshot_a11y_tree"] as const).flatMap((observation) =>
      (["pyautogui", "computer_13"] as const).map((action_space) =>
        JSON.stringify(protocol({ observation, action_space }).wire.contract)
      )
    )
    assert.strictEqual(new Set([...all, JSON.stringify(protocol({ observation: "som" }).wire.contract)]).size, 7)
  })
})

describe("Prompt.read", () => {
  it("reads code that compiles, and says of other code what is wrong with it", () => {
    assert.deepStrictEqual(actions("```python\na()\nDONE\n```"), ["a()", "DONE"])
    assert.match(String(actions("```python\nif True\n```")), /Invalid Python action: .* \(line 1, offset 8\)/)
    assert.match(String(actions("```python\na()\n```\n```python\nb(\n```")), /Invalid Python action/)
    assert.match(String(actions("I will click")), /no fenced block/)
  })

  it("gives marks their pixels, those that the code speaks of", () => {
    const marks = [
      { x: 10, y: 20 },
      { x: 30, y: 40 }
    ]
    const som = { observation: "som" } as const
    assert.deepStrictEqual(actions("```python\npyautogui.click(*tag_2) # tag_1\nwrite('tag_9')\n```", som, marks), [
      "tag_2 = (30, 40)\npyautogui.click(*tag_2) # tag_1\nwrite('tag_9')"
    ])
    assert.match(
      String(actions("```python\npyautogui.click(*tag_3)\n```", som, marks)),
      /no tag_3: the marks on the screen are 1 to 2/
    )
    assert.match(String(actions("```python\npyautogui.click(*tag_01)\n```", som, marks)), /no tag_01/)
    assert.deepStrictEqual(actions("DONE", som, marks), ["DONE"])
  })

  it("reads every recorded reply of the bundled solutions", () => {
    const folder = new URL("../../examples/solutions/", import.meta.url)
    const files = readdirSync(folder).filter((name) => name.endsWith(".md"))
    assert.isAbove(files.length, 0)
    for (const name of files) {
      for (const reply of readFileSync(new URL(name, folder), "utf8").split(/^---[ \t]*\r?$/m)) {
        assert.isTrue(Either.isRight(read(reply.trim())), `${name}: ${String(actions(reply.trim()))}\n${reply}`)
      }
    }
  })

  const good = [
    ...vectors.gym_pyautogui_parse.map(({ text }) => text),
    "I click.\n```python\npyautogui.click(100, 200)\ntime.sleep(0.5)\npyautogui.write('x; y')\n```",
    "<think>hm</think>Done.\n```\nDONE\n```"
  ]

  for (const marks of [undefined, [{ x: 1, y: 2 }]]) {
    it(`throws never, and sends only what stands in a closed fence, in Python that compiles: 10,000 replies${marks === undefined ? "" : " with marks"}`, () => {
      let readable = 0
      const property = (reply: string) => {
        const found = read(reply, marks === undefined ? {} : { observation: "som" }, marks)
        if (Either.isLeft(found)) return
        readable++
        assert.isAbove(found.right.decisions.length, 0)
        for (const decision of found.right.decisions) {
          if (decision._tag === "Act") {
            const { code } = decision.action
            const own = marks === undefined ? code : code.replace(/^tag_1 = \(1, 2\)\n/, "")
            const at = reply.indexOf(own)
            assert.isAtLeast(at, 0)
            assert.include(reply.slice(0, reply.lastIndexOf(own)), "```")
            assert.include(reply.slice(at + own.length), "```")
            assert.isUndefined(syntaxError(code))
          } else {
            assert.include(reply.toUpperCase(), decision._tag.toUpperCase())
          }
        }
      }
      FastCheck.assert(FastCheck.property(replies(good), property), { numRuns: 10_000 })
      assert.isAbove(readable, 500)
      for (const reply of tedious) {
        const started = performance.now()
        property(reply)
        property(`\`\`\`${reply}\`\`\``)
        assert.isBelow(performance.now() - started, 10_000, reply.slice(0, 20))
      }
    })
  }
})
