import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as ModelCallCapture from "../../src/model/ModelCallCapture.js"
import { folder } from "./gatewayHarness.js"

const line = (id: string, request: unknown = { model: "m" }): ModelCallCapture.ModelCallLine => ({
  request: JSON.stringify(request),
  record: {
    model_call_id: id,
    dialect: "chat",
    model_ref: { type: "responses_api_models", name: "policy_model" },
    started_at: 1.5,
    completed_at: 2.5,
    latency_ms: 1000,
    latency_ttft_ms: null,
    status_code: 200,
    error_category: null,
    response: { text: "a\u2028b\nc" }
  }
})

const withCapture = <A, E>(
  use: (capture: ModelCallCapture.ModelCallCapture["Type"], directory: string) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const directory = yield* folder
    return yield* Effect.gen(function* () {
      return yield* use(yield* ModelCallCapture.ModelCallCapture, directory)
    }).pipe(Effect.provide(ModelCallCapture.layer({ directory })))
  }).pipe(Effect.provide(NodeContext.layer))

describe("ModelCallCapture", () => {
  it.scoped("keeps a line for each call, in the field's keys, and reads them again", () =>
    withCapture((capture, directory) =>
      Effect.gen(function* () {
        yield* capture.put("3-0", line("a", { text: "x\u2028y" }))
        yield* capture.put("3-0", line("b"))
        yield* capture.put("3-0-a1", line("c"))
        const text = readFileSync(join(directory, "3-0.capture.jsonl"), "utf8")
        assert.strictEqual(text.split("\n").length, 3)
        // gym-core 2.5 names the keys.
        assert.includeMembers(Object.keys(JSON.parse(text.split("\n")[0] ?? "")), [
          "model_call_id",
          "dialect",
          "model_ref",
          "started_at",
          "completed_at",
          "latency_ms",
          "latency_ttft_ms",
          "status_code",
          "error_category",
          "request",
          "response"
        ])
        const { incomplete, records, unreadable } = yield* capture.read("3-0")
        assert.deepStrictEqual([incomplete, unreadable], [false, []])
        assert.deepStrictEqual(
          records.map(({ model_call_id, request }) => [model_call_id, request]),
          [
            ["a", { text: "x\u2028y" }],
            ["b", { model: "m" }]
          ]
        )
        assert.deepStrictEqual(records[0]?.response, { text: "a\u2028b\nc" })
        yield* capture.remove("3-0")
        assert.deepStrictEqual((yield* capture.read("3-0")).records, [])
        assert.lengthOf((yield* capture.read("3-0-a1")).records, 1)
      })
    )
  )

  it.scoped("many writers of one rollout lose no line", () =>
    withCapture((capture) =>
      Effect.gen(function* () {
        const ids = Array.from({ length: 50 }, (_, index) => `call-${index}`)
        yield* Effect.forEach(ids, (id) => capture.put("r", line(id)), { concurrency: "unbounded" })
        const { incomplete, records } = yield* capture.read("r")
        assert.isFalse(incomplete)
        assert.sameMembers(
          records.map(({ model_call_id }) => model_call_id),
          ids
        )
      })
    )
  )

  it.scoped("a torn line takes no other with it, and is told", () =>
    withCapture((capture, directory) =>
      Effect.gen(function* () {
        yield* capture.put("r", line("a"))
        appendFileSync(join(directory, "r.capture.jsonl"), '{"model_call_id":"torn","dial')
        const torn = yield* capture.read("r")
        assert.deepStrictEqual([torn.incomplete, torn.unreadable, torn.records.length], [true, [2], 1])
        yield* capture.put("r", line("b"))
        const { incomplete, reasons, records, unreadable } = yield* capture.read("r")
        assert.deepStrictEqual(
          records.map(({ model_call_id }) => model_call_id),
          ["a", "b"]
        )
        assert.deepStrictEqual([incomplete, unreadable], [true, [2]])
        assert.lengthOf(reasons, 1)
      })
    )
  )

  it.scoped("a mark stays", () =>
    withCapture((capture, directory) =>
      Effect.gen(function* () {
        yield* capture.markIncomplete("r", "the disk\nwas full")
        yield* capture.put("r", line("a"))
        const { incomplete, reasons } = yield* capture.read("r")
        assert.deepStrictEqual([incomplete, reasons], [true, ["the disk was full"]])
        assert.isTrue(existsSync(join(directory, "r.capture.incomplete")))
      })
    )
  )

  it.scoped("a folder that cannot be is an error", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      writeFileSync(join(directory, "file"), "")
      const exit = yield* ModelCallCapture.ModelCallCapture.pipe(
        Effect.provide(ModelCallCapture.layer({ directory: join(directory, "file", "below") })),
        Effect.provide(NodeContext.layer),
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(exit))
    })
  )
})
