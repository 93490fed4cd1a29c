/**
 * What makes two agents the same: whatever changes what the model sees, or what is read from its replies, hashed.
 *
 * @since 0.1.0
 */
import type { HistoryPolicyConfig } from "../history/HistoryPolicy.js"
import { type Canonical, stableId } from "../identity/StableId.js"

/**
 * How an agent looks at the environment: the screen, its accessibility tree, both, or the screen with marks on what can
 * be clicked.
 *
 * @since 0.1.0
 * @category models
 */
export type ObservationType = "screenshot" | "a11y_tree" | "screenshot_a11y_tree" | "som"

/**
 * The keys are the ones that the field hashes.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentContract {
  readonly schema_version: 1
  readonly runner: {
    readonly name: string
    readonly kind: string
    readonly action_space: string
    readonly observation_type: ObservationType
    /** An opaque constant that published ids are made of; the name of the agent where there are none. */
    readonly agent_class_path: string
    readonly platform: string
    /** Pixels: width, height. */
    readonly screen_size: readonly [number, number]
  }
  readonly max_steps: number
  readonly model_protocol: {
    readonly schema_version: 1
    readonly protocol_id: string
    readonly parser_id: string
    readonly thinking: boolean
    readonly wire_contract_id: string
  } | null
  readonly history_policy:
    | (HistoryPolicyConfig & {
        readonly history_policy_id: string
        readonly supports_append_stable_intervals: boolean
      })
    | null
  readonly agent_options: { readonly [key: string]: Canonical } | null
}

/**
 * `osworld-agent-contract-` and 24 hexadecimal digits.
 *
 * @since 0.1.0
 * @category constructors
 */
export const contractId = (contract: AgentContract): string => stableId("osworld-agent-contract", toCanonical(contract))

const toCanonical = ({ agent_options, history_policy, model_protocol, runner, ...rest }: AgentContract): Canonical => ({
  ...rest,
  runner: { ...runner, screen_size: [...runner.screen_size] },
  model_protocol: model_protocol === null ? null : { ...model_protocol },
  history_policy: history_policy === null ? null : { ...history_policy, params: { ...history_policy.params } },
  agent_options
})
