/** The one loop around every agent that asks a model: makes observations ready, asks, records, and answers with decisions. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { ArtifactStore } from "../../artifact/ArtifactStore.js"
import type { DesktopAction } from "../../desktop/Action.js"
import { HistoryPolicy } from "../../history/HistoryPolicy.js"
import { type Canonical, stableId } from "../../identity/StableId.js"
import { ModelClient, ModelRequest } from "../../model/ModelClient.js"
import { Sampling } from "../../model/Sampling.js"
import { type Agent, ModelCall, ShownFacts } from "../../rollout/Agent.js"
import type { AgentContract } from "../../rollout/Contract.js"
import type { Protocol, Shown, Size } from "../Protocol.js"
import { prepare } from "./prepare.js"
import * as Turns from "./turns.js"

/** Prompts are made of messages and parts that were checked when they were made; to look again costs more than the plan. */
const checked = true

/** How an agent is run, whatever it is. */
export interface LoopOptions {
  /** As asked for; the server's own values hold for what is absent. */
  readonly sampling?: Sampling
  /** The desktop user's password, told to the model; OSWorld's `password` unless given. */
  readonly password?: string
  /** Pixels; 1920 by 1080 unless given. */
  readonly screen?: Size
  /** Steps that an episode may have, for the contract; 15 unless given. */
  readonly maxSteps?: number
  /** What the protocol can be made from again. */
  readonly settings?: Canonical
}

export const defaultScreen: Size = { width: 1920, height: 1080 }
export const defaultPassword = "password"

export const contractOf = (
  protocol: Protocol,
  policy: HistoryPolicy["Type"],
  options: Pick<LoopOptions, "screen" | "maxSteps">
): AgentContract => {
  const { height, width } = options.screen ?? defaultScreen
  const { contract, parserId, protocolId, thinking } = protocol.wire
  const { agentClassPath, kind, name } = protocol.runner ?? {
    name: protocol.name,
    kind: protocol.name,
    agentClassPath: protocol.name
  }
  // A policy with summaries shows the model one more text.
  const hashed =
    policy.config.name === "compaction" ? [contract, { summary_request: Turns.summaryRequest }] : [contract]
  return {
    schema_version: 1,
    runner: {
      name,
      kind,
      action_space: protocol.actionSpace,
      observation_type: protocol.observation,
      agent_class_path: agentClassPath,
      platform: "ubuntu",
      screen_size: [width, height]
    },
    max_steps: options.maxSteps ?? 15,
    model_protocol: {
      schema_version: 1,
      protocol_id: protocolId,
      parser_id: parserId,
      thinking,
      wire_contract_id: stableId("osworld-model-wire", ...hashed)
    },
    history_policy: {
      ...policy.config,
      history_policy_id: policy.id,
      supports_append_stable_intervals: policy.supportsAppendStableIntervals
    },
    agent_options: protocol.options
  }
}

const shownFacts = ({ image, marks, tree }: Shown): ShownFacts =>
  new ShownFacts({
    image,
    ...(tree === undefined ? {} : { tree }),
    ...(marks === undefined ? {} : { marks })
  })

export const make = (
  protocol: Protocol,
  options: LoopOptions = {}
): Effect.Effect<Agent<DesktopAction>, never, ModelClient | HistoryPolicy | ArtifactStore> =>
  Effect.gen(function* () {
    const client = yield* ModelClient
    const policy = yield* HistoryPolicy
    const store = yield* ArtifactStore
    const screen = options.screen ?? defaultScreen
    const password = options.password ?? defaultPassword
    return {
      contract: contractOf(protocol, policy, options),
      ...(options.settings === undefined ? {} : { settings: { protocol: options.settings, password } }),
      open: ({ identity, record, row }) =>
        Effect.sync(() => {
          const setup: Turns.Setup = {
            protocol,
            policy,
            instruction: row.instruction,
            password,
            screen,
            sampling: options.sampling ?? new Sampling({})
          }
          let state = Turns.initial(policy)
          return {
            decide: Effect.fnUntraced(function* (observation, step) {
              const shown = yield* prepare(store, protocol, screen, observation, step)
              let asking = Turns.begin(setup, state, shown, step)
              for (;;) {
                const { made: parseAttempt, messages, plan, purpose, sampling, tools } = asking
                const said = { messages, sampling, step, parseAttempt, ...(tools === undefined ? {} : { tools }) }
                const outcome = yield* Effect.either(client.complete(new ModelRequest({ ...said, identity }, checked)))
                const { next, result } = Turns.answered(setup, asking, outcome)
                yield* record(
                  new ModelCall(
                    {
                      ...said,
                      purpose,
                      plan,
                      result,
                      ...(parseAttempt === 0 ? { shown: shownFacts(shown) } : {})
                    },
                    checked
                  )
                )
                switch (next._tag) {
                  case "Ask":
                    asking = next.asking
                    break
                  case "Failed":
                    return yield* next.error
                  case "Turn":
                    state = next.state
                    return next.turn
                }
              }
            })
          }
        })
    }
  })

// -----------------------------------------------------------------------------
// Replay
// -----------------------------------------------------------------------------

/** What a call of the evidence should have been. */
export interface Replayed {
  readonly purpose: ModelCall["purpose"]
  readonly parseAttempt: number
  readonly messages: ModelCall["messages"]
  readonly plan: ModelCall["plan"]
  readonly sampling: Sampling
  /** How the recorded reply reads; none for a call that failed. */
  readonly read: Extract<ModelCall["result"], { readonly _tag: "Replied" }>["read"] | undefined
}

/**
 * Takes the calls of a rollout in their order and says of each what it should have been; or, in words, why that cannot
 * be said. It keeps what later prompts repeat, and nothing else.
 */
export type Replayer = (call: ModelCall) => Either.Either<Replayed, string>

export const replayer = (setup: Turns.Setup): Replayer => {
  let state = Turns.initial(setup.policy)
  let pending: Turns.Asking | undefined
  let ended: string | undefined
  return (call) => {
    if (ended !== undefined) return Either.left(ended)
    if (pending === undefined) {
      if (call.shown === undefined)
        return Either.left(`step ${call.step} begins with a call that does not say what it showed`)
      pending = Turns.begin(setup, state, call.shown, call.step)
    }
    const asking = pending
    if (asking.step !== call.step) {
      ended = `step ${asking.step} wants another call, and the next one is of step ${call.step}`
      return Either.left(ended)
    }
    const outcome = call.result._tag === "Replied" ? Either.right(call.result.reply) : Either.left(call.result.error)
    const { next, result } = Turns.answered(setup, asking, outcome)
    switch (next._tag) {
      case "Ask":
        pending = next.asking
        break
      case "Failed":
        ended = `a call of step ${call.step} got no reply, which ends a rollout`
        break
      case "Turn":
        pending = undefined
        state = next.state
        if (next.turn.stop !== undefined) ended = `the agent stopped at step ${call.step}, which ends a rollout`
        break
    }
    return Either.right({
      purpose: asking.purpose,
      parseAttempt: asking.made,
      messages: asking.messages,
      plan: asking.plan,
      sampling: asking.sampling,
      read: result._tag === "Replied" ? result.read : undefined
    })
  }
}
