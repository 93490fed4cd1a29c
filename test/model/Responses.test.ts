import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ArtifactStore } from "../../src/artifact/ArtifactStore.js"
import {
  assistant,
  ImagePart,
  ReasoningPart,
  system,
  ToolCallPart,
  text,
  tool,
  user
} from "../../src/model/Conversation.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import * as Responses from "../../src/model/Responses.js"
import { Sampling } from "../../src/model/Sampling.js"
import { type Answer, cut, json, Platform, pieces, quick, request, stub } from "./stub.js"

const against = (options: Partial<Responses.ResponsesOptions>, ...answers: ReadonlyArray<Answer>) =>
  Effect.gen(function* () {
    const { received, url } = yield* stub(...answers)
    return { client: yield* Responses.make({ url, model: "m", retry: quick, ...options }), received }
  })

const message = (...content: ReadonlyArray<Readonly<Record<string, unknown>>>) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content
})

const outputText = (value: string) => ({ type: "output_text", text: value, annotations: [] })

const response = (
  output: ReadonlyArray<unknown>,
  rest: Readonly<Record<string, unknown>> = { status: "completed" }
) => ({ id: "resp_1", object: "response", model: "served", output, ...rest })

const typed = (...events: ReadonlyArray<Readonly<Record<string, unknown>>>): string =>
  events.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join("")

describe("Responses", () => {
  it.scopedLive("sends the whole conversation as items, its image as the blob's data URL", () =>
    Effect.gen(function* () {
      const { client, received } = yield* against({}, json(response([message(outputText("ok"))])))
      const store = yield* ArtifactStore
      const blob = yield* store.put(new Uint8Array([1, 2, 3]), "image/png")
      const { identity, step } = request()
      const reply = yield* client.complete(
        new ModelRequest({
          messages: [
            system("be brief"),
            user(text("see"), new ImagePart({ blob, detail: "high" })),
            assistant(
              new ReasoningPart({ text: "hm" }),
              text("clicking"),
              new ToolCallPart({ callId: "c1", name: "click", arguments: "{}" })
            ),
            tool("c1", text("done"))
          ],
          sampling: new Sampling({ temperature: 0, maxTokens: 9 }),
          identity,
          step
        })
      )
      const [sent] = received
      assert.strictEqual(sent?.path, "/v1/responses")
      assert.deepInclude(sent?.body, { model: "m", temperature: 0, max_output_tokens: 9 })
      assert.notProperty(sent?.body, "stream")
      const wire = JSON.stringify(sent?.body["input"])
      // AQID is base64 for the bytes 1, 2, 3.
      for (const part of ["be brief", "data:image/png;base64,AQID", "hm", "clicking", '"call_id":"c1"', "done"]) {
        assert.include(wire, part)
      }
      assert.deepStrictEqual(reply.sent, { temperature: 0, max_output_tokens: 9 })
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("reads reasoning, text, calls and usage in their order", () =>
    Effect.gen(function* () {
      const { client } = yield* against(
        {},
        json(
          response(
            [
              { id: "rs_1", type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
              message(outputText("clicking")),
              {
                id: "fc_1",
                type: "function_call",
                call_id: "c1",
                name: "click",
                arguments: '{"x":1}',
                status: "completed"
              }
            ],
            {
              status: "completed",
              usage: {
                input_tokens: 7,
                output_tokens: 3,
                total_tokens: 10,
                input_tokens_details: { cached_tokens: 4 },
                output_tokens_details: { reasoning_tokens: 1 }
              }
            }
          )
        )
      )
      const reply = yield* client.complete(request())
      assert.deepStrictEqual(
        reply.message.content.map(({ _tag }) => _tag),
        ["ReasoningPart", "TextPart", "ToolCallPart"]
      )
      assert.deepInclude({ ...reply }, { finishReason: "tool_calls", id: "resp_1", model: "served" })
      assert.deepStrictEqual(
        { ...reply.usage },
        { promptTokens: 7, completionTokens: 3, cachedTokens: 4, reasoningTokens: 1 }
      )
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("reads a stream to the reply that a whole one would be", () =>
    Effect.gen(function* () {
      const whole = response([message(outputText("ok 🖱"))])
      const raw = Buffer.from(
        typed(
          { type: "response.created", response: { ...whole, status: "in_progress", output: [] } },
          { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: "ok 🖱" },
          { type: "response.completed", response: whole }
        )
      )
      const bytes = Array.from(raw, (_, index) => raw.subarray(index, index + 1))
      const streamed = yield* against({ stream: true }, pieces(bytes))
      const plain = yield* against({}, json(whole))
      const reply = yield* streamed.client.complete(request())
      assert.deepInclude(streamed.received[0]?.body, { stream: true })
      assert.strictEqual(reply.text, "ok 🖱")
      assert.deepStrictEqual(reply.message, (yield* plain.client.complete(request())).message)
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("says why a reply is cut short", () =>
    Effect.gen(function* () {
      const { client } = yield* against(
        {},
        json(
          response([message(outputText("o"))], {
            status: "incomplete",
            incomplete_details: { reason: "max_output_tokens" }
          })
        )
      )
      assert.strictEqual((yield* client.complete(request())).finishReason, "length")
    }).pipe(Effect.provide(Platform))
  )

  for (const [what, answer, reason] of [
    ["a refusal", json(response([message({ type: "refusal", refusal: "no" })])), "refused"],
    [
      "a content filter",
      json(response([], { status: "incomplete", incomplete_details: { reason: "content_filter" } })),
      "refused"
    ],
    [
      "a failure for the prompt's length",
      json(response([], { status: "failed", error: { code: "context_length_exceeded", message: "too long" } })),
      "context_overflow"
    ],
    [
      "a failure of the server's",
      json(response([], { status: "failed", error: { code: "server_error", message: "boom" } })),
      "unavailable"
    ],
    ["work that goes on", json(response([], { status: "in_progress" })), "malformed_reply"],
    ["no output", json({ id: "resp_1", status: "completed" }), "malformed_reply"],
    ["a stream without its end", pieces([typed({ type: "response.created", response: {} })]), "truncated"],
    ["a line cut", cut, "transport"]
  ] as const) {
    it.scopedLive(`calls ${what} ${reason}`, () =>
      Effect.gen(function* () {
        const { client } = yield* against({}, answer)
        assert.strictEqual((yield* Effect.flip(client.complete(request()))).reason, reason)
      }).pipe(Effect.provide(Platform))
    )
  }

  it.scopedLive("does not repeat what a server may have added to a conversation that it keeps", () =>
    Effect.gen(function* () {
      const plain = yield* against({}, cut)
      yield* Effect.flip(plain.client.complete(request()))
      assert.strictEqual(plain.received.length, 3)
      const kept = yield* against({ extraBody: { conversation: "conv_1" } }, cut)
      yield* Effect.flip(kept.client.complete(request()))
      assert.strictEqual(kept.received.length, 1)
    }).pipe(Effect.provide(Platform))
  )
})
