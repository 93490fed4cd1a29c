import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import {
  AssistantMessage,
  assistant,
  ComputerAnswer,
  ComputerCallPart,
  ComputerTool,
  ImagePart,
  ImageUrlPart,
  type Message,
  type OutputPart,
  ReasoningPart,
  ReasoningSeal,
  SystemMessage,
  system,
  Tool,
  ToolCallPart,
  ToolMessage,
  text,
  tool,
  user
} from "../../src/model/Conversation.js"
import * as Convert from "../../src/model/Convert.js"
import * as ConvertMessages from "../../src/model/ConvertMessages.js"
import { broken } from "./convert/broken.js"
import { address, messagesConversation, responsesConversation, told } from "./convert/conversations.js"

const toMessages = (messages: ReadonlyArray<Message>) => ConvertMessages.toMessages(messages, { image: address })

const arrived = (wire: unknown) => JSON.parse(JSON.stringify(wire))

const bodyOf = (wire: unknown) =>
  typeof wire === "object" && wire !== null && "messages" in wire ? wire : assert.fail("no messages")

/** The wire takes no empty text, and no message of none. */
const isSaid = (part: OutputPart): boolean => part._tag !== "TextPart" || part.text !== ""

const refused = <A>(result: Either.Either<A, Convert.ConversionError>): string =>
  Either.match(result, { onLeft: (error) => error.message, onRight: () => assert.fail("it was carried") })

const computer = new ComputerCallPart({
  callId: "c",
  form: "action",
  actions: [{ action: "left_click", coordinate: [1, 2] }],
  safetyChecks: []
})

const batch = new ComputerCallPart({
  callId: "c",
  id: "cu_1",
  form: "actions",
  actions: [{ type: "click", button: "left", x: 1, y: 2 }, { type: "wait" }],
  safetyChecks: [{ id: "sc_1", code: "malicious_instructions", message: "look" }]
})

const blob = new BlobRef({ sha256: "a".repeat(64), bytes: 1, mediaType: "image/png" })

describe("Messages", () => {
  it("gives a conversation back", () => {
    fc.assert(
      fc.property(messagesConversation, (messages) => {
        const wire = arrived(Either.getOrThrow(toMessages(messages)))
        assert.deepStrictEqual(Either.getOrThrow(ConvertMessages.fromMessages(wire)), told(messages))
      }),
      { numRuns: 1_000 }
    )
  })

  // Blocks as Anthropic's API reference and its computer-use guide have them.
  it("has the blocks of its API", () => {
    const wire = Either.getOrThrow(
      ConvertMessages.toMessages(
        [
          system("be brief"),
          user(text("do it"), new ImagePart({ blob, detail: "high" })),
          assistant(
            new ReasoningPart({ text: "hm", seal: new ReasoningSeal({ kind: "signature", value: "s" }) }),
            new ReasoningPart({ text: "", seal: new ReasoningSeal({ kind: "redacted", value: "r" }) }),
            text(""),
            text("clicking"),
            computer,
            new ToolCallPart({ callId: "d", name: "look", arguments: "{}" })
          ),
          tool("c", text("Success")),
          tool("d", text("seen"), new ImageUrlPart({ url: "data:image/png;base64,AQID" })),
          user(text("go on"))
        ],
        { image: () => "https://example.org/a.png" }
      )
    )
    assert.deepStrictEqual(wire, {
      system: [{ type: "text", text: "be brief" }],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "do it" },
            { type: "image", source: { type: "url", url: "https://example.org/a.png" } }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "s" },
            { type: "redacted_thinking", data: "r" },
            { type: "text", text: "clicking" },
            { type: "tool_use", id: "c", name: "computer", input: { action: "left_click", coordinate: [1, 2] } },
            { type: "tool_use", id: "d", name: "look", input: {} }
          ]
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "Success" }] },
            {
              type: "tool_result",
              tool_use_id: "d",
              content: [
                { type: "text", text: "seen" },
                { type: "image", source: { type: "base64", media_type: "image/png", data: "AQID" } }
              ]
            },
            { type: "text", text: "go on" }
          ]
        }
      ]
    })
  })

  // A block of `ComputerLeftClickToolUseBlock`, as version 1.14 of the official client has it.
  it("tells a call of the toolset by the action's own name", () => {
    const block = {
      type: "tool_use",
      id: "c",
      name: "left_click",
      toolset_name: "computer",
      input: { coordinate: [1, 2] }
    }
    const message = Either.getOrThrow(ConvertMessages.fromMessagesContent([block]))
    assert.deepStrictEqual(message, assistant(new ComputerCallPart({ ...computer, form: "member" })))
    assert.deepStrictEqual(Either.getOrThrow(toMessages([message])).messages, [{ role: "assistant", content: [block] }])
    assert.include(
      refused(ConvertMessages.fromMessagesContent([{ ...block, input: { action: "x" } }])),
      "content[0].input.action"
    )
    assert.include(
      refused(Convert.toResponsesInput([message], { image: address })),
      "a call of another server's computer tool"
    )
  })

  it("leaves reasoning out when asked to", () => {
    const messages = [assistant(new ReasoningPart({ text: "hm" }), text("a"))]
    const { messages: wire } = Either.getOrThrow(
      ConvertMessages.toMessages(messages, { image: address, reasoning: "omit" })
    )
    assert.deepStrictEqual(wire, [{ role: "assistant", content: [{ type: "text", text: "a" }] }])
  })

  for (const [what, messages, message] of [
    ["a system message further on", [user(text("a")), system("b")], "messages[1]: a message of the role system"],
    ["an empty reply", [assistant(text(""))], "messages[0]: a message of the model that says nothing"],
    [
      "arguments that are no object",
      [assistant(new ToolCallPart({ callId: "c", name: "f", arguments: "[1]" }))],
      "arguments of a call of"
    ],
    [
      "a function named computer",
      [assistant(new ToolCallPart({ callId: "c", name: "computer", arguments: "{}" }))],
      "a function by the name of computer"
    ],
    ["a batch of actions", [assistant(batch)], "a call of another server's computer tool"],
    [
      "an answer of Responses",
      [
        new ToolMessage({
          role: "tool",
          callId: "c",
          content: [new ImagePart({ blob })],
          computer: new ComputerAnswer({ form: "action", acknowledged: [] })
        })
      ],
      "messages[0]: an answer of another server's computer tool"
    ],
    [
      "what OpenAI sealed",
      [assistant(new ReasoningPart({ text: "", seal: new ReasoningSeal({ kind: "encrypted", value: "x" }) }))],
      "messages[0]: sealed reasoning"
    ],
    [
      "an address that is no base64",
      [user(new ImageUrlPart({ url: "data:image/svg+xml,<svg/>" }))],
      "whose data: address is not base64"
    ]
  ] as const) {
    it(`refuses ${what}`, () => {
      assert.include(refused(toMessages(messages)), message)
    })
  }

  it("takes developers' messages at the beginning as the system's", () => {
    const developer = new SystemMessage({ role: "developer", content: [text("b")] })
    assert.deepStrictEqual(Either.getOrThrow(toMessages([system("a"), developer])).system, [
      { type: "text", text: "a" },
      { type: "text", text: "b" }
    ])
  })

  it("has its own tools", () => {
    const click = new Tool({ name: "click", description: "clicks", parameters: { type: "object" } })
    const screen = new ComputerTool({ generation: "2025-11-24", width: 1280, height: 720, environment: "linux" })
    assert.deepStrictEqual(Either.getOrThrow(ConvertMessages.toMessagesTools([click, screen])), [
      { name: "click", description: "clicks", input_schema: { type: "object" } },
      { type: "computer_20251124", name: "computer", display_width_px: 1280, display_height_px: 720 }
    ])
    const toolset = new ComputerTool({ generation: "2026-08-01", width: 1280, height: 720, environment: "linux" })
    assert.deepStrictEqual(Either.getOrThrow(ConvertMessages.toMessagesTools([toolset])), [
      { type: "computer_toolset_20260801" }
    ])
    const other = new ComputerTool({ generation: "preview", width: 1280, height: 720, environment: "linux" })
    assert.include(refused(ConvertMessages.toMessagesTools([other])), "tools[0]: the computer tool of preview")
    assert.include(
      refused(ConvertMessages.toMessagesTools([new Tool({ name: "computer", parameters: {} })])),
      "a function by the name of computer"
    )
    for (const [choice, wire] of [
      ["auto", { type: "auto" }],
      ["none", { type: "none" }],
      ["required", { type: "any" }],
      [{ name: "click" }, { type: "tool", name: "click" }]
    ] as const) {
      assert.deepStrictEqual(ConvertMessages.toMessagesToolChoice(choice), wire)
    }
  })
})

describe("the computer on other wires", () => {
  const answer = (form: "action" | "actions") =>
    new ToolMessage({
      role: "tool",
      callId: "c",
      content: [new ImagePart({ blob, ...(form === "actions" ? { detail: "original" as const } : {}) })],
      computer: new ComputerAnswer({ form, acknowledged: form === "action" ? [] : batch.safetyChecks })
    })

  // Items as OpenAI's API reference and its two computer-use guides have them.
  it("is a computer_call on Responses, of one action or of a list", () => {
    const { actions, callId } = new ComputerCallPart({ ...batch, actions: batch.actions.slice(0, 1) })
    const preview = new ComputerCallPart({ callId, actions, form: "action", safetyChecks: [] })
    const wire = Either.getOrThrow(
      Convert.toResponsesInput([assistant(preview), answer("action"), assistant(batch), answer("actions")], {
        image: () => "data:image/png;base64,AQ=="
      })
    )
    assert.deepStrictEqual(wire, [
      {
        type: "computer_call",
        call_id: "c",
        action: { type: "click", button: "left", x: 1, y: 2 },
        pending_safety_checks: [],
        status: "completed"
      },
      {
        type: "computer_call_output",
        call_id: "c",
        output: { type: "input_image", image_url: "data:image/png;base64,AQ==" }
      },
      {
        id: "cu_1",
        type: "computer_call",
        call_id: "c",
        actions: batch.actions,
        pending_safety_checks: batch.safetyChecks,
        status: "completed"
      },
      {
        type: "computer_call_output",
        call_id: "c",
        acknowledged_safety_checks: batch.safetyChecks,
        output: { type: "computer_screenshot", image_url: "data:image/png;base64,AQ==", detail: "original" }
      }
    ])
  })

  it("keeps reasoning that OpenAI hides, with and without a summary", () => {
    const items = [
      { id: "rs_1", type: "reasoning", summary: [], encrypted_content: "x" },
      { id: "rs_2", type: "reasoning", summary: [{ type: "summary_text", text: "a" }], encrypted_content: "y" }
    ]
    const message = Either.getOrThrow(Convert.fromResponsesOutput(items))
    assert.deepStrictEqual(
      message.content.map((part) =>
        part._tag === "ReasoningPart" ? [part.text, part.seal?.value, part.seal?.id] : []
      ),
      [
        ["", "x", "rs_1"],
        ["a", "y", "rs_2"]
      ]
    )
    assert.deepStrictEqual(Either.getOrThrow(Convert.toResponsesInput([message], { image: address })), items)
  })

  it("is refused by name on Chat Completions", () => {
    const chat = (messages: ReadonlyArray<Message>, reasoning: Convert.ReasoningMode = "inline") =>
      Convert.toChatMessages(messages, { image: address, reasoning })
    assert.include(refused(chat([assistant(computer)])), "messages[0]: a call of the computer tool")
    assert.include(refused(chat([answer("action")])), "messages[0]: an answer of the computer tool")
    const sealed = assistant(
      new ReasoningPart({ text: "hm", seal: new ReasoningSeal({ kind: "signature", value: "s" }) }),
      text("a")
    )
    assert.include(refused(chat([sealed], "field")), "messages[0]: sealed reasoning")
    assert.deepStrictEqual(Either.getOrThrow(chat([sealed], "omit")), [{ role: "assistant", content: "a" }])
    const screen = new ComputerTool({ generation: "responses", width: 1, height: 1, environment: "linux" })
    assert.include(refused(Convert.toChatTools([screen])), "tools[0]: the computer tool, which Chat Completions lacks")
  })

  it("is offered on Responses as what it is", () => {
    const size = { width: 1920, height: 1080, environment: "linux" } as const
    const tools = [
      new ComputerTool({ generation: "preview", ...size }),
      new ComputerTool({ generation: "responses", ...size })
    ]
    assert.deepStrictEqual(Either.getOrThrow(Convert.toResponsesTools(tools)), [
      { type: "computer_use_preview", display_width: 1920, display_height: 1080, environment: "linux" },
      { type: "computer" }
    ])
    const claude = new ComputerTool({ generation: "2025-01-24", ...size })
    assert.include(refused(Convert.toResponsesTools([claude])), "the computer tool of 2025-01-24")
  })

  it("refuses what is no call or no answer, by its place", () => {
    const call = { type: "computer_call", call_id: "c", pending_safety_checks: [] }
    const output = (value: unknown) => [{ type: "computer_call_output", call_id: "c", output: value }]
    for (const [items, message] of [
      [[call], "input[0]: a computer_call without exactly one of action and actions"],
      [[{ ...call, action: {}, actions: [] }], "input[0]: a computer_call without exactly one"],
      [[{ ...call, actions: [1] }], "input[0].actions[0]: a number where an object should be"],
      [[{ ...call, action: {}, pending_safety_checks: {} }], "input[0].pending_safety_checks: an object"],
      [
        [{ ...call, action: JSON.parse('{"__proto__": {"type": "click"}}') }],
        "input[0].action: a field named __proto__"
      ],
      [output("done"), "input[0].output: a text where an object should be"],
      [output({ type: "text" }), 'input[0].output: a screenshot of type "text"'],
      [output({ type: "computer_screenshot", file_id: "f" }), "file_id"]
    ] as const) {
      assert.include(refused(Convert.fromResponsesInput(items)), message)
    }
    const two = new AssistantMessage({
      role: "assistant",
      content: [new ComputerCallPart({ ...batch, form: "action" })]
    })
    assert.include(refused(Convert.toResponsesInput([two], { image: address })), "a computer_call of 2 actions")
    const words = new ToolMessage({
      role: "tool",
      callId: "c",
      content: [text("done")],
      computer: new ComputerAnswer({ form: "action", acknowledged: [] })
    })
    assert.include(refused(Convert.toResponsesInput([words], { image: address })), "that is not one image")
  })

  it("is among what the properties make", () => {
    const made = fc.sample(responsesConversation, 200).flat()
    assert.isTrue(made.some((message) => message.role === "assistant" && message.computerCalls.length > 0))
    assert.isTrue(made.some((message) => message.role === "tool" && message.computer !== undefined))
  })
})

describe("whatever arrives", () => {
  const reply = {
    content: [
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "redacted_thinking", data: "d" },
      { type: "text", text: "a", citations: null },
      { type: "tool_use", id: "c", name: "computer", input: { action: "wait" } },
      { type: "tool_use", id: "d", name: "left_click", toolset_name: "computer", input: { coordinate: [1, 2] } },
      { type: "tool_use", id: "e", name: "f", input: {} }
    ]
  }
  const response = {
    output: [
      { type: "reasoning", id: "r", summary: [{ type: "summary_text", text: "a" }], encrypted_content: "x" },
      { type: "computer_call", id: "i", call_id: "c", action: { type: "wait" }, pending_safety_checks: [{ id: "s" }] },
      { type: "computer_call", call_id: "d", actions: [{ type: "wait" }], pending_safety_checks: [] }
    ],
    answers: [
      {
        type: "computer_call_output",
        call_id: "c",
        acknowledged_safety_checks: [{ id: "s" }],
        output: { type: "computer_screenshot", image_url: "u", detail: "original" }
      }
    ]
  }

  /** What was taken can be told again, and comes back as it was taken. */
  const again = (
    read: Either.Either<ReadonlyArray<Message>, Convert.ConversionError>,
    write: (messages: ReadonlyArray<Message>) => unknown,
    reread: (wire: unknown) => unknown
  ): boolean => {
    if (Either.isLeft(read)) {
      assert.isAtLeast(read.left.message.length, 20)
      return false
    }
    assert.deepStrictEqual(reread(arrived(write(read.right))), read.right)
    return true
  }

  it("is taken as it is or refused, and nothing is thrown: 10,000 replies of each wire", () => {
    let taken = 0
    const count = (was: boolean) => {
      if (was) taken++
    }
    const list = (value: unknown) => (Array.isArray(value) ? value : [value])
    const responses = (messages: ReadonlyArray<Message>) =>
      Either.getOrThrow(Convert.toResponsesInput(messages, { image: address }))
    fc.assert(
      fc.property(broken(reply).map(arrived), broken(response).map(arrived), (message, { answers, output }) => {
        const said = Either.map(ConvertMessages.fromMessagesContent(message["content"]), (one) => [one])
        const speaks = Either.map(said, (all) =>
          all.filter(({ content }) => content.length > 0 && content.every(isSaid))
        )
        count(
          again(
            speaks,
            (messages) => Either.getOrThrow(toMessages(messages)),
            (wire) => Either.getOrThrow(ConvertMessages.fromMessages(bodyOf(wire)))
          )
        )
        const reread = (wire: unknown) => Either.getOrThrow(Convert.fromResponsesInput(wire))
        count(again(Convert.fromResponsesInput(list(output)), responses, reread))
        count(again(Convert.fromResponsesInput(list(answers)), responses, reread))
      }),
      { numRuns: 10_000 }
    )
    // Otherwise the property would say nothing.
    assert.isAbove(taken, 3_000)
  })
})
