/**
 * An OpenAI-shaped server around llama.cpp, in a process of its own. Tokens are told as vLLM tells them, since the engine
 * knows each. Started with the model's path, it prints its port.
 */
import { createServer, type ServerResponse } from "node:http"
import { open, type Told } from "./engine.js"
import { contextLength, tokens as vocabulary } from "./gguf.js"

interface ChatRequest {
  readonly messages: ReadonlyArray<{
    readonly role: string
    readonly content: string | ReadonlyArray<{ readonly type: string; readonly text?: string }>
  }>
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
  readonly max_tokens?: number
  readonly max_completion_tokens?: number
  readonly temperature?: number
  readonly seed?: number
  readonly stop?: string | ReadonlyArray<string>
  readonly logprobs?: boolean
  readonly return_token_ids?: boolean
}

interface Token {
  readonly id: number
  readonly text: string
  readonly logprob: number
}

const slots = 2
const [model] = process.argv.slice(2)
if (model === undefined) throw new Error("which model?")

const engine = open({
  model,
  n_ctx: contextLength * slots,
  n_parallel: slots,
  n_threads: 1,
  n_gpu_layers: 0,
  ctx_shift: false
})
if (!engine.enableParallelMode({ n_parallel: slots, n_batch: 512 })) throw new Error("the engine has no slots")

const send = (response: ServerResponse, status: number, body: unknown) =>
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))

const idOf = (text: string): number => {
  // Bytes come first in the vocabulary, in their order.
  const id = text.length === 1 ? text.charCodeAt(0) : vocabulary.indexOf(text)
  if (id < 0) throw new Error(`the vocabulary has no token ${JSON.stringify(text)}`)
  return id
}

const toToken = ({ probs, token }: Extract<Told, { readonly token: string }>): Token => {
  const id = idOf(token)
  const found = probs.find(({ tok }) => tok === id)
  if (found === undefined) throw new Error(`the engine does not say how likely ${JSON.stringify(token)} was`)
  return { id, text: token, logprob: Math.min(0, Math.log(found.prob)) }
}

const promptOf = async (request: Pick<ChatRequest, "messages">) => {
  const messages = request.messages.map(({ content, role }) => ({
    role,
    content: typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("")
  }))
  const formatted = engine.getFormattedChat(messages, undefined, { jinja: true, add_generation_prompt: true })
  const prompt = typeof formatted === "string" ? formatted : formatted.prompt
  const promptTokens = Array.from((await engine.tokenize(prompt)).tokens)
  return { prompt, promptTokens }
}

const chat = async (request: ChatRequest, response: ServerResponse) => {
  const { prompt, promptTokens } = await promptOf(request)
  const head = { id: `chatcmpl-${Math.random().toString(36).slice(2)}`, created: 1_700_000_000, model: "tiny-random" }
  const wantsIds = request.return_token_ids === true
  const stops = request.stop === undefined ? [] : typeof request.stop === "string" ? [request.stop] : request.stop
  const generated: Array<Token> = []
  let said = ""

  const logprobs = (these: ReadonlyArray<Token>) =>
    request.logprobs === true
      ? {
          logprobs: {
            content: these.map(({ id, logprob }) => ({ token: `token_id:${id}`, logprob, top_logprobs: [] }))
          }
        }
      : {}
  const ids = (these: ReadonlyArray<Token>) => (wantsIds ? { token_ids: these.map(({ id }) => id) } : {})
  const write = (body: object) =>
    response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...body })}\n\n`)
  const usageOf = (done: Extract<Told, { readonly token?: undefined }>) => ({
    prompt_tokens: done.timings.prompt_n,
    completion_tokens: generated.length,
    total_tokens: done.timings.prompt_n + generated.length
  })

  const finish = (done: Extract<Told, { readonly token?: undefined }>) => {
    // The engine's binding says no more than that nothing came of the batch.
    if (generated.length === 0 && done.timings.prompt_n >= contextLength) {
      send(response, 400, {
        error: {
          code: 400,
          message: `request (${done.timings.prompt_n} tokens) exceeds the available context size (${contextLength} tokens)`,
          type: "exceed_context_size_error"
        }
      })
      return
    }
    const finish_reason = done.stopped_limit || done.context_full ? "length" : "stop"
    if (request.stream !== true) {
      send(response, 200, {
        ...head,
        object: "chat.completion",
        ...(wantsIds ? { prompt_token_ids: promptTokens } : {}),
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: said },
            finish_reason,
            ...logprobs(generated),
            ...ids(generated)
          }
        ],
        usage: usageOf(done)
      })
      return
    }
    write({ choices: [{ index: 0, delta: {}, finish_reason }] })
    if (request.stream_options?.include_usage === true) write({ choices: [], usage: usageOf(done) })
    response.end("data: [DONE]\n\n")
  }

  const { requestId } = engine.queueCompletion(
    {
      prompt,
      n_predict: request.max_completion_tokens ?? request.max_tokens ?? -1,
      temperature: request.temperature ?? 1,
      seed: request.seed ?? 1,
      stop: stops,
      n_probs: vocabulary.length,
      top_k: 0,
      top_p: 1,
      min_p: 0,
      // Unless told otherwise it takes likely tokens away, even from a greedy reply.
      xtc_probability: 0,
      dry_multiplier: 0
    },
    (error, told) => {
      if (error !== null && error !== undefined) {
        send(response, 500, { error: { message: String(error) } })
        return
      }
      if (told.token === undefined) {
        finish(told)
        return
      }
      const token = toToken(told)
      // A text that ends the reply is no part of it; the tests' are of one token.
      const shown = stops.includes(token.text) ? "" : token.text
      if (request.stream === true) {
        if (generated.length === 0) {
          response.writeHead(200, { "content-type": "text/event-stream" })
          write({
            ...(wantsIds ? { prompt_token_ids: promptTokens } : {}),
            choices: [{ index: 0, delta: { role: "assistant", content: "" } }]
          })
        }
        write({ choices: [{ index: 0, delta: { content: shown }, ...logprobs([token]), ...ids([token]) }] })
      }
      generated.push(token)
      said += shown
    }
  )
  response.on("close", () => {
    if (!response.writableFinished) engine.cancelRequest(requestId)
  })
}

const answer = async (url: string | undefined, body: string, response: ServerResponse) => {
  switch (url) {
    case "/v1/models":
      return send(response, 200, { object: "list", data: [{ id: "tiny-random", object: "model" }] })
    case "/v1/chat/completions":
      return chat(JSON.parse(body), response)
    case "/tokenize": {
      const { promptTokens } = await promptOf(JSON.parse(body))
      return send(response, 200, { count: promptTokens.length, max_model_len: contextLength, tokens: promptTokens })
    }
    default:
      return send(response, 404, { error: { message: "no such route" } })
  }
}

const server = createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    answer(request.url, Buffer.concat(chunks).toString(), response).catch((error: unknown) =>
      send(response, 500, { error: { message: String(error) } })
    )
  })
})

server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (typeof address === "object" && address !== null) console.log(`http://127.0.0.1:${address.port}/v1`)
})

// Nobody is left to ask once the test is gone.
process.stdin.resume()
process.stdin.on("end", () => process.exit(0))
