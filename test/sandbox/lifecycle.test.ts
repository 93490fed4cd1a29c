import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ExecOutcome } from "../../src/sandbox/ExecOutcome.js"
import * as Labels from "../../src/sandbox/internal/labels.js"
import * as Lifecycle from "../../src/sandbox/internal/lifecycle.js"
import { ownerLabel } from "../../src/sandbox/internal/owner.js"
import * as Proc from "../../src/sandbox/internal/proc.js"
import type { Settle } from "../../src/sandbox/internal/settle.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import { CommandReadiness, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as SimulatedService from "../../src/testing/SimulatedService.js"
import { seed } from "../seed.js"
import { failingReads } from "./internal/failingReads.js"

const spec = (fields: ConstructorParameters<typeof SandboxSpec>[0] = {}) =>
  new SandboxSpec({ metadata: { run: "r1" }, ...fields })

const settle: Settle = {
  looks: 3,
  spacing: "15 millis",
  limit: "5 seconds",
  removal: "5 seconds",
  close: "5 seconds"
}

const opened = (options: SimulatedService.Options = {}, quick: Settle = settle) =>
  Effect.gen(function* () {
    const service = SimulatedService.make(options)
    const ledger = yield* Ledger.makeMemory
    const scope = yield* Scope.make()
    const provider = yield* Scope.extend(
      Lifecycle.make(service.driver, { ledger, deployment: "here", settle: quick }),
      scope
    )
    return {
      service,
      ledger,
      provider,
      /** Closes the provider, and says what is left. */
      left: Effect.gen(function* () {
        yield* Scope.close(scope, Exit.void)
        const receipt = yield* ledger.receipt("simulated")
        return { inventory: yield* service.inventory, open: receipt.left.length, receipt }
      })
    }
  })

const live = (name: string, test: Effect.Effect<void, unknown, NodeContext.NodeContext>) =>
  it.live(name, () => Effect.provide(test, [NodeContext.layer, Logger.remove(Logger.defaultLogger)]), 180_000)

const nothing = { inventory: [], open: 0 }
const state = ({ inventory, open }: { inventory: ReadonlyArray<string>; open: number }) => ({ inventory, open })

describe("the lifecycle of a driver's sandboxes", () => {
  live(
    "a sandbox is there while its scope is open, and not afterwards",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec({ files: { "/etc/motd": "hi" } }))
          assert.deepStrictEqual(yield* service.inventory, [sandbox.id])
          const motd = yield* Stream.mkString(Stream.decodeText(sandbox.download("/etc/motd")))
          assert.strictEqual(motd, "hi")
          const [info] = [...(yield* Stream.runCollect(provider.list({ run: "r1" })))]
          assert.deepStrictEqual(info?.metadata, { run: "r1" })
          assert.strictEqual(info?.state, "running")
        })
      )
      assert.deepStrictEqual(yield* service.inventory, [])
      const after = yield* left
      assert.deepStrictEqual(state(after), nothing)
      assert.deepStrictEqual([after.receipt.created, after.receipt.removed, after.receipt.confirmed], [1, 1, 1])
    })
  )

  for (const [fault, tag] of [
    ["lost", "SandboxCreateAmbiguous"],
    ["silent", "SandboxCreateAmbiguous"],
    ["broken", "SandboxCreateAmbiguous"],
    ["rejected", "SandboxCreateRejected"],
    ["rate_limited", "ProviderUnavailable"]
  ] as const) {
    live(
      `a create that is ${fault} fails as ${tag}, and nothing is left`,
      Effect.gen(function* () {
        const { left, provider } = yield* opened({ faults: { create: () => fault } })
        const error = yield* Effect.flip(Effect.scoped(provider.acquire(spec())))
        assert.strictEqual(error._tag, tag)
        assert.deepStrictEqual(state(yield* left), nothing)
      })
    )
  }

  live(
    "who leaves a create that hangs is free at once; what comes of it is removed",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened({ faults: { create: () => "hang" }, hang: "300 millis" })
      const fiber = yield* Effect.fork(Effect.scoped(provider.acquire(spec())))
      yield* Effect.sleep("20 millis")
      const [took] = yield* Effect.timed(Fiber.interrupt(fiber))
      assert.isBelow(Duration.toMillis(took), 100)
      assert.deepStrictEqual(state(yield* left), nothing)
      assert.strictEqual(yield* service.total, 1)
    })
  )

  live(
    "a deadline of the caller's is an interruption like any other",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened({ faults: { create: () => "hang" }, hang: "200 millis" })
      const none = yield* Effect.scoped(Effect.timeoutOption(provider.acquire(spec()), "20 millis"))
      assert.strictEqual(none._tag, "None")
      assert.deepStrictEqual(state(yield* left), nothing)
      assert.strictEqual(yield* service.total, 1)
    })
  )

  live(
    "a closed provider opens nothing, and what is still open goes with it",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened()
      const scope = yield* Scope.make()
      const sandbox = yield* Scope.extend(provider.acquire(spec()), scope)
      assert.deepStrictEqual(yield* service.inventory, [sandbox.id])
      assert.deepStrictEqual(state(yield* left), nothing)
      yield* Scope.close(scope, Exit.void)
      const error = yield* Effect.flip(Effect.scoped(provider.acquire(spec())))
      assert.match(error.message, /is closed/)
      assert.strictEqual(yield* service.total, 1)
    })
  )

  live(
    "a listing that fails is not an empty one",
    Effect.gen(function* () {
      const { ledger, left, provider } = yield* opened(
        { faults: { create: () => "silent", list: () => true } },
        { ...settle, limit: "100 millis" }
      )
      yield* Effect.flip(Effect.scoped(provider.acquire(spec())))
      const after = yield* left
      assert.strictEqual(after.open, 1)
      assert.match((yield* ledger.open)[0]?.reason ?? "", /told to fail/)
      assert.strictEqual(after.inventory.length, 1)
    })
  )

  live(
    "the reason why it did not start is what the caller gets, however the removal goes",
    Effect.gen(function* () {
      const { left, provider } = yield* opened({ faults: { start: () => true, remove: (call) => call < 3 } })
      const error = yield* Effect.flip(Effect.scoped(provider.acquire(spec())))
      assert.strictEqual(error._tag, "ProviderUnavailable")
      assert.match(error.message, /start failed/)
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a sandbox that does not become ready is removed, and its log is told",
    Effect.gen(function* () {
      const { left, provider } = yield* opened({
        faults: { exec: () => ExecOutcome.Exited({ code: 1, stdout: "", stderr: "not yet" }) }
      })
      const error = yield* Effect.flip(
        Effect.scoped(
          provider.acquire(
            spec({ readiness: new CommandReadiness({ command: ["true"], timeout: Duration.millis(120) }) })
          )
        )
      )
      assert.strictEqual(error._tag, "SandboxNotReady")
      assert.match(error.message, /exit code 1: not yet; it printed last: the end of the log/)
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a removal that cannot be done stays open, is told to sweep, and is done by it",
    Effect.gen(function* () {
      let broken = true
      const { ledger, left, provider, service } = yield* opened(
        { faults: { remove: () => broken } },
        { ...settle, removal: "100 millis" }
      )
      yield* Effect.scoped(provider.acquire(spec()))
      assert.strictEqual((yield* ledger.open)[0]?.state, "created")
      assert.strictEqual((yield* service.inventory).length, 1)
      const [info] = [...(yield* Stream.runCollect(provider.list({})))]
      assert.strictEqual(info?.state, "orphaned")
      broken = false
      const receipt = yield* provider.sweep({ run: "r1" })
      assert.deepStrictEqual([receipt.removed.length, receipt.left, receipt.inUse], [1, [], []])
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a service that says for a while that nothing is there, to a removal and to looks, is not believed",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened({
        faults: {
          remove: (call) => (call < 1 ? "absent" : false),
          exists: (call) => (call < 5 ? "absent" : false)
        }
      })
      yield* Effect.scoped(provider.acquire(spec()))
      assert.deepStrictEqual(yield* service.inventory, [])
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a removal that goes on after its answer is waited for",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened({ removal: "150 millis" })
      yield* Effect.scoped(provider.acquire(spec()))
      assert.deepStrictEqual(yield* service.inventory, [])
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a sweep leaves the living, takes the dead, and believes no filter",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened()
      const here = yield* Proc.self
      const label = (owner: string, deployment: string, run: string) =>
        Labels.encode({ attemptKey: `dh-${owner}`, deployment, owner, metadata: { run } })
      const dead = yield* service.plant(label(ownerLabel({ ...here, startedAt: "1" }), "here", "r1"))
      const alive = yield* service.plant(label(ownerLabel({ ...here, pid: 1, startedAt: "0" }), "here", "other"))
      const foreign = yield* service.plant(label("x", "elsewhere", "r1"))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const mine = yield* provider.acquire(spec())
          const receipt = yield* provider.sweep({ run: "r1" })
          assert.deepStrictEqual(receipt, { provider: "simulated", removed: [dead], left: [], inUse: [mine.id] })
        })
      )
      assert.deepStrictEqual(yield* service.inventory, [alive, foreign])
      yield* left
    })
  )

  for (const path of ["/proc/sys/kernel/random/boot_id", `/proc/${process.pid}/stat`]) {
    live(
      `a sweep takes nobody for dead when ${path} cannot be read, whatever it names`,
      Effect.gen(function* () {
        const { provider, service } = yield* opened()
        const owner = ownerLabel(yield* Proc.self)
        const labels = Labels.encode({ attemptKey: "dh-0", deployment: "here", owner, metadata: { run: "r1" } })
        // As another program on this host sees it.
        const other = yield* Effect.provide(
          opened(),
          failingReads((each) => (each === path ? "EMFILE" : undefined))
        )
        const id = yield* other.service.plant(labels)
        for (const selector of [{}, { run: "r1" }]) {
          const receipt = yield* other.provider.sweep(selector)
          assert.deepStrictEqual([receipt.removed, receipt.inUse], [[], []])
          assert.strictEqual(receipt.left[0]?.id, id)
          assert.include(receipt.left[0]?.reason ?? "", `${path} could not be read: EMFILE`)
        }
        const [info] = [...(yield* Stream.runCollect(other.provider.list({})))]
        assert.strictEqual(info?.state, "running")
        assert.deepStrictEqual(yield* other.service.inventory, [id])
        yield* other.left
        // One that can read them sees that the label's program, which is this one, gave it up.
        const again = yield* service.plant(labels)
        assert.deepStrictEqual((yield* provider.sweep({})).removed, [again])
      })
    )
  }

  live(
    "nothing is created by a program that cannot tell its own name, and it can be told later",
    Effect.gen(function* () {
      let fails = true
      const { left, provider, service } = yield* Effect.provide(
        opened(),
        failingReads((path) => (fails && path.endsWith("/boot_id") ? "EMFILE" : undefined))
      )
      const error = yield* Effect.flip(Effect.scoped(provider.acquire(spec())))
      assert.strictEqual(error._tag, "SandboxCreateRejected")
      assert.match(error.message, /boot_id could not be read: EMFILE/)
      assert.strictEqual(yield* service.total, 0)
      fails = false
      yield* Effect.scoped(provider.acquire(spec()))
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a program on a system without /proc opens and closes as any other",
    Effect.gen(function* () {
      const { left, provider } = yield* Effect.provide(
        opened(),
        failingReads((path) => (path.startsWith("/proc") ? "ENOENT" : undefined))
      )
      yield* Effect.scoped(provider.acquire(spec()))
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "a sweep says what it cannot confirm",
    Effect.gen(function* () {
      const { provider, service } = yield* opened(
        { faults: { remove: () => true } },
        { ...settle, limit: "100 millis" }
      )
      const dead = yield* service.plant(
        Labels.encode({ attemptKey: "dh-0", deployment: "here", owner: "gone", metadata: {} })
      )
      const receipt = yield* provider.sweep({})
      assert.deepStrictEqual([receipt.removed, receipt.left.map(({ id }) => id)], [[], [dead]])
      assert.match(receipt.left[0]?.reason ?? "", /told to fail/)
    })
  )

  live(
    "a borrower detaches",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const mine = yield* provider.acquire(spec())
          yield* Effect.scoped(provider.borrow(mine.descriptor))
          assert.deepStrictEqual(yield* service.inventory, [mine.id])
        })
      )
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "one source, owners 0, 2 and 5: children in order, one that fails leaves the others",
    Effect.gen(function* () {
      const faults = ["none", "lost", "none"] as const
      const { left, provider, service } = yield* opened({ faults: { child: (index) => faults[index] ?? "none" } })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const source = yield* provider.acquire(spec())
          const children = yield* provider.fork(source, [0, 2, 5])
          assert.deepStrictEqual(
            children.map(({ child, owner }) => [owner, child._tag]),
            [
              [0, "Forked"],
              [2, "NotForked"],
              [5, "Forked"]
            ]
          )
          const ids = children.flatMap(({ child }) => (child._tag === "Forked" ? [child.sandbox.id] : []))
          assert.strictEqual(new Set([source.id, ...ids]).size, 3)
          // The lost child is found by the labels it has from its source.
          yield* Effect.repeat(Effect.delay(service.inventory, "5 millis"), { until: (all) => all.length === 3 })
          assert.sameMembers([...(yield* service.inventory)], [source.id, ...ids])
        })
      )
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "its time is extended as long as it is owned, and a sandbox that the service removed is gone",
    Effect.gen(function* () {
      const { left, provider, service } = yield* opened()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec({ ttl: Duration.millis(60) }))
          yield* Effect.repeat(Effect.delay(service.renewals, "5 millis"), { until: (count) => count >= 3 })
          yield* service.driver.remove(sandbox.id)
          const error = yield* Effect.flip(sandbox.gone)
          assert.strictEqual(error._tag, "SandboxGone")
        })
      )
      assert.deepStrictEqual(state(yield* left), nothing)
    })
  )

  live(
    "nothing is created when the ledger cannot be written",
    Effect.gen(function* () {
      const service = SimulatedService.make()
      const ledger = yield* Ledger.makeMemory
      const provider = yield* Lifecycle.make(service.driver, {
        ledger: { ...ledger, intend: () => new Ledger.LedgerError({ path: "/full", reason: "ENOSPC" }) },
        deployment: "here",
        settle
      })
      const error = yield* Effect.flip(provider.acquire(spec()))
      assert.match(error.message, /ENOSPC/)
      assert.strictEqual(yield* service.total, 0)
    }).pipe(Effect.scoped)
  )
})

const fault = FC.constantFrom<SimulatedService.CreateFault>(
  "none",
  "none",
  "none",
  "lost",
  "hang",
  "silent",
  "rejected",
  "rate_limited",
  "unavailable",
  "broken"
)

const schedule = FC.record({
  creates: FC.array(fault, { minLength: 4, maxLength: 4 }),
  children: FC.array(fault, { minLength: 3, maxLength: 3 }),
  starts: FC.array(FC.boolean(), { maxLength: 2 }),
  lists: FC.array(FC.boolean(), { maxLength: 8 }),
  removes: FC.array(FC.boolean(), { maxLength: 6 }),
  looks: FC.array(FC.boolean(), { maxLength: 6 }),
  removal: FC.option(FC.integer({ min: 1, max: 30 })),
  latency: FC.integer({ min: 0, max: 5 }),
  hang: FC.integer({ min: 1, max: 30 }),
  holders: FC.array(
    FC.record({
      interruptAfter: FC.option(FC.integer({ min: 0, max: 40 })),
      hold: FC.integer({ min: 0, max: 20 }),
      fork: FC.boolean()
    }),
    { minLength: 1, maxLength: 4 }
  )
})

describe("interrupt anywhere", () => {
  const count = 600
  live(
    `nothing is left after ${count} random schedules of faults and interruptions`,
    Effect.gen(function* () {
      let existed = 0
      yield* Effect.forEach(
        FC.sample(schedule, { numRuns: count, seed }),
        (plan) =>
          Effect.gen(function* () {
            const { left, provider, service } = yield* opened({
              faults: {
                create: (call) => plan.creates[call] ?? "none",
                child: (index) => plan.children[index] ?? "none",
                start: (call) => plan.starts[call] ?? false,
                list: (call) => plan.lists[call] ?? false,
                remove: (call) => plan.removes[call] ?? false,
                exists: (call) => plan.looks[call] ?? false
              },
              latency: plan.latency,
              hang: plan.hang,
              ...(plan.removal === null ? {} : { removal: plan.removal })
            })
            yield* Effect.forEach(
              plan.holders,
              ({ fork, hold, interruptAfter }) =>
                Effect.gen(function* () {
                  const sandbox = yield* provider.acquire(spec())
                  if (fork) {
                    yield* provider.fork(sandbox, [0, 2, 5])
                  }
                  yield* Effect.sleep(hold)
                }).pipe(
                  Effect.scoped,
                  Effect.either,
                  Effect.fork,
                  Effect.flatMap((fiber) =>
                    interruptAfter === null
                      ? Fiber.join(fiber)
                      : Effect.delay(Effect.asVoid(Fiber.interrupt(fiber)), interruptAfter)
                  )
                ),
              { concurrency: "unbounded" }
            )
            const after = yield* left
            existed += yield* service.total
            assert.deepStrictEqual(state(after), nothing, JSON.stringify(plan))
            assert.strictEqual(after.receipt.confirmed, after.receipt.created)
            assert.strictEqual(after.receipt.created, yield* service.total, JSON.stringify(plan))
          }),
        { concurrency: 30, discard: true }
      )
      assert.isAbove(existed, count)
    })
  )
})
