/** Clients that were written by others talk to the gateway: the npm packages `openai` and `@anthropic-ai/sdk`. */
import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import OpenAI from "openai"
import { chunk, completion, events, gateway, type Handler, json, upstream, usageChunk } from "./gatewayHarness.js"

const png = "data:image/png;base64,iVBORw0KGgo="

/** What the model says depends on what it is asked, so that one stub serves all clients. */
const model: Handler = ({ body }, response) => {
  const request = JSON.parse(body.toString())
  const text = JSON.stringify(request.messages)
  if (text.includes("overload")) {
    return json(
      response,
      429,
      { error: { message: "slow down", type: "rate_limit", code: "rl" } },
      { "retry-after": "2" }
    )
  }
  if (text.includes("break")) return events(response, [chunk({ role: "assistant", content: "so" })])
  const call = { id: "call_1", type: "function", function: { name: "click", arguments: '{"x":1}' } }
  const wantsTool = request.tools !== undefined && !text.includes("tool_call_id")
  if (request.stream !== true) {
    return json(
      response,
      200,
      wantsTool
        ? completion({ content: null, tool_calls: [call] }, { finish_reason: "tool_calls" })
        : completion({ content: "Hello there", reasoning_content: "be kind" })
    )
  }
  const said = wantsTool
    ? [
        chunk({ role: "assistant", tool_calls: [{ index: 0, ...call, function: { name: "click", arguments: "" } }] }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: '{"x"' } }] }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: ":1}" } }] }),
        chunk({}, "tool_calls")
      ]
    : [
        chunk({ role: "assistant", reasoning_content: "be " }),
        chunk({ reasoning_content: "kind" }),
        chunk({ content: "Hello" }),
        chunk({ content: " there" }),
        chunk({}, "stop")
      ]
  events(response, [...said, usageChunk, "[DONE]"])
}

const setup = Effect.gen(function* () {
  const stub = yield* upstream(model)
  const running = yield* gateway({ upstreams: [stub.url] })
  const base = `${running.url}/ng-rollout/r1`
  return {
    ...running,
    stub,
    openai: new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 }),
    anthropic: new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 })
  }
})

const lastSent = (received: ReadonlyArray<{ readonly body: Buffer }>) =>
  JSON.parse(received.at(-1)?.body.toString() ?? "null")

const parameters = { type: "object", properties: { x: { type: "integer" } } } as const

/** The error that a call ends in. */
const failing = (run: () => PromiseLike<unknown>) =>
  Effect.promise(async () => {
    try {
      await run()
    } catch (error) {
      return error
    }
    return undefined
  })

describe("openai", () => {
  it.scopedLive("Chat Completions, whole and streamed, with an image and a tool", () =>
    Effect.gen(function* () {
      const { capture, openai, stub } = yield* setup
      const messages = [
        {
          role: "user" as const,
          content: [
            { type: "text" as const, text: "look" },
            { type: "image_url" as const, image_url: { url: png } }
          ]
        }
      ]
      const whole = yield* Effect.promise(() => openai.chat.completions.create({ model: "m", messages }))
      assert.strictEqual(whole.choices[0]?.message.content, "Hello there")
      assert.deepStrictEqual(lastSent(stub.received), { model: "m", messages })
      const tools = [{ type: "function" as const, function: { name: "click", parameters } }]
      const streamed = yield* Effect.promise(() =>
        openai.chat.completions.stream({ model: "m", messages, tools }).finalChatCompletion()
      )
      const [call] = streamed.choices[0]?.message.tool_calls ?? []
      assert.deepInclude(call?.type === "function" ? call.function : undefined, { name: "click", arguments: '{"x":1}' })
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ dialect, error_category }) => [dialect, error_category]),
        [
          ["chat", null],
          ["chat", null]
        ]
      )
    })
  )

  it.scopedLive("Responses, whole: text, reasoning, an image", () =>
    Effect.gen(function* () {
      const { capture, openai, stub } = yield* setup
      const response = yield* Effect.promise(() =>
        openai.responses.create({
          model: "m",
          instructions: "be brief",
          max_output_tokens: 9,
          input: [
            {
              role: "user",
              content: [
                { type: "input_text", text: "look" },
                { type: "input_image", image_url: png, detail: "low" }
              ]
            }
          ]
        })
      )
      assert.strictEqual(response.output_text, "Hello there")
      assert.deepStrictEqual(
        response.output.map(({ type }) => type),
        ["reasoning", "message"]
      )
      assert.deepInclude(response.usage, { input_tokens: 5, output_tokens: 3, total_tokens: 8 })
      assert.deepStrictEqual(lastSent(stub.received), {
        model: "m",
        max_tokens: 9,
        messages: [
          { role: "system", content: "be brief" },
          {
            role: "user",
            content: [
              { type: "text", text: "look" },
              { type: "image_url", image_url: { url: png, detail: "low" } }
            ]
          }
        ]
      })
      const { records } = yield* capture.read("r1")
      assert.deepInclude(records[0], { dialect: "responses", upstream_dialect: "chat", error_category: null })
      // The SDK adds output_text by itself.
      const { output_text: _, _request_id: __, ...said } = response
      assert.deepStrictEqual(records[0]?.response, JSON.parse(JSON.stringify(said)))
    })
  )

  it.scopedLive("Responses, streamed: the SDK's own accumulator agrees with its last event and with the record", () =>
    Effect.gen(function* () {
      const { capture, openai } = yield* setup
      const { deltas, final } = yield* Effect.promise(async () => {
        const deltas: Array<string> = []
        const stream = openai.responses.stream({ model: "m", input: "hello" })
        stream.on("response.output_text.delta", ({ delta }) => deltas.push(delta))
        return { final: await stream.finalResponse(), deltas }
      })
      assert.strictEqual(final.output_text, "Hello there")
      assert.strictEqual(deltas.join(""), "Hello there")
      const { records } = yield* capture.read("r1")
      assert.strictEqual(records[0]?.error_category, null)
      assert.include(records[0]?.response_raw, "response.completed")
      assert.deepInclude(records[0]?.response, { id: final.id, status: "completed" })
    })
  )

  it.scopedLive("Responses: a tool is called, whole and streamed, and its answer goes back", () =>
    Effect.gen(function* () {
      const { openai, stub } = yield* setup
      const tools = [{ type: "function" as const, name: "click", parameters, strict: false }]
      const whole = yield* Effect.promise(() => openai.responses.create({ model: "m", input: "click", tools }))
      const streamed = yield* Effect.promise(() =>
        openai.responses.stream({ model: "m", input: "click", tools }).finalResponse()
      )
      for (const response of [whole, streamed]) {
        const [call] = response.output.flatMap((item) => (item.type === "function_call" ? [item] : []))
        assert.deepInclude(call, { name: "click", arguments: '{"x":1}', call_id: "call_1" })
        if (call === undefined) continue
        yield* Effect.promise(() =>
          openai.responses.create({
            model: "m",
            tools,
            input: [
              { role: "user", content: "click" },
              { type: "function_call", call_id: call.call_id, name: call.name, arguments: call.arguments },
              { type: "function_call_output", call_id: "call_1", output: "done" }
            ]
          })
        )
        assert.deepStrictEqual(lastSent(stub.received).messages.slice(1), [
          {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "call_1", type: "function", function: { name: "click", arguments: '{"x":1}' } }]
          },
          { role: "tool", tool_call_id: "call_1", content: "done" }
        ])
      }
    })
  )

  it.scopedLive("errors are the upstream's own, and a broken stream is an error", () =>
    Effect.gen(function* () {
      const { openai } = yield* setup
      for (const stream of [false, true]) {
        const chat = yield* failing(() =>
          openai.chat.completions.create({ model: "m", stream, messages: [{ role: "user", content: "overload" }] })
        )
        const responses = yield* failing(() => openai.responses.create({ model: "m", stream, input: "overload" }))
        for (const error of [chat, responses]) {
          assert.instanceOf(error, OpenAI.RateLimitError)
          assert.deepStrictEqual(error.error, { message: "slow down", type: "rate_limit", code: "rl" })
          assert.strictEqual(error.headers?.get("retry-after"), "2")
        }
      }
      const refused = yield* failing(() =>
        openai.responses.create({ model: "m", input: "x", tools: [{ type: "web_search" }] })
      )
      assert.instanceOf(refused, OpenAI.BadRequestError)
      assert.include(refused.message, "web_search")
      const events: Array<string> = []
      yield* failing(async () => {
        const stream = await openai.responses.create({ model: "m", input: "break", stream: true })
        for await (const event of stream) events.push(event.type)
      })
      assert.include(events, "response.failed")
      assert.notInclude(events, "response.completed")
    })
  )

  it.scopedLive("lists models", () =>
    Effect.gen(function* () {
      const list = { object: "list", data: [{ id: "m", object: "model", created: 1, owned_by: "us" }] }
      const stub = yield* upstream((_, response) => json(response, 200, list))
      const { url } = yield* gateway({ upstreams: [stub.url] })
      const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" })
      assert.deepStrictEqual((yield* Effect.promise(() => client.models.list())).data, list.data)
    })
  )
})

describe("@anthropic-ai/sdk", () => {
  const hello = { model: "m", max_tokens: 9, messages: [{ role: "user" as const, content: "hello" }] }
  const tools = [{ name: "click", input_schema: parameters }]
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      { type: "text" as const, text: "Hello" },
      { type: "tool_use" as const, id: "t1", name: "click", input: { x: 1 } }
    ],
    stop_sequence: null
  }

  it.scopedLive("Messages, whole: text, thinking, an image", () =>
    Effect.gen(function* () {
      const { anthropic, capture, stub } = yield* setup
      const message = yield* Effect.promise(() =>
        anthropic.messages.create({
          ...hello,
          system: "be brief",
          messages: [
            {
              role: "user",
              content: [
                { type: "text", text: "look" },
                { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } }
              ]
            }
          ]
        })
      )
      assert.deepStrictEqual(
        message.content.map((block) => (block.type === "text" ? block.text : block.type)),
        ["thinking", "Hello there"]
      )
      assert.strictEqual(message.stop_reason, "end_turn")
      assert.deepInclude(message.usage, { input_tokens: 5, output_tokens: 3 })
      const sent = lastSent(stub.received)
      assert.strictEqual(sent.max_tokens, 9)
      assert.deepStrictEqual(sent.messages[0], { role: "system", content: "be brief" })
      assert.strictEqual(sent.messages[1].content[1].image_url.url, png)
      assert.isUndefined(stub.received[0]?.headers["anthropic-version"])
      const { records } = yield* capture.read("r1")
      assert.deepInclude(records[0], { dialect: "messages", upstream_dialect: "chat", error_category: null })
    })
  )

  it.scopedLive("Messages, streamed: the SDK's own accumulator agrees with the record", () =>
    Effect.gen(function* () {
      const { anthropic, capture } = yield* setup
      const { final, texts } = yield* Effect.promise(async () => {
        const texts: Array<string> = []
        const stream = anthropic.messages.stream(hello)
        stream.on("text", (text) => texts.push(text))
        return { final: await stream.finalMessage(), texts }
      })
      assert.strictEqual(texts.join(""), "Hello there")
      assert.strictEqual(final.stop_reason, "end_turn")
      const { records } = yield* capture.read("r1")
      assert.strictEqual(records[0]?.error_category, null)
      assert.deepInclude(records[0]?.response, {
        id: final.id,
        content: final.content,
        stop_reason: "end_turn"
      })
    })
  )

  it.scopedLive("Messages: a tool is called, whole and streamed, and its answer goes back", () =>
    Effect.gen(function* () {
      const { anthropic, stub } = yield* setup
      const whole = yield* Effect.promise(() => anthropic.messages.create({ ...hello, tools }))
      const streamed = yield* Effect.promise(() => anthropic.messages.stream({ ...hello, tools }).finalMessage())
      for (const message of [whole, streamed]) {
        assert.strictEqual(message.stop_reason, "tool_use")
        const call = message.content.find((block) => block.type === "tool_use")
        assert.deepInclude(call, { id: "call_1", name: "click", input: { x: 1 } })
        yield* Effect.promise(() =>
          anthropic.messages.create({
            ...hello,
            tools,
            messages: [
              ...hello.messages,
              { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "click", input: { x: 1 } }] },
              { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "done" }] }
            ]
          })
        )
        const [, assistant, answer] = lastSent(stub.received).messages
        assert.strictEqual(assistant.tool_calls[0].id, "call_1")
        assert.deepInclude(answer, { role: "tool", tool_call_id: "call_1" })
      }
    })
  )

  it.scopedLive("errors keep the upstream's status and body, and a broken stream is an error", () =>
    Effect.gen(function* () {
      const { anthropic } = yield* setup
      const ask = (content: string) => ({ ...hello, messages: [{ role: "user" as const, content }] })
      for (const stream of [false, true]) {
        const error = yield* failing(() => anthropic.messages.create({ ...ask("overload"), stream }))
        assert.instanceOf(error, Anthropic.RateLimitError)
        assert.deepStrictEqual(error.error, { error: { message: "slow down", type: "rate_limit", code: "rl" } })
      }
      const broken = yield* failing(() => anthropic.messages.stream(ask("break")).finalMessage())
      assert.instanceOf(broken, Anthropic.APIError)
      const refused = yield* failing(() =>
        anthropic.messages.create({ ...hello, tools: [{ type: "web_search_20250305", name: "web_search" }] })
      )
      assert.instanceOf(refused, Anthropic.BadRequestError)
      assert.include(refused.message, "web_search_20250305")
    })
  )

  it.scopedLive("an upstream that speaks Messages is passed through, its stream recorded as one message", () =>
    Effect.gen(function* () {
      // The order of events is that of Anthropic's API reference on streaming.
      const told = [
        [
          "message_start",
          { message: { ...message, content: [], stop_reason: null, usage: { input_tokens: 5, output_tokens: 1 } } }
        ],
        ["content_block_start", { index: 0, content_block: { type: "text", text: "" } }],
        ["ping", {}],
        ["content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hel" } }],
        ["content_block_delta", { index: 0, delta: { type: "text_delta", text: "lo" } }],
        ["content_block_stop", { index: 0 }],
        ["content_block_start", { index: 1, content_block: { type: "tool_use", id: "t1", name: "click", input: {} } }],
        ["content_block_delta", { index: 1, delta: { type: "input_json_delta", partial_json: '{"x":' } }],
        ["content_block_delta", { index: 1, delta: { type: "input_json_delta", partial_json: "1}" } }],
        ["content_block_stop", { index: 1 }],
        ["message_delta", { delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 9 } }],
        ["message_stop", {}]
      ] as const
      const body = told
        .map(([type, fields]) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
        .join("")
      const stub = yield* upstream((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(body)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url], speaks: ["messages"] })
      const client = new Anthropic({ baseURL: `${url}/ng-rollout/r1`, apiKey: "of-the-client" })
      const final = yield* Effect.promise(() => client.messages.stream(hello).finalMessage())
      assert.strictEqual(stub.received[0]?.headers.authorization, "Bearer of-the-client")
      assert.isDefined(stub.received[0]?.headers["anthropic-version"])
      const { records } = yield* capture.read("r1")
      assert.strictEqual(records[0]?.response_raw, body)
      assert.isUndefined(records[0]?.upstream_dialect)
      const whole = { ...message, stop_reason: "tool_use", usage: { input_tokens: 5, output_tokens: 9 } }
      assert.deepStrictEqual(records[0]?.response, whole)
      assert.deepStrictEqual(JSON.parse(JSON.stringify(final.content)), whole.content)
    })
  )
})
