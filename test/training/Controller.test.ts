import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import * as TestContext from "effect/TestContext"
import * as Controller from "../../src/training/Controller.js"

/** An engine whose weights can be looked into: two halves, of which a load changes one after the other. */
const halves = (name: string, options: { readonly fails?: () => boolean } = {}) => {
  const weights = { first: 0, second: 0 }
  const engine: Controller.Engine<string> = {
    name,
    load: (version) =>
      Effect.gen(function* () {
        weights.first = version
        yield* Effect.sleep("1 second")
        if (options.fails?.() === true) return yield* Effect.fail(`${name} broke`)
        weights.second = version
      })
  }
  return { engine, weights }
}

const forked = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.zipLeft(Effect.fork(effect), yieldNow)

/** Lets everything that can go on go on. */
const yieldNow = Effect.repeatN(Effect.yieldNow(), 20)

describe("Controller", () => {
  it.effect("waits for what is under way, holds back what comes, and lets it go on with the new weights", () =>
    Effect.gen(function* () {
      const { engine } = halves("a")
      const controller = yield* Controller.make({ engines: [engine] })
      const gate = yield* Deferred.make<void>()
      const seen: Array<string> = []
      const first = yield* forked(
        controller.dispatch((version) =>
          Effect.gen(function* () {
            yield* Deferred.await(gate)
            // A dispatch that is waited for still gets its calls answered.
            const serving = yield* controller.call((serving) => Effect.succeed(serving))
            seen.push(`first ${version} ${serving.version}`)
          })
        )
      )
      const refit = yield* forked(controller.refit(1))
      const second = yield* forked(
        controller.dispatch((version) => Effect.sync(() => void seen.push(`second ${version}`)))
      )
      assert.deepStrictEqual(yield* controller.status, {
        version: 0,
        serving: ["a"],
        dispatches: 1,
        calls: 0,
        paused: true
      })
      yield* TestClock.adjust("5 seconds")
      yield* Deferred.succeed(gate, undefined)
      yield* yieldNow
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(refit), {
        version: 1,
        serving: ["a"],
        lost: [],
        waitedMillis: 5_000,
        loadedMillis: 1_000
      })
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      assert.deepStrictEqual(seen, ["first 0 0", "second 1"])
      assert.isFalse((yield* controller.status).paused)
    })
  )

  it.effect("lets dispatches go on across versions where it is told to, and tells each call which one answers it", () =>
    Effect.gen(function* () {
      const { engine } = halves("a")
      const controller = yield* Controller.make({ engines: [engine], inFlight: "continue" })
      const version = controller.call((serving) => Effect.as(Effect.sleep("1 second"), serving.version))
      const episode = yield* forked(controller.dispatch(() => Effect.all([version, version, version])))
      yield* TestClock.adjust("500 millis")
      // The first call is under way: the update waits for it, and the second call for the update.
      const refit = yield* forked(controller.refit(1))
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* Fiber.join(episode), [0, 1, 1])
      assert.strictEqual((yield* Fiber.join(refit)).waitedMillis, 500)
    })
  )

  it.effect("leaves an engine out that does not load, and takes it back with the next update", () =>
    Effect.gen(function* () {
      let broken = true
      const good = halves("good")
      const bad = halves("bad", { fails: () => broken })
      const controller = yield* Controller.make({ engines: [bad.engine, good.engine] })
      const refit = yield* forked(controller.refit(1))
      yield* TestClock.adjust("2 seconds")
      const receipt = yield* Fiber.join(refit)
      assert.deepStrictEqual(receipt.serving, ["good"])
      assert.deepStrictEqual(receipt.lost, [{ engine: "bad", why: "bad broke" }])
      const engines = yield* Effect.all(
        Array.from({ length: 4 }, () => controller.call((serving) => Effect.succeed(serving.engine)))
      )
      assert.deepStrictEqual(new Set(engines), new Set(["good"]))
      broken = false
      const mended = yield* forked(controller.refit(1))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual((yield* Fiber.join(mended)).serving, ["bad", "good"])
    })
  )

  it.effect("tries an engine once more within an update", () =>
    Effect.gen(function* () {
      let failures = 1
      const { engine } = halves("a", { fails: () => failures-- > 0 })
      const controller = yield* Controller.make({ engines: [engine] })
      const refit = yield* forked(controller.refit(1))
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual((yield* Fiber.join(refit)).lost, [])
    })
  )

  it.effect("dispatches nothing after an update that reached nobody, and goes on after one that did", () =>
    Effect.gen(function* () {
      let broken = true
      const { engine } = halves("a", { fails: () => broken })
      const controller = yield* Controller.make({ engines: [engine], retries: 0 })
      const waiting = yield* forked(controller.refit(1))
      const held = yield* forked(Effect.flip(controller.dispatch(() => Effect.void)))
      yield* TestClock.adjust("1 second")
      const failed = yield* Effect.flip(Fiber.join(waiting))
      assert.include(failed.message, "weights 1 reached too few engines (1 needed): a: a broke")
      assert.strictEqual((yield* Fiber.join(held))._tag, "NoEngineServes")
      assert.strictEqual((yield* Effect.flip(controller.call(() => Effect.void)))._tag, "NoEngineServes")
      broken = false
      const again = yield* forked(controller.refit(1))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(again)
      assert.strictEqual(yield* controller.dispatch((version) => Effect.succeed(version)), 1)
    })
  )

  it.effect("bounds a load that hangs", () =>
    Effect.gen(function* () {
      const hangs: Controller.Engine = { name: "hangs", load: () => Effect.never }
      const controller = yield* Controller.make({
        engines: [halves("a").engine, hangs],
        loadTimeout: "10 seconds"
      })
      const refit = yield* forked(controller.refit(1))
      yield* TestClock.adjust("20 seconds")
      const { lost, serving } = yield* Fiber.join(refit)
      assert.deepStrictEqual(serving, ["a"])
      assert.deepStrictEqual(lost, [{ engine: "hangs", why: "it did not load within 10s" }])
    })
  )

  it.effect("serves nothing from weights that were half loaded when the update was stopped", () =>
    Effect.gen(function* () {
      const { engine, weights } = halves("a")
      const controller = yield* Controller.make({ engines: [engine] })
      const refit = yield* forked(controller.refit(1))
      yield* Fiber.interrupt(refit)
      assert.deepStrictEqual(weights, { first: 1, second: 0 })
      assert.strictEqual((yield* Effect.flip(controller.call(() => Effect.void)))._tag, "NoEngineServes")
      assert.deepStrictEqual((yield* controller.status).paused, false)
    })
  )

  it.effect("gives the gate back when what waits for it is stopped", () =>
    Effect.gen(function* () {
      const controller = yield* Controller.make({ engines: [halves("a").engine] })
      const running = yield* forked(controller.dispatch(() => Effect.never))
      const refit = yield* forked(controller.refit(1))
      const waiting = yield* forked(controller.dispatch(() => Effect.void))
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(refit)
      assert.strictEqual(yield* controller.dispatch((version) => Effect.succeed(version)), 0)
      yield* Fiber.interrupt(running)
      assert.strictEqual((yield* controller.status).dispatches, 0)
    })
  )

  it.effect("publishes no version twice over a newer one", () =>
    Effect.gen(function* () {
      const controller = yield* Controller.make({ engines: [halves("a").engine], version: 7 })
      for (const version of [6, 7.5, Number.NaN]) {
        assert.strictEqual((yield* Effect.flip(controller.refit(version)))._tag, "VersionBackwards")
      }
    })
  )

  it.effect("never answers a call with weights that are half there, whatever comes when", () =>
    Effect.promise(() =>
      FC.assert(
        FC.asyncProperty(
          FC.array(
            FC.record({
              what: FC.constantFrom("rollout" as const, "refit" as const),
              after: FC.nat(3_000),
              calls: FC.integer({ min: 1, max: 4 }),
              takes: FC.nat(1_500),
              stoppedAfter: FC.option(FC.nat(4_000), { nil: undefined })
            }),
            { maxLength: 12 }
          ),
          FC.constantFrom("drain" as const, "continue" as const),
          (events, inFlight) =>
            Effect.gen(function* () {
              let failures = 0
              const engines = [halves("a"), halves("b", { fails: () => failures++ % 3 === 0 })]
              const [a, b] = engines
              if (a === undefined || b === undefined) return
              const controller = yield* Controller.make({ engines: [a.engine, b.engine], inFlight })
              const look = ({ engine, version }: Controller.Serving) => {
                const weights = engine === "a" ? a.weights : b.weights
                assert.deepStrictEqual(weights, { first: version, second: version })
              }
              let version = 0
              const fibers = yield* Effect.forEach(events, ({ after, calls, stoppedAfter, takes, what }) => {
                const call = controller.call((serving) =>
                  Effect.gen(function* () {
                    look(serving)
                    yield* Effect.sleep(takes)
                    look(serving)
                  })
                )
                const event: Effect.Effect<unknown, unknown> =
                  what === "rollout"
                    ? controller.dispatch(() => Effect.repeatN(call, calls - 1))
                    : Effect.suspend(() => controller.refit(++version))
                const bounded = stoppedAfter === undefined ? event : Effect.timeout(event, stoppedAfter)
                return Effect.fork(
                  bounded.pipe(
                    Effect.asVoid,
                    Effect.catchAll(() => Effect.void),
                    Effect.delay(after)
                  )
                )
              })
              yield* TestClock.adjust("10 minutes")
              const ended = yield* Effect.all(fibers.map(Fiber.join))
              assert.strictEqual(ended.length, events.length)
              const { calls, dispatches, paused } = yield* controller.status
              assert.deepStrictEqual([calls, dispatches, paused], [0, 0, false])
            }).pipe(Effect.provide(TestContext.TestContext), Effect.runPromise)
        ),
        { numRuns: 25 }
      )
    )
  )
})
