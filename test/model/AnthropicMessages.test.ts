import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ArtifactStore } from "../../src/artifact/ArtifactStore.js"
import * as AnthropicMessages from "../../src/model/AnthropicMessages.js"
import {
  assistant,
  ComputerTool,
  ImagePart,
  type Message,
  type OfferedTool,
  system,
  Tool,
  ToolMessage,
  text,
  tool,
  user
} from "../../src/model/Conversation.js"
import * as ConvertMessages from "../../src/model/ConvertMessages.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import { Sampling } from "../../src/model/Sampling.js"
import { type Answer, bytes, cut, json, Platform, pieces, quick, request, stub } from "./stub.js"

const against = (options: Partial<AnthropicMessages.AnthropicMessagesOptions>, ...answers: ReadonlyArray<Answer>) =>
  Effect.gen(function* () {
    const { received, url } = yield* stub(...answers)
    return { client: yield* AnthropicMessages.make({ url, model: "m", retry: quick, ...options }), received, url }
  })

const asked = (
  messages: readonly [Message, ...ReadonlyArray<Message>],
  sampling: Sampling = new Sampling({}),
  tools?: ReadonlyArray<OfferedTool>
) => {
  const { identity, step } = request()
  return new ModelRequest({ messages, sampling, identity, step, ...(tools === undefined ? {} : { tools }) })
}

const computer = new ComputerTool({ generation: "2025-11-24", width: 1280, height: 720, environment: "linux" })

const blocks = [
  { type: "thinking", thinking: "hm", signature: "sig" },
  { type: "redacted_thinking", data: "secret" },
  { type: "text", text: "clicking 🖱", citations: null },
  { type: "tool_use", id: "toolu_1", name: "computer", input: { action: "left_click", coordinate: [1, 2] } },
  { type: "tool_use", id: "toolu_2", name: "look", input: {} }
]

const usage = { input_tokens: 7, cache_creation_input_tokens: 2, cache_read_input_tokens: 4, output_tokens: 3 }

const message = (
  content: ReadonlyArray<unknown> = blocks,
  rest: Readonly<Record<string, unknown>> = { stop_reason: "tool_use" }
) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "served",
  content,
  stop_sequence: null,
  usage,
  ...rest
})

const typed = (...events: ReadonlyArray<Readonly<Record<string, unknown>>>): string =>
  events.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join("")

/** The stream that Anthropic's API reference shows for such a message. */
const streamed = typed(
  {
    type: "message_start",
    message: message([], { stop_reason: null, usage: { ...usage, output_tokens: 1 } })
  },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
  { type: "ping" },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "h" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "m" } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "sig" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: blocks[1] },
  { type: "content_block_stop", index: 1 },
  { type: "content_block_start", index: 2, content_block: { type: "text", text: "", citations: null } },
  { type: "content_block_delta", index: 2, delta: { type: "text_delta", text: "clicking 🖱" } },
  { type: "content_block_stop", index: 2 },
  {
    type: "content_block_start",
    index: 3,
    content_block: { type: "tool_use", id: "toolu_1", name: "computer", input: {} }
  },
  { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: '{"action": "left_cl' } },
  {
    type: "content_block_delta",
    index: 3,
    delta: { type: "input_json_delta", partial_json: 'ick", "coordinate": [1, 2]}' }
  },
  { type: "content_block_stop", index: 3 },
  {
    type: "content_block_start",
    index: 4,
    content_block: { type: "tool_use", id: "toolu_2", name: "look", input: {} }
  },
  { type: "content_block_stop", index: 4 },
  { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 3 } },
  { type: "message_stop" }
)

const sdk = (url: string) => new Anthropic({ apiKey: "k", baseURL: url.replace(/\/v1$/, ""), maxRetries: 0 })

const params: Anthropic.MessageCreateParamsNonStreaming = {
  model: "m",
  max_tokens: 9,
  messages: [{ role: "user", content: "hello" }]
}

describe("AnthropicMessages", () => {
  it.scopedLive("sends the whole conversation in blocks, its image as the blob's base64", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against(
        { apiKey: Redacted.make("sk-1"), betas: ["extra-1", "computer-use-2025-11-24"] },
        json(message())
      )
      const store = yield* ArtifactStore
      const blob = yield* store.put(new Uint8Array([1, 2, 3]), "image/png")
      const history = yield* ConvertMessages.fromMessagesContent(blocks)
      const look = new Tool({ name: "look", parameters: { type: "object" } })
      const reply = yield* client.complete(
        asked(
          [
            system("be brief"),
            user(text("see"), new ImagePart({ blob })),
            history,
            tool("toolu_1", text("Success")),
            new ToolMessage({ role: "tool", callId: "toolu_2", content: [text("seen"), new ImagePart({ blob })] })
          ],
          new Sampling({ temperature: 0, maxTokens: 9, topK: 4, topP: 0.5, stop: ["x"] }),
          [computer, look]
        )
      )
      const [sent] = received
      assert.strictEqual(sent?.path, "/v1/messages")
      assert.deepInclude(sent?.headers, {
        "x-api-key": "sk-1",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "extra-1,computer-use-2025-11-24"
      })
      assert.notProperty(sent?.headers, "authorization")
      // AQID is base64 for the bytes 1, 2, 3.
      const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AQID" } } as const
      const expected: Anthropic.Beta.MessageCreateParamsNonStreaming = {
        model: "m",
        max_tokens: 9,
        stop_sequences: ["x"],
        system: [{ type: "text", text: "be brief" }],
        tools: [
          { type: "computer_20251124", name: "computer", display_width_px: 1280, display_height_px: 720 },
          { name: "look", input_schema: { type: "object" } }
        ],
        messages: [
          { role: "user", content: [{ type: "text", text: "see" }, image] },
          {
            role: "assistant",
            content: [
              { type: "thinking", thinking: "hm", signature: "sig" },
              { type: "redacted_thinking", data: "secret" },
              { type: "text", text: "clicking 🖱" },
              {
                type: "tool_use",
                id: "toolu_1",
                name: "computer",
                input: { action: "left_click", coordinate: [1, 2] }
              },
              { type: "tool_use", id: "toolu_2", name: "look", input: {} }
            ]
          },
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "Success" }] },
              { type: "tool_result", tool_use_id: "toolu_2", content: [{ type: "text", text: "seen" }, image] }
            ]
          }
        ]
      }
      // The client is of a version of the API that takes none of these any more.
      assert.deepStrictEqual(sent?.body, { ...expected, temperature: 0, top_k: 4, top_p: 0.5 })
      assert.deepStrictEqual(reply.sent, {
        max_tokens: 9,
        temperature: 0,
        top_k: 4,
        top_p: 0.5,
        stop_sequences: ["x"]
      })
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("asks for a limit of its own where nobody set one, and for no beta without need", () =>
    Effect.gen(function* () {
      const plain = yield* against({}, json(message()))
      yield* plain.client.complete(request())
      assert.strictEqual(plain.received[0]?.body["max_tokens"], AnthropicMessages.defaultMaxTokens)
      assert.notProperty(plain.received[0]?.headers, "anthropic-beta")
      assert.notProperty(plain.received[0]?.headers, "x-api-key")
      const more = yield* against({ extraBody: { max_tokens: 7, thinking: { type: "adaptive" } } }, json(message()))
      const reply = yield* more.client.complete(request())
      assert.deepInclude(more.received[0]?.body, { max_tokens: 7, thinking: { type: "adaptive" } })
      assert.deepStrictEqual(reply.sent, { max_tokens: 7, thinking: { type: "adaptive" } })
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("reads thinking with its seal, text, calls and usage, and sends them back as they came", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against({}, json(message()))
      const reply = yield* client.complete(request())
      assert.deepStrictEqual(
        reply.message.content.map(({ _tag }) => _tag),
        ["ReasoningPart", "ReasoningPart", "TextPart", "ComputerCallPart", "ToolCallPart"]
      )
      assert.deepStrictEqual(reply.message.computerCalls[0]?.actions, [{ action: "left_click", coordinate: [1, 2] }])
      assert.deepInclude({ ...reply }, { finishReason: "tool_calls", id: "msg_1", model: "served" })
      // What a cache had (4) and took (2) is counted apart from the other 7.
      assert.deepStrictEqual({ ...reply.usage }, { promptTokens: 13, completionTokens: 3, cachedTokens: 4 })
      yield* client.complete(asked([user(text("a")), reply.message]))
      const sent = received[1]?.body["messages"]
      const back: unknown = Array.isArray(sent) ? sent[1]?.content : undefined
      assert.deepStrictEqual(
        back,
        blocks.map((block) => ("citations" in block ? { type: block.type, text: block.text } : block))
      )
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("reads a stream to the reply that a whole one would be, and so does the official client", () =>
    Effect.gen(function* () {
      const raw = Buffer.from(streamed)
      const cuts = Array.from(raw, (_, index) => raw.subarray(index, index + 1))
      const stream = yield* against({ stream: true }, pieces(cuts))
      const whole = yield* against({}, json(message()))
      const ours = yield* stream.client.complete(request())
      assert.deepInclude(stream.received[0]?.body, { stream: true })
      const plain = yield* whole.client.complete(request())
      assert.deepStrictEqual(ours.message, plain.message)
      assert.deepStrictEqual(ours.usage, plain.usage)
      const theirs = yield* Effect.promise(() => sdk(stream.url).messages.stream(params).finalMessage())
      assert.deepStrictEqual(yield* ConvertMessages.fromMessagesContent(theirs.content), ours.message)
      const theirWhole = yield* Effect.promise(() => sdk(whole.url).messages.create(params))
      assert.deepStrictEqual(yield* ConvertMessages.fromMessagesContent(theirWhole.content), ours.message)
      assert.strictEqual(theirs.usage.output_tokens, ours.usage?.completionTokens)
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("sends what the official client sends of the same conversation", () =>
    Effect.gen(function* () {
      const { client, received, url } = yield* against({}, json(message()))
      yield* client.complete(asked([user(text("hello"))], new Sampling({ maxTokens: 9 })))
      const content: Array<Anthropic.TextBlockParam> = [{ type: "text", text: "hello" }]
      yield* Effect.promise(() => sdk(url).messages.create({ ...params, messages: [{ role: "user", content }] }))
      const [ours, theirs] = received
      assert.strictEqual(ours?.path, theirs?.path)
      assert.deepStrictEqual(ours?.body, theirs?.body)
    }).pipe(Effect.provide(Platform))
  )

  for (const [reason, finish] of [
    ["end_turn", "stop"],
    ["stop_sequence", "stop"],
    ["tool_use", "tool_calls"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["pause_turn", "pause_turn"]
  ] as const) {
    it.scopedLive(`calls ${reason} ${finish}`, () =>
      Effect.gen(function* () {
        const { client } = yield* against({}, json(message([{ type: "text", text: "a" }], { stop_reason: reason })))
        assert.strictEqual((yield* client.complete(request())).finishReason, finish)
      }).pipe(Effect.provide(Platform))
    )
  }

  const error = (type: string, words = "boom") => ({ type: "error", error: { type, message: words } })
  const start = { type: "message_start", message: message([], { stop_reason: null }) }

  for (const [what, answer, reason] of [
    ["a refusal", json(message([], { stop_reason: "refusal" })), "refused"],
    ["a missing key", json(error("authentication_error"), 401), "unauthorised"],
    ["a limit", json(error("rate_limit_error"), 429), "rate_limited"],
    ["an overloaded server", json(error("overloaded_error"), 529), "unavailable"],
    [
      "a prompt of too many tokens",
      json(error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), 400),
      "context_overflow"
    ],
    ["a prompt of too many bytes", json(error("request_too_large"), 413), "context_overflow"],
    ["another refusal of the request", json(error("invalid_request_error"), 400), "bad_request"],
    ["an error in mid-stream", pieces([typed(start, error("overloaded_error"))]), "unavailable"],
    ["a stream without its end", pieces([typed(start)]), "truncated"],
    ["a stream whose line is cut", pieces([typed(start)], "cut"), "truncated"],
    ["no stop reason", json(message([], { stop_reason: null })), "truncated"],
    ["a chat completion", json({ choices: [] }), "malformed_reply"],
    ["a block that nobody knows", json(message([{ type: "server_tool_use" }])), "malformed_reply"],
    ["a page", bytes("<html>", 200, { "content-type": "text/html" }), "malformed_reply"],
    ["a line cut", cut, "transport"]
  ] as const) {
    it.scopedLive(`calls ${what} ${reason}`, () =>
      Effect.gen(function* () {
        const { client } = yield* against({}, answer)
        assert.strictEqual((yield* Effect.flip(client.complete(request()))).reason, reason)
      }).pipe(Effect.provide(Platform))
    )
  }

  it.scopedLive("keeps what the server said of an error, without the key", () =>
    Effect.gen(function* () {
      const body = `{"type":"error","error":{"type":"invalid_request_error","message":"sk-secret-1 is wrong"}}`
      const { client } = yield* against({ apiKey: Redacted.make("sk-secret-1") }, bytes(body, 400))
      const failed = yield* Effect.flip(client.complete(request()))
      assert.strictEqual(failed.status, 400)
      assert.include(failed.body, "invalid_request_error")
      assert.notInclude(JSON.stringify(failed) + failed.message, "sk-secret-1")
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("refuses to drop a seed, and what the wire lacks, before anything is sent", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against({}, json(message()))
      const seeded = yield* Effect.flip(client.complete(request(new Sampling({ seed: 1 }))))
      assert.strictEqual(seeded.reason, "bad_request")
      assert.include(seeded.message, "sampling.seed: a seed")
      const late = yield* Effect.flip(client.complete(asked([user(text("a")), assistant(text("b")), system("c")])))
      assert.include(late.message, "a message of the role system after the beginning")
      assert.lengthOf(received, 0)
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("is reached with its own key", () =>
    Effect.gen(function* () {
      const { received, url } = yield* stub(json({ data: [] }), json(error("authentication_error"), 401))
      const apiKey = Redacted.make("sk-1")
      yield* AnthropicMessages.reach({ url, apiKey })
      assert.strictEqual(received[0]?.path, "/v1/models")
      assert.deepInclude(received[0]?.headers, { "x-api-key": "sk-1", "anthropic-version": "2023-06-01" })
      assert.strictEqual((yield* Effect.flip(AnthropicMessages.reach({ url, apiKey }))).reason, "unauthorised")
    }).pipe(Effect.provide(Platform))
  )
})
