import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { isLoopback, makeVerifier } from "../../src/model/internal/gateway/auth.js"
import * as category from "../../src/model/internal/gateway/category.js"
import { toClient, toUpstream } from "../../src/model/internal/gateway/headers.js"
import { makeObserver } from "../../src/model/internal/gateway/observe.js"
import { type Dialect, Refusal, refusalBody } from "../../src/model/internal/gateway/refusal.js"
import { parse } from "../../src/model/internal/gateway/route.js"
import { addressOf } from "../../src/model/internal/gateway/upstream.js"
import { chunk, completion, usageChunk } from "./gatewayHarness.js"

const runs = { numRuns: 1000 }

const id = FastCheck.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,40}$/).filter((text) => !/^\.+$/.test(text))

describe("route", () => {
  it("every call has three addresses, and the prefix says whose it is", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.constantFrom(
          ["/chat/completions", "chat"] as const,
          ["/responses", "responses"] as const,
          ["/messages", "messages"] as const
        ),
        id,
        FastCheck.constantFrom("", "?beta=true"),
        ([path, dialect], rolloutId, query) => {
          for (const [prefix, correlation] of [
            ["", { training: false }],
            [`/ng-rollout/${rolloutId}`, { rolloutId, training: false }],
            [`/ng-rollout/${rolloutId}/training-token-capture`, { rolloutId, training: true }]
          ] as const) {
            assert.deepStrictEqual(
              parse("POST", `${prefix}/v1${path}${query}`),
              Either.right({ _tag: "Call", dialect, correlation, path, query })
            )
          }
        }
      ),
      runs
    )
  })

  it("an id that is no file name is refused, and no path leaves the upstream's", () => {
    for (const bad of ["", ".hidden", "a b", "a%2Fb", "-x", "x".repeat(201), "é"]) {
      const route = parse("POST", `/ng-rollout/${bad}/v1/chat/completions`)
      assert.isTrue(Either.isLeft(route) && route.left.code === "invalid_rollout_id", bad)
    }
    for (const path of [
      "/v1/models/../admin",
      "/v1/models/%2e%2E/admin",
      "/v1/models/..",
      "/v1/models\\..\\x",
      "/v1/models/%5c"
    ]) {
      assert.isTrue(Either.isLeft(parse("GET", path)), path)
    }
    FastCheck.assert(
      FastCheck.property(FastCheck.webPath({ size: "medium" }), (path) => {
        const route = parse("GET", `/v1/models${path}`)
        if (Either.isRight(route) && route.right._tag === "Plain") {
          const { pathname } = addressOf("http://h/base/v1/", route.right.path, route.right.query)
          assert.isTrue(pathname.startsWith("/base/v1/models"), pathname)
        }
      }),
      runs
    )
  })

  it("other methods and addresses are refused by name", () => {
    const code = (method: string, path: string) => Either.flip(parse(method, path)).pipe(Either.getOrThrow).code
    assert.strictEqual(code("GET", "/v1/chat/completions"), "method_not_allowed")
    assert.strictEqual(code("POST", "/v1/models"), "method_not_allowed")
    assert.strictEqual(code("POST", "/chat/completions"), "unknown_route")
    assert.strictEqual(code("POST", "/ng-rollout/a/training-token-capturex/v1/responses"), "unknown_route")
    assert.deepStrictEqual(parse("HEAD", "/"), Either.right({ _tag: "Health" }))
  })

  it("an upstream's own query stays", () => {
    assert.strictEqual(
      addressOf("https://h/openai?api-version=1", "/responses", "?beta=true").toString(),
      "https://h/openai/responses?api-version=1&beta=true"
    )
  })
})

describe("auth", () => {
  it("takes its own token, in either header, and no other", () => {
    const secret = FastCheck.stringMatching(/^[!-~]{1,40}$/)
    FastCheck.assert(
      FastCheck.property(secret, secret, (token, other) => {
        const may = makeVerifier(token)
        assert.isTrue(may({ authorization: `Bearer ${token}` }))
        assert.isTrue(may({ authorization: "Bearer nonsense", "x-api-key": token }))
        assert.strictEqual(may({ authorization: `bearer ${other}` }), other === token)
        assert.isFalse(may({ authorization: token.replace(/^bearer /i, "") }))
        assert.isFalse(may({}))
      }),
      runs
    )
  })

  it("knows what only this machine reaches", () => {
    for (const host of ["127.0.0.1", "127.8.9.10", "localhost", "::1"]) assert.isTrue(isLoopback(host))
    for (const host of ["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", ""]) assert.isFalse(isLoopback(host))
  })
})

describe("headers", () => {
  const raw = ["Host", "g", "Connection", "close, X-Hop", "X-Hop", "1", "Authorization", "Bearer c", "A", "1", "a", "2"]

  it("a connection's own stay behind, and what repeats repeats", () => {
    assert.deepStrictEqual(toUpstream(raw, { dialect: "chat", passCredentials: true, length: 3 }), {
      authorization: "Bearer c",
      a: ["1", "2"],
      "accept-encoding": "identity",
      "content-length": "3"
    })
    assert.deepStrictEqual(toClient(["Transfer-Encoding", "chunked", "X-A", "1", "X-A", "2"]), ["X-A", "1", "X-A", "2"])
  })

  it("what a client shows to the gateway goes no further", () => {
    assert.notProperty(toUpstream(raw, { dialect: "chat", passCredentials: false }), "authorization")
    assert.strictEqual(
      toUpstream(raw, { dialect: "chat", passCredentials: true, apiKey: "k" }).authorization,
      "Bearer k"
    )
  })
})

describe("category", () => {
  it("is by status first", () => {
    assert.deepStrictEqual(
      [200, 400, 401, 403, 404, 408, 422, 429, 500, 503, 504].map(category.ofStatus),
      // gym-core 2.5: the names and which status they stand for.
      [
        null,
        "client_error",
        "auth",
        "auth",
        "not_found",
        "timeout",
        "client_error",
        "rate_limit",
        "upstream_error",
        "upstream_error",
        "timeout"
      ]
    )
  })

  it("a reply that a limit ended is incomplete in every dialect", () => {
    assert.strictEqual(category.ofReply("chat", completion({}, { finish_reason: "length" })), "incomplete")
    assert.strictEqual(category.ofReply("responses", { status: "incomplete" }), "incomplete")
    assert.strictEqual(category.ofReply("messages", { stop_reason: "max_tokens" }), "incomplete")
    assert.strictEqual(category.ofReply("chat", completion({})), null)
  })
})

describe("observer", () => {
  const sse = (data: ReadonlyArray<string>) => Buffer.from(data.map((one) => `data: ${one}\n\n`).join(""))
  const streams: ReadonlyArray<readonly [Dialect, Buffer]> = [
    ["chat", sse([chunk({ content: "é" }), chunk({ content: "…" }, "stop"), usageChunk, "[DONE]"])],
    [
      "responses",
      sse(['{"type":"response.created"}', '{"type":"response.completed","response":{"id":"r","output":[]}}'])
    ],
    [
      "messages",
      sse([
        '{"type":"message_start","message":{"id":"m","content":[]}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é"}}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}',
        '{"type":"message_stop"}'
      ])
    ]
  ]

  const cut = (bytes: Buffer, at: ReadonlyArray<number>): ReadonlyArray<Buffer> => {
    const ends = [...new Set(at.map((place) => place % bytes.length)), bytes.length].sort((a, b) => a - b)
    return ends
      .map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end))
      .filter(({ length }) => length > 0)
  }

  it("however a stream is cut, its last event is held back, nothing before it is, and the reply is the same", () => {
    const options = { status: 200, stream: true, encoded: false, limit: 1_000_000 }
    FastCheck.assert(
      FastCheck.property(
        FastCheck.constantFrom(...streams),
        FastCheck.array(FastCheck.nat(), { maxLength: 20 }),
        ([dialect, bytes], places) => {
          const whole = makeObserver({ ...options, dialect })
          assert.strictEqual(whole.push(bytes), "last")
          const observer = makeObserver({ ...options, dialect })
          let passed = 0
          let last = false
          for (const part of cut(bytes, places)) {
            const verdict = observer.push(part)
            if (verdict === "pass") passed += part.length
            else {
              assert.strictEqual(verdict, "last")
              last = true
            }
          }
          assert.isTrue(last)
          // The line feed that ends the last event never passes by.
          assert.isBelow(passed, bytes.length)
          const observed = observer.finish()
          assert.deepStrictEqual(observed, whole.finish())
          assert.isNull(observed.category)
        }
      ),
      runs
    )
  })

  it("a stream without its last event is truncated, wherever it breaks off", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.constantFrom(...streams), FastCheck.nat(), ([dialect, bytes], place) => {
        const observer = makeObserver({ dialect, status: 200, stream: true, encoded: false, limit: 1_000_000 })
        const end = place % (bytes.length - 1)
        if (end > 0) assert.strictEqual(observer.push(bytes.subarray(0, end)), "pass")
        const { category: told, response } = observer.finish()
        // A chat stream that told its finish reason is whole without [DONE].
        if (dialect === "chat" && told === null) assert.include(bytes.subarray(0, end).toString(), '"stop"')
        else assert.deepStrictEqual([told, response], ["stream_truncated", null])
      }),
      runs
    )
  })

  it("an error event ends a stream", () => {
    const observer = makeObserver({ dialect: "chat", status: 200, stream: true, encoded: false, limit: 1_000_000 })
    assert.strictEqual(observer.push(sse([chunk({ content: "a" })])), "pass")
    assert.strictEqual(observer.push(sse(['{"error":{"message":"out of memory"}}'])), "last")
    assert.strictEqual(observer.finish().category, "upstream_error")
  })
})

describe("refusal", () => {
  it("is an error of the client's dialect", () => {
    const refusal = new Refusal({ status: 413, code: "request_too_large", detail: "large" })
    assert.deepStrictEqual(refusalBody("messages", refusal), {
      type: "error",
      error: { type: "request_too_large", message: "large" }
    })
    assert.deepStrictEqual(refusalBody("responses", refusal), {
      error: { message: "large", type: "invalid_request_error", param: null, code: "request_too_large" }
    })
  })
})
