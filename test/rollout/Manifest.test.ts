import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { parity, withMaxSteps } from "../../src/rollout/Contract.js"
import { differences, digest, digests, extend, force, Manifest, read, write } from "../../src/rollout/Manifest.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import * as Simulator from "./simulator.js"

const manifest = (knobs: Manifest["knobs"], rows: ReadonlyArray<TaskRow>) =>
  new Manifest({
    schema_version: 1,
    run_id: Simulator.runId,
    started_at: "2026-01-01T00:00:00.000Z",
    versions: {},
    knobs,
    tasks: rows.map(digest)
  })

const rows = [Simulator.row(0), Simulator.row(1)]

describe("Manifest", () => {
  it.prop(
    "that is forced on is the run that it was forced to, keeps its name, and tells what changed each time",
    { before: Arbitrary.make(Manifest), now: Arbitrary.make(Manifest) },
    ({ before, now }) => {
      const changed = differences(before, now)
      const forced = force(before, now, "2026-01-02T00:00:00.000Z")
      assert.deepStrictEqual(differences(forced, now), [])
      assert.strictEqual(forced.run_id, before.run_id)
      const [first, ...more] = changed
      const entry =
        first === undefined ? [] : [{ at: "2026-01-02T00:00:00.000Z", differences: [first, ...more] as const }]
      assert.deepStrictEqual(forced.forced_resumes ?? [], [...(before.forced_resumes ?? []), ...entry])
      assert.deepStrictEqual(force(forced, now, "later"), extend(forced, now))
    }
  )

  it.prop(
    "is no other run than itself, and neither is its extension",
    { manifest: Arbitrary.make(Manifest) },
    ({ manifest }) => {
      assert.deepStrictEqual(differences(manifest, manifest), [])
      assert.deepStrictEqual(differences(extend(manifest, manifest), manifest), [])
    }
  )

  it("tells each knob that changed, came or went", () => {
    assert.deepStrictEqual(
      differences(manifest({ a: 1, b: "x", c: null }, []), manifest({ a: 0, c: null, d: true }, [])),
      ["a was 1 and is 0", 'b was "x" and is not set', "d was not set and is true"]
    )
  })

  it("tells a task that changed and one that took another's place, and takes more or fewer tasks for the same run", () => {
    const changed = new TaskRow({ ...Simulator.row(0), task: { id: "other content" } })
    const moved = new TaskRow({ ...Simulator.row(5), taskIndex: 1 })
    assert.deepStrictEqual(differences(manifest({}, rows), manifest({}, [changed, moved])), [
      "task task-0 has changed",
      "task number 1 was task-1 and is task-5"
    ])
    assert.deepStrictEqual(differences(manifest({}, rows), manifest({}, [Simulator.row(0)])), [])
    assert.deepStrictEqual(differences(manifest({}, [Simulator.row(0)]), manifest({}, rows)), [])
    assert.deepStrictEqual(
      extend(manifest({}, [Simulator.row(1)]), manifest({}, rows)).tasks.map(({ index }) => index),
      [1, 0]
    )
  })

  it("has a task once, however many rows are for rollouts of it", () => {
    const siblings = [0, 1, 2].map((rolloutIndex) => new TaskRow({ ...Simulator.row(0), rolloutIndex }))
    assert.deepStrictEqual(digests([...siblings, Simulator.row(1)]), [
      { ...digest(Simulator.row(0)), domain: "os", rollouts: 3 },
      { ...digest(Simulator.row(1)), domain: "os", rollouts: 1 }
    ])
  })

  it.effect("is read as it was written, and is told from what is none", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const out = `${yield* fs.makeTempDirectoryScoped()}/new/folder`
      assert.isTrue(Option.isNone(yield* read(out)))
      const { contract } = Simulator
      const written = new Manifest({
        ...manifest({ temperature: 0.6, model: "m" }, rows),
        agent_contract: contract,
        contract_parity: parity("declared", withMaxSteps(contract, 100), contract)
      })
      yield* write(out, written)
      assert.deepStrictEqual(yield* read(out), Option.some(written))
      yield* fs.writeFileString(`${out}/run.json`, "{}")
      const error = yield* Effect.flip(read(out))
      assert.include(error.message, `${out}/run.json`)
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )
})
