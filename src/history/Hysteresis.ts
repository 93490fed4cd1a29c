/**
 * The newest images, between a low and a high water: images gather until there are more than the high water allows, then
 * all but the low water go at once. In between, prompts only grow, and a prefix cache serves what has been sent before.
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
export interface HysteresisOptions {
  /** Images that a break leaves, the current one among them; at least 1. */
  readonly lowWater: number
  /** The most images in a prompt; more than `lowWater`. */
  readonly highWater: number
}

/**
 * Throws a `RangeError` when the options are no integers with `1 <= lowWater < highWater`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = ({ highWater, lowWater }: HysteresisOptions): HistoryPolicy["Type"] => {
  wantsInteger("lowWater", lowWater, 1)
  wantsInteger("highWater", highWater, 1)
  wants(
    highWater > lowWater,
    `highWater is ${highWater}, and has to be more than lowWater, ${lowWater}; a window of one size is a fixed window`
  )
  const config = {
    schema_version: 1,
    name: "hysteresis",
    params: { low_water: lowWater, high_water: highWater }
  } as const
  const window = { sink: 0, low: lowWater, high: highWater }
  return {
    config,
    id: policyId(config),
    initial: initialState,
    pinnedImages: 0,
    maximumImages: highWater,
    supportsAppendStableIntervals: true,
    plan: (state, completedTurns, limit) => planWindow(window, state, completedTurns, limit)
  }
}

/**
 * The policy as a service.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: HysteresisOptions): Layer.Layer<HistoryPolicy> =>
  Layer.sync(HistoryPolicy, () => make(options))
