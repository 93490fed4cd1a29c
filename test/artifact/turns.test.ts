import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Turns from "../../src/artifact/internal/turns.js"

/** The number of the event loop's turn, for as long as the scope is open. */
const counted = Effect.acquireRelease(
  Effect.sync(() => {
    const clock = { turn: 0, over: false }
    const tick = () => {
      clock.turn += 1
      if (!clock.over) setImmediate(tick)
    }
    setImmediate(tick)
    return clock
  }),
  (clock) => Effect.sync(() => (clock.over = true))
)

const nextTurn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

describe("turns", () => {
  it("those who find the place empty pass at once, as many as a turn has", () => {
    const turn = Turns.make(2)
    assert.isTrue(Exit.isSuccess(Effect.runSyncExit(turn)))
    assert.isTrue(Exit.isSuccess(Effect.runSyncExit(turn)))
    // It waits, which a synchronous run cannot.
    assert.isTrue(Exit.isFailure(Effect.runSyncExit(turn)))
  })

  it.scoped("a crowd passes in its order, no more than so many in a turn, and no turn is left out", () =>
    Effect.gen(function* () {
      const clock = yield* counted
      const turn = Turns.make(3)
      const passed: Array<{ readonly who: number; readonly turn: number }> = []
      yield* Effect.forEach(
        Array.from({ length: 20 }, (_, who) => who),
        (who) => Effect.map(turn, () => void passed.push({ who, turn: clock.turn })),
        { concurrency: "unbounded", discard: true }
      )
      assert.deepStrictEqual(
        passed.map(({ who }) => who),
        Array.from({ length: 20 }, (_, who) => who)
      )
      const first = passed[0]?.turn ?? Number.NaN
      // Three in each: the last two of twenty in the seventh.
      assert.deepStrictEqual(
        passed.map(({ turn }) => turn - first),
        Array.from({ length: 20 }, (_, who) => Math.floor(who / 3))
      )
    })
  )

  it.effect("who comes while others wait is not let in before them", () =>
    Effect.gen(function* () {
      const turn = Turns.make(1)
      const passed: Array<string> = []
      const enter = (who: string) => Effect.map(turn, () => void passed.push(who))
      yield* enter("first")
      const second = yield* Effect.fork(enter("second"))
      const third = yield* Effect.fork(enter("third"))
      // One turn on, the second has passed, and the place of that turn is taken.
      while (passed.length < 2) yield* nextTurn
      yield* enter("fourth")
      yield* Fiber.join(second)
      yield* Fiber.join(third)
      assert.deepStrictEqual(passed, ["first", "second", "third", "fourth"])
    })
  )

  it.effect("one that is interrupted while it waits takes nobody's turn", () =>
    Effect.gen(function* () {
      const turn = Turns.make(1)
      const passed: Array<number> = []
      const fibers = yield* Effect.forEach([0, 1, 2, 3, 4], (who) =>
        Effect.fork(Effect.map(turn, () => void passed.push(who)))
      )
      yield* Effect.yieldNow()
      yield* Fiber.interruptAll(fibers.filter((_, who) => who === 1 || who === 3))
      yield* Effect.forEach(fibers, Fiber.await)
      assert.deepStrictEqual(passed, [0, 2, 4])
      // And when all is quiet again, the next passes at once.
      yield* nextTurn
      yield* nextTurn
      assert.isTrue(Exit.isSuccess(Effect.runSyncExit(turn)))
    })
  )
})
