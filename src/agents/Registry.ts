/**
 * The agents by name. A new one is a file of its own and a line here.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import * as BuiltIn from "../history/BuiltIn.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import { showIssues } from "../identity/Issues.js"
import type { Canonical } from "../identity/StableId.js"
import type { ModelClient } from "../model/ModelClient.js"
import { Sampling } from "../model/Sampling.js"
import type { AgentContract } from "../rollout/Contract.js"
import * as ClaudeComputerUse from "./ClaudeComputerUse.js"
import { DesktopAgent } from "./DesktopAgent.js"
import * as loop from "./internal/loop.js"
import * as NanoOmni from "./NanoOmni.js"
import * as OpenAIComputerUse from "./OpenAIComputerUse.js"
import * as OpenCUA from "./OpenCUA.js"
import * as Prompt from "./Prompt.js"
import type { Protocol } from "./Protocol.js"
import * as Qwen from "./Qwen.js"
import * as UITars from "./UITars.js"

/**
 * An agent that does not exist was asked for, or one with options that it does not take. The message lists what there is.
 *
 * @since 0.1.0
 * @category errors
 */
export class RegistryError extends Data.TaggedError("RegistryError")<{ readonly message: string }> {}

/**
 * The options of an agent, as JSON; what they are, each agent's file says.
 *
 * @since 0.1.0
 * @category models
 */
export type AgentOptions = { readonly [key: string]: Canonical }

interface Entry {
  readonly make: (options: { readonly [key: string]: unknown }) => Either.Either<Protocol, ParseResult.ParseError>
}

const entry = <A, I>(options: Schema.Schema<A, I>, make: (options: A) => Protocol): Entry => {
  const decode = Schema.decodeUnknownEither(options, { onExcessProperty: "error" })
  return { make: (given) => Either.map(decode(given), make) }
}

const entries: Readonly<Record<string, Entry>> = {
  prompt: entry(Prompt.Options, Prompt.make),
  "nano-omni": entry(NanoOmni.Options, NanoOmni.make),
  "ui-tars": entry(UITars.Options, UITars.make),
  "qwen2.5-vl": entry(Qwen.Options, Qwen.make("2.5")),
  "qwen3-vl": entry(Qwen.Options, Qwen.make("3")),
  opencua: entry(OpenCUA.Options, OpenCUA.make),
  kimi: entry(OpenCUA.KimiOptions, OpenCUA.makeKimi),
  "openai-computer-use": entry(OpenAIComputerUse.Options, OpenAIComputerUse.make),
  "claude-computer-use": entry(ClaudeComputerUse.Options, ClaudeComputerUse.make)
}

/**
 * The agents that ask a model. `noop`, which asks none, is none of them.
 *
 * @since 0.1.0
 * @category queries
 */
export const names: ReadonlyArray<string> = Object.keys(entries)

/**
 * An agent with its options, as it is asked for and as evidence names it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Chosen {
  readonly name: string
  readonly options: AgentOptions
  readonly protocol: Protocol
}

/**
 * The agent of this name with these options.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (name: string, options: AgentOptions = {}): Either.Either<Chosen, RegistryError> => {
  const found = Object.hasOwn(entries, name) ? entries[name] : undefined
  if (found === undefined) {
    return Either.left(
      new RegistryError({
        message: `there is no agent ${JSON.stringify(name)}: the agents are ${names.join(", ")} and noop`
      })
    )
  }
  return Either.mapBoth(found.make(options), {
    onLeft: (error) =>
      new RegistryError({
        message: `the agent ${name} cannot be had with these options: ${showIssues(error)}`
      }),
    onRight: (protocol) => ({ name, options, protocol })
  })
}

const value = (text: string): Canonical => {
  switch (text) {
    case "true":
      return true
    case "false":
      return false
    case "null":
      return null
    default:
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
  }
}

/**
 * The agent that a text names: `prompt`, or `prompt:observation=som,action_space=pyautogui` with options.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromText = (text: string): Either.Either<Chosen, RegistryError> => {
  const at = text.indexOf(":")
  const name = at < 0 ? text : text.slice(0, at)
  const pairs = at < 0 ? [] : text.slice(at + 1).split(",")
  const options: Record<string, Canonical> = {}
  for (const pair of pairs) {
    const equals = pair.indexOf("=")
    if (equals < 1) {
      return Either.left(
        new RegistryError({
          message: `${JSON.stringify(pair)} in ${JSON.stringify(text)} is no option: write NAME:KEY=VALUE,KEY=VALUE`
        })
      )
    }
    options[pair.slice(0, equals)] = value(pair.slice(equals + 1))
  }
  return make(name, options)
}

/**
 * What a run says about an agent, whichever it is.
 *
 * @since 0.1.0
 * @category models
 */
export type RunOptions = Omit<loop.LoopOptions, "settings">

/**
 * The agent as a layer. The history policy is whichever layer provides it; `protocol.historyPolicy` names the agent's own.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  { name, options, protocol }: Chosen,
  run: RunOptions = {}
): Layer.Layer<DesktopAgent, never, ModelClient | HistoryPolicy | ArtifactStore> =>
  Layer.effect(DesktopAgent, loop.make(protocol, { ...run, settings: { name, options } }))

/**
 * The contract of an agent under a history policy, without a model: for comparing before a run.
 *
 * @since 0.1.0
 * @category queries
 */
export const contract = (
  { protocol }: Chosen,
  policy: HistoryPolicy["Type"],
  run: Pick<RunOptions, "screen" | "maxSteps"> = {}
): AgentContract => loop.contractOf(protocol, policy, run)

// -----------------------------------------------------------------------------
// Replay
// -----------------------------------------------------------------------------

/**
 * What the head of an evidence file has to say for its prompts to be put together again.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReplayHead {
  /** `settings` of the agent. */
  readonly settings: unknown
  readonly contract: AgentContract
  readonly instruction: string
  /** As asked for; the default sampling unless given. */
  readonly sampling?: Sampling
}

export type {
  /**
   * What a call should have been.
   *
   * @since 0.1.0
   * @category models
   */
  Replayed,
  /**
   * Is given the calls of a rollout, in order.
   *
   * @since 0.1.0
   * @category models
   */
  Replayer
} from "./internal/loop.js"

const Settings = Schema.Struct({
  protocol: Schema.Struct({
    name: Schema.String,
    options: Schema.Record({ key: Schema.String, value: Schema.Unknown })
  }),
  password: Schema.String
})

/**
 * Puts the prompts of a rollout together again. `None` where the agent or its history policy is not one of ours.
 *
 * @since 0.1.0
 * @category operations
 */
export const replay = (head: ReplayHead): Option.Option<loop.Replayer> =>
  Option.gen(function* () {
    const settings = yield* Schema.decodeUnknownOption(Settings)(head.settings)
    const found = yield* Option.fromNullable(
      Object.hasOwn(entries, settings.protocol.name) ? entries[settings.protocol.name] : undefined
    )
    const protocol = yield* Either.getRight(found.make(settings.protocol.options))
    const { history_policy } = head.contract
    if (history_policy === null) return yield* Option.none()
    const { name, params, schema_version } = history_policy
    const policy = yield* Either.getRight(BuiltIn.fromConfig({ name, params, schema_version }))
    const [width, height] = head.contract.runner.screen_size
    return loop.replayer({
      protocol,
      policy,
      instruction: head.instruction,
      password: settings.password,
      screen: { width, height },
      sampling: head.sampling ?? new Sampling({})
    })
  })
