/**
 * The collector and all that a run has beside it: episodes, evidence, blobs, journal, rows, a model client.
 *
 *     node driver.mjs PORT EPISODES MINUTES FOLDER
 */
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Undici from "@effect/platform-node/Undici"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../../src/artifact/ArtifactStore.js"
import { tuneEngine } from "../../../src/cli/internal/engine.js"
import { RunId } from "../../../src/identity/Identity.js"
import * as ChatCompletions from "../../../src/model/ChatCompletions.js"
import * as Connections from "../../../src/model/Connections.js"
import { image, system, text, user } from "../../../src/model/Conversation.js"
import { exchange } from "../../../src/model/internal/call/exchange.js"
import { ModelClient, ModelRequest } from "../../../src/model/ModelClient.js"
import { Sampling } from "../../../src/model/Sampling.js"
import { AdmissionOptions, RampUp } from "../../../src/rollout/Admissions.js"
import { type Agent, Decision, ModelCall, Reading, Replied } from "../../../src/rollout/Agent.js"
import type { AgentContract } from "../../../src/rollout/Contract.js"
import { type Environment, EnvironmentError, Observation, StepFacts } from "../../../src/rollout/Environment.js"
import * as Episode from "../../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../../../src/rollout/Evaluation.js"
import * as Evidence from "../../../src/rollout/Evidence.js"
import * as RolloutCollector from "../../../src/rollout/RolloutCollector.js"
import { TaskRow } from "../../../src/rollout/TaskRow.js"
import { measure, rampMilliseconds, steps } from "./sizes.js"

const [port = "", episodes = "", minutes = "", folder = ""] = process.argv.slice(2)
const origin = `http://127.0.0.1:${port}`
const shot = new URL(`${origin}/screenshot`)
const measured = measure(Number(minutes))

const lost = (phase: "open" | "observe" | "step") => (cause: unknown) =>
  new EnvironmentError({ phase, fault: "infrastructure", reason: String(cause) })

/**
 * How many steps an episode has. Those that begin together end one after the other, so that episodes are spread over all
 * their steps soon, as they are in the middle of a long run: in step, they would all be full at once and all be over at
 * once.
 */
const stepsOf = (taskIndex: number): number => (taskIndex < Number(episodes) ? 1 + (taskIndex % steps) : steps)

/** Desktops on the other side of sockets. */
const desktops = Effect.gen(function* () {
  // Their connections are no model server's, as with real ones.
  const dispatcher = yield* Connections.make({ perOrigin: 8192 })
  const store = yield* ArtifactStore.ArtifactStore
  const post = (path: string, body: string) =>
    Undici.request(`${origin}${path}`, {
      dispatcher,
      method: "POST",
      headers: { "content-type": "application/json" },
      body
    }).then((response) => response.body.text())
  const environment: Environment<string> = {
    show: (action) => action,
    open: ({ taskIndex }) =>
      Effect.tryPromise({ try: () => post("/create", "{}"), catch: lost("open") }).pipe(
        Effect.map(() => {
          let began: number | undefined
          let left = stepsOf(taskIndex)
          return {
            observe: Effect.gen(function* () {
              const now = performance.now()
              if (began !== undefined) measured.step(now - began)
              began = now
              const screenshot = yield* Effect.mapError(
                store.receive((add) => {
                  const data = (chunk: Uint8Array) => {
                    add(chunk)
                    return true
                  }
                  return Effect.as(
                    exchange(dispatcher, { method: "GET", url: shot, headers: {} }, { head: () => {}, data }),
                    "image/png"
                  )
                }),
                lost("observe")
              )
              return new Observation({ screenshot, milliseconds: performance.now() - now }, true)
            }),
            step: (action) =>
              Effect.map(
                Effect.timed(
                  Effect.tryPromise({
                    try: () => post("/act", JSON.stringify({ command: action })),
                    catch: lost("step")
                  })
                ),
                () => new StepFacts({ exitCode: 0, milliseconds: 1000, done: --left === 0 }, true)
              ),
            wait: Effect.succeed(new StepFacts({ milliseconds: 0, done: false })),
            evaluate: () =>
              Effect.as(
                Effect.tryPromise({ try: () => post("/evaluate", "{}"), catch: lost("step") }),
                new Evaluation({ score: 1, details: [] })
              ),
            lost: Effect.never
          }
        })
      )
  }
  return environment
})

const contract: AgentContract = {
  schema_version: 1,
  runner: {
    name: "bench",
    kind: "bench",
    action_space: "pyautogui",
    observation_type: "screenshot",
    agent_class_path: "bench",
    platform: "ubuntu",
    screen_size: [1920, 1080]
  },
  max_steps: steps,
  model_protocol: null,
  history_policy: null,
  agent_options: null
}

const sampling = new Sampling({ temperature: 0.6, maxTokens: 1024 })
const prologue = system("You use a computer. ".repeat(100))

/** Shows the model each screenshot once, and clicks. */
const agent = Effect.map(
  ModelClient,
  (model): Agent<string> => ({
    contract,
    open: ({ identity, record }) =>
      Effect.succeed({
        decide: Effect.fnUntraced(function* (observation, step) {
          const messages = [prologue, user(text(`Step ${step}. What now?`), image(observation.screenshot))] as const
          const reply = yield* model.complete(
            new ModelRequest({ messages, sampling, identity, step }, { disableValidation: true })
          )
          const action = "pyautogui.click(960, 540)"
          yield* record(
            // Trusted, as the loop of our own agents has it.
            new ModelCall(
              {
                step,
                parseAttempt: 0,
                purpose: "act",
                messages,
                sampling,
                result: new Replied({ reply, read: new Reading({ decisions: [action] }, true) }, true)
              },
              true
            )
          )
          return { decisions: [Decision.Act({ action })], text: reply.text }
        })
      })
  })
)

const row = (taskIndex: number) =>
  new TaskRow({ taskIndex, taskId: `task-${taskIndex}`, domain: "os", instruction: "Do it", task: {} })

const run = Effect.gen(function* () {
  const collector = yield* RolloutCollector.RolloutCollector
  const program = Episode.program({
    environment: yield* desktops,
    agent: yield* agent,
    limits: EpisodeLimits.make({ maxSteps: steps })
  })
  const rows = Stream.iterate(0, (index) => index + 1).pipe(Stream.map(row))
  const concurrency = Number(episodes)
  const collected = collector.collect(rows, program, {
    runId: RunId.make("bench"),
    concurrency,
    model: "bench",
    contract,
    admission: new AdmissionOptions({ rampUp: new RampUp({ milliseconds: rampMilliseconds }) })
  })
  let failed = 0
  yield* Stream.runForEach(collected, (outcome) =>
    Effect.sync(() => {
      if (outcome._tag !== "Scored") failed += 1
      if (failed === 1 && outcome._tag !== "Scored" && "detail" in outcome) process.stderr.write(`${outcome.detail}\n`)
    })
  ).pipe(Effect.raceFirst(Effect.promise(() => measured.after)))
  const result = yield* Effect.promise(() => measured.after)
  yield* Console.log(JSON.stringify(result))
  if (failed > 0) yield* Console.error(`${failed} episodes failed`)
  // What is under way is of no use to anybody.
  yield* Effect.sync(() => process.exit(0))
})

// As `runMain` does.
tuneEngine()
run.pipe(
  Effect.provide(
    Layer.mergeAll(
      RolloutCollector.layer({ out: folder }),
      Evidence.layer({ out: folder }),
      ChatCompletions.layer({ url: `${origin}/v1`, model: "bench" })
    ).pipe(
      Layer.provideMerge(ArtifactStore.layer({ directory: join(folder, "blobs") })),
      Layer.provideMerge(Connections.layer({ perOrigin: 8192 })),
      Layer.provideMerge(NodeContext.layer)
    )
  ),
  Effect.scoped,
  NodeRuntime.runMain
)
