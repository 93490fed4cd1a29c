/**
 * As hysteresis, and what leaves the prompt is summed up: when there are more images than the trigger allows, all but the
 * newest few turns, texts and images, give way to a summary that the model itself writes. The next break sums up that
 * summary and the turns since.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import { HistoryPolicy, initialState, policyId } from "./HistoryPolicy.js"
import { planWindow, wants, wantsInteger } from "./internal/window.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface CompactionOptions {
  /** Turns that a break leaves as they are, the current one among them; at least 1. */
  readonly keepImages: number
  /** The most images in a prompt; more than `keepImages`. */
  readonly triggerImages: number
  /** Whether a trainer learns from the summaries too; not unless given. */
  readonly trained?: boolean
}

/**
 * Throws a `RangeError` when the options are no integers with `1 <= keepImages < triggerImages`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = ({ keepImages, trained = false, triggerImages }: CompactionOptions): HistoryPolicy["Type"] => {
  wantsInteger("keepImages", keepImages, 1)
  wantsInteger("triggerImages", triggerImages, 1)
  wants(
    triggerImages > keepImages,
    `triggerImages is ${triggerImages}, and has to be more than keepImages, ${keepImages}: else every turn wants a summary`
  )
  const config = {
    schema_version: 1,
    name: "compaction",
    params: { keep_images: keepImages, trigger_images: triggerImages, trained }
  } as const
  const window = { sink: 0, low: keepImages, high: triggerImages }
  return {
    config,
    id: policyId(config),
    initial: initialState,
    pinnedImages: 0,
    maximumImages: triggerImages,
    supportsAppendStableIntervals: true,
    plan: (state, completedTurns, limit) => {
      const plan = planWindow(window, state, completedTurns, limit)
      const turns = plan.next.imageWindowStart
      return turns === 0 ? plan : { ...plan, summary: { turns } }
    }
  }
}

/**
 * The policy as a service.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: CompactionOptions): Layer.Layer<HistoryPolicy> =>
  Layer.sync(HistoryPolicy, () => make(options))
