import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { AdaptiveOptions } from "../../src/model/AdaptiveConcurrency.js"
import * as ChatCompletions from "../../src/model/ChatCompletions.js"
import * as Limits from "../../src/model/Limits.js"
import { ModelError } from "../../src/model/ModelError.js"
import { bytes, completion, json, Platform, quick, request, stub } from "./stub.js"

const refused = new ModelError({ reason: "rate_limited", url: "http://127.0.0.1:1/v1", status: 429, detail: "no" })

describe("Limits", () => {
  it.scopedLive("holds back the calls of a client that are too many", () =>
    Effect.gen(function* () {
      let open = 0
      let most = 0
      const { received, url } = yield* stub((response, one) => {
        open += 1
        most = Math.max(most, open)
        // Long enough for a call too many to arrive.
        setTimeout(() => {
          open -= 1
          json(completion({ content: "x" }))(response, one)
        }, 20)
      })
      const client = yield* Effect.provide(ChatCompletions.make({ url, model: "m", retry: quick }), Limits.layer(3))
      yield* Effect.forEach(Array.from({ length: 12 }), () => client.complete(request()), {
        concurrency: "unbounded",
        discard: true
      })
      assert.strictEqual(received.length, 12)
      assert.strictEqual(most, 3)
    }).pipe(Effect.provide(Platform))
  )

  it.effect("tells a call how long it has waited", () =>
    Effect.gen(function* () {
      const permits = yield* Limits.make(1)
      const gate = yield* Deferred.make<void>()
      yield* Effect.fork(permits.withPermit(() => Deferred.await(gate)))
      yield* Effect.yieldNow()
      const second = yield* Effect.fork(permits.withPermit(Effect.succeed))
      yield* TestClock.adjust("3 seconds")
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(second), 3_000)
    })
  )

  it.scopedLive("allows fewer calls after a 429, and more again while replies come", () =>
    Effect.gen(function* () {
      const permits = yield* Limits.makeAdaptive({ adaptive: new AdaptiveOptions({ max: 8, initial: 8 }) })
      assert.strictEqual(yield* permits.limit, 8)
      yield* Effect.flip(permits.withPermit(() => Effect.fail(refused)))
      assert.strictEqual(yield* permits.limit, 4)
      // A call alone says nothing of what a server can bear: as many as are allowed have to be under way.
      const round = Effect.forEach(Array.from({ length: 4 }), () => permits.withPermit(() => Effect.yieldNow()), {
        concurrency: "unbounded",
        discard: true
      })
      yield* Effect.repeatN(round, 3)
      assert.isAbove((yield* permits.limit) ?? 0, 4)
      assert.isAtMost((yield* permits.limit) ?? 0, 8)
    }).pipe(Effect.provide(Platform))
  )

  it.scopedLive("allows fewer when a server's metrics tell of requests thrown out", () =>
    Effect.gen(function* () {
      const metrics = (preemptions: number) =>
        bytes(`vllm:num_requests_waiting{engine="0"} 0\nvllm:num_preemptions_total{engine="0"} ${preemptions}\n`)
      const { received, url } = yield* stub(metrics(0), metrics(7))
      const permits = yield* Limits.makeAdaptive({
        adaptive: new AdaptiveOptions({ max: 8, initial: 8 }),
        servers: [url],
        every: "10 millis"
      })
      const cut = Effect.repeat(Effect.zipLeft(permits.limit, Effect.sleep("5 millis")), {
        until: (limit) => limit === 4
      })
      yield* Effect.timeout(cut, "5 seconds")
      assert.strictEqual(received[0]?.path, "/metrics")
    }).pipe(Effect.provide(Platform))
  )
})
