import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ModelParameters } from "../../src/model/Parameters.js"
import { chunk, completion, events, folder, gateway, type Handler, json, upstream } from "./gatewayHarness.js"

const post = (url: string, body: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body)
    })
    return { status: response.status, text: await response.text() }
  })

const logprobs = (from: number, texts: ReadonlyArray<string>) => ({
  content: texts.map((token, at) => ({ token, logprob: -(from + at + 1) / 10, bytes: null, top_logprobs: [] }))
})

/** Tokens as vLLM tells them when it is asked for ids; "Hello there" is 7 and 8. */
const vllm: Handler = ({ body }, response) => {
  const request = JSON.parse(body.toString())
  if (request.return_token_ids !== true) return json(response, 400, { error: { message: "ids were not asked for" } })
  if (request.stream !== true) {
    const reply = completion(
      { content: "Hello there" },
      { token_ids: [7, 8], logprobs: logprobs(0, ["token_id:7", "token_id:8"]) }
    )
    return json(response, 200, { ...reply, prompt_token_ids: [1, 2, 3] })
  }
  const first = { ...JSON.parse(chunk({ role: "assistant", content: "" })), prompt_token_ids: [1, 2, 3] }
  events(response, [
    JSON.stringify(first),
    chunk({ content: "Hello" }, null, { token_ids: [7], logprobs: logprobs(0, ["token_id:7"]) }),
    chunk({ content: " there" }, "stop", { token_ids: [8], logprobs: logprobs(1, ["token_id:8"]) }),
    "[DONE]"
  ])
}

const training = "/ng-rollout/r1/training-token-capture/v1"
const hello = { model: "m", messages: [{ role: "user", content: "hello" }] }
const requests = [
  ["chat/completions", hello],
  ["chat/completions", { ...hello, stream: true }],
  ["responses", { model: "m", input: "hello" }],
  ["responses", { model: "m", input: "hello", stream: true }],
  ["messages", { ...hello, max_tokens: 9 }],
  ["messages", { ...hello, max_tokens: 9, stream: true }]
] as const

describe("training-token-capture", () => {
  it.scopedLive("keeps the tokens of every dialect, whole and streamed, once each", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(vllm)
      const { capture, tokens, url } = yield* gateway({ upstreams: [stub.url] })
      for (const [path, body] of requests) {
        const reply = yield* post(`${url}${training}/${path}`, body)
        assert.strictEqual(reply.status, 200)
        // Only who speaks the upstream's own wire sees what the gateway asked for.
        if (path !== "chat/completions") assert.notMatch(reply.text, /token_id/)
      }
      const { entries, gaps, incomplete } = yield* tokens.snapshot("r1")
      assert.deepStrictEqual([incomplete, gaps], [false, []])
      assert.lengthOf(entries, requests.length)
      for (const entry of entries) {
        assert.deepStrictEqual(entry.promptTokenIds, [1, 2, 3])
        assert.deepStrictEqual(entry.generationTokenIds, [7, 8])
        assert.deepStrictEqual(entry.generationLogProbs, [-0.1, -0.2])
        assert.strictEqual(entry.model, "stub-1")
        assert.deepInclude(entry.outputItems[0], { type: "message", role: "assistant" })
      }
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ model_call_id }) => model_call_id),
        entries.map(({ modelCallId }) => modelCallId)
      )
    })
  )

  it.scopedLive("asks /tokenize for the prompt where the reply does not tell it", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ body, url }, response) => {
        if (url === "/tokenize") {
          const { messages, model, temperature } = JSON.parse(body.toString())
          assert.deepStrictEqual({ messages, model, temperature }, { ...hello, temperature: undefined })
          return json(response, 200, { tokens: [4, 5], count: 2, max_model_len: 99 })
        }
        json(response, 200, completion({ content: "hi" }, { logprobs: logprobs(0, ["token_id:9"]) }))
      })
      const { tokens, url } = yield* gateway({
        upstreams: [stub.url],
        parameters: new ModelParameters({ tokens: "logprobs" })
      })
      yield* post(`${url}${training}/chat/completions`, { ...hello, temperature: 1 })
      const { entries, gaps } = yield* tokens.snapshot("r1")
      assert.deepStrictEqual(gaps, [])
      assert.deepStrictEqual(
        entries.map(({ generationTokenIds, promptTokenIds }) => [promptTokenIds, generationTokenIds]),
        [[[4, 5], [9]]]
      )
    })
  )

  it.scopedLive(
    "a reply without tokens, with broken ones, or broken off, is passed on and makes the rollout incomplete",
    () =>
      Effect.gen(function* () {
        const none = completion({ content: "hi" })
        const lengths = {
          ...completion({ content: "hi" }, { token_ids: [1, 2], logprobs: logprobs(0, ["token_id:1"]) }),
          prompt_token_ids: [1]
        }
        const nan = JSON.stringify({
          ...completion({ content: "hi" }, { token_ids: [1], logprobs: { content: [{ token: "a", logprob: null }] } }),
          prompt_token_ids: [1]
        })
        const half = chunk({ content: "half" }, null, { token_ids: [1], logprobs: logprobs(0, ["a"]) })
        const replies: ReadonlyArray<Parameters<Handler>[1] extends infer R ? (response: R) => void : never> = [
          (response) => json(response, 200, none),
          (response) => json(response, 200, lengths),
          (response) => response.end(nan),
          (response) => events(response, [half])
        ]
        let at = 0
        const stub = yield* upstream((_, response) => replies[at++]?.(response))
        const { tokens, url } = yield* gateway({ upstreams: [stub.url] })
        const expected = [JSON.stringify(none), JSON.stringify(lengths), nan, `data: ${half}\n\n`]
        for (const [index, text] of expected.entries()) {
          const path = `/ng-rollout/r${index}/training-token-capture/v1/chat/completions`
          const reply = yield* post(`${url}${path}`, hello)
          assert.deepStrictEqual(reply, { status: 200, text })
          const { entries, gaps, incomplete } = yield* tokens.freeze(`r${index}`)
          assert.isTrue(incomplete)
          assert.lengthOf(entries, 0)
          assert.isAbove(gaps.length, 0)
        }
      })
  )

  it.scopedLive("an upstream that refuses leaves no hole", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => json(response, 400, { error: { message: "context length" } }))
      const { tokens, url } = yield* gateway({ upstreams: [stub.url] })
      assert.strictEqual((yield* post(`${url}${training}/chat/completions`, hello)).status, 400)
      assert.strictEqual((yield* post(`${url}${training}/responses`, { input: "x" })).status, 400)
      const { entries, gaps, incomplete } = yield* tokens.freeze("r1")
      assert.deepStrictEqual([entries, gaps, incomplete], [[], [], false])
    })
  )

  it.scopedLive("asks nobody under the id of a rollout that has ended, and for no two replies", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(vllm)
      const { tokens, url } = yield* gateway({ upstreams: [stub.url] })
      const two = yield* post(`${url}${training}/chat/completions`, { ...hello, n: 2 })
      assert.strictEqual(two.status, 400)
      yield* tokens.freeze("r1")
      const late = yield* post(`${url}${training}/chat/completions`, hello)
      assert.strictEqual(late.status, 410)
      assert.lengthOf(stub.received, 0)
      const native = yield* gateway({ upstreams: [stub.url], speaks: ["responses"] })
      const responses = yield* post(`${native.url}${training}/responses`, { input: "x" })
      assert.strictEqual(responses.status, 400)
      assert.include(responses.text, "tokens")
    })
  )

  it.scopedLive("the plain prefix keeps no tokens", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ body }, response) => {
        assert.notInclude(body.toString(), "token")
        json(response, 200, completion({ content: "hi" }))
      })
      const { directory, tokens, url } = yield* gateway({ upstreams: [stub.url] }, yield* folder)
      yield* post(`${url}/ng-rollout/r1/v1/chat/completions`, hello)
      const { entries, incomplete } = yield* tokens.snapshot("r1")
      assert.deepStrictEqual([entries, incomplete], [[], false])
      assert.isString(directory)
    })
  )
})
