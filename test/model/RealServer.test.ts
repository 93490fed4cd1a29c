/**
 * An inference engine that is not ours answers: llama.cpp, with a model of random weights that `gguf.ts` writes. Its own
 * server answers as well where DESKHAND_LLAMA_PYTHON names a Python with `xllamacpp`.
 */
import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import OpenAI from "openai"
import * as ChatCompletions from "../../src/model/ChatCompletions.js"
import { text, user } from "../../src/model/Conversation.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import { ModelParameters } from "../../src/model/Parameters.js"
import { Sampling } from "../../src/model/Sampling.js"
import * as Simulator from "../rollout/simulator.js"
import { gateway } from "./gatewayHarness.js"
import { bytesOf, contextLength, endOfTurn, tokens as vocabulary } from "./llama/gguf.js"
import { servers, start } from "./llama/servers.js"
import { Platform } from "./stub.js"

/** Where the server is. */
class Url extends Context.Tag("test/model/RealServer/Url")<Url, string>() {}

/** ChatML around one message from the user, as the model's template says it, one token for each byte. */
const promptTokens = (content: string): ReadonlyArray<number> => [
  endOfTurn - 1,
  ...wordTokens("user\n"),
  ...wordTokens(content),
  endOfTurn,
  ...wordTokens("\n"),
  endOfTurn - 1,
  ...wordTokens("assistant\n")
]

/** By the merges of the vocabulary, of which these words have `er` and `an`. */
const wordTokens = (word: string): ReadonlyArray<number> =>
  (word.match(/er|an|[\s\S]/g) ?? []).map((piece) =>
    piece.length === 2 ? vocabulary.indexOf(piece) : piece.charCodeAt(0)
  )

const decoded = (ids: ReadonlyArray<number>) => Buffer.concat(ids.map(bytesOf)).toString()

const asked = (sampling: Sampling, content = "hello") =>
  new ModelRequest({ messages: [user(text(content))], sampling, identity: Simulator.identity(0), step: 0 })

const greedy = new Sampling({ temperature: 0, seed: 1, maxTokens: 24 })

// llama.cpp's own server comes from a Python package, and is tried where there is one.
for (const server of servers.filter(({ isOptional, isHere }) => isHere || !isOptional)) {
  const client = (url: string, options: Partial<ChatCompletions.ChatCompletionsOptions> = {}) =>
    ChatCompletions.make({ url, model: "tiny-random", timeout: "30 seconds", ...options })

  describe.skipIf(!server.isHere)(server.name, () => {
    const Server = Layer.scoped(Url, start(server))

    it.layer(Layer.merge(Server, Platform), { timeout: "60 seconds" })((it) => {
      it.effect("says the same whole and streamed, and counts its tokens", () =>
        Effect.gen(function* () {
          const url = yield* Url
          yield* ChatCompletions.reach({ url })
          const whole = yield* (yield* client(url)).complete(asked(greedy))
          const streamed = yield* (yield* client(url, { stream: true })).complete(asked(greedy))
          assert.match(whole.text, /^[ -~]{24}$/)
          assert.strictEqual(streamed.text, whole.text)
          for (const { finishReason, usage } of [whole, streamed]) {
            assert.strictEqual(finishReason, "length")
            assert.deepInclude(usage, { promptTokens: promptTokens("hello").length, completionTokens: 24 })
          }
        })
      )

      it.effect("ends at a text that it was told to end at", () =>
        Effect.gen(function* () {
          const url = yield* Url
          const { text } = yield* (yield* client(url)).complete(asked(greedy))
          const stop = text.slice(12, 13)
          const until = asked(new Sampling({ ...greedy, stop: [stop] }))
          for (const stream of [false, true]) {
            const reply = yield* (yield* client(url, { stream })).complete(until)
            assert.strictEqual(reply.text, text.slice(0, text.indexOf(stop)))
            assert.strictEqual(reply.finishReason, "stop")
          }
        })
      )

      it.effect("a prompt that is longer than its context is an error that keeps what it said", () =>
        Effect.gen(function* () {
          const url = yield* Url
          for (const stream of [false, true]) {
            const model = yield* client(url, { stream })
            const error = yield* Effect.flip(model.complete(asked(greedy, "x".repeat(contextLength))))
            assert.strictEqual(error.reason, "context_overflow")
            assert.strictEqual(error.status, 400)
            assert.strictEqual(error.attempts, 1)
            const { error: said } = JSON.parse(error.body ?? "null")
            assert.strictEqual(said.type, "exceed_context_size_error")
            assert.include(said.message, `${promptTokens("x".repeat(contextLength)).length} tokens`)
          }
        })
      )

      it.effect("two calls at a time get what each gets alone", () =>
        Effect.gen(function* () {
          const model = yield* client(yield* Url, { stream: true })
          const requests = ["hello", "what else"].map((content) => asked(greedy, content))
          const alone = yield* Effect.forEach(requests, model.complete)
          const together = yield* Effect.forEach(requests, model.complete, { concurrency: 2 })
          assert.deepStrictEqual(
            together.map(({ text }) => text),
            alone.map(({ text }) => text)
          )
          assert.notStrictEqual(alone[0]?.text, alone[1]?.text)
        })
      )

      const itTellsTokens = server.tellsTokens ? it.effect : () => {}
      itTellsTokens("the tokens of a reply are those that the engine read and drew", () =>
        Effect.gen(function* () {
          const url = yield* Url
          const drawn = asked(new Sampling({ temperature: 1, seed: 7, maxTokens: 32 }))
          for (const tokens of ["ids", "logprobs"] as const) {
            for (const stream of [false, true]) {
              const reply = yield* (yield* client(url, { stream, tokens })).complete(drawn)
              const bundle = reply.message.tokens
              assert.deepStrictEqual(bundle?.promptTokenIds, promptTokens("hello"))
              assert.strictEqual(bundle?.generationTokenIds.length, 32)
              assert.strictEqual(decoded(bundle?.generationTokenIds ?? []), reply.text)
              // Drawn at temperature 1 by a model that is sure of nothing.
              assert.isTrue(bundle?.generationLogProbs.every((logProb) => logProb <= 0 && logProb > -30))
              assert.isTrue(bundle?.generationLogProbs.some((logProb) => logProb < -0.5))
            }
          }
        })
      )

      it.scoped("OpenAI's and Anthropic's clients reach it through the gateway, in dialects that it may lack", () =>
        Effect.gen(function* () {
          const url = yield* Url
          const { text } = yield* (yield* client(url)).complete(asked(greedy))
          const running = yield* gateway({
            upstreams: [url],
            speaks: ["chat"],
            parameters: new ModelParameters({ samplingOverrides: { seed: 1 } })
          })
          const base = `${running.url}/ng-rollout/real`
          const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 })
          const anthropic = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 })
          const response = { model: "tiny-random", input: "hello", max_output_tokens: 24, temperature: 0 }
          const message = {
            model: "tiny-random",
            max_tokens: 24,
            temperature: 0,
            messages: [{ role: "user" as const, content: "hello" }]
          }
          const whole = yield* Effect.promise(() => openai.responses.create(response))
          assert.strictEqual(whole.output_text, text)
          assert.strictEqual(whole.status, "incomplete")
          assert.deepInclude(whole.usage, { input_tokens: promptTokens("hello").length, output_tokens: 24 })
          const streamed = yield* Effect.promise(() => openai.responses.stream(response).finalResponse())
          assert.strictEqual(streamed.output_text, text)
          const said = yield* Effect.promise(() => anthropic.messages.create(message))
          assert.deepStrictEqual(
            said.content.map((block) => (block.type === "text" ? block.text : block.type)),
            [text]
          )
          assert.strictEqual(said.stop_reason, "max_tokens")
          const told = yield* Effect.promise(() => anthropic.messages.stream(message).finalMessage())
          assert.deepStrictEqual(
            told.content.map((block) => (block.type === "text" ? block.text : block.type)),
            [text]
          )
          assert.deepInclude(told.usage, { output_tokens: 24 })
          const { records } = yield* running.capture.read("real")
          assert.deepStrictEqual(
            records.map(({ dialect, error_category }) => [dialect, error_category]),
            [
              ["responses", "incomplete"],
              ["responses", "incomplete"],
              ["messages", "incomplete"],
              ["messages", "incomplete"]
            ]
          )
        })
      )
    })
  })
}
