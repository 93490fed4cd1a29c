import { appendFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { StepFacts } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import * as Manifest from "../../src/rollout/Manifest.js"
import { Failed, Masked, type RolloutOutcome, Scored, Step, Unresolved } from "../../src/rollout/Outcome.js"
import * as RecordedRun from "../../src/rollout/RecordedRun.js"
import * as Report from "../../src/rollout/Report.js"
import * as Row from "../../src/rollout/Row.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone, Infrastructure } from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

const rows = [0, 1, 2, 3].map(
  (taskIndex) =>
    new TaskRow({
      taskIndex,
      taskId: `task-${taskIndex}`,
      domain: taskIndex < 2 ? "os" : "vlc",
      instruction: "Do it",
      task: {}
    })
)

const rowOf = ({ taskIndex }: { readonly taskIndex: number }) => rows[taskIndex] ?? Simulator.row(taskIndex)

const identity = (taskIndex: number, rolloutIndex = 0, attemptIndex = 0) =>
  new RolloutIdentity({ runId: Simulator.runId, taskId: `task-${taskIndex}`, taskIndex, rolloutIndex, attemptIndex })

const step = new Step({
  step: 0,
  text: "click",
  actions: ["a"],
  facts: [new StepFacts({ milliseconds: 1, done: false })],
  screenshot: "0",
  observeMilliseconds: 1,
  decideMilliseconds: 1
})

const scored = (identity: RolloutIdentity, score = 1) =>
  new Scored({
    identity,
    termination: new AgentDone(),
    steps: [step, step],
    milliseconds: 12_000,
    evaluation: new Evaluation({ score, details: [] }),
    reward: score >= 1 ? 1 : 0
  })

const masked = (identity: RolloutIdentity) =>
  new Masked({
    identity,
    termination: new Infrastructure({ kind: "environment_lost", detail: "it is gone" }),
    steps: [step],
    milliseconds: 65_000,
    reason: "environment_lost",
    detail: "it is gone"
  })

const failed = (identity: RolloutIdentity) =>
  new Failed({ identity, fault: "infrastructure", detail: "no desktop", milliseconds: 100 })

const line = (outcome: RolloutOutcome): string =>
  `${JSON.stringify(Row.encode(outcome, rowOf(outcome.identity), { model: "none" }))}\n`

const fileOf = (outcome: RolloutOutcome) => (outcome._tag === "Scored" ? "rollouts.jsonl" : "failures.jsonl")

const manifest = (repeats: number) =>
  new Manifest.Manifest({
    schema_version: 1,
    run_id: Simulator.runId,
    started_at: "2026-01-01T00:00:00.000Z",
    versions: {},
    knobs: {},
    tasks: Manifest.digests(rows, repeats)
  })

/** A run's folder with these outcomes, in this order. */
const folderOf = (outcomes: ReadonlyArray<RolloutOutcome>, repeats = 1) =>
  Effect.gen(function* () {
    const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
    yield* Manifest.write(folder, manifest(repeats))
    for (const outcome of outcomes) appendFileSync(join(folder, fileOf(outcome)), line(outcome))
    return folder
  })

const coverage = (run: RecordedRun.RecordedRun) => {
  const { expected, failed, masked, measured, notStarted, unresolved } = Report.facts(run.report)
  return { expected, measured, masked, failed, unresolved, notStarted }
}

const notes = (run: RecordedRun.RecordedRun) => run.notes.map(RecordedRun.showNote)

const outcomes = FastCheck.array(
  FastCheck.record({
    task: FastCheck.nat(3),
    rollout: FastCheck.nat(1),
    kind: FastCheck.constantFrom("scored", "masked", "failed", "unresolved"),
    score: FastCheck.constantFrom(0, 0.25, 1)
  }),
  { maxLength: 12 }
).map((items) =>
  items.map(({ kind, rollout, score, task }, attempt): RolloutOutcome => {
    const who = identity(task, rollout, attempt)
    switch (kind) {
      case "scored":
        return scored(who, score)
      case "masked":
        return masked(who)
      case "failed":
        return failed(who)
      default:
        return new Unresolved({ identity: who })
    }
  })
)

describe("RecordedRun.read", () => {
  it.effect.prop(
    "comes to what the run came to while it ran",
    { outcomes },
    ({ outcomes }) =>
      Effect.gen(function* () {
        const folder = yield* folderOf(outcomes, 2)
        const run = yield* RecordedRun.read(folder)
        const live = outcomes.reduce(
          (report, outcome) => Report.add(report, outcome, rowOf(outcome.identity)),
          Report.ofRows(rows, 2)
        )
        assert.deepStrictEqual(Report.facts(run.report), Report.facts(live))
        assert.deepStrictEqual(Report.entries(run.report), Report.entries(live))
      }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)),
    { fastCheck: { numRuns: 25 } }
  )

  it.scoped("passes over rows that cannot be read, and says which", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf([scored(identity(0))])
      const wrong = JSON.stringify({ ...JSON.parse(line(scored(identity(1)))), _ng_task_index: -1 })
      appendFileSync(
        join(folder, "rollouts.jsonl"),
        `{"_ng_task_index": 1,,}\n\n${wrong}\n${line(scored(identity(2)))}`
      )
      appendFileSync(join(folder, "rollouts.jsonl"), line(scored(identity(3))).trimEnd())
      const run = yield* RecordedRun.read(folder)
      assert.deepInclude(coverage(run), { expected: 4, measured: 2, notStarted: 2 })
      assert.deepStrictEqual(notes(run), [
        "rollouts.jsonl, line 2: no row, because unexpected , where a key should be (byte 22); it does not count",
        "rollouts.jsonl, line 4: no row (_ng_task_index: Expected a non-negative number, actual -1); it does not count",
        "rollouts.jsonl, line 6: the last row is torn; it does not count, and --resume cuts it off"
      ])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("counts a rollout that has two rows once, by the newer attempt, and says so", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf([
        scored(identity(0, 0, 2), 0.25),
        scored(identity(0, 0, 1), 1),
        scored(identity(1), 1),
        scored(identity(1), 0.5)
      ])
      const run = yield* RecordedRun.read(folder)
      assert.deepInclude(coverage(run), { measured: 2 })
      assert.deepInclude(Report.facts(run.report), { scoreSum: 0.75, successes: 0 })
      assert.deepStrictEqual(notes(run), [
        "rollouts.jsonl, line 2: a second row of task-0 #1, after line 1; the newer attempt holds, it counts once",
        "rollouts.jsonl, line 4: a second row of task-1 #1, after line 3; the later line holds, it counts once"
      ])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("takes failed attempts that were followed by a score for what they are", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf([failed(identity(0)), masked(identity(0, 0, 1)), scored(identity(0, 0, 2))])
      const run = yield* RecordedRun.read(folder)
      assert.deepStrictEqual(coverage(run), {
        expected: 4,
        measured: 1,
        masked: 0,
        failed: 0,
        unresolved: 0,
        notStarted: 3
      })
      assert.deepStrictEqual(notes(run), [])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("counts an attempt that the journal has no end of as unresolved, unless its row is there", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf([scored(identity(0)), failed(identity(1)), failed(identity(2))])
      const dispatched = (rollout: string, attempt: number) =>
        `${JSON.stringify({ v: 1, at: 0, rollout, attempt, state: "dispatched", task: "t" })}\n`
      const ended = `${JSON.stringify({ v: 1, at: 0, rollout: "3-0", attempt: 0, state: "failed", class: "infrastructure" })}\n`
      writeFileSync(
        join(folder, "journal.jsonl"),
        [dispatched("0-0", 0), dispatched("1-0", 1), dispatched("2-0", 0), dispatched("3-0", 0), ended].join("")
      )
      const run = yield* RecordedRun.read(folder)
      assert.deepStrictEqual(coverage(run), {
        expected: 4,
        measured: 1,
        masked: 0,
        failed: 1,
        unresolved: 1,
        notStarted: 1
      })
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("reads a row of 50 MB", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf([])
      const file = join(folder, "rollouts.jsonl")
      const [head = "", tail = ""] = line(scored(identity(0), 0.5)).split('"response":')
      writeFileSync(file, `${head}"payload":"`)
      const piece = "x".repeat(1 << 20)
      for (let mebibyte = 0; mebibyte < 50; mebibyte++) appendFileSync(file, piece)
      appendFileSync(file, `","response":${tail}`)
      const run = yield* RecordedRun.read(folder)
      assert.deepStrictEqual(run.notes, [])
      assert.deepInclude(Report.facts(run.report), { measured: 1, scoreSum: 0.5 })
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("reads rows of others by the field's names, and says that what was expected is not known", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const lines = [
        { _ng_task_index: 0, _ng_rollout_index: 0, reward: 1, response: {} },
        { _ng_task_index: 0, _ng_rollout_index: 1, reward: 0, mask_sample: true },
        { _ng_task_index: 1, _ng_rollout_index: 0, reward: 0.5, verifier_metadata: { task_id: "x", domain: "os" } },
        { _ng_task_index: 2, _ng_rollout_index: 0, _ng_failure_class: "judge_failed", reward: 0 }
      ]
      writeFileSync(join(folder, "rollouts.jsonl"), lines.map((row) => `${JSON.stringify(row)}\n`).join(""))
      const run = yield* RecordedRun.read(folder)
      assert.deepInclude(coverage(run), { expected: 4, measured: 2, masked: 1, failed: 1 })
      assert.deepStrictEqual(
        run.notes.map(({ kind }) => kind),
        ["no_manifest"]
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("takes the repeats of a manifest that does not say them from the rows, and says so", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf([scored(identity(0, 2))])
      const old = new Manifest.Manifest({ ...manifest(1), tasks: rows.slice(0, 2).map(Manifest.digest) })
      yield* Manifest.write(folder, old)
      const run = yield* RecordedRun.read(folder)
      assert.deepInclude(coverage(run), { expected: 6, notStarted: 5 })
      assert.deepStrictEqual(
        run.notes.map(({ kind }) => kind),
        ["expected_unknown"]
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("refuses what is no run", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const message = (path: string) =>
        Effect.map(Effect.flip(RecordedRun.read(path)), (error) => error.message.slice(path.length))
      assert.strictEqual(
        yield* message(folder),
        " is no run: it has neither run.json nor rollouts.jsonl nor failures.jsonl. Give the folder that deskhand run wrote (its --out)"
      )
      assert.include(yield* message(join(folder, "nowhere")), "there is no such folder")
      writeFileSync(join(folder, "run.json"), "{}")
      assert.include(yield* message(join(folder, "run.json")), "it cannot be read as a folder")
      assert.include(yield* message(folder), "its run.json cannot be read")
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("Manifest.digests", () => {
  it("counts the rollouts of each task, and a resumed run keeps the most", () => {
    const twice = [...rows.slice(0, 1), ...rows.slice(0, 2)]
    const digests = Manifest.digests(twice, 3)
    assert.deepStrictEqual(
      digests.map(({ domain, index, rollouts }) => [index, domain, rollouts]),
      [
        [0, "os", 6],
        [1, "os", 3]
      ]
    )
    const resumed = Manifest.extend(new Manifest.Manifest({ ...manifest(1), tasks: digests }), manifest(4))
    assert.deepStrictEqual(
      resumed.tasks.map(({ rollouts }) => rollouts),
      [6, 4, 4, 4]
    )
  })
})
