/**
 * How many rows of 16 KB become durable in a second: by the writer of lines alone, and by a whole collection, whose
 * journal has two durable entries for each row.
 *
 *     node rows.mjs FOLDER
 */
import { join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { RunId } from "../../../src/identity/Identity.js"
import { Evaluation } from "../../../src/rollout/Evaluation.js"
import { openJsonLines } from "../../../src/rollout/internal/jsonLines.js"
import { Scored, Step } from "../../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../../src/rollout/RolloutCollector.js"
import { TaskRow } from "../../../src/rollout/TaskRow.js"
import { AgentDone } from "../../../src/rollout/Termination.js"

const [folder = ""] = process.argv.slice(2)

const count = 10_000
const atATime = 512

const perSecond = <E, R>(work: Effect.Effect<unknown, E, R>) =>
  Effect.map(Effect.timed(work), ([took]) => count / Duration.toSeconds(took))

const writer = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const lines = yield* openJsonLines(fs, join(folder, "rows.jsonl"))
  const row = { reward: 1, response: "x".repeat(16_300) }
  return yield* perSecond(
    Effect.forEach(Array.from({ length: count }), (_, at) => lines.append({ at, ...row }), {
      concurrency: atATime,
      discard: true
    })
  )
}).pipe(Effect.scoped)

const step = new Step({
  step: 0,
  text: "x".repeat(15_000),
  actions: ["pyautogui.click(960, 540)"],
  facts: [],
  screenshot: "0".repeat(64),
  observeMilliseconds: 1,
  decideMilliseconds: 1
})

const collection = Effect.gen(function* () {
  const collector = yield* RolloutCollector.RolloutCollector
  const rows = Stream.range(0, count - 1).pipe(
    Stream.map(
      (taskIndex) => new TaskRow({ taskIndex, taskId: `t${taskIndex}`, domain: "os", instruction: "", task: {} })
    )
  )
  return yield* perSecond(
    Stream.runDrain(
      collector.collect(
        rows,
        (_, identity) =>
          Effect.succeed(
            new Scored({
              identity,
              termination: new AgentDone(),
              steps: [step],
              milliseconds: 1,
              evaluation: new Evaluation({ score: 1, details: [] }),
              reward: 1
            })
          ),
        { runId: RunId.make("bench"), concurrency: atATime }
      )
    )
  )
}).pipe(Effect.provide(RolloutCollector.layer({ out: join(folder, "run") })))

Effect.gen(function* () {
  const alone = yield* writer
  const whole = yield* collection
  yield* Console.log(JSON.stringify({ alone, whole }))
}).pipe(Effect.provide(NodeContext.layer), NodeRuntime.runMain)
