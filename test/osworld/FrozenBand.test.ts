/** A data set that the band's freezer wrote, read as tasks. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as TrajectoryIdentity from "../../src/identity/TrajectoryIdentity.js"
import * as TaskSource from "../../src/osworld/TaskSource.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { Scored } from "../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { namesItsRollout } from "../../src/rollout/TaskRow.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import * as DifficultyBand from "../../src/training/DifficultyBand.js"
import { runId } from "../rollout/simulator.js"

const frozen = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped()
  const source = `${root}/source`
  yield* fs.makeDirectory(`${source}/tasks`, { recursive: true })
  yield* fs.writeFileString(`${source}/input.txt`, "an asset\n")
  const lines: Array<string> = []
  // Solved 4, 8 and 1 of 8 times.
  for (const [id, calib_pass_rate] of [
    ["osworld-0001", 0.5],
    ["easy", 1],
    ["other", 0.125]
  ] as const) {
    const calibration = { calib_reps: 8, calib_pass_rate }
    const task = {
      id,
      instruction: `Do ${id}`,
      config: [{ type: "upload_file", parameters: { files: [{ local_path: "../input.txt", path: "/a" }] } }],
      evaluator: {
        func: "exact_match",
        result: { type: "vm_command_line", command: "id" },
        expected: { type: "rule", rules: { expected: "" } }
      },
      metadata: calibration
    }
    yield* fs.writeFileString(`${source}/tasks/${id}.json`, JSON.stringify(task))
    lines.push(JSON.stringify({ task_id: id, ...calibration }))
  }
  yield* fs.writeFileString(`${source}/manifest.jsonl`, `${lines.join("\n")}\n`)
  yield* DifficultyBand.freeze({ source, output: `${root}/band`, repeats: 2 })
  return { root, train: `${root}/band/train.jsonl` }
})

describe("a frozen band", () => {
  it.scoped("is read as tasks whose groups are named, and whose rollouts are not", () =>
    Effect.gen(function* () {
      const { train } = yield* frozen
      const tasks = yield* TaskSource.load([train])
      assert.deepStrictEqual(
        tasks.map(({ row }) => [row.taskIndex, row.taskId, row.groupId, namesItsRollout(row)]),
        [
          [0, "osworld-0001", "rlvr-band:osworld-0001:repeat:0", false],
          [1, "other", "rlvr-band:other:repeat:0", false],
          [2, "osworld-0001", "rlvr-band:osworld-0001:repeat:1", false],
          [3, "other", "rlvr-band:other:repeat:1", false]
        ]
      )
      assert.strictEqual(tasks[0]?.row.instruction, "Do osworld-0001")
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("gives a run as many rollouts of each group as it has, with the ids that follow from the group's", () =>
    Effect.gen(function* () {
      const { root, train } = yield* frozen
      const tasks = yield* TaskSource.load([train])
      const outcomes = yield* Effect.gen(function* () {
        const collector = yield* RolloutCollector.RolloutCollector
        return yield* collector
          .collect(
            Stream.fromIterable(tasks.map(({ row }) => row)),
            (_, identity) =>
              Effect.succeed(
                new Scored({
                  identity,
                  termination: new AgentDone(),
                  steps: [],
                  milliseconds: 1,
                  evaluation: new Evaluation({ score: 1, details: [] }),
                  reward: 1
                })
              ),
            { runId, concurrency: 4, groupSize: 4 }
          )
          .pipe(Stream.runCollect)
      }).pipe(Effect.provide(RolloutCollector.layer({ out: `${root}/run` })))
      const names = Array.from(outcomes, ({ identity }) => TrajectoryIdentity.of(identity, "m"))
      assert.lengthOf(names, 16)
      assert.strictEqual(new Set(names.map(({ identity }) => identity.rollout_id)).size, 16)
      assert.isTrue(names.every(({ source }) => source === "caller"))
      const wanted = names.find(
        ({ identity }) => identity.group_id === "rlvr-band:osworld-0001:repeat:0" && identity.rollout_index === 3
      )
      // From training-vectors.json id.rollout.
      assert.strictEqual(wanted?.identity.rollout_id, "rollout-424b10a5b9262ef756550307")
      const [first] = outcomes
      assert.include(first?.identity.dispatchGroup ?? "", "rlvr-band:")
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is refused where a row is another task's, or names half of its group", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { train } = yield* frozen
      const [first = ""] = (yield* fs.readFileString(train)).split("\n")
      const problem = (change: (row: Record<string, unknown>) => void) =>
        Effect.gen(function* () {
          const row = JSON.parse(first)
          change(row)
          yield* fs.writeFileString(train, JSON.stringify(row))
          const exit = yield* Effect.exit(TaskSource.load([train]))
          return Exit.isFailure(exit) ? String(exit.cause) : "loaded"
        })
      assert.include(yield* problem((row) => (row["context_compaction_task_id"] = "x")), "context_compaction_task_id")
      assert.include(
        yield* problem((row) => delete row["context_compaction_group_id"]),
        "context_compaction_contract_version"
      )
      assert.include(yield* problem((row) => (row["context_compaction_group_id"] = "")), "context_compaction_group_id")
      assert.include(
        yield* problem((row) => (row["verifier_metadata"] = { note: "no task" })),
        "expected the task in verifier_metadata.osworld_task"
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
