import { createServer } from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpServer from "@effect/platform/HttpServer"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import * as ChatCompletions from "../../src/model/ChatCompletions.js"
import { ImagePart, Message, TextPart, text } from "../../src/model/Conversation.js"
import { chatBody } from "../../src/model/internal/chatBody.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import { Sampling } from "../../src/model/Sampling.js"
import { serve } from "../../src/model/Scripted.js"
import * as Simulator from "../rollout/simulator.js"

const request = (sampling: Sampling = new Sampling({}), step = 0) =>
  new ModelRequest({ messages: [text("user", "hello")], sampling, identity: Simulator.identity(), step })

interface Received {
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Record<string, unknown>
}

/** A server that answers with each reply in turn, the last for ever, and remembers what it was sent. */
const server = (...replies: ReadonlyArray<HttpServerResponse.HttpServerResponse>) =>
  Effect.gen(function* () {
    const received = yield* Ref.make<ReadonlyArray<Received>>([])
    const http = yield* NodeHttpServer.make(createServer, { host: "127.0.0.1", port: 0 })
    yield* http.serve(
      Effect.gen(function* () {
        const { headers, json } = yield* HttpServerRequest.HttpServerRequest
        const body = (yield* json) as Record<string, unknown>
        const all = yield* Ref.updateAndGet(received, (before) => [...before, { headers, body }])
        return replies[Math.min(all.length, replies.length) - 1] ?? HttpServerResponse.empty({ status: 404 })
      })
    )
    return { url: `${HttpServer.formatAddress(http.address)}/v1`, received: Ref.get(received) }
  })

const completion = (message: Record<string, unknown>, finish_reason: string | null = "stop") =>
  HttpServerResponse.unsafeJson({
    model: "served",
    choices: [{ message, finish_reason }],
    usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 }
  })

const store = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (directory) => ArtifactStore.layer({ directory })
  )
)

const Live = Layer.mergeAll(NodeHttpClient.layer, store).pipe(Layer.provideMerge(NodeContext.layer))

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
    }).pipe(Effect.provide(Live))
  )

  it.scopedLive("sends what was asked for and nothing else: a temperature of 0 is 0, an absent value is absent", () =>
    Effect.gen(function* () {
      const { received, url } = yield* server(completion({ content: "x" }))
      const client = yield* ChatCompletions.make({ url, model: "m", apiKey: Redacted.make("secret") })
      yield* client.complete(request(new Sampling({ temperature: 0, maxTokens: 5 })))
      yield* client.complete(request())
      const [first, second] = yield* received
      assert.deepStrictEqual(first?.body, {
        model: "m",
        messages: [{ role: "user", content: "hello" }],
        temperature: 0,
        max_tokens: 5
      })
      assert.deepStrictEqual(second?.body, { model: "m", messages: [{ role: "user", content: "hello" }] })
      assert.strictEqual(first?.headers["authorization"], "Bearer secret")
      assert.strictEqual(first?.headers["x-deskhand-rollout-id"], "0-0")
    }).pipe(Effect.provide(Live))
  )

  it.scopedLive("sends an image as the data URL of its blob", () =>
    Effect.gen(function* () {
      const { received, url } = yield* server(completion({ content: "x" }))
      const store = yield* ArtifactStore.ArtifactStore
      const blob = yield* store.put(new Uint8Array([1, 2, 3]), "image/png")
      const client = yield* ChatCompletions.make({ url, model: "m" })
      const message = new Message({ role: "user", content: [new TextPart({ text: "see" }), new ImagePart({ blob })] })
      const { identity, sampling, step } = request()
      yield* client.complete(new ModelRequest({ messages: [message], identity, sampling, step }))
      const [first] = yield* received
      // AQID is base64 for the bytes 1, 2, 3.
      assert.deepStrictEqual(first?.body["messages"], [
        {
          role: "user",
          content: [
            { type: "text", text: "see" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AQID", detail: "high" } }
          ]
        }
      ])
    }).pipe(Effect.provide(Live))
  )

  it.scopedLive("says which picture could not be read, and does not ask again", () =>
    Effect.gen(function* () {
      const { received, url } = yield* server(completion({ content: "x" }))
      const store = yield* ArtifactStore.ArtifactStore
      const fs = yield* FileSystem.FileSystem
      const blob = yield* store.put(new Uint8Array([1, 2, 3]), "image/png")
      yield* fs.remove(`${store.directory}/${blob.sha256}`)
      const client = yield* ChatCompletions.make({ url, model: "m" })
      const message = new Message({ role: "user", content: [new ImagePart({ blob })] })
      const { identity, sampling, step } = request()
      const error = yield* Effect.flip(
        client.complete(new ModelRequest({ messages: [message], identity, sampling, step }))
      )
      assert.strictEqual(error.reason, "artifact")
      assert.include(error.message, blob.sha256)
      assert.deepStrictEqual(yield* received, [])
    }).pipe(Effect.provide(Live))
  )

  it.effect.prop(
    "sends the JSON that it would be in one piece, and says its length right",
    {
      texts: FastCheck.array(FastCheck.string({ unit: "binary" }), { minLength: 1, maxLength: 4 }),
      pictures: FastCheck.array(FastCheck.uint8Array({ maxLength: 100 }), { maxLength: 4 })
    },
    ({ texts, pictures }) =>
      Effect.gen(function* () {
        const store = yield* ArtifactStore.ArtifactStore
        const blobs = yield* Effect.forEach(pictures, (bytes) => store.put(bytes, "image/png"))
        const content = [
          ...texts.map((text) => new TextPart({ text })),
          ...blobs.map((blob) => new ImagePart({ blob }))
        ]
        const [first, ...rest] = content
        if (first === undefined) return
        const body = chatBody([new Message({ role: "user", content: [first, ...rest] })], { model: "m" }, store)
        const sent = Buffer.concat(Array.from(yield* Stream.runCollect(body.stream)))
        assert.strictEqual(sent.length, body.contentLength)
        const parts = [
          ...texts.map((text) => ({ type: "text", text })),
          ...pictures.map((bytes) => ({
            type: "image_url",
            image_url: { url: `data:image/png;base64,${Buffer.from(bytes).toString("base64")}`, detail: "high" }
          }))
        ]
        const expected = content.length === 1 && pictures.length === 0 ? texts[0] : parts
        assert.deepStrictEqual(JSON.parse(sent.toString()), {
          model: "m",
          messages: [{ role: "user", content: JSON.parse(JSON.stringify(expected)) }]
        })
      }).pipe(Effect.provide(Live)),
    { fastCheck: { numRuns: 30 } }
  )

  it.scopedLive("reads text, reasoning, finish reason and usage", () =>
    Effect.gen(function* () {
      const { url } = yield* server(completion({ content: null, reasoning_content: "hm" }, "length"))
      const client = yield* ChatCompletions.make({ url, model: "m" })
      const reply = yield* client.complete(request())
      assert.deepInclude({ ...reply }, { text: "", reasoning: "hm", finishReason: "length", model: "served" })
      assert.deepInclude({ ...reply.usage }, { promptTokens: 7, completionTokens: 3 })
    }).pipe(Effect.provide(Live))
  )

  it.scopedLive("tries again after a 503 and keeps to three more tries", () =>
    Effect.gen(function* () {
      const { received, url } = yield* server(HttpServerResponse.empty({ status: 503 }), completion({ content: "x" }))
      const client = yield* ChatCompletions.make({ url, model: "m" })
      assert.strictEqual((yield* client.complete(request())).text, "x")
      assert.strictEqual((yield* received).length, 2)
    }).pipe(Effect.provide(Live))
  )

  for (const [status, body, reason] of [
    [401, "no key", "unauthorised"],
    [400, '{"error":{"code":"context_length_exceeded"}}', "context_overflow"],
    [400, "This model's maximum context length is 8192 tokens", "context_overflow"],
    [404, "model not found", "bad_request"],
    [200, "<html>", "malformed_reply"],
    [200, '{"choices":[]}', "malformed_reply"]
  ] as const) {
    it.scopedLive(`calls HTTP ${status} ${body} ${reason}, keeps the body, and does not repeat it`, () =>
      Effect.gen(function* () {
        const { received, url } = yield* server(HttpServerResponse.text(body, { status }))
        const client = yield* ChatCompletions.make({ url, model: "m" })
        const error = yield* Effect.flip(client.complete(request()))
        assert.deepInclude({ ...error }, { reason, status, body })
        assert.strictEqual((yield* received).length, 1)
      }).pipe(Effect.provide(Live))
    )
  }

  it.scopedLive("names the address, without credentials, and the remedy when nobody listens", () =>
    Effect.gen(function* () {
      const client = yield* ChatCompletions.make({ url: "http://user:secret@127.0.0.1:9/v1", model: "m" })
      const error = yield* Effect.flip(client.complete(request()))
      assert.strictEqual(error.reason, "transport")
      assert.include(error.message, "http://127.0.0.1:9/v1/chat/completions")
      assert.include(error.message, "ECONNREFUSED")
      assert.include(error.message, "--model-url")
      assert.notInclude(error.message, "secret")
    }).pipe(Effect.provide(Live))
  )

  it.scopedLive("gives up on a reply that does not come", () =>
    Effect.gen(function* () {
      const http = yield* NodeHttpServer.make(createServer, { host: "127.0.0.1", port: 0 })
      yield* http.serve(Effect.never)
      const url = HttpServer.formatAddress(http.address)
      const client = yield* ChatCompletions.make({ url, model: "m", timeout: "100 millis" })
      const error = yield* Effect.flip(client.complete(request()))
      assert.strictEqual(error.reason, "timeout")
    }).pipe(Effect.provide(Live))
  )
})
