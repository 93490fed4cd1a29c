import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Convert from "../../src/model/Convert.js"

const refused = <A>(result: Either.Either<A, Convert.ConversionError>): string =>
  Either.match(result, { onLeft: (error) => error.message, onRight: () => assert.fail("it was carried") })

describe("a Responses request", () => {
  const toChat = (body: Convert.JsonObject, options: Convert.BridgeOptions = {}) =>
    Either.getOrThrow(Convert.responsesRequestToChat({ model: "m", ...body }, options))
  const refusal = (body: Convert.JsonObject) => refused(Convert.responsesRequestToChat({ model: "m", ...body }))
  const messages = (input: unknown, options: Convert.BridgeOptions = {}) => toChat({ input }, options)["messages"]

  it("of a text is one user message of one text part", () => {
    assert.deepStrictEqual(toChat({ input: "hello" }), {
      model: "m",
      messages: [{ role: "user", content: [{ type: "text", text: "hello" }] }]
    })
  })

  it("merges neighbouring items of the assistant", () => {
    const bundle = (id: number) => ({ prompt_token_ids: [7], generation_token_ids: [id], generation_log_probs: [-1] })
    const input = [
      { role: "user", content: "u" },
      {
        type: "reasoning",
        id: "rs",
        summary: [
          { type: "summary_text", text: "one" },
          { type: "summary_text", text: "two" }
        ],
        ...bundle(1)
      },
      {
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "a", annotations: [] }],
        ...bundle(2)
      },
      { type: "function_call", call_id: "c", name: "f", arguments: '{"x":1}', id: "fc" },
      { type: "reasoning", id: "rs2", summary: [{ type: "summary_text", text: "three" }] },
      { role: "assistant", content: "b" },
      { type: "function_call_output", call_id: "c", output: "done" },
      { type: "function_call", call_id: "d", name: "f", arguments: "" },
      { type: "function_call_output", call_id: "d", output: [{ type: "input_text", text: "done" }] }
    ]
    const call = (id: string, args: string) => ({ id, type: "function", function: { name: "f", arguments: args } })
    const expected = [
      { role: "user", content: "u" },
      {
        role: "assistant",
        content: "<think>one</think><think>two</think>a<think>three</think>b",
        tool_calls: [call("c", '{"x":1}')]
      },
      { role: "tool", tool_call_id: "c", content: "done" },
      { role: "assistant", content: null, tool_calls: [call("d", "")] },
      { role: "tool", tool_call_id: "d", content: [{ type: "text", text: "done" }] }
    ]
    assert.deepStrictEqual(messages(input), expected)
    const withTokens = expected.map((message, index) => (index === 1 ? { ...message, ...bundle(2) } : message))
    assert.deepStrictEqual(messages(input, { tokens: true }), withTokens)
  })

  it("loses the tokens of an assistant who said nothing", () => {
    const bundle = { prompt_token_ids: [7], generation_token_ids: [1], generation_log_probs: [-1] }
    assert.deepStrictEqual(messages([{ type: "reasoning", summary: [], ...bundle }], { tokens: true }), [
      { role: "assistant", content: null }
    ])
  })

  it("carries images and videos by their addresses", () => {
    const content = [
      { type: "input_text", text: "look" },
      { type: "input_image", image_url: "data:image/png;base64,AAAA" },
      { type: "input_image", image_url: "http://a/b.png", detail: "low" },
      { type: "input_video", video_url: "http://a/b.mp4" },
      { type: "input_video", video: "http://a/c.mp4" }
    ]
    assert.deepStrictEqual(messages([{ role: "user", content }]), [
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "auto" } },
          { type: "image_url", image_url: { url: "http://a/b.png", detail: "low" } },
          { type: "video_url", video_url: { url: "http://a/b.mp4" } },
          { type: "video_url", video_url: { url: "http://a/c.mp4" } }
        ]
      }
    ])
  })

  it("refuses parts and items that chat has no place for, by their names", () => {
    const part = (part: unknown) => refusal({ input: [{ role: "user", content: [part] }] })
    const cases: ReadonlyArray<readonly [string, string]> = [
      [part({ type: "input_image", image_url: "" }), "input[0].content[0].image_url: an empty text"],
      [part({ type: "input_image", file_id: "f" }), "a file of the server (file_id)"],
      [part({ type: "input_file" }), 'a content part of type "input_file"'],
      [part({ type: "output_text", text: "a" }), 'a content part of type "output_text"'],
      [part({ type: "input_video" }), "without exactly one of video_url and video"],
      [part({ type: "input_video", video: "a", video_url: "b" }), "without exactly one of video_url and video"],
      [refusal({ input: [{ type: "computer_call" }] }), 'input[0]: an item of type "computer_call"'],
      [refusal({ input: [{ type: "function_call", namespace: "n", call_id: "c" }] }), "input[0].namespace: a call in"],
      [refusal({ input: [{ text: "a" }] }), "input[0]: an item of type nothing"],
      [refusal({ input: undefined }), "input: nothing where a list should be"],
      [
        refusal({
          input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: "a" }] }]
        }),
        "input[0]: an image in a tool's answer"
      ]
    ]
    for (const [message, expected] of cases) {
      assert.include(message, expected)
      assert.include(message, "send it to an upstream that speaks Responses")
    }
  })

  it("joins the instructions and the system messages that begin it", () => {
    const input = [
      { role: "system", content: "s" },
      { role: "developer", content: [{ type: "input_text", text: "d" }] },
      { role: "user", content: "u" },
      { role: "system", content: "late" }
    ]
    const rest = [
      { role: "user", content: "u" },
      { role: "system", content: "late" }
    ]
    assert.deepStrictEqual(toChat({ instructions: "i", input })["messages"], [
      { role: "system", content: "i\n\ns\n\nd" },
      ...rest
    ])
    assert.deepStrictEqual(messages(input), [
      { role: "system", content: "s" },
      { role: "developer", content: [{ type: "text", text: "d" }] },
      ...rest
    ])
  })

  it("has its parameters under their other names, and only those that were set", () => {
    const chat = toChat({
      input: [],
      max_output_tokens: 5,
      reasoning: { effort: "low", summary: "auto" },
      text: { format: { type: "json_schema", name: "n", schema: {}, strict: true }, verbosity: "low" },
      tools: [{ type: "function", name: "f", description: "d", parameters: { type: "object" }, strict: true }],
      tool_choice: { type: "function", name: "f" },
      parallel_tool_calls: false,
      temperature: 0,
      top_p: null,
      top_logprobs: 0,
      metadata: { extra_body: "{}" },
      seed: 3,
      min_p: 0.1,
      store: false,
      stream: true,
      stream_options: { include_obfuscation: false },
      include: ["reasoning.encrypted_content"],
      truncation: "disabled",
      background: false,
      previous_response_id: null
    })
    assert.deepStrictEqual(chat, {
      model: "m",
      messages: [],
      max_tokens: 5,
      reasoning_effort: "low",
      response_format: { type: "json_schema", json_schema: { name: "n", schema: {}, strict: true } },
      verbosity: "low",
      tools: [{ type: "function", function: { name: "f", description: "d", parameters: { type: "object" } } }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
      temperature: 0,
      top_p: null,
      top_logprobs: 0,
      metadata: { extra_body: "{}" },
      seed: 3,
      min_p: 0.1,
      store: false,
      stream: true,
      stream_options: { include_usage: true }
    })
  })

  it("without tools has no choice of one", () => {
    const bare = { model: "m", messages: [] }
    assert.deepStrictEqual(toChat({ input: [], tools: [], tool_choice: "auto", parallel_tool_calls: true }), bare)
    assert.deepStrictEqual(toChat({ input: [], tool_choice: "none" }), bare)
    assert.include(
      refusal({ input: [], tool_choice: "required" }),
      'tool_choice: the tool choice "required" without tools'
    )
    assert.include(refusal({ input: [], tool_choice: { type: "function", name: "f" } }), "without tools")
  })

  it("refuses what only a server with a memory or tools could do", () => {
    for (const [key, value] of Object.entries({
      previous_response_id: "resp_1",
      conversation: "conv_1",
      prompt: { id: "p" },
      background: true,
      truncation: "auto",
      include: ["message.output_text.logprobs"],
      tools: [{ type: "web_search" }],
      tool_choice: { type: "allowed_tools", mode: "auto", tools: [] },
      text: { format: { type: "grammar" } },
      reasoning: { effort: "low", budget: 3 }
    })) {
      assert.match(refusal({ input: [], [key]: value }), new RegExp(`^${key}`), key)
    }
  })
})

describe("a Messages request", () => {
  const toChat = (body: Convert.JsonObject, options: Convert.BridgeOptions = {}) =>
    Either.getOrThrow(Convert.messagesRequestToChat({ model: "m", max_tokens: 9, ...body }, options))
  const refusal = (body: Convert.JsonObject) => refused(Convert.messagesRequestToChat({ model: "m", ...body }))

  it("carries system, history, images, tools and their answers", () => {
    const cache_control = { type: "ephemeral" }
    const chat = toChat({
      system: [{ type: "text", text: "s", cache_control }],
      messages: [
        {
          role: "user",
          content: [
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
            { type: "image", source: { type: "url", url: "http://a/b.png" } },
            { type: "text", text: "look", cache_control }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "" },
            { type: "text", text: "ok" },
            { type: "tool_use", id: "t1", name: "f", input: { x: 1 } },
            { type: "tool_use", id: "t2", name: "f", input: {} }
          ]
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "t1", content: "done" },
            { type: "tool_result", tool_use_id: "t2", content: [{ type: "text", text: "no" }], is_error: true },
            { type: "text", text: "go on" }
          ]
        }
      ],
      tools: [{ name: "f", description: "d", input_schema: { type: "object" }, cache_control }],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
      stop_sequences: ["x"],
      metadata: { user_id: "u" },
      thinking: { type: "disabled" },
      output_config: { effort: "low", format: { type: "json_schema", schema: {} } },
      service_tier: "standard_only",
      temperature: 0.5,
      top_k: 4,
      stream: true
    })
    const call = (id: string, args: string) => ({ id, type: "function", function: { name: "f", arguments: args } })
    assert.deepStrictEqual(chat, {
      model: "m",
      max_tokens: 9,
      messages: [
        { role: "system", content: [{ type: "text", text: "s" }] },
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
            { type: "image_url", image_url: { url: "http://a/b.png" } },
            { type: "text", text: "look" }
          ]
        },
        { role: "assistant", content: "<think>hm</think>ok", tool_calls: [call("t1", '{"x":1}'), call("t2", "{}")] },
        { role: "tool", tool_call_id: "t1", content: "done" },
        {
          role: "tool",
          tool_call_id: "t2",
          content: [
            { type: "text", text: "Error:\n" },
            { type: "text", text: "no" }
          ]
        },
        { role: "user", content: [{ type: "text", text: "go on" }] }
      ],
      tools: [{ type: "function", function: { name: "f", description: "d", parameters: { type: "object" } } }],
      tool_choice: "required",
      parallel_tool_calls: false,
      stop: ["x"],
      user: "u",
      reasoning_effort: "low",
      response_format: { type: "json_schema", json_schema: { name: "output", schema: {} } },
      service_tier: "default",
      temperature: 0.5,
      top_k: 4,
      stream: true,
      stream_options: { include_usage: true }
    })
  })

  it("sends reasoning as it is asked to", () => {
    const messages = [
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm" },
          { type: "text", text: "ok" }
        ]
      },
      { role: "user", content: "u" }
    ]
    assert.deepStrictEqual(toChat({ messages }, { reasoning: "field" })["messages"], [
      { role: "assistant", content: "ok", reasoning_content: "hm", reasoning: "hm" },
      { role: "user", content: "u" }
    ])
  })

  it("refuses what chat has no place for, by its name", () => {
    const block = (block: unknown) => refusal({ messages: [{ role: "user", content: [block] }] })
    const said = (block: unknown) => refusal({ messages: [{ role: "assistant", content: [block] }] })
    const image = { type: "image", source: { type: "url", url: "http://a/b.png" } }
    const cases: ReadonlyArray<readonly [string, string]> = [
      [block({ type: "document" }), 'messages[0].content[0]: a block of type "document"'],
      [block({ type: "image", source: { type: "file", file_id: "f" } }), 'an image whose source is "file"'],
      [block({ type: "tool_result", tool_use_id: "t", content: [image] }), "an image in a tool's answer"],
      [said({ type: "thinking", thinking: "a", signature: "xyz" }), "messages[0].content[0].signature: thinking that"],
      [said({ type: "redacted_thinking", data: "x" }), 'a block of type "redacted_thinking"'],
      [said({ type: "tool_use", id: "t", name: "f", input: "{}" }), "messages[0].content[0].input: a text where"],
      [said({ type: "text", text: "a" }), "messages[0]: the beginning of a reply"],
      [refusal({ messages: [{ role: "user", content: [] }] }), "messages[0].content: a message of no blocks"],
      [
        refusal({ messages: [], thinking: { type: "enabled", budget_tokens: 9 } }),
        'thinking: thinking of type "enabled"'
      ],
      [refusal({ messages: [], mcp_servers: [{}] }), "mcp_servers: tools that the server calls itself"],
      [refusal({ messages: [], container: "c" }), "container: a container"],
      [refusal({ messages: [], context_management: { edits: [] } }), "context_management: a history"],
      [refusal({ messages: [], tools: [{ type: "computer_20250124", name: "computer" }] }), "tools[0]: a tool of type"],
      [
        refusal({ messages: [], tools: [{ name: "f", input_schema: {}, input_examples: [{}] }] }),
        "tools[0].input_examples"
      ],
      [refusal({ messages: [], tool_choice: { type: "any" } }), "without tools"],
      [refusal({ messages: [], metadata: { team: "t" } }), "metadata.team: what Messages has no field for"],
      [refusal({}), "messages: nothing where a list should be"]
    ]
    for (const [message, expected] of cases) {
      assert.include(message, expected)
      assert.include(message, "send it to an upstream that speaks Messages")
    }
  })
})
