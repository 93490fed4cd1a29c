import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { accepts, type Entry, next, open, type Standing } from "../../src/rollout/Journal.js"

const common = (attempt: number, rollout = "0-0") => ({ v: 1, at: 0, rollout, attempt }) as const

const dispatched = (attempt: number, rollout?: string): Entry => ({
  ...common(attempt, rollout),
  state: "dispatched",
  task: "t"
})

const finished = (attempt: number): Entry => ({
  ...common(attempt),
  state: "finished",
  reward: 1,
  score: 1,
  steps: 1,
  termination: "agent_done",
  milliseconds: 1
})

const failed = (attempt: number): Entry => ({
  ...common(attempt),
  state: "failed",
  class: "model",
  kind: "model_timeout",
  cause: "",
  disposition: "retryable"
})

const unresolved = (attempt: number, rowMissing?: true): Entry => ({
  ...common(attempt),
  state: "unresolved",
  cause: "",
  ...(rowMissing === undefined ? {} : { rowMissing })
})

const entries = FastCheck.array(
  FastCheck.tuple(
    FastCheck.integer({ min: 0, max: 4 }),
    FastCheck.constantFrom(dispatched, finished, failed, (attempt: number) => unresolved(attempt))
  ).map(([attempt, make]) => make(attempt)),
  { maxLength: 30 }
)

const fold = (all: ReadonlyArray<Entry>): Standing | undefined =>
  all.reduce<Standing | undefined>((state, entry) => (accepts(state, entry) ? next(state, entry) : state), undefined)

const withFolder = <A, E>(test: (out: string) => Effect.Effect<A, E, FileSystem.FileSystem>) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.flatMap(fs.makeTempDirectoryScoped(), test)).pipe(
    Effect.scoped,
    Effect.provide(NodeContext.layer)
  )

describe("Journal", () => {
  it.prop("never goes back to an older attempt, whatever comes late", { entries }, ({ entries }) => {
    let state: Standing | undefined
    for (const entry of entries) {
      const before = state
      state = fold(before === undefined ? [entry] : [before.last, entry])
      assert.isAtLeast(state?.last.attempt ?? 0, before?.last.attempt ?? 0)
    }
  })

  it.prop(
    "a finished rollout stays as it is, unless its row is gone",
    { before: entries, late: entries },
    ({ before, late }) => {
      const state = fold([...before, finished(5)])
      assert.strictEqual(state?.last.state, "finished")
      for (const entry of late) assert.isFalse(accepts(state, entry))
      const attempt = state?.last.attempt ?? 0
      assert.isTrue(accepts(state, unresolved(attempt, true)))
      assert.isFalse(accepts(state, unresolved(attempt + 1, true)))
    }
  )

  it.prop("saying it again changes nothing", { entries }, ({ entries }) => {
    assert.deepStrictEqual(fold(entries.flatMap((entry) => [entry, entry])), fold(entries))
  })

  it("takes a row that turns up late as long as there is no newer attempt", () => {
    assert.strictEqual(fold([dispatched(0), unresolved(0), finished(0)])?.last.state, "finished")
    assert.strictEqual(fold([dispatched(0), unresolved(0), dispatched(1), finished(0)])?.last.state, "dispatched")
    assert.deepStrictEqual(fold([dispatched(0), failed(0), dispatched(1), failed(1), failed(0)])?.failures, {
      model: 2
    })
  })

  it("counts attempts that have no known end, but none that was stopped, whose row turned up, or whose row is gone", () => {
    const stopped = (attempt: number): Entry => ({ ...common(attempt), state: "unresolved", cause: "", stopped: true })
    const count = (...all: ReadonlyArray<Entry>) => fold(all)?.failures.unresolved ?? 0
    assert.strictEqual(count(dispatched(0), unresolved(0), dispatched(1), unresolved(1), dispatched(2)), 2)
    assert.strictEqual(count(dispatched(0), stopped(0), dispatched(1), stopped(1)), 0)
    assert.strictEqual(count(dispatched(0), unresolved(0), finished(0)), 0)
    assert.deepStrictEqual(fold([dispatched(0), unresolved(0), failed(0)])?.failures, { unresolved: 0, model: 1 })
    assert.strictEqual(count(dispatched(0), finished(0), unresolved(0, true)), 0)
    const givenUp: Entry = {
      ...failed(1),
      state: "failed",
      class: "unresolved",
      disposition: "terminal",
      kind: "",
      cause: ""
    }
    // What is said of the last of them is no attempt more.
    assert.strictEqual(count(dispatched(0), unresolved(0), dispatched(1), unresolved(1), givenUp), 2)
  })

  it.effect("reads back what it wrote, past a torn end and lines that are none of its own", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const path = `${out}/journal.jsonl`
        yield* Effect.scoped(
          Effect.gen(function* () {
            const journal = yield* open(path)
            const written = [
              dispatched(0),
              failed(0),
              dispatched(1),
              failed(0),
              // U+2028 ends a line for some; here only \n does.
              dispatched(0, "1-0 \u2028 \u0085")
            ]
            const taken = yield* Effect.forEach(written, (entry) => journal.append(entry))
            assert.deepStrictEqual(taken, [true, true, true, false, true])
          })
        )
        yield* fs.writeFileString(path, '{"v": 2}\nnonsense\n{"v":1,"at":0,"roll', { flag: "a" })
        const { standings } = yield* Effect.scoped(open(path))
        assert.deepStrictEqual(standings.get("0-0"), { last: dispatched(1), failures: { model: 1 } })
        assert.strictEqual(standings.size, 2)
        const text = yield* fs.readFileString(path)
        assert.isTrue(text.endsWith("nonsense\n"))
      })
    )
  )
})
