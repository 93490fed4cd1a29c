import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import {
  Admission,
  admit,
  gatedCapacity,
  type Sampler,
  type Slot,
  select,
  WindowLimits,
  weightsInReach
} from "../../src/training/Window.js"

const windowed = (maxStaleness: number, freshestFirst = false): Sampler => ({
  name: "windowed",
  maxStaleness,
  freshestFirst
})

/** `ready 3` as `r3`, in flight as `f3`. */
const slots = (...short: ReadonlyArray<string>): ReadonlyArray<Slot> =>
  short.map((slot) => ({ ready: slot.startsWith("r"), start: Number(slot.slice(1)) }))

const right = <A, E>(either: Either.Either<A, E>): A => Either.getOrThrowWith(either, (error) => error)

// The samplers and their defaults are NeMo RL's (staleness_sampler), training-vectors.json `ctl.*`.
describe("selection", () => {
  const six = slots("r3", "r5", "f4", "r6", "r4", "r5")
  const at = (sampler: Sampler, min: number, max: number) => right(select(sampler, six, { version: 5, min, max }))

  it("takes what is in the window and ready, in order (training-vectors.json `ctl.windowed_selection`)", () => {
    assert.deepStrictEqual(at(windowed(1), 1, 2), { selected: [1, 4], evicted: [0], aborted: [] })
    assert.deepStrictEqual(at(windowed(1, true), 1, 2), { selected: [1, 5], evicted: [0], aborted: [] })
    assert.deepStrictEqual(at(windowed(1), 4, 4), { selected: undefined, evicted: [0], aborted: [] })
  })

  it("gives up what is in flight below a windowed sampler's window, and only there", () => {
    const old = slots("f3", "r5", "r2")
    const bounds = { version: 5, min: 1, max: 9 }
    assert.deepStrictEqual(right(select(windowed(1), old, bounds)), { selected: [1], evicted: [2], aborted: [0] })
    const fifo: Sampler = { name: "weight_fifo", window: 1 }
    assert.deepStrictEqual(right(select(fifo, old, bounds)), { selected: [1], evicted: [2], aborted: [] })
  })

  it("trains the oldest weights first and waits for the last of them (weight_fifo)", () => {
    const fifo: Sampler = { name: "weight_fifo", window: 1 }
    const bounds = { version: 5, min: 2, max: 9 }
    assert.deepStrictEqual(right(select(fifo, slots("r4", "r5", "r5", "f4"), bounds)).selected, undefined)
    assert.deepStrictEqual(right(select(fifo, slots("r4", "r5", "r5", "r4"), bounds)).selected, [0, 3])
    assert.deepStrictEqual(right(select(fifo, slots("r3", "r5", "r5"), bounds)), {
      selected: [1, 2],
      evicted: [0],
      aborted: []
    })
  })

  it("takes whatever is ready and evicts nothing (ready_first)", () => {
    const first: Sampler = { name: "ready_first", window: 1 }
    assert.deepStrictEqual(right(select(first, slots("r0", "f1", "r6", "r5"), { version: 5, min: 1, max: 9 })), {
      selected: [0, 3],
      evicted: [],
      aborted: []
    })
  })

  it("trains a group at the step that it is stamped with (in_order)", () => {
    const inOrder: Sampler = { name: "in_order", window: 1 }
    const stamped = [
      { start: 3, ready: true, targetStep: 4 },
      { start: 4, ready: true, targetStep: 5 },
      { start: 4, ready: false, targetStep: 4 },
      { start: 5, ready: true, targetStep: 6 },
      { start: 4, ready: true, targetStep: 5 }
    ]
    assert.deepStrictEqual(right(select(inOrder, stamped, { version: 5, min: 2, max: 2 })), {
      selected: [1, 4],
      evicted: [0],
      aborted: []
    })
    const error = Either.getOrThrow(Either.flip(select(inOrder, slots("r5"), { version: 5, min: 1, max: 1 })))
    assert.strictEqual(error.slot, 0)
    assert.include(error.message, "stamped for no step")
  })

  it("refuses bounds and weights that make no sense", () => {
    const told = (bounds: { version: number; min: number; max: number }, given: ReadonlyArray<Slot> = []) =>
      Either.match(select(windowed(1), given, bounds), { onLeft: ({ message }) => message, onRight: () => "" })
    assert.include(told({ version: -1, min: 1, max: 1 }), "version is -1")
    assert.include(told({ version: 1, min: 0, max: 1 }), "at least 0")
    assert.include(told({ version: 1, min: 3, max: 2 }), "at most 2")
    assert.include(told({ version: 1, min: 1, max: Number.NaN }), "at most NaN")
    assert.include(told({ version: 1, min: 1, max: 1 }, slots("r-1")), "slot 0")
    assert.strictEqual(told({ version: 1, min: 1, max: Number.POSITIVE_INFINITY }), "")
  })

  const anySampler: FC.Arbitrary<Sampler> = FC.oneof(
    FC.record({ maxStaleness: FC.nat(3), freshestFirst: FC.boolean() }).map(
      (_): Sampler => ({ name: "windowed", ..._ })
    ),
    FC.record({
      name: FC.constantFrom("in_order" as const, "weight_fifo" as const, "ready_first" as const),
      window: FC.nat(3)
    })
  )
  const anySlots = FC.array(FC.record({ start: FC.nat(8), ready: FC.boolean(), targetStep: FC.nat(8) }), {
    maxLength: 12
  })

  it("never selects what is not ready, not in reach or given up; never too few or too many", () => {
    FC.assert(
      FC.property(
        anySampler,
        anySlots,
        FC.nat(8),
        FC.integer({ min: 1, max: 4 }),
        FC.nat(4),
        (sampler, given, version, min, more) => {
          const { aborted, evicted, selected } = right(select(sampler, given, { version, min, max: min + more }))
          const gone = [...(selected ?? []), ...evicted, ...aborted]
          assert.strictEqual(new Set(gone).size, gone.length)
          if (selected !== undefined) {
            assert.isAtLeast(selected.length, min)
            assert.isAtMost(selected.length, min + more)
          }
          const [oldest, newest] = weightsInReach(sampler, version)
          for (const index of selected ?? []) {
            assert.isTrue(given[index]?.ready)
            if (sampler.name === "in_order") assert.strictEqual(given[index]?.targetStep, version)
            else assert.isTrue(oldest <= Number(given[index]?.start) && Number(given[index]?.start) <= newest)
          }
          for (const index of evicted) assert.isTrue(given[index]?.ready)
          for (const index of aborted) assert.isFalse(given[index]?.ready)
        }
      )
    )
  })
})

describe("admission", () => {
  it("lets a step's groups in while the trainer is near (training-vectors.json `ctl.in_order_gate`)", () => {
    const trace: Array<unknown> = []
    let version = 0
    let dispatched = 0
    for (let dispatch = 0; dispatch < 4; dispatch++) {
      let waited = 0
      for (;;) {
        const decided = admit(
          { name: "in_order", window: 1 },
          { dispatched, version, buffered: 0, maxBuffered: Number.POSITIVE_INFINITY }
        )
        if (decided._tag === "Admit") {
          trace.push({
            dispatch,
            target_step: decided.targetStep,
            trainer_version_at_admit: version,
            waited_for_versions: waited
          })
          dispatched = decided.dispatched
          break
        }
        assert.deepStrictEqual(decided, Admission.WaitForVersion({ version: version + 1 }))
        version += 1
        waited += 1
      }
    }
    assert.deepStrictEqual(trace, [
      { dispatch: 0, target_step: 0, trainer_version_at_admit: 0, waited_for_versions: 0 },
      { dispatch: 1, target_step: 1, trainer_version_at_admit: 0, waited_for_versions: 0 },
      { dispatch: 2, target_step: 2, trainer_version_at_admit: 1, waited_for_versions: 1 },
      { dispatch: 3, target_step: 3, trainer_version_at_admit: 2, waited_for_versions: 1 }
    ])
    assert.strictEqual(gatedCapacity(8, 1), 16)
  })

  it("holds a windowed sampler by room alone", () => {
    const state = { dispatched: 100, version: 0, maxBuffered: 8 }
    assert.deepStrictEqual(admit(windowed(1), { ...state, buffered: 7 }), {
      ...Admission.Admit({ dispatched: 101, targetStep: undefined })
    })
    assert.deepStrictEqual(admit(windowed(1), { ...state, buffered: 8 }), Admission.WaitForRoom())
  })

  it("has the defaults of the field", () => {
    assert.deepStrictEqual({ ...new WindowLimits({}) }, { minGroups: 32, maxInFlight: 32, maxBuffered: 64 })
  })
})
