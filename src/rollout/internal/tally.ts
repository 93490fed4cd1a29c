/** What a collection has done and taken so far, in memory that does not grow with it. */
import type { Usage } from "../../model/ModelClient.js"
import { type NotStartedReason, quantile } from "../DispatchBudget.js"

/** Durations that are kept: enough for percentiles, and new ones count more than those of hours ago. */
const kept = 1_000

/** Milliseconds; of the newest `kept` rollouts, but for `max`. */
export interface Latency {
  readonly count: number
  readonly median: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

export interface Tally {
  finished: number
  failed: number
  unresolved: number
  /** Attempts that failed and were followed by another. */
  retried: number
  /** Rollouts that an earlier run scored, or gave up. */
  earlier: number
  /** Rows whose rollout another row is for. */
  duplicates: number
  readonly notStarted: Map<NotStartedReason, number>
  promptTokens: number
  completionTokens: number
  readonly durations: Durations
}

export class Durations {
  private readonly newest: Array<number> = []
  private count = 0
  private max = 0
  private sorted: ReadonlyArray<number> | undefined

  add(milliseconds: number): void {
    this.newest[this.count % kept] = milliseconds
    this.count += 1
    this.max = Math.max(this.max, milliseconds)
    this.sorted = undefined
  }

  get ascending(): ReadonlyArray<number> {
    this.sorted ??= this.newest.slice().sort((a, b) => a - b)
    return this.sorted
  }

  get latency(): Latency {
    const { ascending, count, max } = this
    return {
      count,
      median: quantile(ascending, 0.5),
      p90: quantile(ascending, 0.9),
      p99: quantile(ascending, 0.99),
      max
    }
  }
}

export const make = (): Tally => ({
  finished: 0,
  failed: 0,
  unresolved: 0,
  retried: 0,
  earlier: 0,
  duplicates: 0,
  notStarted: new Map(),
  promptTokens: 0,
  completionTokens: 0,
  durations: new Durations()
})

export const notStarted = (tally: Tally, reason: NotStartedReason): void => {
  tally.notStarted.set(reason, (tally.notStarted.get(reason) ?? 0) + 1)
}

export const spent = (tally: Tally, usage: Usage): void => {
  tally.promptTokens += usage.promptTokens ?? 0
  tally.completionTokens += usage.completionTokens ?? 0
}
