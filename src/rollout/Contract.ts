/**
 * What makes two agents the same: whatever changes what the model sees, or what is read from its replies, hashed.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { HistoryPolicyConfig } from "../history/HistoryPolicy.js"
import { type Canonical, canonicalJson, float, type Hashable, stableId } from "../identity/StableId.js"

/**
 * How an agent looks at the environment: the screen, its accessibility tree, both, or the screen with marks on what can
 * be clicked.
 *
 * @since 0.1.0
 * @category models
 */
export const ObservationType = Schema.Literal("screenshot", "a11y_tree", "screenshot_a11y_tree", "som")

/**
 * @since 0.1.0
 * @category models
 */
export type ObservationType = typeof ObservationType.Type

/**
 * Whether an agent that looks so needs the accessibility tree; marks are made from it too.
 *
 * @since 0.1.0
 * @category predicates
 */
export const needsAccessibilityTree = (observation: ObservationType): boolean => observation !== "screenshot"

/**
 * The value of an agent's option: JSON that has one canonical form.
 *
 * @since 0.1.0
 * @category models
 */
export const AgentOption: Schema.Schema<Canonical> = Schema.suspend(() =>
  Schema.Union(
    Schema.Null,
    Schema.Boolean,
    Schema.JsonNumber.pipe(
      Schema.filter(
        (number) => !Number.isInteger(number) || Number.isSafeInteger(number) || "expected a smaller integer"
      )
    ),
    Schema.String,
    Schema.Array(AgentOption),
    Schema.Record({ key: Schema.String, value: AgentOption })
  )
)

/**
 * The keys are the ones that the field hashes.
 *
 * @since 0.1.0
 * @category models
 */
export const AgentContract = Schema.Struct({
  schema_version: Schema.Literal(1),
  runner: Schema.Struct({
    name: Schema.String,
    kind: Schema.String,
    action_space: Schema.String,
    observation_type: ObservationType,
    /** An opaque constant that published ids are made of; the name of the agent where there are none. */
    agent_class_path: Schema.String,
    platform: Schema.String,
    /** Pixels: width, height. */
    screen_size: Schema.Tuple(Schema.Int, Schema.Int)
  }),
  max_steps: Schema.Int.pipe(Schema.positive()),
  model_protocol: Schema.NullOr(
    Schema.Struct({
      schema_version: Schema.Literal(1),
      protocol_id: Schema.String,
      parser_id: Schema.String,
      thinking: Schema.Boolean,
      wire_contract_id: Schema.String
    })
  ),
  history_policy: Schema.NullOr(
    Schema.Struct({
      ...HistoryPolicyConfig.fields,
      history_policy_id: Schema.String,
      supports_append_stable_intervals: Schema.Boolean
    })
  ),
  agent_options: Schema.NullOr(Schema.Record({ key: Schema.String, value: AgentOption }))
})

/**
 * @since 0.1.0
 * @category models
 */
export type AgentContract = typeof AgentContract.Type

const toCanonical = ({ agent_options, history_policy, model_protocol, runner, ...rest }: AgentContract) => ({
  ...rest,
  runner: { ...runner, screen_size: [...runner.screen_size] },
  model_protocol: model_protocol === null ? null : { ...model_protocol },
  history_policy: history_policy === null ? null : { ...history_policy, params: { ...history_policy.params } },
  agent_options
})

/** Options that the published recipe has as floats: 1 is hashed as `1.0`. */
const floatOptions: ReadonlySet<string> = new Set(["parse_retry_temperature"])

const toHashable = (contract: AgentContract): Hashable => ({
  ...toCanonical(contract),
  agent_options:
    contract.agent_options === null
      ? null
      : Object.fromEntries(
          Object.entries(contract.agent_options).map(([name, value]) => [
            name,
            floatOptions.has(name) && typeof value === "number" ? float(value) : value
          ])
        )
})

/**
 * `osworld-agent-contract-` and 24 hexadecimal digits.
 *
 * @since 0.1.0
 * @category constructors
 */
export const contractId = (contract: AgentContract): string => stableId("osworld-agent-contract", toHashable(contract))

/**
 * The contract of the same agent in episodes of so many steps.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withMaxSteps = (contract: AgentContract, maxSteps: number): AgentContract => ({
  ...contract,
  max_steps: maxSteps
})

// -----------------------------------------------------------------------------
// Comparison
// -----------------------------------------------------------------------------

/**
 * A place where two contracts are not the same. A value is absent where that contract has no such key.
 *
 * @since 0.1.0
 * @category models
 */
export const Difference = Schema.Struct({
  /** Keys from the top, joined by dots: `history_policy.params.keep_images`. */
  path: Schema.String,
  left: Schema.optionalWith(AgentOption, { exact: true }),
  right: Schema.optionalWith(AgentOption, { exact: true })
})

/**
 * @since 0.1.0
 * @category models
 */
export type Difference = typeof Difference.Type

type Keyed = { readonly [key: string]: Canonical }

const isKeyed = (value: Canonical | undefined): value is Keyed =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const entry = (value: Keyed, key: string): Canonical | undefined => (Object.hasOwn(value, key) ? value[key] : undefined)

const between = (
  path: string,
  left: Canonical | undefined,
  right: Canonical | undefined
): ReadonlyArray<Difference> => {
  if (isKeyed(left) && isKeyed(right)) {
    const keys = Array.from(new Set([...Object.keys(left), ...Object.keys(right)])).sort()
    return keys.flatMap((key) => between(path === "" ? key : `${path}.${key}`, entry(left, key), entry(right, key)))
  }
  if (left !== undefined && right !== undefined && canonicalJson(left) === canonicalJson(right)) return []
  return [{ path, ...(left === undefined ? {} : { left }), ...(right === undefined ? {} : { right }) }]
}

/**
 * Every place where two contracts differ, by path; none exactly where their ids are equal. A list is one value.
 *
 * @since 0.1.0
 * @category decisions
 */
export const compare = (left: AgentContract, right: AgentContract): ReadonlyArray<Difference> =>
  between("", toCanonical(left), toCanonical(right))

const shown = (value: Canonical | undefined): string => (value === undefined ? "nothing" : canonicalJson(value))

/**
 * A difference for a reader: `max_steps: 100 in training, 15 here`.
 *
 * @since 0.1.0
 * @category encoding
 */
export const describe = (difference: Difference, left: string, right: string): string =>
  `${difference.path}: ${shown(difference.left)} ${left}, ${shown(difference.right)} ${right}`

/**
 * What is done where the agent of a run is not the one that a contract describes: `strict` does not start, `declared`
 * starts and writes the differences down.
 *
 * @since 0.1.0
 * @category models
 */
export const ParityMode = Schema.Literal("strict", "declared")

/**
 * @since 0.1.0
 * @category models
 */
export type ParityMode = typeof ParityMode.Type

/**
 * How the agent of a run stands to the one that was trained: part of the manifest.
 *
 * @since 0.1.0
 * @category models
 */
export const Parity = Schema.Struct({
  mode: ParityMode,
  /** The contract that was given, and the one of this run. */
  training_contract_id: Schema.String,
  evaluation_contract_id: Schema.String,
  /** `left` is training, `right` is this run. */
  differences: Schema.Array(Difference)
})

/**
 * @since 0.1.0
 * @category models
 */
export type Parity = typeof Parity.Type

/**
 * How the contract of training differs from this run's; no difference where they are the same agent.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parity = (mode: ParityMode, training: AgentContract, evaluation: AgentContract): Parity => ({
  mode,
  training_contract_id: contractId(training),
  evaluation_contract_id: contractId(evaluation),
  differences: compare(training, evaluation)
})
