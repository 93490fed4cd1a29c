/** Which agent a run has, under which history policy, and whether it is the one that was trained. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { DesktopAgent } from "../../agents/DesktopAgent.js"
import * as Noop from "../../agents/Noop.js"
import type { Dialect } from "../../agents/Protocol.js"
import * as Registry from "../../agents/Registry.js"
import type { ArtifactStore } from "../../artifact/ArtifactStore.js"
import * as BuiltIn from "../../history/BuiltIn.js"
import { HistoryPolicy } from "../../history/HistoryPolicy.js"
import { showIssues } from "../../identity/Issues.js"
import type { ModelClient } from "../../model/ModelClient.js"
import type { Sampling } from "../../model/Sampling.js"
import * as Contract from "../../rollout/Contract.js"
import { type UsageError, usage } from "./usage.js"

export interface AgentAsked {
  /** `noop`, or an agent of the registry with its options. */
  readonly agent: string
  /** A history policy's short form; the agent's own unless given. */
  readonly history: Option.Option<string>
  /** A file with the texts of another project's prompts. */
  readonly wireContract: Option.Option<string>
  /** A file with the contract that the agent must have. */
  readonly contract: Option.Option<string>
  readonly contractMode: Contract.ParityMode
  readonly maxSteps: number
}

export interface AgentChoice {
  readonly contract: Contract.AgentContract
  /** Where a contract was given to compare with. */
  readonly parity: Option.Option<Contract.Parity>
  /** The wire that the agent speaks to its model. */
  readonly dialect: Dialect
  /** `None` for the agent that asks no model. */
  readonly layer: Option.Option<(sampling: Sampling) => Layer.Layer<DesktopAgent, never, ModelClient | ArtifactStore>>
}

const parse = <A, I>(schema: Schema.Schema<A, I>, option: string, what: string, file: string) => {
  const decode = Schema.decodeUnknown(schema, { onExcessProperty: "error" })
  return Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.mapError(fs.readFileString(file), (error) =>
      usage(`${option} names ${file}, which could not be read: ${error.message}`)
    )
    const json = yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: () => usage(`${option} names ${file}, which is no JSON`)
    })
    return yield* Effect.mapError(decode(json), (error) =>
      usage(`${option} names ${file}, which is not ${what}: ${showIssues(error)}`)
    )
  })
}

const WireContract = Schema.Record({ key: Schema.String, value: Contract.AgentOption })

const chosen = ({ agent, wireContract }: AgentAsked) =>
  Effect.gen(function* () {
    const plain = yield* Registry.fromText(agent)
    if (Option.isNone(wireContract)) return plain
    const wire = yield* parse(WireContract, "--wire-contract", "texts by their names", wireContract.value)
    return yield* Registry.make(plain.name, { ...plain.options, wire })
  })

const chat: Dialect = "chat"

const resolve = (asked: AgentAsked) =>
  Effect.gen(function* () {
    if (asked.agent === "noop") {
      const useless = [
        ...(Option.isSome(asked.history) ? ["--history"] : []),
        ...(Option.isSome(asked.wireContract) ? ["--wire-contract"] : [])
      ]
      if (useless.length > 0) return yield* usage(`${useless.join(" and ")}: the agent noop shows nothing to a model`)
      return { contract: Contract.withMaxSteps(Noop.contract, asked.maxSteps), dialect: chat, layer: Option.none() }
    }
    const agent = yield* chosen(asked)
    const policy = yield* BuiltIn.fromText(Option.getOrElse(asked.history, () => agent.protocol.historyPolicy))
    const { maxSteps } = asked
    return {
      contract: Registry.contract(agent, policy, { maxSteps }),
      dialect: agent.protocol.dialect ?? chat,
      layer: Option.some((sampling: Sampling) =>
        Layer.provide(Registry.layer(agent, { sampling, maxSteps }), Layer.succeed(HistoryPolicy, policy))
      )
    }
  }).pipe(Effect.mapError(({ message }) => usage(message)))

/** Resolves the agent and compares its contract with the one in `--contract`. Reads files and starts nothing. */
export const choose = (asked: AgentAsked): Effect.Effect<AgentChoice, UsageError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { contract, dialect, layer } = yield* resolve(asked)
    if (Option.isNone(asked.contract)) return { contract, dialect, layer, parity: Option.none() }
    const training = yield* parse(
      Contract.AgentContract,
      "--contract",
      "what --print-contract writes",
      asked.contract.value
    )
    const parity = Contract.parity(asked.contractMode, training, contract)
    if (asked.contractMode === "strict" && parity.differences.length > 0) {
      return yield* usage(
        [
          `this is not the agent of ${asked.contract.value}:`,
          ...parity.differences.map((difference) => `  ${Contract.describe(difference, "there", "here")}`),
          "Run the same agent, or start all the same with --contract-mode declared, which writes the differences down"
        ].join("\n")
      )
    }
    return { contract, dialect, layer, parity: Option.some(parity) }
  })

/** The contract as `--contract` reads it. */
export const print = (contract: Contract.AgentContract): string => JSON.stringify(contract, null, 2)
