import { readFileSync } from "node:fs"
import { mkdir, readFile } from "node:fs/promises"
import { request as httpRequest, type IncomingMessage } from "node:http"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { ModelParameters } from "../../src/model/Parameters.js"
import * as TransportLog from "../../src/model/TransportLog.js"
import { chunk, completion, events, folder, gateway, json, upstream, usageChunk } from "./gatewayHarness.js"

interface Reply {
  readonly status: number
  readonly headers: IncomingMessage["headers"]
  readonly rawHeaders: ReadonlyArray<string>
  readonly body: Buffer
  /** The connection broke before the reply's end. */
  readonly broken: boolean
}

/** A client without opinions of its own. */
const call = (
  url: string,
  body: string | Buffer | undefined,
  headers: Record<string, string> = {},
  onData?: (sofar: Buffer) => void
): Effect.Effect<Reply> =>
  Effect.async((resume) => {
    const sent = httpRequest(url, {
      method: body === undefined ? "GET" : "POST",
      headers: { "content-type": "application/json", ...headers }
    })
    sent.on("response", (message) => {
      const parts: Array<Buffer> = []
      const settle = (broken: boolean) =>
        resume(
          Effect.succeed({
            status: message.statusCode ?? 0,
            headers: message.headers,
            rawHeaders: message.rawHeaders,
            body: Buffer.concat(parts),
            broken
          })
        )
      message.on("data", (part: Buffer) => {
        parts.push(part)
        onData?.(Buffer.concat(parts))
      })
      message.on("end", () => settle(false))
      message.on("error", () => settle(true))
    })
    sent.on("error", () =>
      resume(Effect.succeed({ status: 0, headers: {}, rawHeaders: [], body: Buffer.alloc(0), broken: true }))
    )
    sent.end(body)
    return Effect.sync(() => sent.destroy())
  })

const chat = (rollout = "") => `${rollout === "" ? "" : `/ng-rollout/${rollout}`}/v1/chat/completions`
const hello = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hello" }] })
const errorOf = (reply: Reply): { readonly code?: string; readonly message: string; readonly type: string } =>
  JSON.parse(reply.body.toString()).error

describe("ModelGateway", () => {
  it.scopedLive("passes status, headers and body on as they are, whatever they are", () =>
    Effect.gen(function* () {
      // Spaces, an escape and a key twice: what a re-serialisation would lose.
      const odd = Buffer.from('{ "a": 1.0, "a": "\\u00e9" }\n')
      const stub = yield* upstream(({ url }, response) => {
        response.writeHead(url.includes("completions") ? 429 : 200, [
          "Content-Type",
          "application/json",
          "Retry-After",
          "7",
          "Set-Cookie",
          "a=1",
          "Set-Cookie",
          "b=2",
          "X-Request-Id",
          "r-1"
        ])
        response.end(odd)
      })
      const { url } = yield* gateway({ upstreams: [stub.url] })
      const sent = '{"model" : "m",\n "messages":[]}'
      const reply = yield* call(`${url}${chat()}?beta=true`, sent, { "x-mine": "1", authorization: "Bearer client" })
      assert.strictEqual(reply.status, 429)
      assert.deepStrictEqual(reply.body, odd)
      assert.strictEqual(reply.headers["retry-after"], "7")
      assert.deepStrictEqual(reply.headers["set-cookie"], ["a=1", "b=2"])
      assert.include(reply.rawHeaders, "X-Request-Id")
      const [received] = stub.received
      assert.strictEqual(received?.url, "/v1/chat/completions?beta=true")
      assert.strictEqual(received?.body.toString(), sent)
      assert.strictEqual(received?.headers["x-mine"], "1")
      assert.strictEqual(received?.headers.authorization, "Bearer client")
      const models = yield* call(`${url}/ng-rollout/r1/v1/models`, undefined)
      assert.deepStrictEqual([models.status, models.body], [200, odd])
    })
  )

  it.scopedLive("a context overflow stays the refusal that it is", () =>
    Effect.gen(function* () {
      const overflow = '{"error":{"message":"This model\'s maximum context length is 8 tokens","code":400}}'
      const stub = yield* upstream((_, response) => {
        response.writeHead(400, { "content-type": "application/json" })
        response.end(overflow)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      for (const path of ["chat/completions", "responses", "messages"]) {
        const reply = yield* call(
          `${url}/ng-rollout/r1/v1/${path}`,
          JSON.stringify({ model: "m", max_tokens: 5, input: "x", messages: [{ role: "user", content: "x" }] })
        )
        assert.deepStrictEqual([reply.status, reply.body.toString()], [400, overflow])
        assert.isUndefined(reply.headers["x-deskhand-gateway-error"])
      }
      const { incomplete, records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category, status_code }) => [status_code, error_category]),
        [
          [400, "client_error"],
          [400, "client_error"],
          [400, "client_error"]
        ]
      )
      assert.isFalse(incomplete)
    })
  )

  it.scopedLive("what was said is on disk before the client has its last byte", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ body }, response) => {
        if (!body.includes("stream")) return json(response, 200, completion({ content: "hi" }))
        events(response, [chunk({ role: "assistant", content: "hi" }), chunk({}, "stop"), usageChunk, "[DONE]"])
      })
      const { capture, directory, url } = yield* gateway({ upstreams: [stub.url] })
      // As the SDKs do, look no further than the end of the JSON, or than [DONE].
      for (const [rollout, body, end] of [
        ["r1", hello, '"total_tokens":8}}'],
        ["r2", JSON.stringify({ stream: true }), "[DONE]"]
      ] as const) {
        let atEnd: string | undefined
        const reply = yield* call(`${url}${chat(rollout)}`, body, {}, (sofar) => {
          if (sofar.includes(end)) atEnd ??= readFileSync(`${directory}/${rollout}.capture.jsonl`, "utf8")
        })
        assert.isDefined(atEnd)
        const { records } = yield* capture.read(rollout)
        assert.lengthOf(records, 1)
        assert.deepStrictEqual(JSON.parse(atEnd), JSON.parse(JSON.stringify(records[0])))
        assert.deepStrictEqual(records[0]?.response, completion({ content: "hi" }))
        assert.deepStrictEqual(records[0]?.request, JSON.parse(body))
        assert.strictEqual(records[0]?.error_category, null)
        assert.strictEqual(records[0]?.response_raw, rollout === "r1" ? undefined : reply.body.toString())
        assert.match(records[0]?.model_call_id ?? "", /^[0-9a-f]{32}$/)
        assert.isNumber(records[0]?.latency_ttft_ms)
      }
    })
  )

  it.scopedLive("a stream streams: the client has the first words while the model still speaks", () =>
    Effect.gen(function* () {
      let more = () => {}
      const stub = yield* upstream((_, response) => {
        events(response, [chunk({ content: "first" })], false)
        more = () => {
          response.write(`data: ${chunk({ content: "second" }, "stop")}\n\n`)
          response.end("data: [DONE]\n\n")
        }
      })
      const { url } = yield* gateway({ upstreams: [stub.url] })
      for (const path of ["chat/completions", "responses", "messages"]) {
        let seen = false
        const reply = yield* call(
          `${url}/ng-rollout/r1/v1/${path}`,
          JSON.stringify({
            stream: true,
            model: "m",
            max_tokens: 9,
            input: "x",
            messages: [{ role: "user", content: "x" }]
          }),
          {},
          (sofar) => {
            if (seen || !sofar.includes("first")) return
            seen = true
            assert.isFalse(sofar.includes("second"))
            more()
          }
        )
        assert.isTrue(seen)
        assert.include(reply.body.toString(), "second")
        assert.isFalse(reply.broken)
      }
    })
  )

  it.scopedLive("a stream that ends without its end is passed on and recorded as truncated", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ headers }, response) => {
        events(response, [chunk({ content: "half" })], headers["x-break"] === undefined)
        if (headers["x-break"] !== undefined) setTimeout(() => response.destroy(), 50)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      const ended = yield* call(`${url}${chat("r1")}`, JSON.stringify({ stream: true }))
      assert.strictEqual(ended.body.toString(), `data: ${chunk({ content: "half" })}\n\n`)
      assert.isFalse(ended.broken)
      const broken = yield* call(`${url}${chat("r1")}`, JSON.stringify({ stream: true }), { "x-break": "1" })
      assert.strictEqual(broken.body.toString(), `data: ${chunk({ content: "half" })}\n\n`)
      assert.isTrue(broken.broken)
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category, response }) => [error_category, response]),
        [
          ["stream_truncated", null],
          ["connection", null]
        ]
      )
      assert.include(records[1]?.response_raw, "half")
    })
  )

  it.scopedLive("a translated stream that breaks off ends in an error of the client's dialect", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => events(response, [chunk({ content: "half" })]))
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      const messages = yield* call(
        `${url}/ng-rollout/r1/v1/messages`,
        JSON.stringify({ stream: true, model: "m", max_tokens: 9, messages: [{ role: "user", content: "x" }] })
      )
      assert.include(messages.body.toString(), "event: error")
      assert.notInclude(messages.body.toString(), "message_stop")
      const responses = yield* call(`${url}/ng-rollout/r1/v1/responses`, JSON.stringify({ stream: true, input: "x" }))
      assert.include(responses.body.toString(), "response.failed")
      assert.notInclude(responses.body.toString(), "response.completed")
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category }) => error_category),
        ["stream_truncated", "stream_truncated"]
      )
    })
  )

  it.scopedLive("bytes that are no UTF-8 go through as they are and are kept as they are", () =>
    Effect.gen(function* () {
      const bytes = Buffer.concat([Buffer.from('data: {"a":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}\n\n')])
      const stub = yield* upstream((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(bytes)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      const reply = yield* call(`${url}${chat("r1")}`, hello)
      assert.deepStrictEqual(reply.body, bytes)
      const { records } = yield* capture.read("r1")
      assert.strictEqual(records[0]?.error_category, "capture_parse_error")
      assert.deepStrictEqual(Buffer.from(records[0]?.response_raw_base64 ?? "", "base64"), bytes)
      const bridged = yield* call(`${url}/v1/responses`, JSON.stringify({ stream: true, input: "x" }))
      assert.deepStrictEqual([bridged.status, errorOf(bridged).code], [502, "upstream_malformed"])
    })
  )

  it.scopedLive("HTML with 200 goes through to who speaks the upstream's wire, and is an error to others", () =>
    Effect.gen(function* () {
      const html = "<html><body>maintenance</body></html>"
      const stub = yield* upstream((_, response) => {
        response.writeHead(200, { "content-type": "text/html" })
        response.end(html)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      const passed = yield* call(`${url}${chat("r1")}`, hello)
      assert.deepStrictEqual([passed.status, passed.body.toString()], [200, html])
      const bridged = yield* call(`${url}/ng-rollout/r1/v1/responses`, JSON.stringify({ input: "x" }))
      assert.strictEqual(bridged.status, 502)
      assert.strictEqual(bridged.headers["x-deskhand-gateway-error"], "upstream_malformed")
      assert.include(errorOf(bridged).message, "maintenance")
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category, response_raw }) => [error_category, response_raw]),
        [
          ["capture_parse_error", html],
          ["capture_parse_error", undefined]
        ]
      )
    })
  )

  it.scopedLive("a reply that is too large is passed on whole, told as not kept, and never translated", () =>
    Effect.gen(function* () {
      const large = completion({ content: "x".repeat(300_000) })
      const stub = yield* upstream((_, response) => json(response, 200, large))
      const { capture, url } = yield* gateway({ upstreams: [stub.url], replyLimit: 100_000 })
      const passed = yield* call(`${url}${chat("r1")}`, hello)
      assert.strictEqual(passed.body.toString(), JSON.stringify(large))
      const kept = yield* capture.read("r1")
      assert.isTrue(kept.incomplete)
      assert.strictEqual(kept.records[0]?.error_category, "capture_parse_error")
      assert.strictEqual(kept.records[0]?.response, null)
      const bridged = yield* call(`${url}/ng-rollout/r2/v1/responses`, JSON.stringify({ input: "x" }))
      assert.deepStrictEqual([bridged.status, errorOf(bridged).code], [502, "upstream_too_large"])
    })
  )

  it.scopedLive("an upstream that says nothing is a 504, and one that stops in mid-reply breaks the reply", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ body }, response) => {
        if (body.includes("stream")) events(response, [chunk({ content: "half" })], false)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url], silence: "300 millis" })
      const silent = yield* call(`${url}${chat("r1")}`, hello)
      assert.deepStrictEqual([silent.status, errorOf(silent).code], [504, "upstream_timeout"])
      const stopped = yield* call(`${url}${chat("r1")}`, JSON.stringify({ stream: true }))
      assert.isTrue(stopped.broken)
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category, status_code }) => [status_code, error_category]),
        [
          [504, "timeout"],
          [200, "timeout"]
        ]
      )
    })
  )

  it.scopedLive("an address that cannot be reached is passed over, and an answer of any is never asked for twice", () =>
    Effect.gen(function* () {
      const gone = yield* Effect.scoped(upstream(() => {}))
      const stub = yield* upstream((_, response) => json(response, 500, { error: "broken" }))
      const { url } = yield* gateway({ upstreams: [gone.url, stub.url] })
      for (const rollout of ["a", "b", "c", "d"]) {
        const reply = yield* call(`${url}${chat(rollout)}`, hello)
        assert.strictEqual(reply.status, 500)
      }
      assert.lengthOf(stub.received, 4)
      const alone = yield* gateway({ upstreams: [gone.url] })
      const refused = yield* call(`${alone.url}${chat()}`, hello)
      assert.deepStrictEqual([refused.status, errorOf(refused).code], [502, "upstream_unreachable"])
    })
  )

  it.scopedLive("a client that goes away ends the upstream's work and is on record", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ body }, response) => {
        if (body.includes("stream")) events(response, [chunk({ content: "half" })], false)
      })
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      // Before the reply's head. The upstream is let go once the call is on record.
      const first = yield* Effect.raceFirst(
        Effect.zipRight(call(`${url}${chat("r1")}`, hello), Effect.never),
        stub.next
      )
      yield* Effect.promise(() => first.gone)
      // In the midst of a stream.
      yield* Effect.async<void>((resume) => {
        const sent = httpRequest(`${url}${chat("r1")}`, { method: "POST" })
        sent.on("response", (message) =>
          message.once("data", () => {
            sent.destroy()
            resume(Effect.void)
          })
        )
        sent.on("error", () => {})
        sent.end(JSON.stringify({ stream: true }))
      })
      yield* Effect.promise(() => stub.received[1]?.gone ?? Promise.reject(new Error("no second call")))
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category, status_code }) => [status_code, error_category]),
        [
          [null, "client_disconnected"],
          [200, "client_disconnected"]
        ]
      )
      // What it had heard until then is kept.
      assert.strictEqual(records[1]?.response_raw, `data: ${chunk({ content: "half" })}\n\n`)
    })
  )

  it.scopedLive("a capture that cannot be written changes no reply, and is told", () =>
    Effect.gen(function* () {
      const reply = completion({ content: "hi" })
      const stub = yield* upstream((_, response) => json(response, 200, reply))
      const told: Array<string> = []
      const logger = Logger.make(({ message }) => void told.push(String(message)))
      const running = yield* Effect.provide(
        gateway({ upstreams: [stub.url] }),
        Logger.replace(Logger.defaultLogger, logger)
      )
      // The record's place is taken by a folder, so that the mark alone can be written.
      yield* Effect.promise(() => mkdir(`${running.directory}/r1.capture.jsonl`))
      const marked = yield* call(`${running.url}${chat("r1")}`, hello)
      assert.strictEqual(marked.body.toString(), JSON.stringify(reply))
      const mark = yield* Effect.promise(() => readFile(`${running.directory}/r1.capture.incomplete`, "utf8"))
      assert.match(mark, /could not write .*r1\.capture\.jsonl/)
      // And both places.
      yield* Effect.promise(() => mkdir(`${running.directory}/r2.capture.jsonl`))
      yield* Effect.promise(() => mkdir(`${running.directory}/r2.capture.incomplete`))
      const unmarked = yield* call(`${running.url}${chat("r2")}`, hello)
      assert.deepStrictEqual([unmarked.status, unmarked.body.toString()], [200, JSON.stringify(reply)])
      assert.lengthOf(told, 1)
      assert.match(told[0] ?? "", /rollout r2 lacks a call .*could not be noted/)
    })
  )

  it.scopedLive("ids that come twice are two records, each with an id of its own", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => json(response, 200, completion({ content: "same id" })))
      const { capture, url } = yield* gateway({ upstreams: [stub.url] })
      yield* Effect.all(
        Array.from({ length: 8 }, () => call(`${url}${chat("r1")}`, hello)),
        { concurrency: 8 }
      )
      const { incomplete, records } = yield* capture.read("r1")
      assert.lengthOf(records, 8)
      assert.strictEqual(new Set(records.map(({ model_call_id }) => model_call_id)).size, 8)
      assert.isFalse(incomplete)
    })
  )

  it.scopedLive("wants its token, and does not pass it on", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => json(response, 200, {}))
      const { url } = yield* gateway({
        upstreams: [stub.url],
        token: Redacted.make("right"),
        apiKey: Redacted.make("of-the-upstream")
      })
      for (const headers of [
        {},
        { authorization: "Bearer wrong" },
        { authorization: "right" },
        { "x-api-key": "wrong" }
      ]) {
        const reply = yield* call(`${url}${chat()}`, hello, headers)
        assert.deepStrictEqual([reply.status, errorOf(reply).code], [401, "unauthorised"])
      }
      assert.lengthOf(stub.received, 0)
      for (const headers of [{ authorization: "Bearer right" }, { "x-api-key": "right" }]) {
        assert.strictEqual((yield* call(`${url}${chat()}`, hello, headers)).status, 200)
      }
      for (const { headers } of stub.received) {
        assert.strictEqual(headers.authorization, "Bearer of-the-upstream")
        assert.isUndefined(headers["x-api-key"])
      }
      const open = yield* Effect.exit(gateway({ upstreams: [stub.url], host: "0.0.0.0" }))
      assert.isTrue(Exit.isFailure(open))
    })
  )

  it.scopedLive("refuses by name what it has no way for", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => json(response, 200, completion({ content: "hi" })))
      const { url } = yield* gateway({ upstreams: [stub.url], requestLimit: 1000 })
      const refusal = (path: string, body: string | undefined) =>
        Effect.map(call(`${url}${path}`, body), (reply) => {
          const { code, message, type } = errorOf(reply)
          return [reply.status, code ?? type, message] as const
        })
      const [s1, c1, m1] = yield* refusal(
        "/v1/responses",
        JSON.stringify({ input: "x", previous_response_id: "resp_1" })
      )
      assert.deepStrictEqual([s1, c1], [400, "unsupported_by_bridge"])
      assert.include(m1, "previous_response_id")
      const [s2, c2, m2] = yield* refusal(
        "/v1/messages",
        JSON.stringify({ max_tokens: 5, messages: [{ role: "user", content: "x" }], mcp_servers: [{ name: "s" }] })
      )
      assert.deepStrictEqual([s2, c2], [400, "invalid_request_error"])
      assert.include(m2, "mcp_servers")
      const [s3, c3] = yield* refusal("/v1/messages/count_tokens", "{}")
      assert.deepStrictEqual([s3, c3], [404, "not_found_error"])
      const [s4, c4, m4] = yield* refusal("/v1/embeddings", "{}")
      assert.deepStrictEqual([s4, c4], [404, "unknown_route"])
      assert.include(m4, "/v1/embeddings")
      const [s5, c5] = yield* refusal("/ng-rollout/.hidden/v1/chat/completions", hello)
      assert.deepStrictEqual([s5, c5], [400, "invalid_rollout_id"])
      const [s6, c6] = yield* refusal("/v1/chat/completions", "x".repeat(1001))
      assert.deepStrictEqual([s6, c6], [413, "request_too_large"])
      const [s7, c7] = yield* refusal("/v1/responses", "{not json")
      assert.deepStrictEqual([s7, c7], [400, "invalid_request"])
      assert.lengthOf(stub.received, 0)
      const native = yield* gateway({ upstreams: [stub.url], speaks: ["responses"] })
      const chatReply = yield* call(`${native.url}${chat()}`, hello)
      assert.deepStrictEqual([chatReply.status, errorOf(chatReply).code], [400, "unsupported_dialect"])
    })
  )

  it.scopedLive("a config's parameters win, and a row's metadata fills gaps", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => json(response, 200, completion({ content: "hi" })))
      const { url } = yield* gateway({
        upstreams: [stub.url],
        parameters: new ModelParameters({
          model: "served",
          samplingOverrides: { temperature: 0.5 },
          extraBody: { top_k: 4 }
        })
      })
      yield* call(
        `${url}/v1/responses`,
        JSON.stringify({ model: "m", temperature: 1, input: "x", metadata: { extra_body: '{"seed":3,"top_k":9}' } })
      )
      const sent = JSON.parse(stub.received[0]?.body.toString() ?? "")
      assert.deepInclude(sent, { model: "served", temperature: 0.5, seed: 3, top_k: 9 })
    })
  )

  it.scopedLive("the transport log has each call as it went out and as it came back", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(({ body }, response) =>
        body.includes("overload")
          ? json(response, 429, { error: { message: "slow down" } })
          : json(response, 200, completion({ content: "hi" }))
      )
      const path = `${yield* folder}/transport.jsonl`
      const log = yield* Layer.build(Layer.provide(TransportLog.layer({ path }), NodeContext.layer))
      const { url } = yield* Effect.provide(
        gateway({ upstreams: [stub.url], apiKey: Redacted.make("key-of-the-upstream") }),
        log
      )
      const headers = { "x-nemo-gym-log-step": "4" }
      yield* call(`${url}/ng-rollout/r1/v1/responses`, JSON.stringify({ model: "m", input: "x" }), headers)
      yield* call(`${url}${chat("r1")}`, JSON.stringify({ messages: [{ role: "user", content: "overload" }] }), headers)
      const text = readFileSync(path, "utf8")
      const lines = text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
      assert.deepStrictEqual(
        lines.map(({ event }) => event),
        ["transport_request", "transport_response", "transport_request", "transport_error_response"]
      )
      for (const line of lines) assert.deepInclude(line, { rollout_id: "r1", step: 4 })
      assert.deepStrictEqual(lines[0].request_payload, {
        model: "m",
        messages: [{ role: "user", content: [{ type: "text", text: "x" }] }]
      })
      assert.deepStrictEqual(lines[1].raw_response, completion({ content: "hi" }))
      assert.strictEqual(lines[3].http_status, 429)
      assert.notInclude(text, "key-of-the-upstream")
    })
  )

  it.scopedLive("closing it puts calls that are under way on record", () =>
    Effect.gen(function* () {
      const stub = yield* upstream(() => {})
      const scope = yield* Scope.make()
      const directory = yield* folder
      const { capture, url } = yield* Effect.provideService(
        gateway({ upstreams: [stub.url] }, directory),
        Scope.Scope,
        scope
      )
      const client = yield* Effect.fork(call(`${url}${chat("r1")}`, hello))
      yield* stub.next
      yield* Scope.close(scope, Exit.void)
      assert.isTrue((yield* client).broken)
      const { records } = yield* capture.read("r1")
      assert.deepStrictEqual(
        records.map(({ error_category, status_code }) => [status_code, error_category]),
        [[null, "client_disconnected"]]
      )
    })
  )
})
