/**
 * The first images for good, and the newest between a low and a high water: the model never loses sight of where the task
 * began.
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
export interface SinkWindowOptions {
  /** The first images, which stay; at least 1. */
  readonly sink: number
  /** Images that a break leaves, the sink and the current one among them; more than `sink`. */
  readonly lowWater: number
  /** The most images in a prompt, the sink among them; at least `lowWater`. When they are equal, the window slides. */
  readonly highWater: number
}

/**
 * Throws a `RangeError` when the options are no integers with `1 <= sink < lowWater <= highWater`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = ({ highWater, lowWater, sink }: SinkWindowOptions): HistoryPolicy["Type"] => {
  wantsInteger("sink", sink, 1)
  wantsInteger("lowWater", lowWater, 1)
  wantsInteger("highWater", highWater, 1)
  wants(
    lowWater > sink,
    `lowWater is ${lowWater}, and has to be more than sink, ${sink}: it counts the sink and the current image`
  )
  wants(highWater >= lowWater, `highWater is ${highWater}, and has to be at least lowWater, ${lowWater}`)
  const config = {
    schema_version: 1,
    name: "sink_window",
    params: { sink, low_water: lowWater, high_water: highWater }
  } as const
  const window = { sink, low: lowWater, high: highWater }
  return {
    config,
    id: policyId(config),
    initial: initialState,
    pinnedImages: sink,
    maximumImages: highWater,
    supportsAppendStableIntervals: highWater > lowWater,
    plan: (state, completedTurns, limit) => planWindow(window, state, completedTurns, limit)
  }
}

/**
 * The policy as a service.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: SinkWindowOptions): Layer.Layer<HistoryPolicy> =>
  Layer.sync(HistoryPolicy, () => make(options))
