/**
 * Which screenshots a model still sees: a pure planner, named by a hash of its configuration.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import { stableId } from "../identity/StableId.js"

/**
 * What is hashed into the policy's id: exactly these keys.
 *
 * @since 0.1.0
 * @category models
 */
export interface HistoryPolicyConfig {
  readonly schema_version: 1
  readonly name: string
  readonly params: Readonly<Record<string, number>>
}

/**
 * What a policy carries from turn to turn.
 *
 * @since 0.1.0
 * @category models
 */
export class HistoryState extends Schema.Class<HistoryState>("deskhand/history/HistoryState")({
  /** The first turn whose image is live. */
  imageWindowStart: Schema.NonNegativeInt,
  /** How often a plan has broken the previous prompt's prefix. */
  compactionEpoch: Schema.NonNegativeInt
}) {}

/**
 * Where every policy starts.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initialState = new HistoryState({ imageWindowStart: 0, compactionEpoch: 0 })

/**
 * The plan for one prompt. Turns count from 0; the newest has no reply yet.
 *
 * @since 0.1.0
 * @category models
 */
export interface HistoryPlan {
  /** Half-open intervals `[start, end)` of the turns whose images are shown, in order and apart. Other turns are text. */
  readonly imageIntervals: ReadonlyArray<readonly [start: number, end: number]>
  /** Whether this prompt does not extend the previous one. */
  readonly compaction: boolean
  readonly next: HistoryState
}

/**
 * @since 0.1.0
 * @category context
 */
export class HistoryPolicy extends Context.Tag("deskhand/history/HistoryPolicy")<
  HistoryPolicy,
  {
    readonly config: HistoryPolicyConfig
    /** `osworld-history-policy-` and 24 hexadecimal digits. */
    readonly id: string
    readonly initial: HistoryState
    /** The plan for the prompt that follows `completedTurns` answered turns. */
    readonly plan: (state: HistoryState, completedTurns: number) => HistoryPlan
  }
>() {}

/**
 * The id of a policy with this configuration.
 *
 * @since 0.1.0
 * @category constructors
 */
export const policyId = (config: HistoryPolicyConfig): string =>
  stableId("osworld-history-policy", { ...config, params: { ...config.params } })

/**
 * Whether a turn's image is shown by a plan.
 *
 * @since 0.1.0
 * @category predicates
 */
export const isLive = (plan: HistoryPlan, turn: number): boolean =>
  plan.imageIntervals.some(([start, end]) => start <= turn && turn < end)
