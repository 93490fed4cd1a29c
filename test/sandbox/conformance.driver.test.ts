import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import type { Driver } from "../../src/sandbox/Driver.js"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import { driverTests } from "../../src/testing/internal/conformance/driver.js"
import * as SimulatedService from "../../src/testing/SimulatedService.js"

type Simulated = Driver<{ readonly id: string }>

/** The tests that a driver fails, with what is said of each. */
const failed = (
  tamper: (driver: Simulated, all: Effect.Effect<ReadonlyArray<string>>) => Partial<Simulated>,
  options: { readonly outside?: boolean } = {}
) =>
  Effect.gen(function* () {
    const { driver, inventory } = SimulatedService.make({ latency: "1 millis", removal: "5 millis" })
    const tests = driverTests(
      { spec: (fields) => new SandboxSpec(fields), settled: "600 millis" },
      {
        driver: Effect.succeed({ ...driver, ...tamper(driver, inventory) }),
        settle: { looks: 3, spacing: "10 millis", limit: "400 millis", removal: "400 millis", close: "1 second" },
        leftovers: options.outside === false ? Effect.succeed([]) : inventory
      }
    )
    const found = yield* Effect.forEach(tests, ({ test, title }) =>
      Effect.map(Effect.exit(test), (exit) =>
        Exit.isFailure(exit) ? [[title, Cause.pretty(exit.cause)] as const] : []
      )
    )
    return new Map(found.flat())
  }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))

const created = "what is created is found by its key and exists, and neither once it is removed"
const lost = "what is created and whose answer was lost is found and removed"

describe("the suite passes a driver", () => {
  it.live("that sees what it has", () =>
    Effect.map(
      failed(() => ({})),
      (found) => assert.deepStrictEqual([...found], [])
    )
  )
})

describe("the suite catches a driver", () => {
  const says = "what `find` and `exists` say of what was just created"

  // With and without a way to ask the service itself.
  for (const outside of [true, false]) {
    it.live(`that never finds a sandbox and calls each gone${outside ? "" : ", unseen from outside"}`, () =>
      Effect.gen(function* () {
        const found = yield* failed(() => ({ find: () => Effect.succeed([]), exists: () => Effect.succeed(false) }), {
          outside
        })
        assert.deepStrictEqual([...found.keys()], [created, lost])
        assert.include(found.get(created) ?? "", says)
      })
    )
  }

  it.live("that finds nothing by a key", () =>
    Effect.gen(function* () {
      const found = yield* failed(() => ({ find: () => Effect.succeed([]) }), { outside: false })
      assert.deepStrictEqual([...found.keys()], [created, lost])
      assert.include(found.get(created) ?? "", says)
    })
  )

  it.live("that calls what exists gone", () =>
    Effect.gen(function* () {
      const found = yield* failed(() => ({ exists: () => Effect.succeed(false) }))
      assert.include(found.get(created) ?? "", says)
    })
  )

  it.live("that finds another create's sandbox by a key", () =>
    Effect.gen(function* () {
      const found = yield* failed((driver, all) => ({
        find: () =>
          Effect.map(all, (ids) => ids.map((id) => ({ id, labels: {}, state: "running" as const, createdAt: 0 }))),
        exists: driver.exists
      }))
      assert.include(found.get(created) ?? "", says)
    })
  )

  it.live("that writes no key on what it creates", () =>
    Effect.gen(function* () {
      const found = yield* failed((driver) => ({
        create: (spec, attempt) => driver.create(spec, { ...attempt, labels: {} })
      }))
      assert.deepStrictEqual([...found.keys()], [created, lost])
      assert.include(found.get(created) ?? "", says)
    })
  )

  it.live("that says it removed what is still there", () =>
    Effect.gen(function* () {
      const found = yield* failed(() => ({ remove: () => Effect.void }))
      assert.deepStrictEqual([...found.keys()], [created, lost])
      assert.notInclude(found.get(created) ?? "", says)
    })
  )

  it.live("that says what is gone still exists", () =>
    Effect.gen(function* () {
      const found = yield* failed(() => ({ exists: () => Effect.succeed(true) }))
      assert.deepStrictEqual([...found.keys()], [created, lost])
    })
  )
})
