import { createServer } from "node:http"
import Anthropic from "@anthropic-ai/sdk"
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import OpenAI from "openai"
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator"
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses"
import * as Convert from "../../src/model/Convert.js"
import * as Sse from "../../src/model/internal/sse.js"
import * as Braces from "../../src/model/internal/streams/braces.js"
import * as ToMessages from "../../src/model/internal/streams/chatToMessages.js"
import * as ToResponses from "../../src/model/internal/streams/chatToResponses.js"
import * as Responses from "../../src/model/internal/streams/responsesAccumulator.js"
import { isObject, type JsonObject, type StreamError } from "../../src/model/internal/streams/streamError.js"
import { chunk, completionOf, cut, done, type Said, said, sent, streamOf } from "./chatStreams.js"

const options = { id: "0f", createdAt: 1_700_000_000, thinkTags: false, request: { model: "asked", input: "hello" } }

const end = sent(chunk({}, { finish_reason: "stop" }))

/** Everything that a translator tells, or why it can't. */
const translate = <State>(
  translator: {
    readonly addEvent: (
      state: State,
      event: Sse.SseEvent
    ) => Either.Either<readonly [State, ReadonlyArray<Sse.SseOutput>], StreamError>
    readonly finish: (state: State) => Either.Either<readonly [State, ReadonlyArray<Sse.SseOutput>], StreamError>
  },
  initial: State,
  events: ReadonlyArray<Sse.SseEvent>
): Either.Either<ReadonlyArray<Sse.SseOutput>, StreamError> =>
  Either.gen(function* () {
    const told: Array<Sse.SseOutput> = []
    let state = initial
    for (const event of events) {
      const [next, outputs] = yield* translator.addEvent(state, event)
      told.push(...outputs)
      state = next
    }
    const [, last] = yield* translator.finish(state)
    return [...told, ...last]
  })

const toResponses = (events: ReadonlyArray<Sse.SseEvent>, thinkTags = false) =>
  translate(ToResponses, ToResponses.initial({ ...options, thinkTags }), events)

const toMessages = (events: ReadonlyArray<Sse.SseEvent>, thinkTags = false) =>
  translate(ToMessages, ToMessages.initial({ ...options, thinkTags }), events)

const body = ({ data }: Sse.SseOutput): JsonObject => {
  const value: unknown = JSON.parse(data)
  assert(isObject(value))
  return value
}

const types = (told: ReadonlyArray<Sse.SseOutput>) => told.map(({ event }) => event)

// -----------------------------------------------------------------------------
// The readers of others
// -----------------------------------------------------------------------------

/** The official client's own reading of a Responses stream. */
const openaiSnapshot = (told: ReadonlyArray<Sse.SseOutput>): Response | undefined => {
  let snapshot: Response | undefined
  for (const { data } of told) {
    const event: ResponseStreamEvent = JSON.parse(data)
    snapshot = accumulateResponse(event, snapshot)
  }
  return snapshot
}

/** The official client's own reading of a Messages stream, which it takes as lines of JSON. */
const anthropicMessage = (told: ReadonlyArray<Sse.SseOutput>): Promise<Anthropic.Message> =>
  MessageStream.fromReadableStream(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(told.map(({ data }) => `${data}\n`).join("")))
        controller.close()
      }
    })
  ).finalMessage()

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

/** Items as their first event and their deltas tell them, without what only their last event says. */
const withoutStatus = (items: unknown): unknown =>
  Array.isArray(items) ? items.map((item) => ({ ...item, status: undefined })).map(plain) : items

describe("braces", () => {
  it("close with the last character of a JSON object and not before, however it is cut", () => {
    const object = FastCheck.dictionary(FastCheck.string(), FastCheck.jsonValue(), { maxKeys: 4 })
    FastCheck.assert(
      FastCheck.property(object, FastCheck.nat({ max: 2 }), FastCheck.nat(), (value, indent, place) => {
        const text = JSON.stringify(value, null, indent)
        const at = place % text.length
        const first = Braces.push(Braces.initial, text.slice(0, at))
        assert.isFalse(first.whole)
        assert.isTrue(Braces.push(first, text.slice(at)).whole)
      }),
      { numRuns: 1000 }
    )
  })
})

describe("chat streams as Responses streams", () => {
  it("end in the response that the whole completion converts to, by deltas and by endings alike", () => {
    FastCheck.assert(
      FastCheck.property(said, cut, FastCheck.boolean(), (reply, how, thinkTags) => {
        const events = Either.getOrThrow(toResponses(streamOf(reply, how), thinkTags))
        const whole = Either.getOrThrow(
          Convert.chatReplyToResponses(completionOf(reply), options.request, { ...options, thinkTags })
        )
        const last = Either.getOrThrow(
          Responses.accumulate(events.map(({ data, event }) => ({ data, event: event ?? "message" })))
        )
        assert.deepStrictEqual(last, plain(whole))
        // Nothing but first events and deltas, as a client sees it that shows words as they come.
        const growing = events.filter(({ event }) => /created$|added$|delta$/.test(event ?? ""))
        assert.deepStrictEqual(withoutStatus(plain(openaiSnapshot(growing)?.output)), withoutStatus(whole["output"]))
        // All but the last event: what each item's end says.
        assert.deepStrictEqual(plain(openaiSnapshot(events.slice(0, -1))?.output), plain(whole["output"]))
        assert.deepStrictEqual(
          events.map((event) => body(event)["sequence_number"]),
          events.map((_, index) => index)
        )
        assert.isTrue(events.every((event) => body(event)["type"] === event.event))
      }),
      { numRuns: 1000 }
    )
  })

  // The order is that of OpenAI's API reference, "Responses: streaming events".
  it("tells every kind of event in its order", () => {
    const events = Either.getOrThrow(
      toResponses([
        sent(chunk({ role: "assistant", content: "" })),
        sent(chunk({ reasoning_content: "hm" })),
        sent(chunk({ content: "ok" })),
        sent(chunk({ refusal: "no" })),
        sent(chunk({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "" } }] })),
        sent(chunk({ tool_calls: [{ index: 0, function: { arguments: "{}" } }] })),
        end,
        done
      ])
    )
    assert.deepStrictEqual(types(events), [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.reasoning_summary_part.added",
      "response.reasoning_summary_text.delta",
      "response.reasoning_summary_text.done",
      "response.reasoning_summary_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.content_part.added",
      "response.refusal.delta",
      "response.refusal.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed"
    ])
  })

  it("tells words as soon as they come", () => {
    const [state] = Either.getOrThrow(ToResponses.push(ToResponses.initial(options), chunk({ role: "assistant" })))
    const [, told] = Either.getOrThrow(ToResponses.push(state, chunk({ content: "first" })))
    assert.strictEqual(told.at(-1)?.event, "response.output_text.delta")
  })

  it("begins the next call as soon as the one before it is whole, and not before", () => {
    const call = (index: number, text: string, id?: string) =>
      chunk({ tool_calls: [{ index, ...(id === undefined ? {} : { id }), function: { name: "f", arguments: text } }] })
    let state = ToResponses.initial(options)
    const told = [call(0, '{"a":', "a"), call(1, "{", "b"), call(1, "}"), call(0, "1}")].map((each) => {
      const [next, events] = Either.getOrThrow(ToResponses.push(state, each))
      state = next
      return types(events).filter((type) => type?.includes("item"))
    })
    assert.deepStrictEqual(told, [
      ["response.output_item.added"],
      [],
      [],
      ["response.output_item.done", "response.output_item.added"]
    ])
  })

  it("keeps words that come after a call after it", () => {
    const call = { index: 0, id: "c", function: { name: "f", arguments: "{}" } }
    const events = Either.getOrThrow(
      toResponses([
        sent(chunk({ content: "a" })),
        sent(chunk({ tool_calls: [call] })),
        sent(chunk({ content: "b" })),
        end
      ])
    )
    const output = openaiSnapshot(events)?.output ?? []
    assert.deepStrictEqual(
      output.map(({ type }) => type),
      ["message", "function_call", "message"]
    )
  })

  it("puts the token bundle on the last item", () => {
    const events = Either.getOrThrow(
      toResponses([
        sent(chunk({ reasoning: "r", prompt_token_ids: [1] })),
        sent(chunk({ content: "a", generation_token_ids: [2], generation_log_probs: [-1] })),
        sent(chunk({ generation_token_ids: [3], generation_log_probs: [-2] }, { finish_reason: "stop" }))
      ])
    )
    const output = Either.getOrThrow(
      Responses.accumulate(events.map(({ data, event }) => ({ data, event: event ?? "" })))
    )["output"]
    assert(Array.isArray(output))
    assert.notProperty(output[0], "prompt_token_ids")
    assert.deepInclude(output[1], {
      prompt_token_ids: [1],
      generation_token_ids: [2, 3],
      generation_log_probs: [-1, -2]
    })
  })

  it("fails with the items that are whole", () => {
    const events = [sent(chunk({ reasoning: "r" })), sent(chunk({ content: "a" }))]
    let state = ToResponses.initial(options)
    for (const event of events) state = Either.getOrThrow(ToResponses.addEvent(state, event))[0]
    const failure = ToResponses.failure(state, { message: "it broke" })
    assert.deepStrictEqual(types(failure), ["response.failed"])
    const failed = failure.map(body)[0]?.["response"]
    assert(isObject(failed))
    assert.deepInclude(failed, { status: "failed", error: { code: "server_error", message: "it broke" } })
    assert.deepNestedInclude(failed, { "output[0].type": "reasoning", "output.length": 1 })
  })
})

describe("chat streams as Messages streams", () => {
  it("end in the message that the whole completion converts to", async () => {
    await FastCheck.assert(
      FastCheck.asyncProperty(said, cut, FastCheck.boolean(), async (reply, how, thinkTags) => {
        const events = Either.getOrThrow(toMessages(streamOf(reply, how), thinkTags))
        const whole = Either.getOrThrow(
          Convert.chatReplyToMessages(completionOf(reply), options.request, { ...options, thinkTags })
        )
        // The client's own addition to every message.
        assert.deepStrictEqual(plain(await anthropicMessage(events)), plain({ ...whole, parsed_output: null }))
        assert.isTrue(events.every((event) => body(event)["type"] === event.event))
      }),
      { numRuns: 1000 }
    )
  }, 60_000)

  // The order is that of Anthropic's API reference, "Streaming messages".
  it("tells every kind of event in its order", () => {
    const events = Either.getOrThrow(
      toMessages([
        sent(chunk({ role: "assistant", content: "" })),
        sent(chunk({ reasoning_content: "hm" })),
        sent(chunk({ content: "o" })),
        sent(chunk({ content: "k" })),
        sent(chunk({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "{}" } }] })),
        sent(chunk({}, { finish_reason: "tool_calls" })),
        sent({ ...chunk({}), choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } }),
        done
      ])
    )
    assert.deepStrictEqual(
      events
        .map(body)
        .map(({ content_block, delta, index, type, usage }) => [
          type,
          ...(index === undefined ? [] : [index]),
          ...[content_block, delta].flatMap((part) => (isObject(part) ? [part["type"] ?? part["stop_reason"]] : [])),
          ...(isObject(usage) ? [usage["input_tokens"], usage["output_tokens"]] : [])
        ]),
      [
        ["message_start"],
        ["content_block_start", 0, "thinking"],
        ["content_block_delta", 0, "thinking_delta"],
        ["content_block_stop", 0],
        ["content_block_start", 1, "text"],
        ["content_block_delta", 1, "text_delta"],
        ["content_block_delta", 1, "text_delta"],
        ["content_block_stop", 1],
        ["content_block_start", 2, "tool_use"],
        ["content_block_delta", 2, "input_json_delta"],
        ["content_block_stop", 2],
        ["message_delta", "tool_use", 5, 2],
        ["message_stop"]
      ]
    )
  })

  it("tells blanks for no arguments", () => {
    const call = { index: 0, id: "c", function: { name: "f", arguments: " \n" } }
    const events = Either.getOrThrow(toMessages([sent(chunk({ tool_calls: [call] })), end]))
    assert.notInclude(types(events), "content_block_delta")
    assert.include(types(events), "message_stop")
  })

  it.each(["{", "[1]", "no", '"a"'])("refuses the arguments %s, which a message has no place for", (text) => {
    const call = { index: 0, id: "c", function: { name: "f", arguments: text } }
    const error = Either.getOrThrow(Either.flip(toMessages([sent(chunk({ tool_calls: [call] })), end])))
    assert.strictEqual(error.reason, "malformed")
    assert.include(error.message, 'arguments of a call of "f" that are no JSON object')
  })
})

describe.each([
  ["Responses", toResponses],
  ["Messages", toMessages]
] as const)("chat streams as %s streams: what can't be told", (_, translated) => {
  const reason = (...events: ReadonlyArray<Sse.SseEvent>) =>
    Either.match(translated(events), { onLeft: (error) => error.reason, onRight: () => "told" })
  const call = (fields: JsonObject, text = "") =>
    sent(chunk({ tool_calls: [{ ...fields, function: { name: "f", arguments: text } }] }))

  it("a stream without its end", () => {
    assert.strictEqual(reason(), "truncated")
    assert.strictEqual(reason(sent(chunk({ content: "a" }))), "truncated")
    assert.strictEqual(reason(sent(chunk({ content: "a" })), end), "told")
    assert.strictEqual(reason(sent(chunk({ content: "a" })), done), "told")
  })

  it("an error of the upstream", () => {
    assert.strictEqual(reason(sent(chunk({ content: "a" })), sent({ error: { message: "broke" } })), "upstream")
  })

  it.each([
    ["what is no JSON", sent("<html>")],
    ["audio", sent(chunk({ audio: { id: "a" } }))],
    ["the old function call", sent(chunk({ function_call: { name: "f" } }))],
    ["reasoning that differs from itself", sent(chunk({ reasoning: "a", reasoning_content: "b" }))],
    ["a reply that the upstream gave up", sent(chunk({}, { finish_reason: "abort" }))],
    ["a call without an id", call({ index: 0 }, "{}")],
    ["content that is no text", sent(chunk({ content: [{ type: "text" }] }))]
  ])("%s", (_, event) => {
    assert.strictEqual(reason(event, end), "malformed")
  })

  it("two calls with one index, two with one id, and one that goes on after its end", () => {
    assert.strictEqual(reason(call({ index: 0, id: "a" }, "{}"), call({ index: 0, id: "b" }, "{}"), end), "malformed")
    assert.strictEqual(reason(call({ index: 0, id: "a" }, "{}"), call({ index: 1, id: "a" }, "{}"), end), "malformed")
    assert.strictEqual(
      reason(call({ index: 0, id: "a" }, "{}"), call({ index: 1, id: "b" }, "{}"), call({ index: 0 }, "{}"), end),
      "malformed"
    )
  })
})

// -----------------------------------------------------------------------------
// Over a wire
// -----------------------------------------------------------------------------

const reply: Said = {
  reasoning: "where is it?",
  content: "I click – now 😀",
  refusal: "",
  calls: [
    { id: "call_1", name: "click", arguments: '{"x":1,"y":2}' },
    { id: "call_2", name: "type", arguments: '{"text":"ä"}' }
  ],
  finish: "tool_calls",
  usage: { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21, prompt_tokens_details: { cached_tokens: 4 } }
}

/** Serves the events, cut within characters and lines, for as long as `use` takes. */
const serving = async <A>(told: ReadonlyArray<Sse.SseOutput>, use: (url: string) => Promise<A>): Promise<A> => {
  const bytes = Buffer.from(told.map(Sse.encode).join(""))
  const server = createServer(async (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (let at = 0; at < bytes.length; at += 37) {
      if (!response.write(bytes.subarray(at, at + 37))) await new Promise((resume) => response.once("drain", resume))
    }
    response.end()
  })
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume))
  try {
    const address = server.address()
    assert(address !== null && typeof address !== "string")
    return await use(`http://127.0.0.1:${address.port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

describe("the official clients", () => {
  it("openai reads a translated Responses stream", async () => {
    const told = Either.getOrThrow(toResponses(streamOf(reply, { size: 3, turns: false })))
    await serving(told, async (url) => {
      const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })
      const words: Array<string> = []
      const stream = client.responses.stream({ model: "m", input: "hello" })
      stream.on("response.output_text.delta", ({ delta }) => words.push(delta))
      const { output, output_text: text, status, usage } = await stream.finalResponse()
      assert.strictEqual(words.join(""), reply.content)
      assert.strictEqual(text, reply.content)
      assert.strictEqual(status, "completed")
      assert.deepNestedInclude(usage, { input_tokens: 12, output_tokens: 9, "input_tokens_details.cached_tokens": 4 })
      assert.deepStrictEqual(
        output.flatMap((item) => (item.type === "function_call" ? [[item.call_id, item.name, item.arguments]] : [])),
        reply.calls.map((call) => [call.id, call.name, call.arguments])
      )
      assert.deepNestedInclude(output[0], { type: "reasoning", "summary[0].text": reply.reasoning })
    })
  })

  it("openai is told that a response failed", async () => {
    const [state, first] = Either.getOrThrow(ToResponses.push(ToResponses.initial(options), chunk({ content: "a" })))
    await serving([...first, ...ToResponses.failure(state, { message: "it broke" })], async (url) => {
      const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })
      const response = await client.responses.stream({ model: "m", input: "hello" }).finalResponse()
      assert.strictEqual(response.status, "failed")
      assert.strictEqual(response.error?.message, "it broke")
    })
  })

  it("@anthropic-ai/sdk reads a translated Messages stream", async () => {
    const told = Either.getOrThrow(toMessages(streamOf(reply, { size: 3, turns: false })))
    await serving(told, async (url) => {
      const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 })
      const words: Array<string> = []
      const message = await client.messages
        .stream({ model: "m", max_tokens: 64, messages: [{ role: "user", content: "hello" }] })
        .on("text", (delta) => words.push(delta))
        .finalMessage()
      assert.strictEqual(words.join(""), reply.content)
      assert.strictEqual(message.stop_reason, "tool_use")
      assert.deepInclude(message.usage, { input_tokens: 8, cache_read_input_tokens: 4, output_tokens: 9 })
      assert.deepStrictEqual(plain(message.content), [
        { type: "thinking", thinking: reply.reasoning, signature: "" },
        { type: "text", text: reply.content, citations: null },
        { type: "tool_use", id: "call_1", name: "click", input: { x: 1, y: 2 } },
        { type: "tool_use", id: "call_2", name: "type", input: { text: "ä" } }
      ])
    })
  })

  it("@anthropic-ai/sdk is told that a message failed", async () => {
    const [, first] = Either.getOrThrow(ToMessages.push(ToMessages.initial(options), chunk({ content: "a" })))
    await serving([...first, ToMessages.failure("it broke")], async (url) => {
      const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 })
      const stream = client.messages.stream({
        model: "m",
        max_tokens: 64,
        messages: [{ role: "user", content: "hello" }]
      })
      const error = await stream.finalMessage().then(
        () => undefined,
        (cause: unknown) => cause
      )
      assert.instanceOf(error, Anthropic.APIError)
      assert.include(String(error), "it broke")
    })
  })
})
