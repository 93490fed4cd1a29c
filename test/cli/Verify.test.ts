import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import sharp from "sharp"
import { DesktopAgent } from "../../src/agents/DesktopAgent.js"
import * as Registry from "../../src/agents/Registry.js"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import * as Cli from "../../src/cli/Cli.js"
import { formats } from "../../src/cli/Export.js"
import { render } from "../../src/cli/Verify.js"
import type { DesktopAction } from "../../src/desktop/Action.js"
import * as BuiltIn from "../../src/history/BuiltIn.js"
import { HistoryPolicy } from "../../src/history/HistoryPolicy.js"
import { RunId } from "../../src/identity/Identity.js"
import { assistant, type Message, text } from "../../src/model/Conversation.js"
import { ModelClient, ModelReply, type ModelRequest } from "../../src/model/ModelClient.js"
import { ModelError } from "../../src/model/ModelError.js"
import { Sampling } from "../../src/model/Sampling.js"
import { type Environment, Observation, StepFacts } from "../../src/rollout/Environment.js"
import * as Episode from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import * as Evidence from "../../src/rollout/Evidence.js"
import * as FailurePolicy from "../../src/rollout/FailurePolicy.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import * as Verify from "../../src/rollout/Verify.js"

const screen = { width: 16, height: 9 }

const picture = (shade: number) =>
  Effect.promise(() =>
    sharp({ create: { ...screen, channels: 3, background: { r: shade, g: 0, b: 0 } } })
      .png()
      .toBuffer()
  )

/** A screen that is another one after each action. */
const desktop = (store: ArtifactStore.ArtifactStore["Type"]): Environment<DesktopAction> => ({
  show: (action) => action.code,
  open: () =>
    Effect.sync(() => {
      let screens = 0
      const done = new StepFacts({ exitCode: 0, milliseconds: 1, done: false })
      return {
        observe: Effect.suspend(() => picture(screens++)).pipe(
          Effect.flatMap((bytes) => store.put(bytes, "image/png")),
          Effect.map((screenshot) => new Observation({ screenshot, milliseconds: 1 })),
          Effect.orDie
        ),
        step: () => Effect.succeed(done),
        wait: Effect.succeed(done),
        evaluate: () => Effect.succeed(new Evaluation({ score: 1, details: [] })),
        lost: Effect.never
      }
    })
})

const imagesOf = (messages: ReadonlyArray<Message>): number =>
  messages
    .flatMap((message) => (message.role === "user" ? message.content : []))
    .filter(({ _tag }) => _tag === "ImagePart").length

const reply = (said: string) =>
  new ModelReply({
    message: assistant(text(said)),
    finishReason: "stop",
    model: "scripted",
    sent: {},
    attempts: 1,
    milliseconds: 1
  })

/** Acts, cannot be read now and then, and has no room for more than `room` pictures. */
const model = (room: number) => {
  let asked = 0
  return {
    model: "scripted",
    complete: ({ messages, parseAttempt, step }: ModelRequest) => {
      asked++
      if (imagesOf(messages) > room) {
        return new ModelError({ reason: "context_overflow", url: "http://127.0.0.1", detail: "prompt is too long" })
      }
      if (step % 4 === 2 && (parseAttempt ?? 0) === 0) return Effect.succeed(reply("Hm."))
      return Effect.succeed(reply(`I click.\n\n\`\`\`python\npyautogui.click(${step}, ${asked})\n\`\`\``))
    }
  }
}

const rows = ["a", "b"].map(
  (taskId, taskIndex) => new TaskRow({ taskIndex, taskId, domain: "os", instruction: `Do ${taskId}`, task: {} })
)

/** A run of two rollouts of the agent under the policy, with the collector and all, without a desktop. */
const run = (out: string, options: { readonly agent?: string; readonly history: string; readonly room?: number }) =>
  Effect.gen(function* () {
    const chosen = yield* Registry.fromText(options.agent ?? "prompt")
    const policy = yield* BuiltIn.fromText(options.history)
    yield* Effect.gen(function* () {
      const collector = yield* RolloutCollector.RolloutCollector
      const agent = yield* DesktopAgent
      const program = Episode.program({
        environment: desktop(yield* ArtifactStore.ArtifactStore),
        agent,
        limits: EpisodeLimits.make({ maxSteps: 9 })
      })
      const { contract } = agent
      const failures = FailurePolicy.once
      const options = { runId: RunId.make("test"), concurrency: 2, model: "scripted", contract, failures }
      yield* Stream.runDrain(collector.collect(Stream.fromIterable(rows), program, options))
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          RolloutCollector.layer({ out }),
          Evidence.layer({ out }),
          Registry.layer(chosen, { sampling: new Sampling({ temperature: 0.5 }), maxSteps: 9, screen })
        ).pipe(
          Layer.provideMerge(ArtifactStore.layer({ directory: `${out}/blobs` })),
          Layer.provide(Layer.succeed(ModelClient, model(options.room ?? 100))),
          Layer.provide(Layer.succeed(HistoryPolicy, policy))
        )
      )
    )
  })

const withFolder = <A, E>(use: (out: string) => Effect.Effect<A, E, NodeContext.NodeContext>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    return yield* use(yield* fs.makeTempDirectoryScoped())
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const deskhand = (...args: ReadonlyArray<string>) => Cli.main(["node", "deskhand", ...args])

const replay: Verify.VerifyOptions["replay"] = ({ contract, instruction, settings }, sampling) =>
  Registry.replay({ settings, contract, instruction, sampling })

describe("deskhand verify", () => {
  const policies = ["fixed:1", "fixed:3", "hysteresis:2,4", "sink:1,2,4", "compaction:2,4", "compaction:2,4,trained"]
  for (const history of policies) {
    it.effect(`makes every prompt of a run again, retries among them, under ${history}`, () =>
      withFolder((out) =>
        Effect.gen(function* () {
          yield* run(out, { history })
          const report = yield* Verify.run(out, { replay })
          assert.deepStrictEqual(Verify.faultsOf(report), [])
          assert.strictEqual(report.rollouts.length, 2)
          for (const { calls, replayed, steps } of report.rollouts) {
            assert.strictEqual(steps, 9)
            // Two of the nine steps take a second call.
            assert.isAtLeast(calls, 11)
            assert.strictEqual(replayed, calls)
          }
        })
      )
    )
  }

  for (const agent of Registry.names) {
    it.effect(`makes every prompt of ${agent} again, whatever it made of the replies`, () =>
      withFolder((out) =>
        Effect.gen(function* () {
          yield* run(out, { agent, history: "fixed:3" })
          const report = yield* Verify.run(out, { replay })
          assert.deepStrictEqual(Verify.faultsOf(report), [])
          for (const { calls, replayed } of report.rollouts) {
            assert.isAtLeast(calls, 1)
            assert.strictEqual(replayed, calls)
          }
        })
      )
    )
  }

  it.effect("makes prompts again that were too long and became shorter", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        yield* run(out, { history: "hysteresis:2,4", room: 3 })
        const report = yield* Verify.run(out, { replay })
        assert.deepStrictEqual(Verify.faultsOf(report), [])
        const evidence = yield* Effect.flatMap(FileSystem.FileSystem, (fs) =>
          fs.readFileString(`${out}/evidence/a.0-0.jsonl`)
        )
        assert.include(evidence, "context_overflow")
        assert.include(evidence, '"limit":3')
      })
    )
  )

  it.effect("finds nothing wrong where the model gave no reply, and the rollout is masked", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        yield* run(out, { history: "fixed:3", room: 0 })
        const fs = yield* FileSystem.FileSystem
        assert.strictEqual((yield* fs.readFileString(`${out}/failures.jsonl`)).trim().split("\n").length, 2)
        const report = yield* Verify.run(out, { replay })
        assert.deepStrictEqual(Verify.faultsOf(report), [])
      })
    )
  )

  it.effect("ends in 0 on a whole run, in 1 on a changed one, and in 2 on what is no run", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* run(out, { history: "fixed:3" })
        assert.strictEqual(yield* deskhand("verify", out), 0)
        const file = `${out}/evidence/a.0-0.jsonl`
        const content = yield* fs.readFileString(file)
        yield* fs.writeFileString(file, content.replace("I click.", "I clock."))
        assert.strictEqual(yield* deskhand("verify", out), 1)
        assert.strictEqual(yield* deskhand("verify", `${out}/nowhere`), 2)
        const text = render(yield* Verify.run(out, { replay }))
        assert.match(text, /a\.0-0\.jsonl:\d+: chain_broken/)
        // The reply was changed, and so every later prompt comes out otherwise.
        assert.match(text, /a\.0-0\.jsonl:\d+: prompt_differs: the prompt, byte \d+: expected ".*I clock/)
      })
    )
  )
})

describe("deskhand export", () => {
  for (const format of formats) {
    it.effect(`writes ${format}, a line for each rollout`, () =>
      withFolder((out) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          yield* run(out, { history: "hysteresis:2,4" })
          const target = `${out}/exported.jsonl`
          assert.strictEqual(yield* deskhand("export", out, "--format", format, "--out", target), 0)
          const lines = (yield* fs.readFileString(target)).trim().split("\n")
          assert.strictEqual(lines.length, 2)
          for (const line of lines) assert.isObject(JSON.parse(line))
        })
      )
    )
  }

  it.effect("leaves out what is not whole, names it, and ends in 1", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* run(out, { history: "fixed:3" })
        yield* fs.truncate(`${out}/evidence/a.0-0.jsonl`, FileSystem.Size(700))
        const target = `${out}/exported.jsonl`
        assert.strictEqual(yield* deskhand("export", out, "--format", "atif", "--out", target), 1)
        const lines = (yield* fs.readFileString(target)).trim().split("\n")
        assert.strictEqual(lines.length, 1)
      })
    )
  )
})
