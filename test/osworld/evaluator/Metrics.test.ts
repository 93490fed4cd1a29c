import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { EvaluationError, make } from "../../../src/osworld/evaluator/Metric.js"
import * as Metrics from "../../../src/osworld/evaluator/Metrics.js"
import * as Reader from "../../../src/osworld/evaluator/Reader.js"
import { judge, missing, text } from "./support.js"

describe("Metrics", () => {
  it("finds a metric by upstream's name", () => {
    for (const name of ["compare_table", "check_include_exclude", "exact_match", "check_accessibility_tree"]) {
      assert.isTrue(Metrics.supported.has(name))
      assert.strictEqual(Either.getOrThrow(Metrics.get(name)).name, name)
    }
  })

  it("an unknown metric is an error that names it", () => {
    const error = Either.getOrThrow(Either.flip(Metrics.get("no_such_metric")))
    assert.instanceOf(error, EvaluationError)
    assert.strictEqual(error.message, "no_such_metric cannot decide: not yet supported: the metric no_such_metric")
  })

  it.effect("no metric scores a missing result above 0", () =>
    Effect.gen(function* () {
      for (const name of Metrics.supported) {
        const score = yield* judge(Either.getOrThrow(Metrics.get(name)), missing)
        assert.isTrue(score === 0 || typeof score === "string", name)
      }
    })
  )

  it.effect("a score outside [0, 1] is an error", () =>
    Effect.gen(function* () {
      const metric = (score: number) =>
        make({
          name: "odd",
          result: Reader.text,
          expected: Reader.optional(Reader.text),
          options: Schema.Struct({}),
          score: () => Either.right(score)
        })
      assert.strictEqual(yield* judge(metric(0.5), text("")), 0.5)
      assert.include(yield* judge(metric(1.01), text("")), "outside [0, 1]")
      assert.include(yield* judge(metric(Number.NaN), text("")), "outside [0, 1]")
    })
  )

  it("the error survives a wire", () => {
    const error = new EvaluationError({ metric: "m", reason: "r", cause: new Error("disk") })
    const sent: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(EvaluationError)(error)))
    assert.strictEqual(Schema.decodeUnknownSync(EvaluationError)(sent).message, "m cannot decide: r")
  })
})
