/**
 * A model that thinks nothing, takes its time over it and fails as often as it is told to; and an agent that obeys it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { DesktopAgent } from "../agents/DesktopAgent.js"
import { DesktopAction } from "../desktop/Action.js"
import { AssistantMessage, text, user } from "../model/Conversation.js"
import { Limits } from "../model/Limits.js"
import { ModelClient, ModelReply, ModelRequest, Usage } from "../model/ModelClient.js"
import { ModelError } from "../model/ModelError.js"
import { Sampling } from "../model/Sampling.js"
import { type Agent, CallFailed, Decision, ModelCall, Reading, Replied } from "../rollout/Agent.js"
import type { AgentContract } from "../rollout/Contract.js"
import { Distribution, draw, sample } from "./Distribution.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ModelOptions {
  /** Another one gives other spans and faults. */
  readonly seed: string
  /** Of a call; nothing unless given. */
  readonly latency?: Distribution
  /** How likely a call is to come to nothing, by why; 0 unless given. */
  readonly faults?: Readonly<Partial<Record<ModelError["reason"], number>>>
  /** What is said; `click(n)` at step n unless given. The agent below takes `DONE` and `FAIL` at their word. */
  readonly reply?: (request: ModelRequest) => string
}

const url = "simulated://model"

/** Checking what is known to be right would be most of what a simulated call costs. */
const unchecked = true

const sampling = new Sampling({})

/**
 * Calls go through `model/Limits`, as those of real clients do.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: ModelOptions): ModelClient["Type"] => {
  const { faults = {}, latency = Distribution.Fixed({ milliseconds: 0 }), seed } = options
  const reply = options.reply ?? (({ step }: ModelRequest) => `click(${step})`)
  const reasons = Object.entries(faults)
  const call = (request: ModelRequest) =>
    Effect.gen(function* () {
      const name = [request.identity.rolloutId, request.step, request.parseAttempt ?? 0]
      const milliseconds = sample(latency, seed, "call", ...name)
      if (milliseconds > 0) yield* Effect.sleep(milliseconds)
      const fault = reasons.find(([reason, likely]) => draw(seed, "fault", reason, ...name) < likely)
      if (fault !== undefined) {
        const [reason] = fault
        return yield* new ModelError({ reason: known(reason), url, detail: "the simulated model failed", attempts: 1 })
      }
      const said = reply(request)
      const usage = { promptTokens: 1_000 * (request.step + 1), completionTokens: said.length }
      return new ModelReply(
        {
          message: new AssistantMessage({ role: "assistant", content: [text(said)] }, unchecked),
          finishReason: "stop",
          model: "simulated",
          usage: new Usage(usage, unchecked),
          sent: {},
          attempts: 1,
          milliseconds
        },
        unchecked
      )
    })
  return {
    model: "simulated",
    complete: (request) => Effect.flatMap(Limits, (limits) => limits.withPermit(() => call(request)))
  }
}

const reasons: ReadonlyArray<ModelError["reason"]> = ModelError.fields.reason.literals

const known = (reason: string): ModelError["reason"] => reasons.find((each) => each === reason) ?? "unavailable"

/**
 * The simulated model as a client.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: ModelOptions): Layer.Layer<ModelClient> => Layer.succeed(ModelClient, make(options))

const contract: AgentContract = {
  schema_version: 1,
  runner: {
    name: "simulated",
    kind: "simulated",
    action_space: "pyautogui",
    observation_type: "screenshot",
    agent_class_path: "simulated",
    platform: "ubuntu",
    screen_size: [1920, 1080]
  },
  max_steps: 15,
  model_protocol: null,
  history_policy: null,
  agent_options: null
}

const decisionOf = (said: string): Decision<DesktopAction> => {
  if (said === "DONE") return Decision.Done()
  return said === "FAIL" ? Decision.Fail() : Decision.Act({ action: DesktopAction.Python({ code: said }) })
}

/**
 * An agent that asks a model once a step and does what it says.
 *
 * @since 0.1.0
 * @category constructors
 */
export const agent = (client: ModelClient["Type"]): Agent<DesktopAction> => ({
  contract,
  open: ({ identity, record, row }) =>
    Effect.sync(() => {
      const messages = [user(text(row.instruction))] as const
      return {
        decide: (_, step) => {
          const call = (result: ModelCall["result"]) =>
            record(new ModelCall({ step, parseAttempt: 0, purpose: "act", messages, sampling, result }, unchecked))
          return client.complete(new ModelRequest({ messages, sampling, identity, step }, unchecked)).pipe(
            Effect.tapError((error) => call(new CallFailed({ error }, unchecked))),
            Effect.tap((reply) =>
              call(new Replied({ reply, read: new Reading({ decisions: [reply.text] }, unchecked) }, unchecked))
            ),
            Effect.map((reply) => ({ decisions: [decisionOf(reply.text)], text: reply.text }))
          )
        }
      }
    })
})

/**
 * That agent, asking whatever model is there.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerAgent: Layer.Layer<DesktopAgent, never, ModelClient> = Layer.effect(
  DesktopAgent,
  Effect.map(ModelClient, agent)
)
