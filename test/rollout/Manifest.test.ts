import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { AdmissionOptions, RampUp } from "../../src/rollout/Admissions.js"
import { parity, withMaxSteps } from "../../src/rollout/Contract.js"
import { DispatchBudget } from "../../src/rollout/DispatchBudget.js"
import { ClassPolicy, FailurePolicy, standard } from "../../src/rollout/FailurePolicy.js"
import {
  collecting,
  differences,
  digest,
  digests,
  extend,
  force,
  Manifest,
  read,
  write
} from "../../src/rollout/Manifest.js"
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

  it("takes how often failures are tried for a part of the run, and writes down how it lets rollouts in", () => {
    const at = (started: string, options: Parameters<typeof collecting>[0]) =>
      new Manifest({ ...manifest({}, rows), started_at: started, ...collecting(options) })
    const first = at("2026-01-01T00:00:00.000Z", { concurrency: 4 })
    assert.deepInclude(first.knobs, {
      attempts_infrastructure: "2 a run, 6 in all",
      attempts_task: "1 a run, 1 in all"
    })
    assert.deepInclude(first.collector, {
      concurrency: 4,
      creates: null,
      breaker_failures: 10,
      attempts_unresolved: "1 a run, 3 in all",
      retry_wait_model: "1000 ms, times 2, up to 60000 ms"
    })
    // Somebody asks for what was called off; a budget; nothing of it makes another run.
    const second = at("2026-01-02T00:00:00.000Z", {
      concurrency: 8,
      admission: new AdmissionOptions({ creates: 2, rampUp: new RampUp({ milliseconds: 60_000 }) }),
      breaker: "off",
      budget: new DispatchBudget({ tokens: 1_000 }),
      failures: new FailurePolicy({ ...standard, cancelled: new ClassPolicy({ inRun: 1, inAll: 2 }) })
    })
    assert.deepStrictEqual(differences(first, second), [])
    const resumed = extend(first, second)
    assert.deepStrictEqual(resumed.collector, second.collector)
    assert.deepStrictEqual(resumed.collector_changes, [
      {
        at: "2026-01-02T00:00:00.000Z",
        differences: [
          'attempts_cancelled was "1 a run, 1 in all" and is "1 a run, 2 in all"',
          "breaker_cap_milliseconds was 600000 and is null",
          "breaker_cool_down_milliseconds was 30000 and is null",
          "breaker_failures was 10 and is null",
          "breaker_probes was 10 and is null",
          "budget_tokens was null and is 1000",
          "concurrency was 4 and is 8",
          "creates was null and is 2",
          "ramp_up_from was null and is 1",
          "ramp_up_milliseconds was null and is 60000"
        ]
      }
    ])
    const thrice = new ClassPolicy({ inRun: 3 })
    const other = at("2026-01-03T00:00:00.000Z", {
      concurrency: 8,
      failures: new FailurePolicy({ ...standard, model: thrice })
    })
    assert.deepStrictEqual(differences(resumed, other), [
      'attempts_model was "2 a run, 6 in all" and is "3 a run, 6 in all"'
    ])
    assert.deepStrictEqual(
      extend(resumed, at("2026-01-04T00:00:00.000Z", { concurrency: 8 })).collector_changes?.map(({ at }) => at),
      ["2026-01-02T00:00:00.000Z", "2026-01-04T00:00:00.000Z"]
    )
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
