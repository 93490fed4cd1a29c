import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { retryWithin } from "../../src/cli/internal/modelClient.js"
import * as ChatCompletions from "../../src/model/ChatCompletions.js"
import { ImagePart, Tool, text, type UserMessage, user } from "../../src/model/Conversation.js"
import * as Endpoints from "../../src/model/Endpoints.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import { RetryPolicy } from "../../src/model/Retry.js"
import { Sampling } from "../../src/model/Sampling.js"
import { serve } from "../../src/model/Scripted.js"
import * as Telemetry from "../../src/model/Telemetry.js"
import {
  type Answer,
  bytes,
  chunk,
  completion,
  cut,
  events,
  json,
  Platform,
  pieces,
  quick,
  request,
  silence,
  stub
} from "./stub.js"

const asking = (message: UserMessage) => {
  const { identity, sampling, step } = request()
  return new ModelRequest({ messages: [message], identity, sampling, step })
}

/** A client of a server that answers so, and what it was sent. */
const against = (options: Partial<ChatCompletions.ChatCompletionsOptions>, ...answers: ReadonlyArray<Answer>) =>
  Effect.gen(function* () {
    const { received, url } = yield* stub(...answers)
    const client = yield* ChatCompletions.make({ url, model: "m", retry: quick, ...options })
    return { client, received, url }
  })

describe("ChatCompletions", () => {
  it.scopedLive("asks the scripted server and gets the reply of the task and the step", () =>
    Effect.gen(function* () {
      const url = yield* serve((taskId, step) => (taskId === "task-0" ? ["first", "second"][step] : undefined))
      const client = yield* ChatCompletions.make({ url, model: "scripted" })
      assert.strictEqual((yield* client.complete(request(undefined, 0))).text, "first")
      assert.strictEqual((yield* client.complete(request(undefined, 1))).text, "second")
      const error = yield* Effect.flip(client.complete(request(undefined, 2)))
      assert.strictEqual(error.reason, "bad_request")
      assert.include(error.message, "step 2 of task task-0")
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("sends what was asked for and nothing else: a temperature of 0 is 0, an absent value is absent", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against(
        { apiKey: Redacted.make("secret-key") },
        json(completion({ content: "x" }))
      )
      const reply = yield* client.complete(request(new Sampling({ temperature: 0, maxTokens: 5 })))
      yield* client.complete(request())
      const [first, second] = received
      assert.deepStrictEqual(first?.body, {
        model: "m",
        messages: [{ role: "user", content: "hello" }],
        temperature: 0,
        max_tokens: 5
      })
      assert.deepStrictEqual(reply.sent, { temperature: 0, max_tokens: 5 })
      assert.deepStrictEqual(second?.body, { model: "m", messages: [{ role: "user", content: "hello" }] })
      assert.strictEqual(first?.path, "/v1/chat/completions")
      assert.strictEqual(first?.headers["authorization"], "Bearer secret-key")
      assert.strictEqual(first?.headers["x-deskhand-rollout-id"], "0-0")
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("lets the config's overrides win and its extra body fill gaps, and says what went out", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against(
        {
          samplingOverrides: { temperature: 1 },
          extraBody: { top_p: 0.5, min_p: 0.1 },
          chatTemplateKwargs: { enable_thinking: false }
        },
        json(completion({ content: "x" }))
      )
      const reply = yield* client.complete(request(new Sampling({ temperature: 0, topP: 0.9 })))
      const told = { temperature: 1, top_p: 0.9, min_p: 0.1, chat_template_kwargs: { enable_thinking: false } }
      assert.deepInclude(received[0]?.body, told)
      assert.deepStrictEqual(reply.sent, told)
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("offers tools and reads their calls", () =>
    Effect.gen(function* () {
      const call = { id: "call-1", type: "function", function: { name: "click", arguments: '{"x": 1}' } }
      const { client, received } = yield* against(
        {},
        json(completion({ content: null, tool_calls: [call] }, { finish_reason: "tool_calls" }))
      )
      const { identity, messages, sampling, step } = request()
      const tools = [new Tool({ name: "click", parameters: { type: "object" } })]
      const reply = yield* client.complete(
        new ModelRequest({ messages, sampling, identity, step, tools, toolChoice: "required" })
      )
      assert.strictEqual(received[0]?.body["tool_choice"], "required")
      assert.deepStrictEqual(received[0]?.body["tools"], [
        { type: "function", function: { name: "click", parameters: { type: "object" } } }
      ])
      assert.strictEqual(reply.finishReason, "tool_calls")
      assert.deepInclude({ ...reply.message.toolCalls[0] }, { callId: "call-1", name: "click", arguments: '{"x": 1}' })
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("sends an image as the data URL of its blob", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against({}, json(completion({ content: "x" })))
      const store = yield* ArtifactStore.ArtifactStore
      const blob = yield* store.put(new Uint8Array([1, 2, 3]), "image/png")
      yield* client.complete(asking(user(text("see"), new ImagePart({ blob, detail: "high" }))))
      // AQID is base64 for the bytes 1, 2, 3.
      assert.deepStrictEqual(received[0]?.body["messages"], [
        {
          role: "user",
          content: [
            { type: "text", text: "see" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AQID", detail: "high" } }
          ]
        }
      ])
    }).pipe(Effect.provide(Platform))
  )

  for (const [what, spoil] of [
    ["is gone", () => Effect.void],
    ["is not what was stored", (fs: FileSystem.FileSystem, path: string) => fs.writeFileString(path, "xy")]
  ] as const) {
    it.scopedLive(`says which image ${what}, and does not ask again`, () =>
      Effect.gen(function* () {
        const { client, received } = yield* against({}, json(completion({ content: "x" })))
        const store = yield* ArtifactStore.ArtifactStore
        // An earlier run has stored it, or so the evidence says.
        const blob = new ArtifactStore.BlobRef({ sha256: "0".repeat(64), bytes: 3, mediaType: "image/png" })
        yield* spoil(yield* FileSystem.FileSystem, `${store.directory}/${blob.sha256}`)
        const error = yield* Effect.flip(client.complete(asking(user(new ImagePart({ blob })))))
        assert.strictEqual(error.reason, "artifact")
        assert.include(error.message, blob.sha256)
        assert.deepStrictEqual(received, [])
      }).pipe(Effect.provide(Platform))
    )
  }

  it.scopedLive("reads text, reasoning, finish reason, id and usage", () =>
    Effect.gen(function* () {
      const { client } = yield* against(
        {},
        json(
          completion(
            { content: null, reasoning_content: "hm" },
            { finish_reason: "length" },
            {
              usage: {
                prompt_tokens: 7,
                completion_tokens: 3,
                prompt_tokens_details: { cached_tokens: 5 },
                completion_tokens_details: { reasoning_tokens: 2 }
              }
            }
          )
        )
      )
      const reply = yield* client.complete(request())
      assert.deepInclude({ ...reply }, { finishReason: "length", model: "served", id: "chatcmpl-1", attempts: 1 })
      assert.strictEqual(reply.text, "")
      assert.strictEqual(reply.message.reasoning, "hm")
      assert.deepStrictEqual(
        { ...reply.usage },
        { promptTokens: 7, completionTokens: 3, cachedTokens: 5, reasoningTokens: 2 }
      )
      assert.isAtLeast(reply.firstByteMilliseconds ?? -1, 0)
    }).pipe(Effect.provide(Platform))
  )

  describe("streams", () => {
    const said = "naïve 🖱 click"
    const whole = events(
      chunk({ role: "assistant", content: said.slice(0, 4) }),
      chunk({ content: said.slice(4) }),
      chunk({}, "stop"),
      { id: "chatcmpl-1", choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } },
      "[DONE]"
    )

    it.scopedLive("asks for a stream with its usage, and gives the reply that a whole one would be", () =>
      Effect.gen(function* () {
        const { client, received } = yield* against({ stream: true }, pieces([whole]))
        const reply = yield* client.complete(request())
        assert.deepInclude(received[0]?.body, { stream: true, stream_options: { include_usage: true } })
        assert.strictEqual(reply.text, said)
        assert.strictEqual(reply.finishReason, "stop")
        assert.deepStrictEqual({ ...reply.usage }, { promptTokens: 7, completionTokens: 3 })
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("reads the same however the bytes are cut on the socket", () =>
      Effect.gen(function* () {
        const raw = Buffer.from(whole)
        const cuts = FastCheck.sample(FastCheck.array(FastCheck.nat(raw.length), { maxLength: 12 }), 25)
        for (const places of cuts) {
          const sorted = [0, ...places.sort((a, b) => a - b), raw.length]
          const parts = sorted.slice(1).map((end, index) => raw.subarray(sorted[index], end))
          const { client } = yield* against({ stream: true }, pieces(parts.filter((part) => part.length > 0)))
          assert.strictEqual((yield* client.complete(request())).text, said)
        }
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("takes a stream for whole once it says so, though the line is cut or stays open", () =>
      Effect.gen(function* () {
        for (const end of ["cut", "silence"] as const) {
          const { client } = yield* against({ stream: true, idleTimeout: "100 millis" }, pieces([whole], end))
          assert.strictEqual((yield* client.complete(request())).text, said)
        }
      }).pipe(Effect.provide(Platform))
    )

    for (const [what, answer, reason, tries] of [
      ["ends too early", pieces([events(chunk({ content: "a" }))]), "truncated", 3],
      ["is cut off", pieces([events(chunk({ content: "a" }))], "cut"), "truncated", 3],
      ["stalls", pieces([events(chunk({ content: "a" }))], "silence"), "timeout", 1],
      ["holds bytes that are no UTF-8", pieces(["data: ", Buffer.from([0xff, 0xfe]), "\n\n"]), "malformed_reply", 1],
      ["holds no JSON", pieces(["data: {\n\n"]), "malformed_reply", 1],
      [
        "has an error in its midst",
        pieces([events(chunk({ content: "a" }), { error: { message: "boom" } })]),
        "unavailable",
        3
      ],
      [
        "has a prompt too long in its midst",
        pieces([events({ error: { message: "maximum context length is 8192 tokens", code: 400 } })]),
        "context_overflow",
        1
      ],
      ["is HTML", bytes("<html>", 200, { "content-type": "text/html" }), "malformed_reply", 1]
    ] as const) {
      it.scopedLive(`calls one that ${what} ${reason}, never a reply, after ${tries} tries`, () =>
        Effect.gen(function* () {
          const { client, received } = yield* against({ stream: true, idleTimeout: "100 millis" }, answer)
          const error = yield* Effect.flip(client.complete(request()))
          assert.deepInclude({ ...error }, { reason, status: 200, attempts: tries })
          assert.isTrue(error.body !== undefined || error.bodyBase64 !== undefined)
          assert.strictEqual(received.length, tries)
        }).pipe(Effect.provide(Platform))
      )
    }

    it.scopedLive("stops at the limit, and keeps a mebibyte of what came", () =>
      Effect.gen(function* () {
        const many = Array.from({ length: 3_000 }, () => events(chunk({ content: "x".repeat(1_000) })))
        const { client } = yield* against({ stream: true, replyLimit: 2_000_000 }, pieces(many, "silence"))
        const error = yield* Effect.flip(client.complete(request()))
        assert.strictEqual(error.reason, "malformed_reply")
        assert.include(error.message, "2000000 bytes")
        assert.strictEqual(error.body?.length, 1024 * 1024)
      }).pipe(Effect.provide(Platform))
    )
  })

  describe("tokens", () => {
    const ids = { prompt_token_ids: [1, 2] }
    const logprobs = {
      content: [
        { token: "token_id:5", logprob: -0.5 },
        { token: "token_id:6", logprob: 0 }
      ]
    }
    const choice = { finish_reason: "stop", token_ids: [5, 6], logprobs }

    it.scopedLive("asks for ids and reads them", () =>
      Effect.gen(function* () {
        const { client, received } = yield* against({ tokens: "ids" }, json(completion({ content: "x" }, choice, ids)))
        const reply = yield* client.complete(request())
        assert.deepInclude(received[0]?.body, { logprobs: true, return_token_ids: true })
        assert.deepStrictEqual(
          { ...reply.message.tokens },
          { promptTokenIds: [1, 2], generationTokenIds: [5, 6], generationLogProbs: [-0.5, 0] }
        )
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("asks /tokenize, beside /v1, for the prompt's where only the reply's are told", () =>
      Effect.gen(function* () {
        const { client, received } = yield* against(
          { tokens: "logprobs" },
          json(completion({ content: "x" }, { finish_reason: "stop", logprobs })),
          json({ tokens: [1, 2], count: 2 })
        )
        const reply = yield* client.complete(request())
        assert.strictEqual(received[1]?.path, "/tokenize")
        assert.deepStrictEqual(received[1]?.body, { model: "m", messages: [{ role: "user", content: "hello" }] })
        assert.deepStrictEqual(reply.message.tokens?.promptTokenIds, [1, 2])
      }).pipe(Effect.provide(Platform))
    )

    for (const [what, answer] of [
      ["that are missing", json(completion({ content: "x" }))],
      ["of two lengths", json(completion({ content: "x" }, { ...choice, token_ids: [5] }, ids))],
      // Python writes NaN where JSON has no word for it; 1e999 is too large for a number.
      ["that are NaN", bytes(JSON.stringify(completion({ content: "x" }, choice, ids)).replace("-0.5", "NaN"))],
      ["that are infinite", bytes(JSON.stringify(completion({ content: "x" }, choice, ids)).replace("-0.5", "-1e999"))]
    ] as const) {
      it.scopedLive(`takes log-probabilities ${what} for no reply, and keeps its body`, () =>
        Effect.gen(function* () {
          const { client, received } = yield* against({ tokens: "ids" }, answer)
          const error = yield* Effect.flip(client.complete(request()))
          assert.deepInclude({ ...error }, { reason: "malformed_reply", status: 200 })
          assert.include(error.body, "chatcmpl-1")
          assert.strictEqual(received.length, 1)
        }).pipe(Effect.provide(Platform))
      )
    }
  })

  describe("failures", () => {
    for (const [status, body, reason] of [
      [401, "no key", "unauthorised"],
      [400, '{"error":{"code":"context_length_exceeded"}}', "context_overflow"],
      [400, "This model's maximum context length is 8192 tokens", "context_overflow"],
      [500, "This model's maximum context length is 8192 tokens", "context_overflow"],
      [400, "max_tokens must be at least 1", "bad_request"],
      [404, "model not found", "bad_request"],
      [200, "<html>", "malformed_reply"],
      [200, '{"choices":[]}', "malformed_reply"],
      [200, "[]", "malformed_reply"]
    ] as const) {
      it.scopedLive(`calls HTTP ${status} ${body} ${reason}, keeps the body, and does not repeat it`, () =>
        Effect.gen(function* () {
          const { client, received } = yield* against({}, bytes(body, status))
          const error = yield* Effect.flip(client.complete(request()))
          assert.deepInclude({ ...error }, { reason, status, body, attempts: 1 })
          assert.strictEqual(received.length, 1)
        }).pipe(Effect.provide(Platform))
      )
    }

    for (const [what, answer, reason] of [
      ["a 503", bytes("busy", 503), "unavailable"],
      ["a 429", bytes("slow down", 429), "rate_limited"],
      ["a line cut before the reply", cut, "transport"],
      [
        "a reply shorter than it said",
        pieces(['{"choices":'], "cut", { "content-length": "1000", "content-type": "application/json" }),
        "truncated"
      ]
    ] as const) {
      it.scopedLive(`tries again after ${what}, and tells it when that is all there is`, () =>
        Effect.gen(function* () {
          const mended = yield* against({}, answer, json(completion({ content: "x" })))
          assert.deepInclude({ ...(yield* mended.client.complete(request())) }, { attempts: 2 })
          const { client, received } = yield* against({}, answer)
          assert.deepInclude({ ...(yield* Effect.flip(client.complete(request()))) }, { reason, attempts: 3 })
          assert.strictEqual(received.length, 3)
        }).pipe(Effect.provide(Platform))
      )
    }

    it.scopedLive("waits as long as the server asks", () =>
      Effect.gen(function* () {
        const { client } = yield* against(
          {},
          bytes("", 429, { "retry-after": "1" }),
          json(completion({ content: "x" }))
        )
        // A second is the shortest wait that the header can ask for.
        assert.isAtLeast((yield* client.complete(request())).milliseconds, 990)
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("asks no more where the wait is longer than the call may take, and keeps what was said", () =>
      Effect.gen(function* () {
        const { client, received } = yield* against(
          { retry: retryWithin(new RetryPolicy({}), 20), timeout: "20 seconds" },
          bytes('{"error":{"message":"quota exceeded"}}', 429, { "retry-after": "86400" })
        )
        const error = yield* Effect.flip(client.complete(request()))
        assert.strictEqual(error.reason, "rate_limited")
        assert.include(error.message, "quota exceeded")
        assert.strictEqual(received.length, 1)
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("keeps bytes that are no UTF-8", () =>
      Effect.gen(function* () {
        const { client } = yield* against({}, bytes(Buffer.from([0xff, 0x00]), 400), bytes(Buffer.from([0xff]), 200))
        // /wA= is base64 for the bytes 255 and 0.
        assert.deepInclude({ ...(yield* Effect.flip(client.complete(request()))) }, { bodyBase64: "/wA=", status: 400 })
        assert.deepInclude({ ...(yield* Effect.flip(client.complete(request()))) }, { reason: "malformed_reply" })
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("takes no reply beyond the limit", () =>
      Effect.gen(function* () {
        const { client } = yield* against({ replyLimit: 1_000 }, json(completion({ content: "x".repeat(2_000) })))
        const error = yield* Effect.flip(client.complete(request()))
        assert.strictEqual(error.reason, "malformed_reply")
        assert.include(error.message, "1000 bytes")
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("tells a refusal of the model from a reply", () =>
      Effect.gen(function* () {
        const { client } = yield* against(
          {},
          json(completion({ content: null, refusal: "I will not" })),
          json(completion({ content: "" }, { finish_reason: "content_filter" }))
        )
        const first = yield* Effect.flip(client.complete(request()))
        assert.strictEqual(first.reason, "refused")
        assert.include(first.message, "I will not")
        assert.strictEqual((yield* Effect.flip(client.complete(request()))).reason, "refused")
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("names the address, without credentials, and the remedy when nobody listens", () =>
      Effect.gen(function* () {
        const client = yield* ChatCompletions.make({
          url: "http://user:secret@127.0.0.1:9/v1",
          model: "m",
          retry: quick
        })
        const error = yield* Effect.flip(client.complete(request()))
        assert.deepInclude({ ...error }, { reason: "transport", delivered: false, attempts: 3 })
        assert.include(error.message, "127.0.0.1:9/v1/chat/completions")
        assert.include(error.message, "ECONNREFUSED")
        assert.include(error.message, "--model-url")
        assert.notInclude(error.message, "secret")
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("keeps its key out of errors, also when the server repeats it", () =>
      Effect.gen(function* () {
        const { client } = yield* against(
          { apiKey: Redacted.make("sk-very-secret") },
          bytes("wrong key sk-very-secret", 401)
        )
        const error = yield* Effect.flip(client.complete(request()))
        assert.notInclude(JSON.stringify({ ...error, message: error.message }), "sk-very-secret")
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("gives up on a reply that does not come", () =>
      Effect.gen(function* () {
        const { client, received } = yield* against({ timeout: "100 millis" }, silence)
        const error = yield* Effect.flip(client.complete(request()))
        assert.strictEqual(error.reason, "timeout")
        assert.strictEqual(received.length, 1)
      }).pipe(Effect.provide(Platform))
    )

    it.scopedLive("hangs up when its caller goes away", () =>
      Effect.gen(function* () {
        let arrived = () => {}
        let left = () => {}
        const arrival = new Promise<void>((resolve) => {
          arrived = resolve
        })
        const leaving = new Promise<void>((resolve) => {
          left = resolve
        })
        const { client } = yield* against({}, (response) => {
          response.on("close", () => left())
          arrived()
        })
        const fiber = yield* Effect.fork(client.complete(request()))
        yield* Effect.promise(() => arrival)
        yield* Fiber.interrupt(fiber)
        yield* Effect.timeout(
          Effect.promise(() => leaving),
          "5 seconds"
        )
      }).pipe(Effect.provide(Platform))
    )
  })

  it.scopedLive("keeps a rollout at its address, and moves it only while that is down", () =>
    Effect.gen(function* () {
      const one = yield* stub(json(completion({ content: "one" })))
      const two = yield* stub(json(completion({ content: "two" })))
      const urls = [one.url, two.url] as const
      const client = yield* ChatCompletions.make({ url: urls, model: "m", retry: quick })
      const home = (taskIndex: number) => Endpoints.affinity(`${taskIndex}-0`, 2)
      const tasks = Array.from({ length: 8 }, (_, index) => index)
      const ask = (task: number) => client.complete(request(undefined, 0, task))
      for (const task of tasks) assert.strictEqual((yield* ask(task)).text, home(task) === 0 ? "one" : "two")
      assert.isAbove(tasks.filter((task) => home(task) === 0).length, 0)
      yield* one.close
      for (const task of tasks) assert.strictEqual((yield* ask(task)).text, "two")
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("counts calls, tries, tokens and waits", () =>
    Effect.gen(function* () {
      const { client, url } = yield* against(
        { model: "counted" },
        bytes("", 503),
        json(completion({ content: "x" })),
        bytes("", 404)
      )
      yield* client.complete(request())
      yield* Effect.flip(client.complete(request()))
      const { connections, models } = yield* Telemetry.snapshot
      const counted = models["counted"]
      assert.deepInclude(counted, {
        calls: { ok: 1, bad_request: 1 },
        retries: { unavailable: 1 },
        tokens: { prompt: 7, completion: 3 }
      })
      assert.strictEqual(counted?.latency?.count, 2)
      assert.strictEqual(counted?.firstByte?.count, 1)
      assert.strictEqual(counted?.permitWait?.count, 3)
      assert.strictEqual(connections[new URL(url).origin]?.count, 3)
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("finds out before a run whether a server is there and takes the key", () =>
    Effect.gen(function* () {
      const { received, url } = yield* stub(
        json({ data: [] }),
        bytes("", 404),
        bytes("", 401),
        bytes(JSON.stringify({ error: { message: "Incorrect API key provided: k-1234" } }), 401),
        bytes("", 403)
      )
      yield* ChatCompletions.reach({ url, apiKey: Redacted.make("k-1234") })
      assert.deepInclude({ ...received[0] }, { path: "/v1/models" })
      assert.strictEqual(received[0]?.headers["authorization"], "Bearer k-1234")
      yield* ChatCompletions.reach({ url })
      assert.strictEqual((yield* Effect.flip(ChatCompletions.reach({ url }))).reason, "unauthorised")
      const apiKey = Redacted.make("k-1234")
      const wrong = yield* Effect.flip(ChatCompletions.reach({ url, apiKey, keyName: "MYKEY" }))
      assert.include(wrong.message, "it refuses the key in MYKEY, and it says: Incorrect API key provided:")
      assert.include(wrong.message, "(HTTP 401). Check the key")
      assert.notInclude(wrong.message, "k-1234")
      const forbidden = yield* Effect.flip(ChatCompletions.reach({ url, apiKey, keyName: "MYKEY" }))
      assert.include(forbidden.message, "the key in MYKEY may not use it (HTTP 403)")
      const nobody = yield* Effect.flip(ChatCompletions.reach({ url: "http://127.0.0.1:9/v1" }))
      assert.strictEqual(nobody.reason, "transport")
    }).pipe(Effect.provide(Platform))
  )
})
