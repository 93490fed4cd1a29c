/**
 * What a collection is asked for, and what can be said of it: plain data.
 *
 * @since 0.1.0
 */
import type { RunId } from "../identity/Identity.js"
import type { AdmissionOptions } from "./Admissions.js"
import type { BreakerOptions } from "./CircuitBreaker.js"
import type { AgentContract } from "./Contract.js"
import type { DispatchBudget, NotStartedReason } from "./DispatchBudget.js"
import type * as FailurePolicy from "./FailurePolicy.js"
import type { Latency } from "./internal/tally.js"
import type { TaskRow } from "./TaskRow.js"

// -----------------------------------------------------------------------------
// Options
// -----------------------------------------------------------------------------

/**
 * @since 0.1.0
 * @category models
 */
export interface CollectOptions {
  readonly runId: RunId
  /** Rollouts that run at the same time. */
  readonly concurrency: number
  /** Rollouts of each task; 1 unless given. */
  readonly groupSize?: number
  /** The model's name, for the rows; `none` unless given. */
  readonly model?: string
  /** The agent's contract, for the rows; none unless given. */
  readonly contract?: AgentContract
  /** How fast and how far rollouts are let in. */
  readonly admission?: AdmissionOptions
  /** What is tried again; `FailurePolicy.standard` unless given. */
  readonly failures?: FailurePolicy.FailurePolicy
  /** When a run that only fails stops to wait; the defaults of `BreakerOptions` unless given. */
  readonly breaker?: BreakerOptions | "off"
  /** What this collection may take; no limit unless given. */
  readonly budget?: DispatchBudget
  /**
   * How long a rollout will take, in any unit: of those that wait, the longest starts first. In their order, and fairly
   * over tasks, unless given.
   */
  readonly longestFirst?: (row: TaskRow) => number
}

// -----------------------------------------------------------------------------
// What was, is and came of it
// -----------------------------------------------------------------------------

/**
 * What is kept of a row that an earlier run scored.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScoredBefore {
  readonly reward: number
  readonly score: number
  /** How many steps were taken. */
  readonly steps: number
  /** The field's word for the termination. */
  readonly termination: string
  readonly milliseconds: number
}

/**
 * What is kept of a rollout that failed when it was last tried.
 *
 * @since 0.1.0
 * @category models
 */
export interface FailedBefore extends FailurePolicy.Failure {
  readonly attempt: number
  /** How often it failed in all, by class. */
  readonly failures: FailurePolicy.Tally
}

/**
 * What an earlier run in the same folder left, by rollout key (`{task}-{rollout}`).
 *
 * @since 0.1.0
 * @category models
 */
export interface Finished {
  readonly scored: ReadonlyMap<string, ScoredBefore>
  /** Of those that are not scored: how many attempts there were, so that the next one has this index. */
  readonly attempts: ReadonlyMap<string, number>
  /** Of those, the ones whose last attempt failed; a run tries them again as far as its policy lets it. */
  readonly failed: ReadonlyMap<string, FailedBefore>
}

/**
 * What a collector has done since it was made; nothing is counted twice. `finished + failed + unresolved + notStarted`
 * and what was `earlier` is every rollout of every row that it read.
 *
 * @since 0.1.0
 * @category models
 */
export interface CollectSummary {
  readonly finished: number
  readonly failed: number
  readonly unresolved: number
  /** Attempts that failed and were followed by another. */
  readonly retried: number
  /** Rollouts that were scored before, or failed for good. */
  readonly earlier: number
  /** Rows that were passed over, because another row is for the same rollout. */
  readonly duplicates: number
  readonly notStarted: ReadonlyMap<NotStartedReason, number>
  /** How long attempts took, without their waits, in milliseconds. */
  readonly latency: Latency
  readonly promptTokens: number
  readonly completionTokens: number
  /** In the unit of the budget's prices; 0 without. */
  readonly cost: number
}

/**
 * What goes on at this moment.
 *
 * @since 0.1.0
 * @category models
 */
export interface CollectStatus {
  readonly running: number
  readonly waiting: number
  /** How many may run. */
  readonly concurrency: number
  readonly paused: boolean
  readonly draining: boolean
  /** Ids of the attempts that are under way. */
  readonly rollouts: ReadonlyArray<string>
}
