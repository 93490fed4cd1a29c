import { createHash } from "node:crypto"
import { readFileSync, statSync } from "node:fs"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import { openAppend } from "../../src/model/internal/transport/file.js"
import { sortedJson } from "../../src/model/internal/transport/line.js"
import * as TransportLog from "../../src/model/TransportLog.js"

const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")

const png = Buffer.from("not really a picture")
const blob = new BlobRef({ sha256: sha256(png), bytes: png.length, mediaType: "image/png" })

const ids: TransportLog.CallIds = {
  runId: "run",
  rolloutId: "3-1",
  groupId: "g",
  sourceGroupId: "s",
  samplingEventId: "e",
  rolloutIndex: 1,
  attemptIndex: 0,
  step: 4
}

const facts = (payload: Readonly<Record<string, unknown>>): TransportLog.RequestFacts => ({
  ids,
  baseUrls: ["http://user:hunter2@a/v1", "http://b/v1"],
  url: "http://user:hunter2@a/v1/chat/completions",
  dialect: "chat",
  payload: () => payload,
  secrets: [Redacted.make("sk-known-secret")]
})

const temporary = Effect.map(
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
  (directory) => `${directory}/transport.jsonl`
)

const rows = (path: string): ReadonlyArray<Record<string, unknown>> =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))

/** The messages of a program's own log, while it runs. */
const told = <A, E, R>(
  program: (messages: ReadonlyArray<string>) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const messages: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => void messages.push(`${logLevel.label} ${String(message)}`))
  return Effect.provide(program(messages), Logger.replace(Logger.defaultLogger, logger))
}

const environment = (values: ReadonlyArray<readonly [string, string]>) =>
  Layer.provide(
    Layer.provideMerge(TransportLog.layerConfig, NodeFileSystem.layer),
    Layer.setConfigProvider(ConfigProvider.fromMap(new Map(values)))
  )

describe("TransportLog", () => {
  it.scoped("writes a request and its reply with ids, image hashes, and no secret", () =>
    Effect.gen(function* () {
      const path = yield* temporary
      yield* TestClock.setTime(1_700_000_000_000)
      const log = yield* TransportLog.make({ path })
      const encoded = png.toString("base64")
      const payload = {
        model: "m",
        temperature: 0.5,
        messages: [
          { role: "system", content: "the key is sk-known-secret" },
          {
            role: "user",
            content: [
              { type: "text", text: "look" },
              { type: "image_url", image_url: { url: blob, detail: "high" } },
              { type: "image_url", image_url: { url: `data:image/png;base64,${encoded}` } },
              { type: "image", source: { type: "base64", media_type: "image/png", data: encoded } }
            ]
          }
        ],
        api_key: "unknown-secret"
      }
      const call = yield* log.request(facts(payload))
      yield* TestClock.adjust("256 millis")
      const reply = { choices: [{ logprobs: { content: [{ token: "token_id:5", logprob: -0.5 }] } }], secret: "x" }
      yield* call.response(() => reply, { status: 200 })

      const [request, response, ...rest] = rows(path)
      assert.deepStrictEqual(rest, [])
      const common = {
        schema_version: 2,
        pid: process.pid,
        call_index: 0,
        dialect: "chat",
        url: "http://a/v1/chat/completions",
        run_id: "run",
        rollout_id: "3-1",
        group_id: "g",
        source_group_id: "s",
        sampling_event_id: "e",
        rollout_index: 1,
        attempt_index: 0,
        step: 4
      }
      const hash = `sha256:${blob.sha256}`
      const shown = {
        model: "m",
        temperature: 0.5,
        messages: [
          { role: "system", content: "the key is <redacted>" },
          {
            role: "user",
            content: [
              { type: "text", text: "look" },
              { type: "image_url", image_url: { url: hash, detail: "high" } },
              { type: "image_url", image_url: { url: hash } },
              { type: "image", source: { type: "base64", media_type: "image/png", data: hash } }
            ]
          }
        ],
        api_key: "<redacted>"
      }
      const image = {
        data_url_chars: `data:image/png;base64,${encoded}`.length,
        decoded_bytes: png.length,
        decoded_sha256: blob.sha256,
        media_type: "image/png",
        message_index: 1
      }
      assert.deepStrictEqual(
        { ...request, timestamp_unix_ns: undefined },
        {
          ...common,
          event: "transport_request",
          timestamp_unix_ns: undefined,
          configured_base_urls: ["http://a/v1", "http://b/v1"],
          request_payload: shown,
          request_payload_sha256: sha256(sortedJson(shown)),
          embedded_images: [
            { ...image, part_index: 1 },
            { ...image, part_index: 2, encoded_sha256: sha256(encoded) },
            { ...image, part_index: 3, encoded_sha256: sha256(encoded) }
          ]
        }
      )
      assert.deepStrictEqual(
        { ...response, timestamp_unix_ns: undefined },
        {
          ...common,
          event: "transport_response",
          timestamp_unix_ns: undefined,
          http_status: 200,
          elapsed_ns: 256_000_000,
          raw_response: { ...reply, secret: "<redacted>" }
        }
      )
      const text = readFileSync(path, "utf8")
      // More digits than a double has: written as the integer that it is.
      assert.include(text, '"timestamp_unix_ns":1700000000000000000,')
      assert.include(text, '"timestamp_unix_ns":1700000000256000000,')
      for (const secret of ["hunter2", "sk-known-secret", "unknown-secret", encoded]) assert.notInclude(text, secret)
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("writes refusals and broken connections", () =>
    Effect.gen(function* () {
      const path = yield* temporary
      const log = yield* TransportLog.make({ path })
      const first = yield* log.request(facts({}))
      yield* first.errorResponse({ status: 401, body: '{"error":"no sk-known-secret"}', error: "bad api_key=abc" })
      const second = yield* log.request({ ...facts({}), attempt: 2 })
      yield* second.error({ type: "transport", error: "http://u:hunter2@a refused" })
      const [, refused, , broken] = rows(path)
      assert.deepInclude(refused, {
        event: "transport_error_response",
        call_index: 0,
        http_status: 401,
        raw_response_body: '{"error":"no <redacted>"}',
        error: "bad api_key=<redacted>"
      })
      assert.deepInclude(broken, {
        event: "transport_error",
        call_index: 1,
        attempt: 2,
        error_type: "transport",
        error: "http://a refused"
      })
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("keeps the lines of calls at the same time whole, and appends to what was there", () =>
    Effect.gen(function* () {
      const path = yield* temporary
      for (const round of [1, 2]) {
        yield* Effect.scoped(
          Effect.gen(function* () {
            const log = yield* TransportLog.make({ path })
            yield* Effect.forEach(
              Array.from({ length: 200 }, (_, index) => index),
              (index) =>
                Effect.flatMap(log.request(facts({ text: "x".repeat(index * 50) })), (call) =>
                  call.response(() => index)
                ),
              { concurrency: 64, discard: true }
            )
          })
        )
        assert.strictEqual(rows(path).length, 400 * round)
      }
      const answered = rows(path).filter(({ event }) => event === "transport_response")
      assert.deepStrictEqual(
        new Set(answered.slice(0, 200).map(({ raw_response }) => raw_response)),
        new Set(Array.from({ length: 200 }, (_, index) => index))
      )
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("returns when its line is written, and writes together what waits", () =>
    Effect.gen(function* () {
      const path = yield* temporary
      const real = yield* FileSystem.FileSystem
      const begun = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      let writes = 0
      const fs: FileSystem.FileSystem = {
        ...real,
        open: (at, options) =>
          Effect.map(real.open(at, options), (file) =>
            Object.assign(Object.create(file) as FileSystem.File, {
              writeAll: (bytes: Uint8Array) => {
                writes += 1
                return Deferred.succeed(begun, undefined).pipe(
                  Effect.zipRight(Deferred.await(gate)),
                  Effect.zipRight(file.writeAll(bytes))
                )
              }
            })
          )
      }
      const log = yield* Effect.provideService(TransportLog.make({ path }), FileSystem.FileSystem, fs)
      const first = yield* Effect.fork(log.request(facts({ n: 1 })))
      yield* Deferred.await(begun)
      const others = yield* Effect.forEach([2, 3, 4], (n) => Effect.fork(log.request(facts({ n }))))
      // Each has its turn, and none can end before the gate opens.
      for (const _ of Array.from({ length: 20 })) yield* Effect.yieldNow()
      for (const fiber of [first, ...others]) assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      assert.include(readFileSync(path, "utf8"), '"n":1')
      for (const fiber of others) yield* Fiber.join(fiber)
      assert.strictEqual(rows(path).length, 4)
      assert.strictEqual(writes, 2)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("tells all whose lines were written together that they were not", () =>
    Effect.gen(function* () {
      const real = yield* FileSystem.FileSystem
      const begun = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      let writes = 0
      const failure = new SystemError({
        reason: "Unknown",
        module: "FileSystem",
        method: "write",
        description: "ENOSPC"
      })
      const fs: FileSystem.FileSystem = {
        ...real,
        open: (at, options) =>
          Effect.map(real.open(at, options), (file) =>
            Object.assign(Object.create(file) as FileSystem.File, {
              writeAll: (bytes: Uint8Array) => {
                writes += 1
                if (writes === 2) return Effect.fail(failure)
                return Deferred.succeed(begun, undefined).pipe(
                  Effect.zipRight(Deferred.await(gate)),
                  Effect.zipRight(file.writeAll(bytes))
                )
              }
            })
          )
      }
      const append = yield* openAppend(fs, yield* temporary)
      const first = yield* Effect.fork(append("1"))
      yield* Deferred.await(begun)
      const others = yield* Effect.forEach(["2", "3"], (line) => Effect.fork(append(line)))
      for (const _ of Array.from({ length: 20 })) yield* Effect.yieldNow()
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      for (const fiber of others) assert.strictEqual(yield* Effect.flip(Fiber.join(fiber)), failure)
      assert.strictEqual(writes, 2)
      yield* append("4")
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("fails no call when the file cannot be opened, and tells it once", () =>
    told((messages) =>
      Effect.gen(function* () {
        const log = yield* TransportLog.make({ path: `${yield* temporary}/in/no/folder` })
        for (const _ of [1, 2]) {
          const call = yield* log.request(facts({}))
          yield* call.error({ type: "timeout", error: "none" })
        }
        assert.strictEqual(messages.length, 1)
        assert.match(messages[0] ?? "", /^WARN the transport log .*no\/folder misses lines: .*/)
      })
    ).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("fails no call when the disk is full, tells it once, and begins a new line when there is room again", () =>
    told((messages) =>
      Effect.gen(function* () {
        const path = yield* temporary
        const real = yield* FileSystem.FileSystem
        let full = false
        /** Writes half of what it is given, then says that the disk is full. */
        const fs: FileSystem.FileSystem = {
          ...real,
          open: (at, options) =>
            Effect.map(real.open(at, options), (file) =>
              Object.assign(Object.create(file) as FileSystem.File, {
                writeAll: (bytes: Uint8Array) =>
                  full
                    ? Effect.zipRight(
                        file.writeAll(bytes.subarray(0, bytes.length / 2)),
                        Effect.fail(
                          new SystemError({
                            reason: "Unknown",
                            module: "FileSystem",
                            method: "write",
                            description: "ENOSPC"
                          })
                        )
                      )
                    : file.writeAll(bytes)
              })
            )
        }
        const log = yield* Effect.provideService(TransportLog.make({ path }), FileSystem.FileSystem, fs)
        const call = yield* log.request(facts({ n: 1 }))
        full = true
        yield* call.error({ type: "timeout", error: "lost" })
        yield* log.request(facts({ n: 2 }))
        full = false
        yield* log.request(facts({ n: 3 }))
        const lines = readFileSync(path, "utf8").split("\n")
        const whole = lines.flatMap((line) => {
          try {
            return [JSON.parse(line).request_payload.n]
          } catch {
            return []
          }
        })
        assert.deepStrictEqual(whole, [1, 3])
        assert.strictEqual(messages.length, 1)
        assert.include(messages[0], "ENOSPC")
      })
    ).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("fails no call for a payload that cannot be made", () =>
    told((messages) =>
      Effect.gen(function* () {
        const log = yield* TransportLog.make({ path: yield* temporary, debug: true })
        const call = yield* log.request({
          ...facts({}),
          payload: () => {
            throw new RangeError("too deep")
          }
        })
        yield* call.response(() => 1)
        assert.include(messages.join("\n"), "too deep")
      })
    ).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("sums up requests without what they hold, only when asked to", () =>
    told((messages) =>
      Effect.gen(function* () {
        const log = yield* Effect.provide(TransportLog.TransportLog, environment([["DESKHAND_REQUEST_DEBUG", "1"]]))
        const call = yield* log.request(
          facts({ temperature: 0, messages: [{ role: "user", content: "private words" }] })
        )
        yield* call.errorResponse({ status: 500, body: "private words too", error: "no" })
        assert.strictEqual(messages.length, 2)
        assert.include(messages[0], '"sampling":{"temperature":0}')
        assert.include(messages[0], '"rollout_id":"3-1"')
        assert.include(messages[1], '"http_status":500')
        assert.notInclude(messages.join(), "private words")
        assert.notInclude(messages.join(), "hunter2")
      })
    )
  )

  it.scoped("keeps nothing, and asks for no payload, unless a file is named", () =>
    told((messages) =>
      Effect.gen(function* () {
        const unasked: TransportLog.RequestFacts = { ...facts({}), payload: () => assert.fail("asked") }
        for (const layer of [Layer.empty, environment([])]) {
          const log = yield* Effect.provide(TransportLog.TransportLog, layer)
          const call = yield* log.request(unasked)
          yield* call.response(() => assert.fail("asked"))
        }
        assert.deepStrictEqual(messages, [])
      })
    )
  )

  it.scoped("takes its file from either variable, its own first", () =>
    Effect.gen(function* () {
      const own = yield* temporary
      const field = yield* temporary
      const write = (values: ReadonlyArray<readonly [string, string]>) =>
        Effect.gen(function* () {
          const log = yield* TransportLog.TransportLog
          yield* log.request(facts({}))
        }).pipe(Effect.provide(environment(values)))
      yield* write([["NEMO_GYM_VLLM_TRANSPORT_LOG", field]])
      yield* write([
        ["NEMO_GYM_VLLM_TRANSPORT_LOG", field],
        ["DESKHAND_TRANSPORT_LOG", own]
      ])
      assert.strictEqual(rows(field).length, 1)
      assert.strictEqual(rows(own).length, 1)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})

describe("ids in headers", () => {
  const visible = FastCheck.stringMatching(/^[!-~]{1,30}$/)
  const index = FastCheck.nat()

  it("come back as they were sent", () => {
    const some = FastCheck.record(
      {
        runId: visible,
        taskId: visible,
        rolloutId: visible,
        groupId: visible,
        sourceGroupId: visible,
        samplingEventId: visible,
        modelCallId: visible,
        domain: visible,
        adapter: visible,
        rolloutIndex: index,
        attemptIndex: index,
        taskAttempt: index,
        step: index,
        parseAttempt: index
      },
      { requiredKeys: [] }
    )
    FastCheck.assert(
      FastCheck.property(some, (given) => {
        assert.deepStrictEqual(TransportLog.idsOf(TransportLog.headersOf(given)), given)
      }),
      { numRuns: 1000 }
    )
  })

  it("have the field's names, no line breaks, and only what a header takes", () => {
    assert.deepStrictEqual(TransportLog.headersOf({ sourceGroupId: "a\r\nb: é", parseAttempt: 0, runId: "" }), {
      "x-nemo-gym-log-source-group-id": "ab: %C3%A9",
      "x-nemo-gym-log-parse-attempt": "0"
    })
    assert.strictEqual(TransportLog.headersOf({ taskId: "x".repeat(5000) })["x-nemo-gym-log-task-id"]?.length, 1024)
  })

  it("are ignored where they are empty or no index", () => {
    assert.deepStrictEqual(
      TransportLog.idsOf({
        "x-nemo-gym-log-step": "1.5",
        "x-nemo-gym-log-parse-attempt": "-1",
        "x-nemo-gym-log-task-attempt": "",
        "x-nemo-gym-log-run-id": " ",
        "x-deskhand-run-id": "ours",
        "x-nemo-gym-rollout-id": "theirs",
        "x-deskhand-rollout-id": "ours",
        "x-deskhand-step": "7"
      }),
      { runId: "ours", rolloutId: "theirs", step: 7 }
    )
  })
})

describe("sortedJson", () => {
  it("is the same JSON with keys in the order of code points", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.jsonValue(), (value) => {
        assert.deepStrictEqual(JSON.parse(sortedJson(value)), JSON.parse(JSON.stringify(value)))
      }),
      { numRuns: 1000 }
    )
    // json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False), in Python 3.
    assert.strictEqual(
      sortedJson({ "😀": 1, "～": 2, a: { c: 1.5, b: null } }),
      '{"a":{"b":null,"c":1.5},"～":2,"😀":1}'
    )
    assert.strictEqual(sortedJson({ a: undefined, b: Number.NaN, c: 2n ** 64n }), '{"b":null,"c":18446744073709551616}')
  })
})
