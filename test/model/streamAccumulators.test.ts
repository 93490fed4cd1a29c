import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Chat from "../../src/model/internal/streams/chatAccumulator.js"
import * as Responses from "../../src/model/internal/streams/responsesAccumulator.js"
import { chunk, completionOf, cut, done, said, sent, streamOf } from "./chatStreams.js"

const completion = (...events: Parameters<typeof Chat.accumulate>[0] extends Iterable<infer E> ? Array<E> : never) =>
  Either.getOrThrow(Chat.accumulate(events))

const chatError = (...events: ReadonlyArray<ReturnType<typeof sent>>) => {
  const { data, detail, reason, status } = Either.getOrThrow(Either.flip(Chat.accumulate(events)))
  return { reason, detail, ...(data === undefined ? {} : { data }), ...(status === undefined ? {} : { status }) }
}

const end = sent(chunk({}, { finish_reason: "stop" }))

describe("chatAccumulator", () => {
  it("gives the completion that a call without a stream gives, however it is cut", () => {
    FastCheck.assert(
      FastCheck.property(said, cut, (reply, how) => {
        assert.deepStrictEqual(completion(...streamOf(reply, how)), completionOf(reply))
      }),
      { numRuns: 1000 }
    )
  })

  // The shape of vLLM's stream with `return_token_ids` and `logprobs`: the prompt's tokens once, the reply's with each
  // piece.
  it("puts tokens and log-probabilities together", () => {
    const logprob = (token: string, value: number) => ({ token, logprob: value, bytes: null, top_logprobs: [] })
    const whole = completion(
      sent(chunk({ role: "assistant", content: "" }, { logprobs: null }, { prompt_token_ids: [1, 2, 3] })),
      sent(chunk({ content: "a" }, { logprobs: { content: [logprob("token_id:7", -0.5)] }, token_ids: [7] })),
      sent(
        chunk(
          { content: "bc" },
          { logprobs: { content: [logprob("token_id:8", -1), logprob("token_id:9", 0)] }, token_ids: [8, 9] }
        )
      ),
      sent(chunk({}, { finish_reason: "stop", stop_reason: 128, token_ids: [] })),
      done
    )
    assert.deepStrictEqual(whole, {
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_700_000_000,
      model: "served",
      prompt_token_ids: [1, 2, 3],
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "abc" },
          logprobs: { content: [logprob("token_id:7", -0.5), logprob("token_id:8", -1), logprob("token_id:9", 0)] },
          token_ids: [7, 8, 9],
          finish_reason: "stop",
          stop_reason: 128
        }
      ]
    })
  })

  it("keeps choices apart", () => {
    const of = (index: number, text: string, finish_reason: string | null = null) =>
      sent(chunk({ content: text }, { index, finish_reason }))
    const { choices } = completion(of(1, "x"), of(0, "a"), of(1, "y", "stop"), of(0, "b", "length"))
    assert.deepStrictEqual(choices, [
      { index: 0, message: { role: "assistant", content: "ab" }, finish_reason: "length" },
      { index: 1, message: { role: "assistant", content: "xy" }, finish_reason: "stop" }
    ])
  })

  it.each([
    [
      "without an index",
      [
        { id: "c1", function: { name: "f", arguments: "{" } },
        { function: { arguments: "}" } },
        { id: "c2", function: { name: "g", arguments: "{}" } }
      ]
    ],
    [
      "with the id and the name in each piece",
      [
        { index: 0, id: "c1", function: { name: "f", arguments: "{" } },
        { index: 0, id: "c1", function: { name: "f", arguments: "}" } },
        { index: 1, id: "c2", function: { name: "g", arguments: "{}" } }
      ]
    ],
    [
      "with empty ids and names after the first",
      [
        { index: 0, id: "c1", function: { name: "f", arguments: "{" } },
        { index: 0, id: "", function: { name: "", arguments: "}" } },
        { index: 1, id: "c2", function: { name: "g", arguments: "{}" } }
      ]
    ]
  ])("puts tool calls together that come %s", (_, calls) => {
    const { choices } = completion(...calls.map((call) => sent(chunk({ tool_calls: [call] }))), end)
    assert.deepStrictEqual(choices, [
      {
        index: 0,
        message: {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "c1", type: "function", function: { name: "f", arguments: "{}" } },
            { id: "c2", type: "function", function: { name: "g", arguments: "{}" } }
          ]
        },
        finish_reason: "stop"
      }
    ])
  })

  it("takes a finish reason without [DONE] for an end, and [DONE] without a finish reason", () => {
    assert.deepStrictEqual(
      completion(sent(chunk({ content: "a" })), end),
      completion(sent(chunk({ content: "a" })), end, done)
    )
    assert.deepNestedInclude(completion(sent(chunk({ content: "a" })), done), { "choices[0].finish_reason": null })
  })

  it("says that a stream without its end is truncated: after nothing, after some words, after one choice of two", () => {
    const truncated = { reason: "truncated", detail: "it ended without [DONE] and without a finish_reason" }
    assert.deepStrictEqual(chatError(), truncated)
    assert.deepStrictEqual(chatError(sent(chunk({ content: "a" }))), truncated)
    assert.deepStrictEqual(chatError(sent(chunk({ content: "a" }, { index: 1 })), end), truncated)
  })

  it.each([
    ["an object with an error", sent({ error: { message: "out of memory", code: 503 } }), "out of memory", 503],
    ["an event of that name", sent({ message: "out of memory" }, "error"), "out of memory", undefined],
    ["an event that is no JSON", sent("out of memory", "error"), "out of memory", undefined],
    ["an object that says it is one", sent({ object: "error", message: "too long", code: 400 }), "too long", 400]
  ])("keeps the upstream's error in mid-stream: %s", (_, event, detail, status) => {
    assert.deepStrictEqual(chatError(sent(chunk({ content: "a" })), event, done), {
      reason: "upstream",
      detail,
      data: event.data,
      ...(status === undefined ? {} : { status })
    })
  })

  it.each([
    ["no JSON", "<html>"],
    ["a NaN", '{"choices":[{"index":0,"logprobs":{"content":[{"logprob":NaN}]}}]}'],
    ["no object", "[1]"],
    ["choices that are no list", '{"choices":{}}'],
    ["a choice that is no object", '{"choices":[1]}'],
    ["a delta that is no object", '{"choices":[{"delta":"a"}]}'],
    ["content that is no text", '{"choices":[{"delta":{"content":1}}]}'],
    ["calls that are no list", '{"choices":[{"delta":{"tool_calls":{}}}]}'],
    ["arguments that are no text", '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":{}}}]}}]}']
  ])("is malformed with %s, and keeps what came", (_, data) => {
    const error = chatError(sent(chunk({ content: "a" })), sent(data), done)
    assert.strictEqual(error.reason, "malformed")
    assert.strictEqual(error.data, data)
  })

  it("does not glue two calls together, nor lets two have one id", () => {
    const call = (index: number, id: string) =>
      sent(chunk({ tool_calls: [{ index, id, function: { name: "f", arguments: "{}" } }] }))
    assert.include(chatError(call(0, "a"), call(0, "b"), end), {
      reason: "malformed",
      detail: "two tool calls, a and b, have the index 0"
    })
    assert.include(chatError(call(0, "a"), call(1, "a"), end), {
      reason: "malformed",
      detail: "the tool calls 0 and 1 have the same id, a"
    })
  })

  it("leaves a key of an object's prototype a key", () => {
    const whole = completion(sent('{"choices":[{"delta":{"__proto__":{"polluted":true},"content":"a"}}]}'), end)
    assert.isUndefined(Reflect.get({}, "polluted"))
    assert.include(JSON.stringify(whole), '"content":"a"')
  })

  it("adding to a state leaves it as it was", () => {
    const one = Either.getOrThrow(
      Chat.addEvent(Chat.empty, sent(chunk({ content: "a", tool_calls: [{ index: 0, id: "c" }] }, { token_ids: [1] })))
    )
    const finished = () => Either.getOrThrow(Chat.finish(Either.getOrThrow(Chat.addEvent(one, end))))
    const before = finished()
    Either.getOrThrow(
      Chat.addEvent(one, sent(chunk({ content: "b", tool_calls: [{ index: 1, id: "d" }] }, { token_ids: [2] })))
    )
    assert.deepStrictEqual(finished(), before)
  })
})

const response = (status: string, output: ReadonlyArray<unknown> = []) => ({
  id: "resp_1",
  object: "response",
  status,
  output
})
const ending = (status: string, output?: ReadonlyArray<unknown>) =>
  sent({ type: `response.${status}`, sequence_number: 9, response: response(status, output) }, `response.${status}`)
const created = sent(
  { type: "response.created", sequence_number: 0, response: response("in_progress") },
  "response.created"
)
const itemDone = (output_index: number, id: string) =>
  sent({ type: "response.output_item.done", output_index, item: { id, type: "message" } }, "response.output_item.done")

const responsesError = (...events: ReadonlyArray<ReturnType<typeof sent>>) =>
  Either.getOrThrow(Either.flip(Responses.accumulate(events)))

describe("responsesAccumulator", () => {
  it.each(["completed", "incomplete", "failed"])("gives the response that is %s", (status) => {
    const output = [{ id: "msg_1", type: "message" }]
    assert.deepStrictEqual(
      Either.getOrThrow(Responses.accumulate([created, itemDone(0, "other"), ending(status, output)])),
      response(status, output)
    )
  })

  it("reads the type from the event's name alone, or from its data alone", () => {
    const data = { response: response("completed") }
    assert.deepStrictEqual(
      Either.getOrThrow(Responses.accumulate([sent(data, "response.completed")])),
      response("completed")
    )
    assert.deepStrictEqual(
      Either.getOrThrow(Responses.accumulate([sent({ type: "response.completed", ...data }), done])),
      response("completed")
    )
  })

  it("takes the items for the output where the server left it empty, in their order", () => {
    const { output } = Either.getOrThrow(
      Responses.accumulate([created, itemDone(1, "b"), itemDone(0, "a"), ending("completed")])
    )
    assert.deepStrictEqual(output, [
      { id: "a", type: "message" },
      { id: "b", type: "message" }
    ])
  })

  it("is truncated without an ending", () => {
    assert.strictEqual(responsesError().reason, "truncated")
    assert.strictEqual(responsesError(created, itemDone(0, "a"), done).reason, "truncated")
  })

  it.each([
    ["as Responses has it", sent({ type: "error", code: "server_error", message: "broke" }, "error")],
    ["within an error", sent({ type: "error", error: { message: "broke" } }, "error")],
    ["as Chat Completions has it", sent({ error: { message: "broke" } })]
  ])("keeps the upstream's error, %s", (_, event) => {
    const { data, detail, reason } = responsesError(created, event)
    assert.deepStrictEqual({ data, detail, reason }, { data: event.data, detail: "broke", reason: "upstream" })
  })

  it("is malformed with an ending that holds no response, with two, and with what is no JSON", () => {
    for (const events of [
      [sent({ type: "response.completed" })],
      [ending("completed"), ending("failed")],
      [sent("<html>")],
      [sent({ type: "response.output_item.done", item: {} })],
      [sent({ type: "response.completed", response: { output: 1 } })]
    ]) {
      assert.strictEqual(responsesError(...events).reason, "malformed")
    }
  })
})
