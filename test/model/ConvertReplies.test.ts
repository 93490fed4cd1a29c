import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as Convert from "../../src/model/Convert.js"
import { broken } from "./convert/broken.js"

const refused = <A>(result: Either.Either<A, Convert.ConversionError>): string =>
  Either.match(result, { onLeft: (error) => error.message, onRight: () => assert.fail("it was carried") })

const options = { id: "0f", createdAt: 1_700_000_000, thinkTags: true }

const request = { model: "asked", temperature: 0, tools: [{ type: "function", name: "f" }], metadata: { a: "b" } }

const completion = (message: unknown, finish_reason: unknown = "stop", more: Convert.JsonObject = {}) => ({
  id: "chatcmpl-1",
  model: "served",
  choices: [{ index: 0, message, finish_reason }],
  ...more
})

const toolCalls = [{ id: "c", type: "function", function: { name: "f", arguments: '{"x": 1}' } }]

const usage = {
  prompt_tokens: 10,
  completion_tokens: 4,
  total_tokens: 15,
  prompt_tokens_details: { cached_tokens: 3 },
  completion_tokens_details: { reasoning_tokens: 2 }
}

describe("a completion as a response", () => {
  const toResponses = (body: Convert.JsonObject) =>
    Either.getOrThrow(Convert.chatReplyToResponses(body, request, options))

  it("has its items in the model's order and the tokens on the last", () => {
    const bundle = {
      prompt_token_ids: [1],
      generation_token_ids: [2],
      generation_log_probs: [-0.5],
      routed_experts: "e"
    }
    const response = toResponses(
      completion({
        role: "assistant",
        content: "<think>a</think><think>b</think>\n\nc",
        tool_calls: toolCalls,
        ...bundle
      })
    )
    assert.deepStrictEqual(response["output"], [
      {
        id: "rs_0f_0",
        type: "reasoning",
        status: "completed",
        summary: [
          { type: "summary_text", text: "a" },
          { type: "summary_text", text: "b" }
        ]
      },
      {
        id: "msg_0f_1",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "\n\nc", annotations: [] }]
      },
      {
        id: "c",
        type: "function_call",
        status: "completed",
        call_id: "c",
        name: "f",
        arguments: '{"x": 1}',
        ...bundle
      }
    ])
  })

  it("repeats its request and says what the server said", () => {
    const response = toResponses(completion({ content: "a" }, "stop", { usage }))
    assert.strictEqual(response["id"], "resp_0f")
    assert.strictEqual(response["object"], "response")
    assert.strictEqual(response["created_at"], 1_700_000_000)
    assert.strictEqual(response["status"], "completed")
    assert.strictEqual(response["model"], "served")
    assert.strictEqual(response["temperature"], 0)
    assert.strictEqual(response["tool_choice"], "auto")
    assert.deepStrictEqual(response["tools"], request.tools)
    assert.deepStrictEqual(response["metadata"], request.metadata)
    // The provider's total, not a sum.
    assert.deepStrictEqual(response["usage"], {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 3 },
      output_tokens: 4,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 15
    })
  })

  it("does not know what it was not told", () => {
    assert.isNull(toResponses(completion({ content: "a" }))["usage"])
    assert.deepStrictEqual(
      toResponses(
        completion({ content: "a" }, "stop", {
          usage: { prompt_tokens: 10, cache_read_input_tokens: 3, reasoning_output_tokens: 0, total_tokens: "15" }
        })
      )["usage"],
      {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 3 },
        output_tokens: null,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: null
      }
    )
  })

  it("is incomplete when the completion is", () => {
    const end = (finish: unknown) => {
      const { incomplete_details, status } = toResponses(completion({ content: "a" }, finish))
      return [status, incomplete_details]
    }
    assert.deepStrictEqual(end("length"), ["incomplete", { reason: "max_output_tokens" }])
    assert.deepStrictEqual(end("content_filter"), ["incomplete", { reason: "content_filter" }])
    assert.deepStrictEqual(end("tool_calls"), ["completed", null])
  })

  it("has a message when nothing else was said, and a refusal as one", () => {
    const content = (message: unknown) => {
      const output = toResponses(completion(message))["output"]
      return Array.isArray(output) ? output.map((item) => item["content"]) : assert.fail("no output")
    }
    assert.deepStrictEqual(content({ content: null }), [[{ type: "output_text", text: "", annotations: [] }]])
    assert.deepStrictEqual(content({ content: null, refusal: "no" }), [[{ type: "refusal", refusal: "no" }]])
    // Reasoning alone, from the field.
    assert.deepStrictEqual(content({ content: "", reasoning_content: "r" }), [undefined])
  })
})

describe("a completion as a message", () => {
  const toMessages = (body: Convert.JsonObject) =>
    Either.getOrThrow(Convert.chatReplyToMessages(body, request, options))

  it("has its blocks in the model's order", () => {
    const message = { content: "ok", reasoning_content: "hm", tool_calls: toolCalls }
    assert.deepStrictEqual(toMessages(completion(message, "tool_calls", { usage })), {
      id: "msg_0f",
      type: "message",
      role: "assistant",
      model: "served",
      content: [
        { type: "thinking", thinking: "hm", signature: "" },
        { type: "text", text: "ok", citations: null },
        { type: "tool_use", id: "c", name: "f", input: { x: 1 } }
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      // Messages counts what a cache had apart: 10 of which 3.
      usage: {
        input_tokens: 7,
        cache_creation_input_tokens: null,
        cache_read_input_tokens: 3,
        output_tokens: 4
      }
    })
  })

  it("ends as the completion does", () => {
    const end = (message: unknown, finish: unknown, choice: Convert.JsonObject = {}) => {
      const body = { choices: [{ message, finish_reason: finish, ...choice }] }
      const { stop_reason, stop_sequence } = toMessages(body)
      return [stop_reason, stop_sequence]
    }
    assert.deepStrictEqual(end({ content: "a" }, "stop"), ["end_turn", null])
    assert.deepStrictEqual(end({ content: "a" }, "stop", { stop_reason: "###" }), ["stop_sequence", "###"])
    // vLLM tells the id of the token where a token ended the reply.
    assert.deepStrictEqual(end({ content: "a" }, "stop", { stop_reason: 151645 }), ["end_turn", null])
    assert.deepStrictEqual(end({ content: "a" }, "length"), ["max_tokens", null])
    assert.deepStrictEqual(end({ content: "a" }, "content_filter"), ["refusal", null])
    assert.deepStrictEqual(end({ refusal: "no" }, "stop"), ["refusal", null])
    assert.deepStrictEqual(end({ tool_calls: toolCalls }, "stop"), ["tool_use", null])
    assert.deepStrictEqual(end({ content: "a" }, null), [null, null])
  })

  it("has no place for arguments that are no object", () => {
    const call = (args: string) => [{ id: "c", function: { name: "f", arguments: args } }]
    for (const args of ["{", "[1]", "3", "null"]) {
      assert.include(
        refused(Convert.chatReplyToMessages(completion({ tool_calls: call(args) }), request, options)),
        'choices[0].message: arguments of a call of "f" that are no JSON object (from Chat Completions to Messages)'
      )
    }
    assert.deepStrictEqual(toMessages(completion({ tool_calls: call("") }))["content"], [
      { type: "tool_use", id: "c", name: "f", input: {} }
    ])
  })
})

describe("a completion that is none", () => {
  it("is refused by both", () => {
    for (const bridge of [Convert.chatReplyToResponses, Convert.chatReplyToMessages]) {
      const refusal = (body: Convert.JsonObject) => refused(bridge(body, request, options))
      assert.include(refusal({}), "choices: nothing where a list should be")
      assert.include(refusal({ choices: [] }), "choices: a completion without choices")
      assert.include(refusal({ choices: [{}] }), "choices[0].message: nothing where an object should be")
      assert.include(refusal(completion({ content: "a" }, "abort")), 'a reply that the upstream broke off ("abort")')
      assert.include(refusal(completion({ content: "a", prompt_token_ids: [1] })), "a token bundle that is not whole")
    }
    assert.include(
      refused(Convert.chatReplyToMessages(completion({ content: "a" }, "strange"), request, options)),
      'choices[0].finish_reason: the finish reason "strange"'
    )
  })
})

describe("whatever arrives", () => {
  const chat = completion(
    { role: "assistant", content: [{ type: "text", text: "a" }], tool_calls: toolCalls },
    "stop",
    {
      usage
    }
  )
  const responses = {
    input: [
      { role: "user", content: [{ type: "input_image", image_url: "u" }] },
      { type: "reasoning", summary: [{ type: "summary_text", text: "r" }] },
      { type: "function_call", call_id: "c", name: "f", arguments: "" },
      { type: "function_call_output", call_id: "c", output: "o" }
    ],
    tools: [{ type: "function", name: "f", parameters: {} }],
    tool_choice: "auto",
    text: { format: { type: "text" } },
    reasoning: { effort: "low" }
  }
  const messages = {
    messages: [
      { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "a" }] }] }
    ],
    system: [{ type: "text", text: "s" }],
    tools: [{ name: "f", input_schema: {} }],
    output_config: { format: { type: "json_schema", schema: {} } }
  }

  const isAnswer = (result: Either.Either<Convert.JsonObject, Convert.ConversionError>): void =>
    Either.match(result, {
      onLeft: (error) => assert.isAtLeast(error.message.length, 20),
      onRight: (body) => assert.isObject(JSON.parse(JSON.stringify(body)))
    })

  it("is converted or refused, and nothing is thrown", () => {
    fc.assert(
      fc.property(broken(chat), broken(responses), broken(messages), (reply, asked, told) => {
        isAnswer(Convert.chatReplyToResponses(reply, asked, options))
        isAnswer(Convert.chatReplyToMessages(reply, told, options))
        isAnswer(Convert.responsesRequestToChat(asked))
        isAnswer(Convert.messagesRequestToChat(told))
        const listed = (body: Convert.JsonObject, key: string) => (Array.isArray(body[key]) ? body[key] : [body[key]])
        isAnswer(Either.map(Convert.fromResponsesInput(asked["input"]), (input) => ({ input })))
        isAnswer(Either.map(Convert.fromChatMessages(listed(told, "messages"), options), (read) => ({ read })))
        isAnswer(Either.map(Convert.fromResponsesTools(listed(asked, "tools")), (tools) => ({ tools })))
      }),
      { numRuns: 1_000 }
    )
  })
})
