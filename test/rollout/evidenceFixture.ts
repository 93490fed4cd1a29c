/** A run's folder on disk, made through the same doors that a run uses, for tests of what reads it. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import type { HistoryPolicy } from "../../src/history/HistoryPolicy.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import {
  AssistantMessage,
  ImagePart,
  type Message,
  ReasoningPart,
  system,
  text,
  user
} from "../../src/model/Conversation.js"
import { ModelReply } from "../../src/model/ModelClient.js"
import { Sampling } from "../../src/model/Sampling.js"
import { TokenBundle } from "../../src/model/TokenBundle.js"
import { ModelCall, ParseFailure, PlanFacts, Reading, Replied, ShownFacts } from "../../src/rollout/Agent.js"
import { type AgentContract, contractId } from "../../src/rollout/Contract.js"
import { Observation, StepFacts } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import * as Evidence from "../../src/rollout/Evidence.js"
import { Scored, Step, StepCalls } from "../../src/rollout/Outcome.js"
import * as Row from "../../src/rollout/Row.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import type * as Verify from "../../src/rollout/Verify.js"

export const identity = new RolloutIdentity({
  runId: RunId.make("test-run"),
  taskId: "task-0",
  taskIndex: 0,
  rolloutIndex: 0,
  attemptIndex: 0
})

export const withRun = <A, E>(
  use: (
    out: string
  ) => Effect.Effect<
    A,
    E,
    FileSystem.FileSystem | Evidence.Evidence | ArtifactStore.ArtifactStore | NodeContext.NodeContext
  >
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const out = yield* fs.makeTempDirectoryScoped()
    return yield* Effect.provide(
      use(out),
      Evidence.layer({ out }).pipe(Layer.provideMerge(ArtifactStore.layer({ directory: `${out}/blobs` })))
    )
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const fixedPolicy = {
  schema_version: 1,
  name: "fixed",
  params: { keep_images: 2 }
} as const

export const contract = (historyPolicyId: string): AgentContract => ({
  schema_version: 1,
  runner: {
    name: "test",
    kind: "test",
    action_space: "pyautogui",
    observation_type: "screenshot",
    agent_class_path: "test",
    platform: "ubuntu",
    screen_size: [1920, 1080]
  },
  max_steps: 15,
  model_protocol: null,
  history_policy: { ...fixedPolicy, history_policy_id: historyPolicyId, supports_append_stable_intervals: false },
  agent_options: null
})

/** The policy that the toy agent plans by. */
export const policy = FixedWindow.make({ keepImages: 2 })

/** What the toy agent shows at a step: the instruction, each turn's reply, and the last two screenshots. */
export const prompt = (
  turns: ReadonlyArray<{ readonly shown: ShownFacts; readonly reply: AssistantMessage }>,
  now: ShownFacts
): ReadonlyArray<Message> => [
  system("You use a computer."),
  ...turns.flatMap(({ reply, shown }, turn) => [
    turn === turns.length - 1 ? user(new ImagePart({ blob: shown.image })) : user(text(`(screen ${turn})`)),
    new AssistantMessage({ role: "assistant", content: reply.content })
  ]),
  user(new ImagePart({ blob: now.image }))
]

/** Tokens of a prompt: any that extend as the messages do. */
const numbers = (from: number, count: number) => Array.from({ length: count }, (_, index) => from + index)

export interface Options {
  readonly steps: number
  readonly tokens?: boolean
  /** Whether the second step's first reply could not be read. */
  readonly retry?: boolean
}

/** The records of an episode of a toy agent, in order. */
export const episode = (policyId: string, { retry = false, steps, tokens = false }: Options) =>
  Effect.gen(function* () {
    const store = yield* ArtifactStore.ArtifactStore
    const records: Array<Evidence.EvidenceRecord> = [
      new Evidence.Started({
        schemaVersion: 1,
        identity,
        taskId: "task-0",
        instruction: "Do it",
        contract: contract(policyId),
        contractId: contractId(contract(policyId)),
        settings: { agent: "toy" }
      })
    ]
    const turns: Array<{ readonly shown: ShownFacts; readonly reply: AssistantMessage }> = []
    let prompted = numbers(0, 20)
    for (let step = 0; step < steps; step++) {
      const screenshot = yield* store.put(Buffer.from(`screen ${step}`), "image/png")
      records.push({ _tag: "Observed", step, observation: new Observation({ screenshot, milliseconds: 1 }) })
      const shown = new ShownFacts({ image: screenshot })
      const tries = retry && step === 1 ? 2 : 1
      for (let parseAttempt = 0; parseAttempt < tries; parseAttempt++) {
        const bad = parseAttempt < tries - 1
        const generation = numbers(1000 + 10 * step + 5 * parseAttempt, 5)
        const message = new AssistantMessage({
          role: "assistant",
          content: [new ReasoningPart({ text: `thought ${step}` }), text(bad ? "what?" : `act ${step}`)],
          ...(tokens
            ? {
                tokens: new TokenBundle({
                  promptTokenIds: prompted,
                  generationTokenIds: generation,
                  generationLogProbs: generation.map((id) => -1 / id)
                })
              }
            : {})
        })
        const reply = new ModelReply({
          message,
          finishReason: "stop",
          model: "toy",
          sent: { temperature: 0 },
          attempts: 1,
          milliseconds: 3
        })
        records.push({
          _tag: "Called",
          step,
          call: new ModelCall({
            step,
            parseAttempt,
            purpose: "act",
            messages: prompt(turns, shown),
            sampling: new Sampling({ temperature: 0 }),
            plan: new PlanFacts({
              policyId,
              completedTurns: step,
              imageIntervals: [[Math.max(0, step - 1), step + 1]],
              compaction: step >= 2
            }),
            ...(parseAttempt === 0 ? { shown } : {}),
            result: new Replied({
              reply,
              read: bad
                ? new ParseFailure({ kind: "unparseable", message: "no code" })
                : new Reading({ decisions: [`act ${step}`] })
            })
          })
        })
        if (!bad) {
          turns.push({ shown, reply: message })
          prompted = [...prompted, ...generation, ...numbers(5000 + 20 * step, 20)]
        }
      }
      records.push({
        _tag: "Acted",
        step,
        action: `act ${step}`,
        facts: new StepFacts({ exitCode: 0, milliseconds: 2, done: false })
      })
    }
    const last = yield* store.put(Buffer.from(`screen ${steps}`), "image/png")
    records.push({ _tag: "Observed", step: steps, observation: new Observation({ screenshot: last, milliseconds: 1 }) })
    records.push({ _tag: "Ended", termination: new AgentDone() })
    records.push({ _tag: "Evaluated", evaluation: new Evaluation({ score: 1, details: [] }) })
    return records
  })

/** Puts the records on disk. Returns the file. */
export const write = (out: string, records: ReadonlyArray<Evidence.EvidenceRecord>) =>
  Effect.gen(function* () {
    const evidence = yield* Evidence.Evidence
    const log = yield* evidence.open(identity)
    for (const record of records) yield* log.append(record)
    return `${out}/evidence/${Evidence.fileStem(identity)}.jsonl`
  }).pipe(Effect.scoped)

export const readBack = (file: string) =>
  Effect.map(Stream.runCollect(Evidence.entries(file)), (found) => Array.from(found))

/** The row that goes with those records, made as a run makes it. */
export const rowOf = (policyId: string, records: ReadonlyArray<Evidence.EvidenceRecord>) => {
  const steps: Array<Step> = []
  for (const record of records) {
    if (record._tag === "Observed") {
      steps.push(
        new Step({
          step: record.step,
          text: "",
          actions: [],
          facts: [],
          screenshot: record.observation.screenshot.sha256,
          observeMilliseconds: 1,
          decideMilliseconds: 1,
          calls: new StepCalls({ count: 0, failures: {}, shrinks: [] })
        })
      )
    }
    const last = steps.at(-1)
    if (last === undefined) continue
    if (record._tag === "Acted")
      steps[steps.length - 1] = new Step({ ...last, actions: [...last.actions, record.action] })
    if (record._tag === "Called") {
      const count = (last.calls?.count ?? 0) + 1
      steps[steps.length - 1] = new Step({ ...last, calls: new StepCalls({ count, failures: {}, shrinks: [] }) })
    }
  }
  const outcome = new Scored({
    identity,
    termination: new AgentDone(),
    steps: steps.slice(0, -1),
    milliseconds: 5,
    evaluation: new Evaluation({ score: 1, details: [] }),
    reward: 1
  })
  const task = new TaskRow({ taskIndex: 0, taskId: "task-0", domain: "os", instruction: "Do it", task: {} })
  return Row.encode(outcome, task, { model: "toy", contract: contract(policyId) })
}

/** A whole run of one rollout: its evidence, its row and its manifest's id. Returns the evidence file. */
export const run = (out: string, policyId: string, options: Options) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const records = yield* episode(policyId, options)
    const file = yield* write(out, records)
    yield* fs.writeFileString(`${out}/rollouts.jsonl`, `${JSON.stringify(rowOf(policyId, records))}\n`)
    yield* fs.writeFileString(`${out}/run.json`, JSON.stringify({ run_id: identity.runId }))
    return file
  })

/** Makes the toy agent's calls again. */
export const replay = (policy: HistoryPolicy["Type"]) => (started: Evidence.Started) => {
  if (JSON.stringify(started.settings) !== JSON.stringify({ agent: "toy" })) return Option.none()
  const turns: Array<{ readonly shown: ShownFacts; readonly reply: AssistantMessage }> = []
  let shown: ShownFacts | undefined
  let history = policy.initial
  const replayer: Verify.Replayer = (call) => {
    shown = call.shown ?? shown
    if (shown === undefined) return Either.left("nothing was shown")
    const plan = policy.plan(history, turns.length)
    const messages = prompt(turns, shown)
    const { parseAttempt, result, sampling } = call
    if (result._tag === "Replied" && result.read._tag === "Reading") {
      turns.push({ shown, reply: result.reply.message })
      history = plan.next
    }
    return Either.right({
      purpose: "act",
      parseAttempt,
      messages,
      plan: new PlanFacts({
        policyId: policy.id,
        completedTurns: turns.length - (result._tag === "Replied" && result.read._tag === "Reading" ? 1 : 0),
        imageIntervals: plan.imageIntervals,
        compaction: plan.compaction
      }),
      sampling,
      read: result._tag === "Replied" ? result.read : undefined
    })
  }
  return Option.some(replayer)
}

/** A reply with other tokens behind it. */
export const withTokens = (message: AssistantMessage, tokens: ConstructorParameters<typeof TokenBundle>[0]) =>
  new AssistantMessage({ role: "assistant", content: message.content, tokens: new TokenBundle(tokens) })
