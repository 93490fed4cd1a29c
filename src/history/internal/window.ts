import type { HistoryPlan, HistoryState, Interval } from "../HistoryPolicy.js"

/**
 * The first `sink` images for good, and the newest. When the images are more than `high`, all but `low` of them go, the
 * sink counted in both. Wants `low > sink >= 0` and `high >= low`.
 */
export interface Window {
  readonly sink: number
  readonly low: number
  readonly high: number
}

/**
 * The plan of one turn. The window only ever moves forward, so an image that has left a prompt does not come back, and
 * only a move of it changes what earlier turns look like: that is the break.
 */
export const planWindow = (
  { high, low, sink }: Window,
  state: HistoryState,
  completedTurns: number,
  limit: number = Number.POSITIVE_INFINITY
): Omit<HistoryPlan, "summary"> => {
  const turns = completedTurns + 1
  const images = (start: number): number => (start <= sink ? turns : sink + turns - start)
  // The newest turn is shown whatever a state from elsewhere says.
  const before = Math.min(state.imageWindowStart, completedTurns)
  const wanted = images(before) > high ? turns - (low - sink) : before
  const most = Math.max(limit, sink + 1)
  const clamped = images(wanted) > most
  const start = clamped ? turns - (most - sink) : wanted
  const compaction = start !== before
  return {
    imageIntervals: intervals(sink, start, turns),
    compaction,
    clamped,
    next: compaction ? { imageWindowStart: start, compactionEpoch: state.compactionEpoch + 1 } : state
  }
}

const intervals = (sink: number, start: number, turns: number): ReadonlyArray<Interval> =>
  start <= sink
    ? [[0, turns]]
    : sink === 0
      ? [[start, turns]]
      : [
          [0, sink],
          [start, turns]
        ]

/** Throws a `RangeError` that names the option and what it has to be. */
export const wants = (condition: boolean, message: string): void => {
  if (!condition) throw new RangeError(message)
}

/** Throws a `RangeError` unless the value is an integer of at least `least`. */
export const wantsInteger = (name: string, value: number, least: number): void =>
  wants(
    Number.isSafeInteger(value) && value >= least,
    `${name} is ${value}, and has to be a whole number of at least ${least}`
  )
