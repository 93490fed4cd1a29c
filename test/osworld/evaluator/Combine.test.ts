import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { combine, combineEffect } from "../../../src/osworld/evaluator/Combine.js"

const scores = FastCheck.tuple(
  FastCheck.constantFrom(0, 0.25, 0.5, 1),
  FastCheck.array(FastCheck.constantFrom(0, 0.25, 0.5, 1), { maxLength: 5 })
).map(([first, rest]): [number, ...Array<number>] => [first, ...rest])

describe("Combine", () => {
  it("and is the mean unless something is 0; or is the maximum", () => {
    assert.strictEqual(combine("and", [1, 0.5]), 0.75)
    assert.strictEqual(combine("and", [1, 0, 1]), 0)
    assert.strictEqual(combine("or", [0.25, 0.5]), 0.5)
    assert.strictEqual(combine("or", [0, 1]), 1)
  })

  it.effect.prop("the lazy form has the same score and stops at the first that decides", [scores], ([list]) =>
    Effect.gen(function* () {
      for (const conj of ["and", "or"] as const) {
        const ran: Array<number> = []
        const [first, ...rest] = list.map((score, i) =>
          Effect.sync(() => {
            ran.push(i)
            return score
          })
        )
        assert.isDefined(first)
        if (first === undefined) return
        assert.strictEqual(yield* combineEffect(conj, [first, ...rest]), combine(conj, list))
        const decides = list.indexOf(conj === "and" ? 0 : 1)
        assert.deepStrictEqual(
          ran,
          Array.from({ length: decides < 0 ? list.length : decides + 1 }, (_, i) => i)
        )
      }
    })
  )

  it.effect("a failure is no score, and what comes after a decision cannot fail", () =>
    Effect.gen(function* () {
      const failing = Effect.fail("no gold")
      assert.deepStrictEqual(
        yield* Effect.either(combineEffect("and", [Effect.succeed(1), failing])),
        Either.left("no gold")
      )
      assert.strictEqual(yield* combineEffect("or", [Effect.succeed(1), failing]), 1)
      assert.strictEqual(yield* combineEffect("and", [Effect.succeed(0), failing]), 0)
    })
  )
})
