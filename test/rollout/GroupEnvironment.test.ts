import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { Decision } from "../../src/rollout/Agent.js"
import { type Environment, EnvironmentError } from "../../src/rollout/Environment.js"
import * as Episode from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import type { EvidenceRecord } from "../../src/rollout/Evidence.js"
import { fromOneState, type GroupOptions } from "../../src/rollout/GroupEnvironment.js"
import * as Row from "../../src/rollout/Row.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { Distribution } from "../../src/testing/Distribution.js"
import * as SimulatedDesktops from "../../src/testing/SimulatedDesktops.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"
import { seed } from "../seed.js"
import * as Simulator from "./simulator.js"

const needs = { accessibilityTree: false }

const owner = (rolloutIndex: number, attemptIndex = 0, taskIndex = 0): RolloutIdentity =>
  new RolloutIdentity({ ...Simulator.identity(taskIndex), rolloutIndex, attemptIndex })

/** Simulated desktops and the ids of those that are there, in the order in which they came. */
const desktops = (options: Partial<SimulatedDesktops.DesktopOptions> = {}) => {
  const there = new Set<string>()
  const environment = SimulatedDesktops.make({
    seed: String(seed),
    copies: true,
    ...options,
    hold: ({ rolloutId }) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => there.add(rolloutId)),
          () => Effect.sync(() => there.delete(rolloutId))
        )
      )
  })
  return { environment, there }
}

/** Opens in a scope of its own. */
const opened = <A>(environment: Environment<A>, identity: RolloutIdentity, row: TaskRow = Simulator.row()) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const session = yield* Effect.either(Scope.extend(environment.open(row, identity, needs), scope))
    return { session, close: Scope.close(scope, Exit.void) }
  })

const refused = <A>(environment: Environment<A>, identity: RolloutIdentity, row?: TaskRow) =>
  Effect.map(opened(environment, identity, row), ({ session }) =>
    Either.match(session, { onLeft: ({ fault, reason }) => `${fault}: ${reason}`, onRight: () => "opened" })
  )

const grouped = (options: GroupOptions, more: Partial<SimulatedDesktops.DesktopOptions> = {}) =>
  Effect.gen(function* () {
    const simulated = desktops(more)
    return { ...simulated, group: yield* fromOneState(simulated.environment, options) }
  })

describe("GroupEnvironment.fromOneState", () => {
  it.scoped("prepares one desktop, copies it for exactly the active owners, and gives each its own", () =>
    Effect.gen(function* () {
      const asked: Array<ReadonlyArray<number>> = []
      const { environment, there } = desktops()
      const { openGroup } = environment
      assert.isDefined(openGroup)
      const group = yield* fromOneState(
        {
          ...environment,
          open: () => Effect.dieMessage("no owner is opened by itself"),
          openGroup: (row, identities, needs) => {
            asked.push(identities.map(({ rolloutIndex }) => rolloutIndex))
            return openGroup?.(row, identities, needs) ?? Effect.die("there is one")
          }
        },
        { groupSize: 8, active: () => [0, 2, 5] }
      )
      const members = yield* Effect.forEach([5, 0, 2], (index) => opened(group, owner(index)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(asked, [[0, 2, 5]])
      assert.deepStrictEqual([...there], ["0-0", "0-2", "0-5"])
      assert.strictEqual(new Set(members.map(({ session }) => Either.getOrThrow(session))).size, 3)
      // Each goes by itself, the one that was copied too.
      yield* members[1]?.close ?? Effect.void
      assert.deepStrictEqual([...there], ["0-2", "0-5"])
      yield* members[0]?.close ?? Effect.void
      assert.deepStrictEqual([...there], ["0-2"])
      yield* members[2]?.close ?? Effect.void
      assert.deepStrictEqual([...there], [])
    })
  )

  it.scoped("lets each owner come once, and only those that are meant", () =>
    Effect.gen(function* () {
      let active = [0, 1]
      const { group } = yield* grouped({ groupSize: 3, active: () => active })
      assert.strictEqual(yield* refused(group, owner(0)), "opened")
      assert.include(yield* refused(group, owner(0)), "the place of owner 0 of group task-0:0 is taken")
      assert.include(yield* refused(group, owner(2)), "task: owner 2 is none of the active ones, [0, 1]")
      active = [0, 1, 2]
      assert.include(yield* refused(group, owner(1)), "[0, 1, 2], and [0, 1] were dispatched")
      active = [1, 0]
      assert.include(yield* refused(group, owner(1)), "no ascending owners")
      active = []
      assert.include(yield* refused(group, owner(1)), "no ascending owners")
      active = [0, 1]
      assert.strictEqual(yield* refused(group, owner(1)), "opened")
      // Another task's group is another group.
      assert.strictEqual(yield* refused(group, owner(0, 0, 1), Simulator.row(1)), "opened")
    })
  )

  it.scoped("opens no copy for an owner that an earlier run has scored or begun", () =>
    Effect.gen(function* () {
      const score = { reward: 1, score: 1, steps: 1, termination: "agent_done", milliseconds: 1 }
      const finished = {
        scored: new Map([
          ["0-0", score],
          ["1-3", score]
        ]),
        attempts: new Map([["0-2", 1]])
      }
      const { environment, there } = desktops()
      const group = yield* fromOneState(environment, { groupSize: 4, finished })
      // This one was stopped in the middle: its next attempt is a desktop of its own.
      const again = yield* opened(group, owner(2, 1))
      assert.deepStrictEqual([...there], ["0-2-a1"])
      yield* again.close
      const first = yield* opened(group, owner(3))
      assert.deepStrictEqual([...there], ["0-1", "0-3"])
      assert.deepStrictEqual(group.origin?.(Simulator.row(), owner(3))?.activeIndices, [1, 3])
      yield* first.close
      assert.deepStrictEqual([...there], ["0-1"])
      const second = yield* opened(group, owner(1))
      yield* second.close
      assert.deepStrictEqual([...there], [])
      assert.include(yield* refused(group, owner(0)), "owner 0 is none of the active ones, [1, 3]")
      // A caller that says itself which owners and which attempt are meant is heard, too.
      const named = yield* fromOneState(environment, { groupSize: 4, finished, active: () => [0, 1, 2] })
      const later = new TaskRow({ ...Simulator.row(), attemptIndex: 1 })
      const third = yield* opened(named, owner(2, 1), later)
      assert.deepStrictEqual([...there], ["0-1-a1", "0-2-a1"])
      yield* third.close
    })
  )

  it.scoped("gives up what nobody comes for, after the claim timeout and not before", () =>
    Effect.gen(function* () {
      const { group, there } = yield* grouped({ groupSize: 3, claimTimeout: "5 minutes" })
      const first = yield* opened(group, owner(1))
      assert.strictEqual(there.size, 3)
      yield* TestClock.adjust("299 seconds")
      assert.strictEqual(there.size, 3)
      assert.strictEqual(yield* refused(group, owner(0)), "opened")
      yield* TestClock.adjust("1 seconds")
      assert.deepStrictEqual([...there], ["0-0", "0-1"])
      assert.include(yield* refused(group, owner(2)), "given up 5m after it was there")
      yield* first.close
      assert.deepStrictEqual([...there], ["0-0"])
    })
  )

  it.scoped("removes everything of a group that cannot be opened, tells each owner, and begins anew", () =>
    Effect.gen(function* () {
      let broken = true
      const { environment, there } = desktops({ latency: { copy: Distribution.Fixed({ milliseconds: 1000 }) } })
      const { openGroup } = environment
      const group = yield* fromOneState(
        {
          ...environment,
          openGroup: (row, identities, needs) =>
            Effect.tap(openGroup?.(row, identities, needs) ?? Effect.die("there is one"), () =>
              broken
                ? new EnvironmentError({ phase: "open", fault: "infrastructure", reason: "a copy does not answer" })
                : Effect.void
            )
        },
        { groupSize: 2 }
      )
      const both = yield* Effect.fork(
        Effect.forEach([0, 1], (index) => refused(group, owner(index)), { concurrency: "unbounded" })
      )
      yield* TestClock.adjust("1 seconds")
      assert.deepStrictEqual(yield* Fiber.join(both), Array(2).fill("infrastructure: a copy does not answer"))
      assert.strictEqual(there.size, 0)
      broken = false
      const again = yield* Effect.fork(refused(group, owner(0)))
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(yield* Fiber.join(again), "opened")
      assert.strictEqual(there.size, 2)
    })
  )

  it.scoped("prepares each owner by itself where there are no copies, and a later attempt always", () =>
    Effect.gen(function* () {
      const replay = yield* grouped({ groupSize: 2 }, { copies: false })
      const first = yield* opened(replay.group, owner(0))
      assert.deepStrictEqual([...replay.there], ["0-0"])
      assert.include(yield* refused(replay.group, owner(0)), "is taken")
      yield* first.close
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* refused(replay.group, owner(1)), "opened")

      const { group, there } = yield* grouped({ groupSize: 2 })
      const later = yield* opened(group, owner(1, 1))
      assert.deepStrictEqual([...there], ["0-1-a1"])
      yield* later.close
      assert.strictEqual(there.size, 0)
    })
  )

  it.scoped("goes on while an owner is left, and stops at once when none is", () =>
    Effect.gen(function* () {
      const minute = Distribution.Fixed({ milliseconds: 60_000 })
      const { group, there } = yield* grouped({ groupSize: 2 }, { latency: { open: minute } })
      const [a, b] = [yield* Effect.fork(opened(group, owner(0))), yield* Effect.fork(refused(group, owner(1)))]
      yield* TestClock.adjust("30 seconds")
      yield* Fiber.interrupt(a)
      assert.strictEqual(there.size, 1)
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* Fiber.join(b), "opened")

      const other = yield* grouped({ groupSize: 2 }, { latency: { open: minute } })
      const both = yield* Effect.forEach([0, 1], (index) =>
        Effect.fork(Effect.scoped(other.group.open(Simulator.row(), owner(index), needs)))
      )
      yield* TestClock.adjust("30 seconds")
      yield* Fiber.interruptAll(both)
      assert.strictEqual(other.there.size, 0)
    })
  )

  it.scoped("writes how a rollout came to its state into evidence and row", () =>
    Effect.gen(function* () {
      const told = (environment: Environment<string>, identity: RolloutIdentity) =>
        Effect.gen(function* () {
          const records: Array<EvidenceRecord> = []
          const outcome = yield* Episode.program({
            environment,
            agent: Simulator.agent([], [[Decision.Done()]]),
            limits: EpisodeLimits.make({ maxSteps: 1 })
          })(Simulator.row(), identity).pipe(Effect.provide(Simulator.evidence(records)))
          const [head] = records
          const row = Row.encode(outcome, Simulator.row(), { model: "m" })
          return [
            head?._tag === "Started" ? head.origin : undefined,
            row["environment_origin"],
            row["_ng_active_generation_indices"]
          ]
        })
      const plain = Simulator.environment([])
      const forking: Environment<string> = {
        ...plain,
        openGroup: (row, identities, needs) =>
          Effect.forEach(identities, (identity) =>
            Effect.map(plain.open(row, identity, needs), (session) => ({ identity, session, release: Effect.void }))
          )
      }
      const forked = yield* fromOneState(forking, { groupSize: 2 })
      const both = yield* Effect.forEach([0, 1], (index) => told(forked, owner(index)), { concurrency: 2 })
      const group = "task-0:0"
      assert.deepEqual(both, [
        [{ kind: "fork", group, activeIndices: [0, 1] }, { kind: "fork", group, parent_index: null }, [0, 1]],
        [{ kind: "fork", group, activeIndices: [0, 1], parent: 0 }, { kind: "fork", group, parent_index: 0 }, [0, 1]]
      ])
      assert.deepEqual(yield* told(forked, owner(1, 1)), [
        { kind: "fresh", group, activeIndices: [1] },
        { kind: "fresh", group, parent_index: null },
        [1]
      ])
      const replayed = yield* fromOneState(plain, { groupSize: 2 })
      assert.deepEqual(yield* told(replayed, owner(1)), [
        { kind: "replay", group, activeIndices: [0, 1] },
        { kind: "replay", group, parent_index: null },
        [0, 1]
      ])
      assert.deepEqual(yield* told(plain, owner(1)), [undefined, undefined, undefined])
    })
  )

  it("leaves nothing wherever it is interrupted", () => {
    const moment = FC.nat({ max: 60 })
    const owners = FC.array(FC.record({ comes: moment, stays: moment, interrupted: FC.boolean() }), {
      minLength: 1,
      maxLength: 5
    })
    const test = FC.asyncProperty(
      FC.record({ owners, present: FC.boolean(), faults: FC.boolean(), run: FC.integer({ min: 1 }), closes: moment }),
      ({ closes, faults, owners, present, run }) =>
        Effect.gen(function* () {
          const span = Distribution.Uniform({ from: 0, to: 30 })
          const { environment, there } = desktops({
            seed: `${seed}-${run}`,
            latency: { open: span, copy: span, close: span },
            faults: faults ? { open: 0.2, copy: 0.2 } : {}
          })
          yield* Effect.scoped(
            Effect.gen(function* () {
              const group = yield* fromOneState(environment, {
                groupSize: owners.length + (present ? 0 : 1),
                claimTimeout: 40
              })
              const fibers = yield* Effect.forEach(owners, ({ comes, interrupted, stays }, index) =>
                Effect.gen(function* () {
                  yield* Effect.sleep(comes)
                  const life = yield* Effect.fork(
                    Effect.scoped(
                      Effect.gen(function* () {
                        yield* group.open(Simulator.row(), owner(index), needs)
                        assert.isTrue(there.has(`0-${index}`))
                        assert.isAtMost(there.size, owners.length + 1)
                        yield* Effect.sleep(interrupted ? 1000 : stays)
                      })
                    )
                  )
                  if (interrupted) yield* Effect.delay(Fiber.interrupt(life), stays)
                  else yield* Effect.exit(Fiber.join(life))
                }).pipe(Effect.fork)
              )
              const all = Fiber.joinAll(fibers)
              // Sometimes the whole run ends before its owners do.
              if (closes % 2 === 0) yield* all
              else yield* Effect.sleep(closes).pipe(Effect.zipRight(Fiber.interruptAll(fibers)))
            })
          )
          assert.deepStrictEqual([...there], [])
        }).pipe(VirtualClock.run, Effect.runPromise)
    )
    return FC.assert(test, { numRuns: 200, seed })
  })

  it.scoped("has owners wait for nothing once the groups are closed", () =>
    Effect.gen(function* () {
      const { environment, there } = desktops({ latency: { open: Distribution.Fixed({ milliseconds: 60_000 }) } })
      const scope = yield* Scope.make()
      const group = yield* Scope.extend(fromOneState(environment, { groupSize: 2 }), scope)
      const waits = yield* Effect.fork(refused(group, owner(0)))
      yield* TestClock.adjust("1 seconds")
      yield* Scope.close(scope, Exit.void)
      assert.include(yield* Fiber.join(waits), "the group was closed")
      assert.strictEqual(there.size, 0)
      assert.include(yield* refused(group, owner(1)), "the groups are closed")
    })
  )
})
