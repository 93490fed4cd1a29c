/** OSWorld's whole run, 361 tasks of 100 steps on 128 desktops, in virtual time. */
import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { Distribution, draw, sample } from "../../src/testing/Distribution.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"
import { collect } from "./virtualRun.js"

const tasks = 361
const steps = 100

/** A run in a folder of its own: what came of it, the virtual time, and its rows after sorting. */
const run = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const out = yield* fs.makeTempDirectoryScoped()
  const summary = yield* VirtualClock.run(
    Effect.zip(collect(out, tasks, steps, { concurrency: 128 }), Clock.currentTimeMillis)
  )
  const rows = (yield* fs.readFileString(`${out}/rollouts.jsonl`)).split("\n").filter((line) => line !== "")
  const failures = (yield* fs.readFileString(`${out}/failures.jsonl`)).split("\n").filter((line) => line !== "")
  return { summary, rows: rows.sort(), failures: failures.length }
}).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const digest = (rows: ReadonlyArray<string>) => createHash("sha256").update(rows.join("\n")).digest("hex")

describe("A whole run in virtual time", () => {
  it.live(
    "comes out the same, byte for byte, each time",
    () =>
      Effect.gen(function* () {
        const first = yield* run
        const [summary, virtual] = first.summary
        assert.strictEqual(first.rows.length, tasks)
        assert.deepInclude(summary, { finished: tasks, failed: 0, retried: first.failures })
        assert.isAbove(first.failures, 0, "some desktops did not open")
        // 100 steps of some 11 s are 19 minutes, and 361 of them on 128 desktops three rounds.
        assert.isAbove(virtual, 3_000_000)
        const second = yield* run
        assert.strictEqual(digest(second.rows), digest(first.rows))
      }),
    900_000
  )
})

describe("Virtual time", () => {
  it.live("wakes whoever sleeps in the order of their moments, and whoever is interrupted never", () =>
    VirtualClock.run(
      Effect.gen(function* () {
        const woken: Array<readonly [string, number]> = []
        const sleeper = (name: string, milliseconds: number) =>
          Effect.sleep(milliseconds).pipe(
            Effect.zipRight(Clock.currentTimeMillis),
            Effect.flatMap((now) => Effect.sync(() => void woken.push([name, now])))
          )
        yield* Effect.all(
          [
            sleeper("c", 3_600_000),
            sleeper("a", 5),
            Effect.timeoutOption(sleeper("never", 1_000), 500),
            sleeper("b", 700).pipe(Effect.zipRight(sleeper("d", 3_600_000)))
          ],
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(woken, [
          ["a", 5],
          ["b", 700],
          ["c", 3_600_000],
          ["d", 3_600_700]
        ])
      })
    )
  )

  it.effect.prop("passes as long as was slept", [FastCheck.array(FastCheck.nat(1e9), { maxLength: 40 })], ([naps]) =>
    VirtualClock.run(
      Effect.gen(function* () {
        yield* Effect.forEach(naps, (nap) => Effect.sleep(nap), { concurrency: "unbounded" })
        assert.strictEqual(yield* Clock.currentTimeMillis, Math.max(0, ...naps))
      })
    )
  )
})

describe("Distributions", () => {
  it("have the mean and the median that they are given", () => {
    const count = 20_000
    const samples = (distribution: Distribution) =>
      Array.from({ length: count }, (_, index) => sample(distribution, "test", index)).sort((a, b) => a - b)
    const uniform = samples(Distribution.Uniform({ from: 10, to: 20 }))
    assert.closeTo(uniform.reduce((sum, each) => sum + each, 0) / count, 15, 0.1)
    assert.isTrue((uniform[0] ?? 0) >= 10 && (uniform[count - 1] ?? 0) < 20)
    const normal = samples(Distribution.LogNormal({ median: 100, sigma: 0.5 }))
    assert.closeTo(normal[count / 2] ?? 0, 100, 2)
    // The standard normal distribution has 0.9772 of itself below 2 deviations.
    assert.closeTo(normal.filter((each) => each < 100 * Math.exp(1)).length / count, 0.9772, 0.005)
  })

  it.prop("draw the same for the same name, in [0, 1)", [FastCheck.array(FastCheck.string())], ([name]) => {
    const drawn = draw(...name)
    assert.strictEqual(draw(...name), drawn)
    assert.isTrue(drawn >= 0 && drawn < 1)
  })
})
