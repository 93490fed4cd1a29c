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

export interface Counts {
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
}

/** Of one collection: what is counted in it counts for its collector, too. */
export interface Tally {
  readonly own: Counts
  readonly collector: Counts
  /** Of all collections: how long rollouts take does not begin anew with each. */
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

export const counts = (): Counts => ({
  finished: 0,
  failed: 0,
  unresolved: 0,
  retried: 0,
  earlier: 0,
  duplicates: 0,
  notStarted: new Map(),
  promptTokens: 0,
  completionTokens: 0
})

type Countable = "finished" | "failed" | "unresolved" | "retried" | "earlier" | "duplicates"

export const count = ({ collector, own }: Tally, what: Countable): void => {
  own[what] += 1
  collector[what] += 1
}

export const notStarted = ({ collector, own }: Tally, reason: NotStartedReason): void => {
  for (const { notStarted } of [own, collector]) notStarted.set(reason, (notStarted.get(reason) ?? 0) + 1)
}

export const spent = ({ collector, own }: Tally, usage: Usage): void => {
  for (const counts of [own, collector]) {
    counts.promptTokens += usage.promptTokens ?? 0
    counts.completionTokens += usage.completionTokens ?? 0
  }
}
