import * as Effect from "effect/Effect"
import * as ProgressDisplay from "./cli/ProgressDisplay.js"
import { RolloutIdentity, RunId } from "./identity/Identity.js"
import { emit, ProgressEvent } from "./rollout/Progress.js"
import { TaskRow } from "./rollout/TaskRow.js"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
const runId = RunId.make("demo")
const row = new TaskRow({ taskIndex: 0, taskId: `a`, domain: "os", instruction: "", task: {} })
const identity = new RolloutIdentity({ runId, taskId: row.taskId, taskIndex: 0, rolloutIndex: 0, attemptIndex: 0 })
emit(ProgressEvent.Dispatched({ identity, row })).pipe(
  Effect.zipRight(Effect.logInfo("log from")), Effect.zipRight(Effect.never),
  Effect.onInterrupt(() => Effect.zipRight(Effect.sleep(2000), Effect.logInfo("cleaned up"))),
  Effect.provide(ProgressDisplay.layer({ expected: 1, concurrency: 2 })),
  Effect.ensuring(Effect.sync(() => console.log("report"))),
  NodeRuntime.runMain)
import { appendFileSync } from "node:fs"
const log = (t: string) => appendFileSync("/tmp/zz.log", `${Date.now()} ${process.pid} ppid ${process.ppid} ${t}\n`)
process.on("exit", (c) => log(`exit ${c}`))
process.on("uncaughtException", (e) => { log(`uncaught ${e.stack}`) })
