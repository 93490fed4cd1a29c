/**
 * The newest images, a fixed number of them: what most OSWorld agents do. Once the window is full, every prompt breaks the
 * prefix of the one before.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import { HistoryPolicy, initialState, policyId } from "./HistoryPolicy.js"
import { planWindow, wantsInteger } from "./internal/window.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface FixedWindowOptions {
  /** Images in a prompt, the current one among them; at least 1. */
  readonly keepImages: number
}

/**
 * Throws a `RangeError` when `keepImages` is no positive integer.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = ({ keepImages }: FixedWindowOptions): HistoryPolicy["Type"] => {
  wantsInteger("keepImages", keepImages, 1)
  const config = { schema_version: 1, name: "fixed", params: { keep_images: keepImages } } as const
  const window = { sink: 0, low: keepImages, high: keepImages }
  return {
    config,
    id: policyId(config),
    initial: initialState,
    pinnedImages: 0,
    maximumImages: keepImages,
    supportsAppendStableIntervals: false,
    plan: (state, completedTurns, limit) => planWindow(window, state, completedTurns, limit)
  }
}

/**
 * The policy as a service.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: FixedWindowOptions): Layer.Layer<HistoryPolicy> =>
  Layer.sync(HistoryPolicy, () => make(options))
