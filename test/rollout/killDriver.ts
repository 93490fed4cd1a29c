/**
 * A program that collects 200 rollouts and dies by `SIGKILL` at its n-th operation on a file: before it, in the middle of a
 * write, or after it. Run by `kill.test.ts`, each time on the folder that the last one left.
 *
 *     node killDriver.mjs OUT KILL_AT SEED
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { EnvironmentError } from "../../src/rollout/Environment.js"
import * as Episode from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import { ClassPolicy, FailurePolicy } from "../../src/rollout/FailurePolicy.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { Distribution, draw } from "../../src/testing/Distribution.js"
import * as SimulatedDesktops from "../../src/testing/SimulatedDesktops.js"
import * as SimulatedModel from "../../src/testing/SimulatedModel.js"
import * as Simulator from "./simulator.js"

export const tasks = 50
export const groupSize = 4

const [out = "", killAt = "0", seed = ""] = process.argv.slice(2)

const die = (): never => {
  process.kill(process.pid, "SIGKILL")
  // The signal is on its way; nothing else may happen before it is here.
  for (;;);
}

let operations = 0

/** Which of three ways an operation ends the program, if it does. */
const fate = (): "before" | "middle" | "after" | undefined => {
  operations += 1
  if (operations !== Number(killAt)) return undefined
  const drawn = draw(seed, "fate")
  return drawn < 1 / 3 ? "before" : drawn < 2 / 3 ? "middle" : "after"
}

type Write = ReturnType<FileSystem.File["writeAll"]>

const guard = (size: number, write: (part: number) => Write): Write =>
  Effect.suspend(() => {
    const how = fate()
    if (how === "before") die()
    if (how === undefined) return write(size)
    return Effect.map(write(how === "middle" ? Math.floor(size * draw(seed, "part")) : size), die)
  })

const killing = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) => ({
    ...fs,
    open: (path: string, options?: FileSystem.OpenFileOptions) =>
      Effect.map(
        fs.open(path, options),
        (file): FileSystem.File => ({
          [FileSystem.FileTypeId]: FileSystem.FileTypeId,
          fd: file.fd,
          stat: file.stat,
          seek: (offset, from) => file.seek(offset, from),
          read: (buffer) => file.read(buffer),
          readAlloc: (size) => file.readAlloc(size),
          truncate: (length) => file.truncate(length),
          write: (buffer) => file.write(buffer),
          sync: guard(1, (part) => (part === 0 ? Effect.void : file.sync)),
          writeAll: (buffer) => guard(buffer.length, (part) => file.writeAll(buffer.subarray(0, part)))
        })
      )
  }))
).pipe(Layer.provide(NodeContext.layer))

const desktops = `${out}/desktops`

/** A desktop is a file for as long as it is open: what a kill leaves is there to be found. */
const hold: NonNullable<SimulatedDesktops.DesktopOptions["hold"]> = (identity) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = `${desktops}/${identity.rolloutId}`
    yield* Effect.acquireRelease(
      Effect.mapError(
        fs.writeFileString(file, ""),
        (error) => new EnvironmentError({ phase: "open", fault: "infrastructure", reason: error.message })
      ),
      () => Effect.orDie(fs.remove(file))
    )
  }).pipe(Effect.provide(NodeContext.layer))

const program = Effect.gen(function* () {
  const collector = yield* RolloutCollector.RolloutCollector
  const fs = yield* FileSystem.FileSystem
  yield* fs.makeDirectory(desktops, { recursive: true })
  // The folder is this program's alone now; what earlier ones left open is swept, as a provider does by its ledger.
  const left = yield* fs.readDirectory(desktops)
  yield* Effect.forEach(left, (name) => fs.remove(`${desktops}/${name}`), { discard: true })
  const client = SimulatedModel.make({
    seed: "kill",
    latency: Distribution.Uniform({ from: 0, to: 2 }),
    faults: { unavailable: 0.01 },
    reply: ({ identity, step }) => (step >= 1 + (identity.taskIndex % 3) ? "DONE" : `click(${step})`)
  })
  const forever = new ClassPolicy({ inRun: 1_000, inAll: 1_000, baseMilliseconds: 1, capMilliseconds: 1 })
  const outcomes = collector.collect(
    Stream.map(Stream.range(0, tasks - 1), Simulator.row),
    Episode.program({
      environment: SimulatedDesktops.make({ seed: "kill", faults: { open: 0.05 }, hold }),
      agent: SimulatedModel.agent(client),
      limits: EpisodeLimits.make({ maxSteps: 10 })
    }),
    {
      runId: Simulator.runId,
      concurrency: 8,
      groupSize,
      breaker: "off",
      failures: new FailurePolicy({
        infrastructure: forever,
        model: forever,
        environment: forever,
        evaluator: forever,
        task: forever,
        defect: forever,
        unresolved: forever
      })
    }
  )
  yield* Stream.runDrain(outcomes)
  yield* Console.log("done")
}).pipe(
  Effect.provide(RolloutCollector.layer({ out, resume: true })),
  Effect.provide(Simulator.evidence()),
  Effect.provide(killing),
  Effect.provide(NodeContext.layer)
)

Effect.runPromise(program).catch((cause) => {
  console.error(cause)
  process.exitCode = 1
})
