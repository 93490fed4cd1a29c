import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import { ModelError } from "../../src/model/ModelError.js"
import { isRepeatable, RetryPolicy, schedule, wait } from "../../src/model/Retry.js"

const error = (reason: ModelError["reason"], rest: Partial<ModelError> = {}) =>
  new ModelError({ reason, url: "http://127.0.0.1:1/v1", detail: "no", ...rest })

const policies = FastCheck.record({
  attempts: FastCheck.integer({ min: 1, max: 12 }),
  totalMilliseconds: FastCheck.nat(600_000),
  baseMilliseconds: FastCheck.nat(5_000),
  factor: FastCheck.double({ min: 1, max: 10, noNaN: true }),
  capMilliseconds: FastCheck.nat(60_000),
  jitter: FastCheck.double({ min: 0, max: 1, noNaN: true }),
  retryAfterCapMilliseconds: FastCheck.nat(120_000)
}).map((fields) => new RetryPolicy(fields))

const runs = { fastCheck: { numRuns: 1_000 } }

describe("Retry", () => {
  it.prop(
    "never goes beyond its tries or its time, nor waits longer than its caps",
    {
      policy: policies,
      count: FastCheck.integer({ min: 1, max: 1_100 }),
      elapsed: FastCheck.nat(700_000),
      random: FastCheck.double({ min: 0, max: 0.999, noNaN: true }),
      retryAfter: FastCheck.option(FastCheck.nat(1_000_000), { nil: undefined })
    },
    ({ count, elapsed, policy, random, retryAfter }) => {
      const delay = wait(policy, { count, elapsed, random, retryAfter })
      if (count >= policy.attempts) assert.isUndefined(delay)
      if (delay === undefined) return
      assert.isAtMost(elapsed + delay, policy.totalMilliseconds)
      assert.isAtLeast(delay, Math.min(retryAfter ?? 0, policy.retryAfterCapMilliseconds))
      const longest = Math.max(policy.capMilliseconds * (1 + policy.jitter), policy.retryAfterCapMilliseconds)
      assert.isAtMost(delay, longest)
    },
    runs
  )

  it("doubles from half a second, each wait within a fifth of that", () => {
    const policy = new RetryPolicy({ attempts: 6 })
    const waits = (random: number) => [1, 2, 3, 4, 5, 6].map((count) => wait(policy, { count, elapsed: 0, random }))
    assert.deepStrictEqual(waits(0.5), [500, 1000, 2000, 4000, 8000, undefined])
    assert.deepStrictEqual(waits(0)[0], 400)
  })

  it("is data that a manifest keeps", () => {
    const encoded = Schema.encodeSync(RetryPolicy)(new RetryPolicy({ attempts: 2 }))
    assert.deepStrictEqual(encoded, {
      attempts: 2,
      totalMilliseconds: 300_000,
      baseMilliseconds: 500,
      factor: 2,
      capMilliseconds: 8_000,
      jitter: 0.2,
      retryAfterCapMilliseconds: 60_000
    })
    assert.deepStrictEqual(Schema.decodeUnknownSync(RetryPolicy)(encoded), new RetryPolicy({ attempts: 2 }))
  })

  it.effect("makes as many tries as it says, and waits in between", () =>
    Effect.gen(function* () {
      const tries: Array<number> = []
      const failing = Effect.zipRight(
        Effect.map(Clock.currentTimeMillis, (now) => tries.push(now)),
        Effect.fail(error("unavailable"))
      )
      const policy = new RetryPolicy({ attempts: 3, jitter: 0 })
      const fiber = yield* Effect.fork(Effect.flip(Effect.retry(failing, schedule(policy))))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(tries, [0, 500, 1500])
    })
  )

  it.effect("waits as long as the server asks, up to the cap, and not when its time is over before that", () =>
    Effect.gen(function* () {
      const triesAfter = (retryAfter: number, policy: RetryPolicy) =>
        Effect.gen(function* () {
          const began = yield* Clock.currentTimeMillis
          const tries: Array<number> = []
          const failing = Effect.zipRight(
            Effect.map(Clock.currentTimeMillis, (now) => tries.push(now - began)),
            Effect.fail(error("rate_limited", { retryAfter }))
          )
          const fiber = yield* Effect.fork(Effect.flip(Effect.retry(failing, schedule(policy))))
          yield* TestClock.adjust("10 minutes")
          yield* Fiber.join(fiber)
          return tries
        })
      assert.deepStrictEqual(yield* triesAfter(5_000, new RetryPolicy({ attempts: 2 })), [0, 5_000])
      assert.deepStrictEqual(yield* triesAfter(500_000, new RetryPolicy({ attempts: 2 })), [0, 60_000])
      assert.deepStrictEqual(yield* triesAfter(50_000, new RetryPolicy({ totalMilliseconds: 40_000 })), [0])
    })
  )

  it("repeats what a server refused or never saw, and what it may have done only where that is safe", () => {
    const unsafe = (it: ModelError) => isRepeatable(it, { safe: false })
    for (const reason of ["unavailable", "truncated", "transport"] as const) {
      assert.isTrue(isRepeatable(error(reason)), reason)
      assert.isFalse(unsafe(error(reason)), reason)
    }
    assert.isTrue(unsafe(error("rate_limited", { status: 429 })))
    assert.isTrue(unsafe(error("transport", { delivered: false })))
    assert.isFalse(isRepeatable(error("unavailable", { status: 501 })))
    for (const reason of [
      "context_overflow",
      "timeout",
      "unauthorised",
      "bad_request",
      "malformed_reply",
      "refused",
      "artifact"
    ] as const) {
      assert.isFalse(isRepeatable(error(reason)), reason)
    }
  })
})
