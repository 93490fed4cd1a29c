import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Gate from "../../src/rollout/internal/gate.js"

const groups = FastCheck.integer({ min: 0, max: 3 })

/** What somebody may do to a gate: ask for a place, give one back, stop asking, or change how many there are. */
const steps = FastCheck.array(
  FastCheck.oneof(
    FastCheck.record({ _tag: FastCheck.constant("take" as const), group: groups, weight: FastCheck.nat(2) }),
    FastCheck.record({ _tag: FastCheck.constant("grant" as const), group: groups }),
    FastCheck.record({ _tag: FastCheck.constant("release" as const), pick: FastCheck.nat() }),
    FastCheck.record({ _tag: FastCheck.constant("interrupt" as const), pick: FastCheck.nat() }),
    FastCheck.record({ _tag: FastCheck.constant("resize" as const), places: FastCheck.nat(5) }),
    FastCheck.record({ _tag: FastCheck.constant("pause" as const), paused: FastCheck.boolean() })
  ),
  { maxLength: 60 }
)

interface Asked {
  readonly group: number
  readonly fiber: Fiber.RuntimeFiber<string | undefined>
}

const settle = Effect.forEach([1, 2, 3], () => Effect.yieldNow(), { discard: true })

describe("Gate", () => {
  it.effect.prop(
    "gives out no more places than there are, none while it is paused, loses none, and lets nobody wait for a free one",
    { places: FastCheck.integer({ min: 1, max: 4 }), steps },
    ({ places, steps }) =>
      Effect.gen(function* () {
        const gate = Gate.make<string>(places)
        const asked: Array<Asked> = []
        let held = 0
        let limit = places
        let paused = false
        const isDone = ({ fiber }: Asked) => fiber.unsafePoll() !== null
        const holding = () => asked.filter(isDone)
        for (const step of steps) {
          const before = holding().length
          switch (step._tag) {
            case "take":
              asked.push({ group: step.group, fiber: yield* Effect.fork(gate.take(step.group, step.weight)) })
              break
            case "grant": {
              const free = !paused && before < limit && asked.length === before
              assert.strictEqual(gate.grant(step.group), free, "a place at once where one is free and nobody waits")
              if (free) asked.push({ group: step.group, fiber: yield* Effect.fork(Effect.succeed(undefined)) })
              break
            }
            case "release": {
              const all = holding()
              const one = all[step.pick % Math.max(1, all.length)]
              if (one === undefined) break
              asked.splice(asked.indexOf(one), 1)
              gate.release(one.group)
              break
            }
            case "interrupt": {
              const all = asked.filter((each) => !isDone(each))
              const one = all[step.pick % Math.max(1, all.length)]
              if (one === undefined) break
              asked.splice(asked.indexOf(one), 1)
              yield* Fiber.interrupt(one.fiber)
              break
            }
            case "resize":
              limit = step.places
              gate.resize(limit)
              break
            case "pause":
              paused = step.paused
              gate.pause(paused)
              break
          }
          yield* settle
          held = holding().length
          const { taken, waiting } = gate.state()
          assert.strictEqual(taken, held)
          assert.strictEqual(waiting, asked.length - held)
          assert.isTrue(held <= limit || held <= before, "more than there are were only taken before")
          if (paused) assert.isAtMost(held, before)
          else assert.isTrue(waiting === 0 || held >= limit, "somebody waits for a place that is free")
        }
        gate.close("over")
        assert.isFalse(gate.grant(0))
        yield* settle
        const told = yield* Effect.forEach(
          asked.filter((each) => gate.state().waiting === 0 && isDone(each)),
          ({ fiber }) => Fiber.join(fiber)
        )
        assert.strictEqual(told.length, asked.length)
        assert.strictEqual(told.filter((reason) => reason === undefined).length, held)
      })
  )

  it.effect("takes the heaviest first, then the group that has least, then who came first", () =>
    Effect.gen(function* () {
      const gate = Gate.make<string>(1)
      const order: Array<string> = []
      yield* gate.take(0, 0)
      const ask = (name: string, group: number, weight: number) =>
        Effect.fork(Effect.map(gate.take(group, weight), () => order.push(name)))
      yield* ask("same group", 0, 0)
      yield* ask("other group", 1, 0)
      yield* ask("other group, later", 1, 0)
      yield* ask("heavy", 0, 9)
      yield* settle
      gate.resize(2)
      yield* settle
      gate.resize(5)
      yield* settle
      assert.deepStrictEqual(order, ["heavy", "other group", "other group, later", "same group"])
    })
  )
})
