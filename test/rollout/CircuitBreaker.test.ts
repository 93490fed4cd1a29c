import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import {
  admit,
  type Breaker,
  BreakerOptions,
  closed,
  kindOf,
  next,
  probeLost,
  probing
} from "../../src/rollout/CircuitBreaker.js"

const options = new BreakerOptions({ failures: 3, coolDownMilliseconds: 100, capMilliseconds: 250, probes: 3 })

const model = "model (model_timeout)"

const fold = (breaker: Breaker, kinds: ReadonlyArray<string | undefined>, now = 0) =>
  kinds.reduce((state, kind) => next(options, state, { kind, probe: false, now }), breaker)

const probed = (breaker: Breaker, kind: string | undefined, now: number) =>
  next(options, probing(breaker), { kind, probe: true, now })

describe("CircuitBreaker", () => {
  it("opens after so many failures of one kind in a row, and not otherwise", () => {
    assert.strictEqual(fold(closed, [model, model, model])._tag, "Open")
    assert.strictEqual(fold(closed, [model, model, undefined, model, model])._tag, "Closed")
    assert.strictEqual(fold(closed, [model, model, "environment (lost)", model])._tag, "Closed")
  })

  it("lets one probe through once it has cooled down, and closes or waits twice as long by what comes of it", () => {
    const open = fold(closed, [model, model, model], 1_000)
    assert.deepStrictEqual(admit(open, 1_040), { _tag: "Later", milliseconds: 60 })
    assert.strictEqual(admit(open, 1_100)._tag, "Probe")
    assert.strictEqual(admit(probing(open), 1_100)._tag, "AfterProbe")
    assert.deepStrictEqual(probed(open, undefined, 1_200), closed)
    const again = probed(open, model, 1_200)
    assert.deepStrictEqual(admit(again, 1_200), { _tag: "Later", milliseconds: 200 })
    const third = probed(again, model, 2_000)
    assert.deepStrictEqual(admit(third, 2_000), { _tag: "Later", milliseconds: 250 }, "no longer than the cap")
    assert.deepStrictEqual(admit(probed(third, model, 3_000), 9_000), { _tag: "Never", kind: model })
  })

  it("asks another when a probe comes to nothing", () => {
    const open = probeLost(probing(fold(closed, [model, model, model])), 50)
    assert.strictEqual(admit(open, 50)._tag, "Probe")
  })

  it("says nothing of a task that is wrong", () => {
    assert.isUndefined(kindOf({ class: "task", kind: "task", cause: "" }))
    assert.isUndefined(kindOf(undefined))
    assert.strictEqual(kindOf({ class: "model", kind: "model_timeout", cause: "" }), model)
  })

  it.prop(
    "while it is open, what ends late neither closes it nor opens it further",
    { late: FastCheck.array(FastCheck.option(FastCheck.constantFrom(model, "b"), { nil: undefined })) },
    ({ late }) => {
      const open = fold(closed, [model, model, model], 10)
      assert.deepStrictEqual(fold(open, late, 99), open)
      assert.deepStrictEqual(fold(probing(open), late, 99), probing(open))
    }
  )
})
