/**
 * Two runs over the same tasks, rollout by rollout: who scores more, and whether that is more than repeats of one run differ.
 *
 * @since 0.1.0
 */
import * as Order from "effect/Order"
import { bootstrapMeans, mcnemar, mean, quantile } from "./internal/report/statistics.js"
import { type Entry, groupBy, isSuccess, scoreOf } from "./Metrics.js"

/**
 * How often the bootstrap draws.
 *
 * @since 0.1.0
 * @category constants
 */
export const draws = 10_000

/**
 * Below which a chance is too small for an accident.
 *
 * @since 0.1.0
 * @category constants
 */
export const significance = 0.05

/**
 * A task with measured rollouts on both sides. Its values are means over the rollouts that are measured on both.
 *
 * @since 0.1.0
 * @category models
 */
export interface ComparedTask {
  readonly taskId: string
  readonly domain: string
  /** Rollouts that are measured on both sides. */
  readonly pairs: number
  /** Mean scores, from 0 to 1. */
  readonly a: number
  readonly b: number
  /** Rollouts with a full score, out of `pairs`. */
  readonly successesA: number
  readonly successesB: number
}

/**
 * Means on both sides over the same rollouts, their difference, and the middle 95 % of its bootstrap. In percent and in
 * percentage points; each task counts the same.
 *
 * @since 0.1.0
 * @category models
 */
export interface Difference {
  readonly a: number
  readonly b: number
  /** b - a. */
  readonly difference: number
  readonly low: number
  readonly high: number
}

/**
 * Pairs of rollouts by who has a full score.
 *
 * @since 0.1.0
 * @category models
 */
export interface Discordance {
  readonly both: number
  readonly onlyA: number
  readonly onlyB: number
  readonly neither: number
  /** Two-sided exact McNemar: a binomial over the discordant pairs. */
  readonly p: number
}

/**
 * What may be said of the difference.
 *
 * @since 0.1.0
 * @category models
 */
export type Verdict =
  | { readonly _tag: "NoPairs" }
  /** `because` names what would have to be otherwise. */
  | { readonly _tag: "WithinNoise"; readonly because: "interval" | "test" | "both" }
  | { readonly _tag: "Beyond"; readonly better: "A" | "B" }

/**
 * @since 0.1.0
 * @category models
 */
export interface Comparison {
  /** By task id. */
  readonly tasks: ReadonlyArray<ComparedTask>
  /** Rollouts that are measured on both sides. */
  readonly pairs: number
  /** The most pairs that a task has. */
  readonly repeats: number
  /** Ids of tasks that only one run has. */
  readonly onlyInA: ReadonlyArray<string>
  readonly onlyInB: ReadonlyArray<string>
  /** Rollouts of tasks of both that are measured on one side alone: the other has no score or no such rollout. */
  readonly unpairedA: number
  readonly unpairedB: number
  /** Ids that a run gives to several tasks. Only the first counts. */
  readonly ambiguous: ReadonlyArray<string>
  /** Full scores. Absent without pairs, as all below. */
  readonly success?: Difference
  readonly score?: Difference
  readonly discordance?: Discordance
  /** The sorted draws of the difference of `success`, in percentage points. */
  readonly drawn?: Float64Array
  readonly seed: number
  readonly verdict: Verdict
}

/**
 * @since 0.1.0
 * @category models
 */
export interface CompareOptions {
  /** Of the bootstrap; the same seed gives the same interval. 0 unless given. */
  readonly seed?: number
}

/**
 * Decides what may be said. The difference is beyond noise when the interval leaves 0 out and, where each task has one pair,
 * McNemar's p is below 0.05 as well. With repeats only the interval decides, because it draws whole tasks: pairs of one task
 * are no independent trials, which is what McNemar's test takes them for.
 *
 * @since 0.1.0
 * @category decisions
 */
export const decide = ({ difference, high, low }: Difference, p: number, repeats: number): Verdict => {
  const interval = low <= 0 && high >= 0
  const test = repeats === 1 && p >= significance
  if (interval || test)
    return { _tag: "WithinNoise", because: interval && test ? "both" : interval ? "interval" : "test" }
  return { _tag: "Beyond", better: difference > 0 ? "B" : "A" }
}

/** Entries by task id, each task once; and ids that several tasks have. */
const byTask = (entries: ReadonlyArray<Entry>) => {
  const ambiguous: Array<string> = []
  const tasks = new Map<string, ReadonlyArray<Entry>>()
  for (const [taskId, group] of groupBy(entries, ({ taskId }) => taskId)) {
    const first = group.reduce((least, { taskIndex }) => Math.min(least, taskIndex), Number.POSITIVE_INFINITY)
    const own = group.filter(({ taskIndex }) => taskIndex === first)
    if (own.length < group.length) ambiguous.push(taskId)
    tasks.set(taskId, own)
  }
  return { ambiguous, tasks }
}

interface Pair {
  readonly a: number
  readonly b: number
}

const scoresByRollout = (entries: ReadonlyArray<Entry>): ReadonlyMap<number, number> =>
  new Map(
    entries.flatMap((entry) => {
      const scored = scoreOf(entry)
      return scored === undefined ? [] : [[entry.rolloutIndex, scored.score] as const]
    })
  )

const summarise = (values: ReadonlyArray<Pair>, drawn: Float64Array): Difference => {
  const percent = (pick: (pair: Pair) => number) => 100 * (mean(values.map(pick)) ?? 0)
  return {
    a: percent(({ a }) => a),
    b: percent(({ b }) => b),
    difference: percent(({ a, b }) => b - a),
    low: 100 * (quantile(drawn, 0.025) ?? 0),
    high: 100 * (quantile(drawn, 0.975) ?? 0)
  }
}

/**
 * Compares the rollouts of two runs. Rollouts are paired by task id and rollout index, and only where both have a score. The
 * interval is the percentile bootstrap over tasks (Efron and Tibshirani, 1993, chapter 13), 10,000 draws, paired: a draw
 * takes a task from both runs. All of it does not depend on the order of the entries.
 *
 * @since 0.1.0
 * @category operations
 */
export const compare = (
  entriesA: ReadonlyArray<Entry>,
  entriesB: ReadonlyArray<Entry>,
  { seed = 0 }: CompareOptions = {}
): Comparison => {
  const [a, b] = [byTask(entriesA), byTask(entriesB)]
  const ids = (mine: ReadonlyMap<string, unknown>) => Array.from(mine.keys()).sort(Order.string)
  const tasks: Array<ComparedTask> = []
  const pairs: Array<Pair> = []
  let [unpairedA, unpairedB] = [0, 0]
  for (const taskId of ids(a.tasks)) {
    const [inA = [], inB] = [a.tasks.get(taskId), b.tasks.get(taskId)]
    if (inB === undefined) continue
    const [scoresA, scoresB] = [scoresByRollout(inA), scoresByRollout(inB)]
    const own = Array.from(scoresA).flatMap(([rollout, a]) => {
      const b = scoresB.get(rollout)
      return b === undefined ? [] : [{ a, b }]
    })
    unpairedA += scoresA.size - own.length
    unpairedB += scoresB.size - own.length
    pairs.push(...own)
    const [meanA, meanB] = [mean(own.map(({ a }) => a)), mean(own.map(({ b }) => b))]
    if (meanA === undefined || meanB === undefined) continue
    tasks.push({
      taskId,
      domain: inA[0]?.domain ?? "unknown",
      pairs: own.length,
      a: meanA,
      b: meanB,
      successesA: own.filter(({ a }) => isSuccess(a)).length,
      successesB: own.filter(({ b }) => isSuccess(b)).length
    })
  }
  const common = {
    tasks,
    pairs: pairs.length,
    repeats: tasks.reduce((most, { pairs }) => Math.max(most, pairs), 0),
    onlyInA: ids(a.tasks).filter((id) => !b.tasks.has(id)),
    onlyInB: ids(b.tasks).filter((id) => !a.tasks.has(id)),
    unpairedA,
    unpairedB,
    ambiguous: Array.from(new Set([...a.ambiguous, ...b.ambiguous])).sort(Order.string),
    seed
  }
  if (tasks.length === 0) return { ...common, verdict: { _tag: "NoPairs" } }

  const successes = tasks.map(({ pairs, successesA, successesB }) => ({ a: successesA / pairs, b: successesB / pairs }))
  const [drawnSuccess = new Float64Array(), drawnScore = new Float64Array()] = bootstrapMeans(
    [successes, tasks].map((values) => values.map(({ a, b }) => b - a)),
    draws,
    seed
  )
  const success = summarise(successes, drawnSuccess)
  const count = (inA: boolean, inB: boolean) =>
    pairs.filter(({ a, b }) => isSuccess(a) === inA && isSuccess(b) === inB).length
  const [onlyA, onlyB] = [count(true, false), count(false, true)]
  const p = mcnemar(onlyA, onlyB)
  return {
    ...common,
    success,
    score: summarise(tasks, drawnScore),
    discordance: { both: count(true, true), onlyA, onlyB, neither: count(false, false), p },
    drawn: drawnSuccess.map((difference) => 100 * difference),
    verdict: decide(success, p, common.repeats)
  }
}

/**
 * Tasks where one side's mean score is the higher, the largest difference first.
 *
 * @since 0.1.0
 * @category getters
 */
export const wins = (comparison: Comparison, side: "A" | "B"): ReadonlyArray<ComparedTask> => {
  const lead = ({ a, b }: ComparedTask) => (side === "A" ? a - b : b - a)
  return comparison.tasks
    .filter((task) => lead(task) > 0)
    .sort(
      Order.combine(
        Order.mapInput(Order.reverse(Order.number), lead),
        Order.mapInput(Order.string, ({ taskId }: ComparedTask) => taskId)
      )
    )
}
