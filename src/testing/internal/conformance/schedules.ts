/**
 * Random schedules of interruptions and faults, after which nothing may be left.
 *
 * Schedules run in rounds, some at a time. Those of a round share the service, and with it its faults: a fault is met by
 * whichever of them asks next. What nobody has met when a round's ledger entries are closed is cleared, so that it is
 * no fault of the next round, and no fault of the look at what is left.
 */
import { assert, describe } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { Ledger } from "../../../sandbox/Ledger.js"
import { SandboxProvider } from "../../../sandbox/SandboxProvider.js"
import type { Faults } from "../../ProviderConformance.js"
import { freshRun, nothing, type Suite } from "./suite.js"

export interface Options<R> {
  readonly schedules: number
  readonly concurrency: number
  readonly seed: number
  readonly faults: Faults<R>
  readonly leftovers: Effect.Effect<ReadonlyArray<string>, never, R>
}

/** Up to this, evenly: fast-check draws half of all doubles from just above 0. */
const share = (most: number) => FC.noBias(FC.integer({ min: 0, max: 1000 })).map((part) => (part * most) / 1000)

/** A share of what an acquire takes: it may be over by then. */
const moment = share(1.5)

/** Half of them are there before anything begins: a create is over so soon that hardly any other would meet it. */
const faultAt = FC.oneof(FC.constant(0), moment)

/** One of the names in about this share of all cases; none otherwise. */
const sometimes = (share: number, names: ReadonlyArray<string>): FC.Arbitrary<string | null> =>
  names.length === 0
    ? FC.constant(null)
    : FC.oneof(
        { weight: Math.round(100 * (1 - share)), arbitrary: FC.constant(null) },
        { weight: Math.round(100 * share), arbitrary: FC.constantFrom(...names) }
      )

/** What each of some holders does, and what goes wrong meanwhile. */
const plans = (faults: ReadonlyArray<string>, specs: ReadonlyArray<string>) =>
  FC.record({
    holders: FC.array(
      FC.record({
        beginAt: moment,
        /** After its begin. */
        interruptAt: FC.option(moment),
        hold: share(0.3),
        fails: FC.boolean(),
        spec: sometimes(0.15, specs)
      }),
      { minLength: 1, maxLength: 3 }
    ),
    faults:
      faults.length === 0
        ? FC.constant([])
        : FC.array(FC.record({ fault: FC.constantFrom(...faults), at: faultAt }), { maxLength: 3 })
  })

type Plan = ReturnType<typeof plans> extends FC.Arbitrary<infer A> ? A : never

const rounds = (all: ReadonlyArray<Plan>, size: number): ReadonlyArray<ReadonlyArray<Plan>> =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size))

export const schedules = <R>(
  { settled, spec }: Suite,
  options: Options<R>,
  check: (title: string, test: Effect.Effect<void, unknown, SandboxProvider | Ledger | R>) => void
): void => {
  const { concurrency, faults, seed } = options
  const inject = faults.inject ?? {}
  const specs = faults.specs ?? {}
  const clear = faults.clear ?? Effect.void

  const run = Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const ledger = yield* Ledger
    const all = FC.sample(plans(Object.keys(inject), Object.keys(specs)), { numRuns: options.schedules, seed })
    const before = yield* ledger.receipt(provider.name)
    const runs = new Set<string>()

    const open = (labels: ReadonlySet<string>) =>
      Effect.map(ledger.open, (entries) =>
        entries
          .filter(({ metadata }) => labels.has(metadata["run"] ?? ""))
          .map(({ attemptKey, reason, sandboxId }) => ({ attemptKey, reason, sandboxId }))
      )
    const inventory = (labels: ReadonlySet<string>) =>
      Effect.map(Stream.runCollect(provider.list({})), (found) =>
        [...found].filter(({ metadata }) => labels.has(metadata["run"] ?? "")).map(({ id }) => id)
      )
    const until = <A, E, R2>(effect: Effect.Effect<A, E, R2>, done: (seen: A) => boolean) =>
      effect.pipe(
        Effect.repeat({ until: done, schedule: Schedule.spaced("20 millis") }),
        Effect.timeoutOption(settled),
        Effect.zipRight(effect)
      )

    // As many at once as a round has, because that is how long an acquire takes there; the first of all takes longer.
    const warm = yield* freshRun
    const once = Effect.scoped(provider.acquire(spec({ metadata: { run: warm } })))
    yield* once
    const [took] = yield* Effect.timed(
      Effect.replicateEffect(once, concurrency, { concurrency: "unbounded", discard: true })
    )
    const whole = Math.max(10, Duration.toMillis(took))

    const holder = (label: string, { beginAt, fails, hold, interruptAt, spec: spoiled }: Plan["holders"][number]) =>
      provider.acquire(spec({ ...(spoiled === null ? {} : specs[spoiled]), metadata: { run: label } })).pipe(
        Effect.zipRight(Effect.sleep(hold * whole)),
        Effect.zipRight(fails ? Effect.fail("the holder fails") : Effect.void),
        Effect.scoped,
        // However it ends: what counts is what is left.
        Effect.exit,
        Effect.fork,
        Effect.flatMap((fiber) =>
          interruptAt === null
            ? Effect.asVoid(Fiber.await(fiber))
            : Effect.delay(Effect.asVoid(Fiber.interrupt(fiber)), interruptAt * whole)
        ),
        Effect.delay(beginAt * whole)
      )

    const schedule = ({ faults, holders }: Plan, label: string) =>
      Effect.all(
        [
          Effect.forEach(faults, ({ at, fault }) => Effect.delay(inject[fault] ?? Effect.void, at * whole), {
            concurrency: "unbounded",
            discard: true
          }),
          Effect.forEach(holders, (each) => holder(label, each), { concurrency: "unbounded", discard: true })
        ],
        { concurrency: "unbounded", discard: true }
      )

    yield* Effect.forEach(
      rounds(all, concurrency),
      (round) =>
        Effect.gen(function* () {
          const labels = new Set<string>()
          yield* Effect.forEach(
            round,
            (plan) =>
              Effect.gen(function* () {
                const label = yield* freshRun
                labels.add(label)
                runs.add(label)
                yield* schedule(plan, label)
              }),
            { concurrency: "unbounded", discard: true }
          )
          // The reaper's work alone: no sweep, and no look of ours that would meet its faults.
          const entries = yield* until(open(labels), (found) => found.length === 0)
          yield* clear
          assert.deepStrictEqual(
            { inventory: yield* inventory(labels), open: entries },
            nothing,
            `after ${JSON.stringify(round)}`
          )
        }),
      { discard: true }
    )

    // What a create that hung has left may have come since its round was over.
    assert.deepStrictEqual({ inventory: yield* inventory(runs), open: yield* open(runs) }, nothing)
    const left = yield* until(options.leftovers, (found) => found.length === 0)
    assert.deepStrictEqual(left, [])
    const receipt = yield* ledger.receipt(provider.name)
    assert.strictEqual(receipt.confirmed, receipt.created)
    assert.deepStrictEqual(receipt.left, [])
    const existed = receipt.created - before.created
    assert.isAtLeast(existed, concurrency)
    const holders = all.flatMap((plan) => plan.holders)
    yield* Effect.logInfo(
      `${provider.name}: ${all.length} schedules (seed ${seed}), ${holders.length} holders, ` +
        `${holders.filter(({ interruptAt }) => interruptAt !== null).length} interruptions, ` +
        `${all.flatMap((plan) => plan.faults).length} faults, ` +
        `${holders.filter((each) => each.spec !== null).length} spoiled specs; ` +
        `${existed} sandboxes existed, 0 are left`
    )
  })

  describe("interrupt anywhere", () => {
    check(`nothing is left after ${options.schedules} random schedules (seed ${seed})`, run)
  })
}
