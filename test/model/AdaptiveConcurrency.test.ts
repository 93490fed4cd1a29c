import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import {
  AdaptiveOptions,
  type AdaptiveState,
  make,
  next,
  parseLoad,
  permits,
  type Signal
} from "../../src/model/AdaptiveConcurrency.js"

const runs = { numRuns: 1000 }

const options = FastCheck.record({
  min: FastCheck.integer({ min: 1, max: 16 }),
  more: FastCheck.integer({ min: 0, max: 200 }),
  initial: FastCheck.integer({ min: 1, max: 300 }),
  increase: FastCheck.double({ min: 0.5, max: 8, noNaN: true }),
  decrease: FastCheck.double({ min: 0.05, max: 0.95, noNaN: true }),
  queue: FastCheck.integer({ min: 0, max: 10 }),
  cooldown: FastCheck.integer({ min: 0, max: 1000 })
}).map(({ more, ...rest }) => new AdaptiveOptions({ ...rest, max: rest.min + more }))

const load = FastCheck.record({ waiting: FastCheck.nat(20), preemptions: FastCheck.nat(5) })

/** Signals in the order of time. */
const signals = FastCheck.array(
  FastCheck.tuple(
    FastCheck.nat(500),
    FastCheck.oneof(
      FastCheck.record({ _tag: FastCheck.constant("Succeeded" as const), inFlight: FastCheck.nat(64) }),
      FastCheck.record({ _tag: FastCheck.constant("Refused" as const), took: FastCheck.nat(1000) }),
      FastCheck.record({
        _tag: FastCheck.constant("Observed" as const),
        server: FastCheck.constantFrom("a", "b"),
        load
      }),
      FastCheck.record({ _tag: FastCheck.constant("Unobserved" as const), server: FastCheck.constantFrom("a", "b") })
    )
  ),
  { maxLength: 60 }
).map((all) => {
  let now = 0
  return all.map(([wait, signal]): Signal => {
    now += wait
    switch (signal._tag) {
      case "Refused":
        return { _tag: "Refused", sentAt: now - signal.took, now }
      case "Observed":
        return { ...signal, now }
      default:
        return signal
    }
  })
})

const driven = (given: AdaptiveOptions, all: ReadonlyArray<Signal>): AdaptiveState =>
  all.reduce((state, signal) => next(given, state, signal), make(given))

describe("AdaptiveConcurrency", () => {
  it("stays within its bounds whatever happens", () => {
    FastCheck.assert(
      FastCheck.property(options, signals, (given, all) => {
        let state = make(given)
        for (const signal of all) {
          state = next(given, state, signal)
          assert.isAtLeast(permits(state), given.min)
          assert.isAtMost(permits(state), given.max)
        }
      }),
      runs
    )
  })

  it("cuts on a 429 of a call that was sent after the last cut", () => {
    FastCheck.assert(
      FastCheck.property(options, signals, (given, all) => {
        const before = driven(given, all)
        const now = 1_000_000
        const cut = next(given, before, { _tag: "Refused", sentAt: now, now })
        if (permits(before) === given.min) assert.strictEqual(permits(cut), given.min)
        else assert.isBelow(permits(cut), permits(before))
        // The others of the same crowd tell nothing new.
        assert.strictEqual(next(given, cut, { _tag: "Refused", sentAt: now - 1, now: now + 1 }), cut)
      }),
      runs
    )
  })

  it("grows while calm and in use, by the increase a round, up to the most", () => {
    FastCheck.assert(
      FastCheck.property(options, signals, (given, all) => {
        const quiet: ReadonlyArray<Signal> = ["a", "b"].map((server) => ({ _tag: "Unobserved", server }))
        const before = [...quiet].reduce((state, signal) => next(given, state, signal), driven(given, all))
        const round = Array.from(
          { length: permits(before) },
          (): Signal => ({ _tag: "Succeeded", inFlight: permits(before) })
        )
        const grown = round.reduce((state, signal) => next(given, state, signal), before)
        if (before.limit < given.max) assert.isAbove(grown.limit, before.limit)
        assert.isAtMost(grown.limit, Math.min(given.max, before.limit + given.increase) + 1e-9)
        const full = Array.from({ length: 100_000 }).reduce(
          (state: AdaptiveState) =>
            state.limit === given.max ? state : next(given, state, { _tag: "Succeeded", inFlight: given.max }),
          grown
        )
        assert.strictEqual(permits(full), given.max)
      }),
      { numRuns: 200 }
    )
  })

  const given = new AdaptiveOptions({ max: 64, initial: 32 })
  const at = (now: number, waiting: number, preemptions: number): Signal => ({
    _tag: "Observed",
    server: "a",
    load: { waiting, preemptions },
    now
  })

  it("halves on preemptions and on a queue that grows, once in a cooldown", () => {
    assert.strictEqual(permits(driven(given, [at(0, 0, 7)])), 32)
    assert.strictEqual(permits(driven(given, [at(0, 0, 7), at(1, 0, 8)])), 16)
    assert.strictEqual(permits(driven(given, [at(0, 0, 7), at(1, 0, 8), at(2, 0, 9)])), 16)
    assert.strictEqual(permits(driven(given, [at(0, 0, 7), at(1, 0, 8), at(5_001, 0, 9)])), 8)
    // 4 may wait.
    assert.strictEqual(permits(driven(given, [at(0, 0, 0), at(1, 4, 0)])), 32)
    assert.strictEqual(permits(driven(given, [at(0, 0, 0), at(1, 5, 0)])), 16)
    assert.strictEqual(permits(driven(given, [at(0, 9, 0), at(1, 8, 0)])), 32)
  })

  it("takes a count that fell for a server that was started anew", () => {
    assert.strictEqual(permits(driven(given, [at(0, 0, 7), at(1, 0, 0)])), 32)
    assert.strictEqual(permits(driven(given, [at(0, 0, 7), at(1, 0, 0), at(2, 0, 1)])), 16)
  })

  it("does not grow while a queue is long, nor while half of the permits lie idle", () => {
    const success = (inFlight: number): Signal => ({ _tag: "Succeeded", inFlight })
    assert.strictEqual(driven(given, [at(0, 9, 0), success(32)]).limit, 32)
    assert.strictEqual(driven(given, [success(15)]).limit, 32)
    assert.strictEqual(driven(given, [success(16)]).limit, 32 + 1 / 32)
    assert.isAbove(driven(given, [at(0, 9, 0), { _tag: "Unobserved", server: "a" }, success(32)]).limit, 32)
  })

  it("refuses bounds that cross", () => {
    assert.throws(() => new AdaptiveOptions({ min: 5, max: 4 }))
  })
})

describe("parseLoad", () => {
  it("sums the engines of a vLLM server", () => {
    // Names and labels as vLLM documents its production metrics; the text format is Prometheus's, version 0.0.4.
    const text = `# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen2.5-VL-7B-Instruct"} 3.0
vllm:num_requests_waiting{engine="1",model_name="Qwen/Qwen2.5-VL-7B-Instruct"} 1.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="Qwen/Qwen2.5-VL-7B-Instruct"} 1.2e+01
vllm:num_preemptions_total{engine="1",model_name="Qwen/Qwen2.5-VL-7B-Instruct"} 0.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="Qwen/Qwen2.5-VL-7B-Instruct"} 1.7542e+09
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99.0
`
    assert.deepStrictEqual(parseLoad(text), { waiting: 4, preemptions: 12 })
    assert.deepStrictEqual(parseLoad(text.replaceAll("\n", "\r\n")), { waiting: 4, preemptions: 12 })
  })

  it("reads labels with braces, quotes and spaces, no labels at all, and times", () => {
    assert.deepStrictEqual(
      parseLoad(
        String.raw`vllm:num_requests_waiting{a="}{",b="\"} 7",c="x, y"} 2 1700000000000
vllm:num_preemptions_total 5`
      ),
      { waiting: 2, preemptions: 5 }
    )
  })

  it("tells nothing where something is missing or no number", () => {
    assert.isUndefined(parseLoad(""))
    assert.isUndefined(parseLoad("<html>404</html>"))
    assert.isUndefined(parseLoad("vllm:num_requests_waiting 1"))
    assert.isUndefined(parseLoad("vllm:num_requests_waiting NaN\nvllm:num_preemptions_total 1"))
    assert.isUndefined(parseLoad("vllm:num_requests_waiting +Inf\nvllm:num_preemptions_total 1"))
    assert.isUndefined(parseLoad('vllm:num_requests_waiting{a="unended 1\nvllm:num_preemptions_total 1'))
  })
})
