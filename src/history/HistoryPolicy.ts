/**
 * Which screenshots a model still sees: a pure planner, named by a hash of its configuration.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { stableId } from "../identity/StableId.js"

/**
 * What is hashed into the policy's id: exactly these keys.
 *
 * @since 0.1.0
 * @category models
 */
export const HistoryPolicyConfig = Schema.Struct({
  schema_version: Schema.Literal(1),
  name: Schema.NonEmptyString,
  params: Schema.Record({ key: Schema.String, value: Schema.Union(Schema.Int, Schema.Boolean) })
})

/**
 * @since 0.1.0
 * @category models
 */
export type HistoryPolicyConfig = typeof HistoryPolicyConfig.Type

/**
 * What a policy carries from turn to turn.
 *
 * @since 0.1.0
 * @category models
 */
export const HistoryState = Schema.Struct({
  /** The first turn of the newest run of live images. */
  imageWindowStart: Schema.NonNegativeInt,
  /** How often a plan has broken the previous prompt's prefix. */
  compactionEpoch: Schema.NonNegativeInt
})

/**
 * @since 0.1.0
 * @category models
 */
export type HistoryState = typeof HistoryState.Type

/**
 * Where every policy starts.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initialState: HistoryState = { imageWindowStart: 0, compactionEpoch: 0 }

/**
 * Turns `[start, end)`, counted from 0.
 *
 * @since 0.1.0
 * @category models
 */
export type Interval = readonly [start: number, end: number]

/**
 * A summary that stands for the first `turns` turns: their texts and images are not in the prompt. It is made when `turns`
 * is not that of the prompt before, and kept as long as it is.
 *
 * @since 0.1.0
 * @category models
 */
export interface SummaryPlan {
  /** A whole number, at least 1 and at most the completed turns; no image of these turns is shown. */
  readonly turns: number
}

/**
 * The plan for one prompt. Turns count from 0; the newest has no reply yet.
 *
 * @since 0.1.0
 * @category models
 */
export interface HistoryPlan {
  /** The turns whose images are shown, in order and apart. Other turns are text. */
  readonly imageIntervals: ReadonlyArray<Interval>
  /** Whether this prompt does not extend the previous one. */
  readonly compaction: boolean
  /** Whether the limit made the plan smaller than the policy would have it: fewer images than without a limit. */
  readonly clamped: boolean
  readonly summary?: SummaryPlan
  readonly next: HistoryState
}

/**
 * Which turns and images a model still sees, as a service.
 *
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
    /** The first images, which no break and no limit takes away; 0 for most policies. */
    readonly pinnedImages: number
    /** The most images that any prompt has; `Infinity` for a policy that never lets one go. */
    readonly maximumImages: number
    /**
     * Whether prompts still extend each other, now and then, after one that shows `maximumImages`, so that a prefix cache is
     * of use; not so for a window that slides by one image a turn. A policy that lets no image go says yes.
     */
    readonly supportsAppendStableIntervals: boolean
    /**
     * The plan for the prompt that follows `completedTurns` answered turns. `limit` is the most images that the prompt may
     * have; the pinned ones and the newest stay even so.
     */
    readonly plan: (state: HistoryState, completedTurns: number, limit?: number) => HistoryPlan
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

/**
 * Whether a summary has to be made before a plan's prompt. `held` is how many turns the summary at hand stands for, if there
 * is one.
 *
 * @since 0.1.0
 * @category predicates
 */
export const wantsNewSummary = (plan: HistoryPlan, held: number | undefined): boolean =>
  plan.summary !== undefined && plan.summary.turns !== held

/**
 * How many images a plan shows.
 *
 * @since 0.1.0
 * @category queries
 */
export const imageCount = (plan: HistoryPlan): number =>
  plan.imageIntervals.reduce((sum, [start, end]) => sum + end - start, 0)

/**
 * A configuration that no policy can be made of.
 *
 * @since 0.1.0
 * @category errors
 */
export class HistoryPolicyError extends Data.TaggedError("HistoryPolicyError")<{ readonly message: string }> {}

/**
 * The plan that comes after one that the model refused because its prompt was too long: one image fewer, never below
 * the pinned ones and the newest. `None` when there is no smaller plan. `state` is the one that the refused plan was made from.
 *
 * @since 0.1.0
 * @category decisions
 */
export const shrink = (
  policy: HistoryPolicy["Type"],
  state: HistoryState,
  completedTurns: number,
  refused: HistoryPlan
): Option.Option<{ readonly limit: number; readonly plan: HistoryPlan }> => {
  const before = imageCount(refused)
  const limit = before - 1
  if (limit < policy.pinnedImages + 1) return Option.none()
  const plan = policy.plan(state, completedTurns, limit)
  // A policy that pays no heed to the limit would have us ask for the same prompt for ever.
  return imageCount(plan) < before ? Option.some({ limit, plan }) : Option.none()
}
