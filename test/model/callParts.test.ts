import { createHash } from "node:crypto"
import { createServer, type Server } from "node:http"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import type { TrajectoryIdentity } from "../../src/identity/TrajectoryIdentity.js"
import * as Connections from "../../src/model/Connections.js"
import { ImagePart, text, user } from "../../src/model/Conversation.js"
import { addressOf } from "../../src/model/internal/call/address.js"
import { placeholders } from "../../src/model/internal/call/body.js"
import { exchange } from "../../src/model/internal/call/exchange.js"
import { bodyFields, excerpt, refusalReason, retryAfter, retryAfterOf } from "../../src/model/internal/call/failure.js"
import { headersOf, idsOf } from "../../src/model/internal/call/identity.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import { Sampling } from "../../src/model/Sampling.js"
import * as TransportLog from "../../src/model/TransportLog.js"

const runs = { fastCheck: { numRuns: 1_000 } }

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

describe("ids of a call", () => {
  const ask = (trajectory?: TrajectoryIdentity) =>
    new ModelRequest({
      messages: [user(text("hello"))],
      sampling: new Sampling({}),
      step: 3,
      identity: new RolloutIdentity({
        runId: RunId.make("run"),
        taskId: "task",
        taskIndex: 0,
        rolloutIndex: 1,
        attemptIndex: 0,
        ...(trajectory === undefined ? {} : { trajectory })
      })
    })
  const names = {
    schema_version: 1,
    rollout_id: "r",
    group_id: "step 7/prompt 2",
    task_id: "task",
    rollout_index: 1,
    attempt_index: 0
  } as const

  it("name the group, the one that it came from and the sampling event, where the row gave them", () => {
    const known = { runId: "run", taskId: "task", rolloutId: "0-1", rolloutIndex: 1, attemptIndex: 0, step: 3 }
    assert.deepStrictEqual(idsOf(ask()), known)
    assert.deepStrictEqual(idsOf(ask(names)), { ...known, groupId: "step 7/prompt 2" })
    const sampled = ask({ ...names, sampling_event_id: "event-1", source_group_id: "group-1" })
    const ids = { ...known, groupId: "step 7/prompt 2", sourceGroupId: "group-1", samplingEventId: "event-1" }
    assert.deepStrictEqual(idsOf(sampled), ids)
    // A server of ours that logs by the headers has the same, escaped.
    assert.deepInclude(TransportLog.idsOf(headersOf(sampled)), {
      groupId: "step%207%2Fprompt%202",
      sourceGroupId: "group-1",
      samplingEventId: "event-1"
    })
    assert.notProperty(headersOf(ask()), "x-deskhand-group-id")
  })
})

describe("body", () => {
  it.effect.prop(
    "sends the JSON that it would be in one piece, says its length right, and reads an image only in its turn",
    {
      texts: FastCheck.array(FastCheck.string({ unit: "binary" }), { minLength: 1, maxLength: 4 }),
      images: FastCheck.array(FastCheck.uint8Array({ maxLength: 100 }), { maxLength: 4 })
    },
    ({ images, texts }) =>
      Effect.promise(async () => {
        const made = placeholders()
        const files = new Map(images.map((bytes) => [sha256(bytes), bytes]))
        const blobs = images.map(
          (bytes) => new BlobRef({ sha256: sha256(bytes), bytes: bytes.length, mediaType: "image/png" })
        )
        const json = (address: (index: number) => unknown) => ({
          texts,
          messages: blobs.map((_, index) => ({ image_url: { url: address(index) } }))
        })
        const addresses = blobs.map((blob) => made.image(new ImagePart({ blob })))
        const wire = json((index) => addresses[index])
        const read: Array<string> = []
        const body = made.body(wire, async (blob) => {
          read.push(blob.sha256)
          return { bytes: files.get(blob.sha256) ?? new Uint8Array(), release: () => {} }
        })
        assert.deepStrictEqual(read, [])
        // Twice, since a call may be made again.
        for (const _ of [1, 2]) {
          const chunks: Array<Buffer> = []
          const { length, stream } = body.open()
          for await (const chunk of stream) chunks.push(Buffer.from(chunk))
          const sent = Buffer.concat(chunks)
          assert.strictEqual(sent.length, length)
          const whole = json((index) => `data:image/png;base64,${Buffer.from(images[index] ?? []).toString("base64")}`)
          assert.strictEqual(sent.toString(), JSON.stringify(whole))
        }
        assert.strictEqual(read.length, 2 * images.length)
        assert.strictEqual(JSON.stringify(made.referenced(wire)), JSON.stringify(json((index) => blobs[index])))
      }),
    runs
  )

  it.scopedLive(
    "sends images whole to a server that reads slowly, in memory that is another's once it is given back",
    () =>
      Effect.gen(function* () {
        const received = yield* Deferred.make<Buffer>()
        const server = yield* Effect.acquireRelease(
          Effect.async<Server>((resume) => {
            const server = createServer(async (request, response) => {
              const chunks: Array<Buffer> = []
              for await (const chunk of request) {
                chunks.push(chunk)
                if (chunks.length % 20 === 1) await new Promise((resolve) => setTimeout(resolve, 5))
              }
              response.end()
              Deferred.unsafeDone(received, Effect.succeed(Buffer.concat(chunks)))
            })
            server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
          }),
          (server) => Effect.async<void>((resume) => void server.close(() => resume(Effect.void)).closeAllConnections())
        )
        const address = server.address()
        const url = new URL(`http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/`)
        const dispatcher = yield* Connections.make()
        const made = placeholders()
        // One write and several, writes that end where the image does, and far more than kernels keep between two programs.
        const images = [1, 9_000, 144 * 1024, 144 * 1024 + 1, 200_000, 6_000_000, 10, 5_000_000].map((length, at) => {
          const bytes = Buffer.from(Uint8Array.from({ length }, (_, index) => (index * 31 + at) % 251))
          return { bytes, blob: new BlobRef({ sha256: sha256(bytes), bytes: length, mediaType: "image/png" }) }
        })
        let lent = 0
        let released = 0
        const body = made.body({ urls: images.map(({ blob }) => made.image(new ImagePart({ blob }))) }, async () => {
          const bytes = Buffer.from(images[lent++]?.bytes ?? [])
          const release = () => {
            bytes.fill("!")
            released += 1
          }
          return { bytes, release }
        })
        const receiver = { head: () => {}, data: () => true }
        yield* exchange(dispatcher, { method: "POST", url, headers: {}, body }, receiver)
        const whole = { urls: images.map(({ bytes }) => `data:image/png;base64,${bytes.toString("base64")}`) }
        // Not deepStrictEqual: what differs would be printed whole.
        assert.isTrue((yield* Deferred.await(received)).equals(Buffer.from(JSON.stringify(whole))))
        assert.strictEqual(released, images.length)
      })
  )
})

describe("failure", () => {
  it("knows a prompt that is too long in the words of the servers", () => {
    for (const words of [
      // OpenAI and vLLM.
      "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
      '{"error":{"code":"context_length_exceeded"}}',
      // llama.cpp.
      '{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}',
      // SGLang.
      "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
      // Anthropic.
      "prompt is too long: 210000 tokens > 200000 maximum"
    ]) {
      assert.strictEqual(refusalReason(400, words), "context_overflow", words)
    }
    assert.strictEqual(refusalReason(400, "max_tokens must be at least 1"), "bad_request")
    assert.strictEqual(refusalReason(429, "context length"), "rate_limited")
  })

  it("reads Retry-After as seconds or as a date, and the finer header where there is one", () => {
    // The date of RFC 9110, section 10.2.3, a minute before it.
    const date = "Fri, 31 Dec 1999 23:59:59 GMT"
    assert.strictEqual(retryAfter(date, Date.UTC(1999, 11, 31, 23, 58, 59)), 60_000)
    assert.strictEqual(retryAfter("120", 0), 120_000)
    for (const nothing of [undefined, "", "-1", "soon", "0"]) assert.isUndefined(retryAfter(nothing, 0))
    assert.strictEqual(retryAfterOf({ "retry-after": "2", "retry-after-ms": "1500" }, 0), 1_500)
  })

  it("keeps a mebibyte of a body, whole characters of it, or its bytes", () => {
    const same = (text: string) => text
    const long = Buffer.from("é".repeat(1024 * 1024))
    assert.deepStrictEqual(bodyFields(Buffer.concat([Buffer.from("x"), long]), same), {
      body: `x${"é".repeat(524_287)}`
    })
    assert.deepStrictEqual(bodyFields(Buffer.from([0xff]), same), { bodyBase64: "/w==" })
  })

  it("shows an empty body as such, and a long one in short", () => {
    assert.strictEqual(excerpt(" \n"), "an empty body")
    assert.strictEqual(excerpt("x".repeat(1_000)).length, 301)
  })
})

describe("address", () => {
  it("adds the path before a query, and turns credentials into a header", () => {
    assert.strictEqual(addressOf("http://h/v1/", "/models")?.url.href, "http://h/v1/models")
    assert.strictEqual(
      addressOf("https://h/v1?api-version=2", "/responses")?.url.href,
      "https://h/v1/responses?api-version=2"
    )
    const address = addressOf("http://user:p%40ss@h/v1", "/models")
    assert.strictEqual(address?.url.href, "http://h/v1/models")
    assert.strictEqual(address?.authorization, `Basic ${Buffer.from("user:p@ss").toString("base64")}`)
    assert.isUndefined(addressOf("ftp://h/v1", "/models"))
    assert.isUndefined(addressOf("nowhere", "/models"))
  })
})
