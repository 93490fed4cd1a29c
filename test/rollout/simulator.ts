/** An environment and an agent of plain data, for tests of what runs them: the faults are the ones that real desktops don't produce on demand. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import { assistant, text, user } from "../../src/model/Conversation.js"
import { ModelReply } from "../../src/model/ModelClient.js"
import type { ModelError } from "../../src/model/ModelError.js"
import { Sampling } from "../../src/model/Sampling.js"
import {
  type Agent,
  type AgentContext,
  type AgentError,
  type AgentTurn,
  type Decision,
  ModelCall,
  PlanFacts,
  Replied
} from "../../src/rollout/Agent.js"
import type { AgentContract } from "../../src/rollout/Contract.js"
import {
  type Environment,
  type EnvironmentError,
  type EnvironmentSession,
  Observation,
  type ObservationNeeds,
  StepFacts
} from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { Evidence, type EvidenceError, type EvidenceRecord } from "../../src/rollout/Evidence.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"

export const observation = new Observation({
  screenshot: new BlobRef({ sha256: "0".repeat(64), bytes: 1, mediaType: "image/png" }),
  milliseconds: 1
})

export const row = (taskIndex = 0): TaskRow =>
  new TaskRow({ taskIndex, taskId: `task-${taskIndex}`, domain: "os", instruction: "Do it", task: {} })

export const runId = RunId.make("test-run")

export const identity = (taskIndex = 0): RolloutIdentity =>
  new RolloutIdentity({ runId, taskId: `task-${taskIndex}`, taskIndex, rolloutIndex: 0, attemptIndex: 0 })

/** What happened, in order: `open`, `agent open`, `observe`, `step x`, `agent close`, `evaluate`, `close`. */
export type Trace = Array<string>

export const environment = (
  trace: Trace,
  faults: {
    readonly open?: Effect.Effect<void, EnvironmentError>
    /** Is told what the environment is opened with. */
    readonly needs?: (needs: ObservationNeeds) => void
    readonly observe?: EnvironmentSession<string>["observe"]
    readonly step?: (action: string) => Effect.Effect<StepFacts, EnvironmentError>
    readonly evaluate?: EnvironmentSession<string>["evaluate"]
    readonly lost?: EnvironmentSession<string>["lost"]
  } = {}
): Environment<string> => ({
  show: (action) => action,
  open: (_, __, needs) =>
    Effect.gen(function* () {
      faults.needs?.(needs)
      yield* Effect.acquireRelease(
        Effect.sync(() => trace.push("open")),
        () => Effect.sync(() => trace.push("close"))
      )
      yield* faults.open ?? Effect.void
      return {
        observe: Effect.zipRight(
          Effect.sync(() => trace.push("observe")),
          faults.observe ?? Effect.succeed(observation)
        ),
        step: (action) =>
          Effect.zipRight(
            Effect.sync(() => trace.push(`step ${action}`)),
            faults.step?.(action) ?? Effect.succeed(new StepFacts({ exitCode: 0, milliseconds: 1, done: false }))
          ),
        wait: Effect.as(
          Effect.sync(() => trace.push("wait")),
          new StepFacts({ milliseconds: 1, done: false })
        ),
        evaluate: (termination) =>
          Effect.zipRight(
            Effect.sync(() => trace.push("evaluate")),
            faults.evaluate?.(termination) ?? Effect.succeed(new Evaluation({ score: 1, details: [] }))
          ),
        lost: faults.lost ?? Effect.never
      }
    })
})

export const contract: AgentContract = {
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
  max_steps: 3,
  model_protocol: null,
  history_policy: null,
  agent_options: null
}

/** An agent whose turns are effects, `decide(record)` for each step: for what a list of decisions cannot say. */
export const deciding = <E extends ModelError | AgentError | EvidenceError>(
  decide: (context: AgentContext, step: number) => Effect.Effect<AgentTurn<string>, E>,
  observation: AgentContract["runner"]["observation_type"] = "screenshot"
): Agent<string> => ({
  contract: { ...contract, runner: { ...contract.runner, observation_type: observation } },
  open: (context) => Effect.succeed({ decide: (_, step) => decide(context, step) })
})

/** Plays the turns in order; what it does past the last is `after`. */
export const agent = (
  trace: Trace,
  turns: ReadonlyArray<ReadonlyArray<Decision<string>>>,
  after: Effect.Effect<never, ModelError> = Effect.never
): Agent<string> => ({
  contract,
  open: () =>
    Effect.acquireRelease(
      Effect.sync(() => {
        trace.push("agent open")
        return {
          decide: (_: Observation, step: number) => {
            const decisions = turns[step]
            return decisions === undefined ? after : Effect.succeed({ decisions, text: `turn ${step}` })
          }
        }
      }),
      () => Effect.sync(() => trace.push("agent close"))
    )
})

export const evidence = (records: Array<EvidenceRecord> = []): Layer.Layer<Evidence> =>
  Layer.succeed(Evidence, {
    open: () => Effect.succeed({ append: (record) => Effect.sync(() => void records.push(record)) })
  })

/** A model call of plain data: `read` is what came of its reply, and `images` how many its prompt showed. */
export const call = (
  step: number,
  parseAttempt: number,
  result: ModelCall["result"],
  plan?: { readonly images: number; readonly limit?: number }
): ModelCall =>
  new ModelCall({
    step,
    parseAttempt,
    purpose: "act",
    messages: [user(text("what now?"))],
    sampling: new Sampling({}),
    ...(plan === undefined
      ? {}
      : {
          plan: new PlanFacts({
            policyId: "test",
            completedTurns: step,
            imageIntervals: [[0, plan.images]],
            compaction: false,
            ...(plan.limit === undefined ? {} : { limit: plan.limit })
          })
        }),
    result
  })

export const replied = (read: Replied["read"], said = "click"): Replied =>
  new Replied({
    read,
    reply: new ModelReply({
      message: assistant(text(said)),
      finishReason: "stop",
      model: "test",
      sent: {},
      attempts: 1,
      milliseconds: 1
    })
  })
