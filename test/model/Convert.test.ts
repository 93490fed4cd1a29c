import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import {
  AssistantMessage,
  assistant,
  type Message,
  ReasoningPart,
  system,
  TextPart,
  Tool,
  ToolCallPart,
  text,
  tool,
  user
} from "../../src/model/Conversation.js"
import * as Convert from "../../src/model/Convert.js"
import { split, wrap } from "../../src/model/internal/convert/think.js"
import {
  address,
  chatAssistant,
  chatConversation,
  responsesConversation,
  sharedConversation,
  told,
  words
} from "./convert/conversations.js"

const cases = { numRuns: 1_000 }

/** As it arrives at the other end of a wire. */
const sent = (wire: unknown): ReadonlyArray<unknown> => {
  const arrived: unknown = JSON.parse(JSON.stringify(wire))
  return Array.isArray(arrived) ? arrived : assert.fail("no list")
}

const toChat = (messages: ReadonlyArray<Message>, reasoning: Convert.ReasoningMode = "inline") =>
  Either.getOrThrow(Convert.toChatMessages(messages, { image: address, reasoning, tokens: true }))

const fromChat = (wire: unknown) => Either.getOrThrow(Convert.fromChatMessages(sent(wire), { thinkTags: true }))

const toResponses = (messages: ReadonlyArray<Message>) =>
  Either.getOrThrow(Convert.toResponsesInput(messages, { image: address, tokens: true }))

const fromResponses = (wire: unknown) => Either.getOrThrow(Convert.fromResponsesInput(sent(wire)))

const refused = <A>(result: Either.Either<A, Convert.ConversionError>): string =>
  Either.match(result, { onLeft: (error) => error.message, onRight: () => assert.fail("it was carried") })

describe("round trips", () => {
  it("a conversation comes back from Chat Completions", () => {
    fc.assert(
      fc.property(chatConversation, fc.constantFrom("inline" as const, "field" as const), (messages, reasoning) => {
        assert.deepStrictEqual(fromChat(toChat(messages, reasoning)), told(messages))
      }),
      cases
    )
  })

  it("a conversation comes back from Responses", () => {
    fc.assert(
      fc.property(responsesConversation, (messages) => {
        assert.deepStrictEqual(fromResponses(toResponses(messages)), told(messages))
      }),
      cases
    )
  })

  it("the bridge from Responses to Chat Completions says what the conversation says", () => {
    const explicit = (messages: ReadonlyArray<Message>) =>
      // The bridge writes the detail that Responses leaves to its server.
      JSON.parse(JSON.stringify(messages), (_key, value) =>
        value?._tag === "ImageUrlPart" ? { detail: "auto", ...value } : value
      )
    fc.assert(
      fc.property(sharedConversation, (messages) => {
        const bridged = Either.getOrThrow(
          Convert.responsesRequestToChat({ model: "m", input: toResponses(messages) }, { tokens: true })
        )
        assert.deepStrictEqual(explicit(fromChat(bridged["messages"])), explicit(told(messages)))
      }),
      cases
    )
  })

  it("a reply says the same as a chat completion and as a response", () => {
    fc.assert(
      fc.property(chatAssistant, (message) => {
        const completion = { choices: [{ message: toChat([message])[0], finish_reason: "stop" }] }
        const response = Either.getOrThrow(
          Convert.chatReplyToResponses(completion, { model: "m" }, { id: "0", createdAt: 0, thinkTags: true })
        )
        const back = Either.getOrThrow(Convert.fromResponsesOutput(sent(response["output"])))
        // A response of nothing is one empty text.
        assert.deepStrictEqual(back, message.content.length === 0 ? assistant(text("")) : message)
      }),
      cases
    )
  })

  it("a reply told in Messages and sent back as history is what the model said", () => {
    const parsable = chatAssistant.map(({ content }) =>
      assistant(
        ...content.map((part) =>
          part._tag === "ToolCallPart"
            ? new ToolCallPart({
                callId: part.callId,
                name: part.name,
                arguments: JSON.stringify({ said: part.arguments })
              })
            : part
        )
      )
    )
    fc.assert(
      fc.property(parsable, (message) => {
        const [wire] = toChat([message])
        const reply = Either.getOrThrow(
          Convert.chatReplyToMessages(
            { choices: [{ message: wire, finish_reason: "stop" }] },
            { model: "m" },
            { id: "0", createdAt: 0, thinkTags: true }
          )
        )
        const request = {
          model: "m",
          messages: sent([
            { role: "assistant", content: reply["content"] },
            { role: "user", content: "go on" }
          ])
        }
        const history = Either.getOrThrow(Convert.messagesRequestToChat(request))
        assert.deepStrictEqual(history["messages"], [wire, { role: "user", content: "go on" }])
      }),
      cases
    )
  })
})

describe("think spans", () => {
  it("are cut out and put back without a letter changed", () => {
    fc.assert(
      fc.property(words, (whole) => {
        const pieces = split(whole)
        const joined = pieces.map((piece) => (piece._tag === "text" ? piece.text : wrap(piece.text))).join("")
        assert.strictEqual(joined, whole)
        assert.isFalse(pieces.some((piece) => piece._tag === "text" && piece.text === ""))
      }),
      cases
    )
  })

  it("end at the first end tag, run over lines, and stay words when they do not end", () => {
    const read = (content: string) =>
      Either.getOrThrow(Convert.fromChatMessage({ role: "assistant", content }, { thinkTags: true })).content
    assert.deepStrictEqual(read("<think>a\nb</think>\n\nc<think> d </think></think><think>e"), [
      new ReasoningPart({ text: "a\nb" }),
      new TextPart({ text: "\n\nc" }),
      new ReasoningPart({ text: " d " }),
      new TextPart({ text: "</think><think>e" })
    ])
  })

  it("are words where nobody looks for them", () => {
    const content = "<think>a</think>b"
    const read = Either.getOrThrow(Convert.fromChatMessage({ content }, { thinkTags: false }))
    assert.deepStrictEqual(read.content, [new TextPart({ text: content })])
    assert.deepStrictEqual(toChat([read]), [{ role: "assistant", content }])
  })

  it("take time in proportion to the text", () => {
    // A hundred thousand starts without an end: each looked at once more for every other would take minutes.
    assert.lengthOf(split("<think>".repeat(100_000)), 1)
    assert.lengthOf(split("<think></think>".repeat(100_000)), 100_000)
  })
})

describe("toChatMessages", () => {
  const spoken = assistant(
    new ReasoningPart({ text: "one" }),
    new TextPart({ text: "\n\nfirst " }),
    new ReasoningPart({ text: "two" }),
    new TextPart({ text: "second" }),
    new ToolCallPart({ callId: "c1", name: "click", arguments: '{"x": 1}' })
  )
  const toolCalls = [{ id: "c1", type: "function", function: { name: "click", arguments: '{"x": 1}' } }]

  it("puts reasoning inline, every span at its place", () => {
    assert.deepStrictEqual(toChat([spoken]), [
      {
        role: "assistant",
        content: "<think>one</think>\n\nfirst <think>two</think>second",
        tool_calls: toolCalls
      }
    ])
  })

  it("puts the span before all words into both fields, the others inline", () => {
    assert.deepStrictEqual(toChat([spoken], "field"), [
      {
        role: "assistant",
        content: "\n\nfirst <think>two</think>second",
        reasoning_content: "one",
        reasoning: "one",
        tool_calls: toolCalls
      }
    ])
  })

  it("leaves reasoning out when asked to", () => {
    assert.deepStrictEqual(toChat([spoken], "omit"), [
      { role: "assistant", content: "\n\nfirst second", tool_calls: toolCalls }
    ])
  })

  it("says null for no words and leaves out what is not there", () => {
    assert.deepStrictEqual(toChat([assistant()]), [{ role: "assistant", content: null }])
    assert.deepStrictEqual(toChat([system("s"), user(text("u"))]), [
      { role: "system", content: "s" },
      { role: "user", content: "u" }
    ])
  })

  it("keeps tokens to itself unless asked", () => {
    const [message] = fromChat([
      {
        role: "assistant",
        content: "a",
        prompt_token_ids: [1],
        generation_token_ids: [2],
        generation_log_probs: [-0.5]
      }
    ])
    assert.isTrue(message instanceof AssistantMessage && message.tokens !== undefined)
    const options = { image: address, reasoning: "inline" as const }
    assert.deepStrictEqual(message === undefined ? [] : Either.getOrThrow(Convert.toChatMessages([message], options)), [
      { role: "assistant", content: "a" }
    ])
  })

  it("refuses what the wire has no place for, by its place and name", () => {
    const picture = Either.getOrThrow(
      Convert.fromResponsesInput([
        { type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: "http://a/b.png" }] }
      ])
    )
    const options = { image: address, reasoning: "inline" as const }
    assert.strictEqual(
      refused(Convert.toChatMessages(picture, options)),
      "messages[0]: an image in a tool's answer, which Chat Completions takes as text only (from a conversation to Chat Completions). Leave it out, or send it to an upstream that speaks Responses"
    )
    const ambiguous = assistant(new ReasoningPart({ text: "a</think>b" }))
    assert.include(
      refused(Convert.toChatMessages([user(text("u")), ambiguous], options)),
      "messages[1]: reasoning among"
    )
    assert.isTrue(Either.isRight(Convert.toChatMessages([ambiguous], { ...options, reasoning: "field" })))
  })
})

describe("fromChatMessage", () => {
  const read = (message: unknown) => Convert.fromChatMessage(message, { thinkTags: true })

  it("takes reasoning from either field, before the words", () => {
    for (const fields of [
      { reasoning_content: "r" },
      { reasoning: "r" },
      { reasoning: "r", reasoning_content: "r" },
      { reasoning: "r", reasoning_content: null }
    ]) {
      const message = Either.getOrThrow(read({ role: "assistant", content: " a", ...fields }))
      assert.deepStrictEqual(message.content, [new ReasoningPart({ text: "r" }), new TextPart({ text: " a" })])
    }
    assert.include(refused(read({ content: "a", reasoning: "r", reasoning_content: "s" })), "that differ")
  })

  it("takes a bundle whole or not at all", () => {
    const whole = { prompt_token_ids: [1, 2], generation_token_ids: [3], generation_log_probs: [-0.25] }
    const message = Either.getOrThrow(read({ content: "a", ...whole, routed_experts: "opaque" }))
    assert.deepStrictEqual(message.tokens?.promptTokenIds, [1, 2])
    assert.deepStrictEqual(message.tokens?.routedExperts, "opaque")
    for (const broken of [
      { ...whole, prompt_token_ids: null },
      { ...whole, generation_log_probs: [] },
      { ...whole, generation_log_probs: [true] },
      { ...whole, generation_log_probs: [0.5] },
      { ...whole, generation_token_ids: ["3"] },
      { routed_experts: "opaque" }
    ]) {
      assert.include(refused(read({ content: "a", ...broken })), "a token bundle that is not whole")
    }
  })

  it("refuses what is no message, or holds what a conversation does not", () => {
    assert.include(refused(read(undefined)), "message: nothing where an object should be")
    assert.include(refused(read({ role: "user", content: "a" })), 'message.role: the role "user"')
    assert.include(refused(read({ content: 5 })), "message.content: a number where a list should be")
    assert.include(refused(read({ content: null, refusal: "no" })), "message: a refusal")
    assert.include(refused(read({ content: "a", audio: { id: "x" } })), "message.audio: a message with audio")
    const call = { id: "c", type: "function", function: { name: "f", arguments: {} } }
    assert.include(
      refused(read({ tool_calls: [{ ...call, type: "custom" }] })),
      'message.tool_calls[0]: a tool call of type "custom"'
    )
    assert.include(
      refused(read({ tool_calls: [call] })),
      "message.tool_calls[0].function.arguments: an object where a text"
    )
    assert.include(refused(read({ tool_calls: [{ ...call, id: "" }] })), "message.tool_calls[0].id: an empty text")
  })
})

describe("fromChatMessages", () => {
  it("names what it cannot keep", () => {
    const read = (message: unknown) => refused(Convert.fromChatMessages([message], { thinkTags: true }))
    assert.include(
      read({ role: "user", content: [{ type: "video_url", video_url: { url: "http://a/b.mp4" } }] }),
      "messages[0].content[0]: a video"
    )
    assert.include(read({ role: "user", content: [{ type: "input_audio" }] }), 'a content part of type "input_audio"')
    assert.include(read({ role: "user", content: "a", name: "ada" }), "messages[0].name: the name of a speaker")
    assert.include(read({ role: "function", content: "a" }), 'messages[0].role: the role "function"')
    assert.include(read({ role: "user", content: [] }), "messages[0]: a message of no parts")
    assert.include(read({ role: "tool", content: "a" }), "messages[0].tool_call_id: nothing where a text should be")
  })
})

describe("fromResponsesInput", () => {
  it("makes one message of neighbouring items of the assistant, with the last tokens", () => {
    const bundle = (id: number) => ({ prompt_token_ids: [], generation_token_ids: [id], generation_log_probs: [0] })
    const [message, ...others] = fromResponses([
      { type: "reasoning", id: "rs", summary: [{ type: "summary_text", text: "r" }], ...bundle(1) },
      { role: "assistant", content: "a" },
      { type: "function_call", call_id: "c", name: "f", arguments: "{", ...bundle(2) },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "b", annotations: [] }] }
    ])
    assert.lengthOf(others, 0)
    assert.isTrue(message instanceof AssistantMessage)
    if (!(message instanceof AssistantMessage)) return
    assert.deepStrictEqual(message.content, [
      new ReasoningPart({ text: "r" }),
      new TextPart({ text: "a" }),
      new ToolCallPart({ callId: "c", name: "f", arguments: "{" }),
      new TextPart({ text: "b" })
    ])
    assert.deepStrictEqual(message.tokens?.generationTokenIds, [2])
  })

  it("takes the reasoning itself where a server tells it", () => {
    const item = { type: "reasoning", id: "rs", summary: [], content: [{ type: "reasoning_text", text: "r" }] }
    assert.deepStrictEqual(fromResponses([item]), [assistant(new ReasoningPart({ text: "r" }))])
    const both = { ...item, summary: [{ type: "summary_text", text: "s" }] }
    assert.include(refused(Convert.fromResponsesInput([both])), "input[0]: a reasoning item with both")
    assert.include(
      refused(Convert.responsesRequestToChat({ input: [{ ...item, encrypted_content: "x" }] })),
      "input[0].encrypted_content: sealed reasoning"
    )
  })

  it("is a user's text when it is a text", () => {
    assert.deepStrictEqual(Either.getOrThrow(Convert.fromResponsesInput("hello")), [user(text("hello"))])
  })

  it("takes calls and answers of tools written as in chat", () => {
    const calls = [{ id: "c", type: "function", function: { name: "f", arguments: "" } }]
    assert.deepStrictEqual(
      fromResponses([
        { role: "assistant", content: "a", tool_calls: calls },
        { role: "tool", tool_call_id: "c", content: "done" }
      ]),
      [assistant(text("a"), new ToolCallPart({ callId: "c", name: "f", arguments: "" })), tool("c", text("done"))]
    )
  })

  it("reads no output that is none", () => {
    assert.include(
      refused(Convert.fromResponsesOutput([{ type: "message", role: "user", content: "a" }])),
      "output[0]: what the model did not say"
    )
    assert.include(
      refused(Convert.fromResponsesOutput([{ role: "assistant" }])),
      "output[0].type: an item without a type"
    )
    assert.include(
      refused(Convert.fromResponsesOutput([{ type: "web_search_call" }])),
      'output[0]: an item of type "web_search_call"'
    )
    assert.deepStrictEqual(Either.getOrThrow(Convert.fromResponsesOutput([])), assistant())
  })
})

describe("tools", () => {
  const click = new Tool({ name: "click", description: "clicks", parameters: { type: "object" }, strict: true })
  const wait = new Tool({ name: "wait", parameters: {} })

  it("go to both wires and come back", () => {
    assert.deepStrictEqual(Either.getOrThrow(Convert.toChatTools([click])), [
      {
        type: "function",
        function: { name: "click", description: "clicks", parameters: { type: "object" }, strict: true }
      }
    ])
    assert.deepStrictEqual(Either.getOrThrow(Convert.toResponsesTools([wait])), [
      { type: "function", name: "wait", parameters: {} }
    ])
    const tools = [click, wait]
    assert.deepStrictEqual(
      Either.getOrThrow(Convert.fromChatTools(Either.getOrThrow(Convert.toChatTools(tools)))),
      tools
    )
    assert.deepStrictEqual(
      Either.getOrThrow(Convert.fromResponsesTools(Either.getOrThrow(Convert.toResponsesTools(tools)))),
      tools
    )
  })

  it("are chosen on both wires", () => {
    for (const choice of ["auto", "none", "required", { name: "click" }] as const) {
      assert.deepStrictEqual(Either.getOrThrow(Convert.fromChatToolChoice(Convert.toChatToolChoice(choice))), choice)
      assert.deepStrictEqual(
        Either.getOrThrow(Convert.fromResponsesToolChoice(Convert.toResponsesToolChoice(choice))),
        choice
      )
    }
    assert.include(
      refused(Convert.fromChatToolChoice({ type: "allowed_tools" })),
      'a tool choice of type "allowed_tools"'
    )
    assert.include(refused(Convert.fromResponsesToolChoice("any")), 'the tool choice "any"')
    assert.include(
      refused(Convert.fromResponsesTools([{ type: "web_search" }])),
      'tools[0]: a tool of type "web_search"'
    )
  })
})
