/**
 * The newest images, a fixed number of them: what most OSWorld agents do.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import { HistoryPolicy, HistoryState, initialState, policyId } from "./HistoryPolicy.js"

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
  if (!Number.isSafeInteger(keepImages) || keepImages < 1) {
    throw new RangeError(`keepImages is ${keepImages}; a fixed window keeps at least 1 image`)
  }
  const config = { schema_version: 1, name: "fixed", params: { keep_images: keepImages } } as const
  return {
    config,
    id: policyId(config),
    initial: initialState,
    plan: (state, completedTurns) => {
      const turns = completedTurns + 1
      const start = Math.max(0, turns - keepImages)
      const compaction = start !== state.imageWindowStart
      return {
        imageIntervals: [[start, turns]],
        compaction,
        next: new HistoryState({
          imageWindowStart: start,
          compactionEpoch: state.compactionEpoch + (compaction ? 1 : 0)
        })
      }
    }
  }
}

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: FixedWindowOptions): Layer.Layer<HistoryPolicy> =>
  Layer.sync(HistoryPolicy, () => make(options))
