/**
 * What a run came to: how many rollouts count, what they earned, and what is to be said of those that do not count.
 *
 * @since 0.1.0
 */
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Order from "effect/Order"
import type { RolloutOutcome } from "./Outcome.js"
import type { ScoredBefore } from "./RolloutCollector.js"
import type { TaskRow } from "./TaskRow.js"
import { reason } from "./Termination.js"

/**
 * What is kept of an outcome: a few words and numbers, never its steps.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly taskIndex: number
  readonly rolloutIndex: number
  readonly taskId: string
  readonly domain: string
  /** Whether a resumed run found it scored. */
  readonly earlier: boolean
  readonly result:
    | { readonly _tag: "Scored"; readonly reward: number; readonly score: number }
    | { readonly _tag: "Masked"; readonly reason: string; readonly detail: string }
    | { readonly _tag: "Failed"; readonly fault: string; readonly detail: string }
    | { readonly _tag: "Unresolved" }
  /** Absent where no episode took place. */
  readonly steps?: number
  /** The field's word for the termination. */
  readonly termination?: string
  readonly milliseconds?: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Report {
  /** Rollouts that the run was asked for, those of earlier runs among them. */
  readonly expected: number
  /** One entry a rollout, whatever the attempt, by rollout key (`{task}-{rollout}`). */
  readonly entries: HashMap.HashMap<string, Entry>
}

/**
 * `scored + masked + failed + notRun = expected`, always.
 *
 * @since 0.1.0
 * @category models
 */
export interface Coverage {
  readonly expected: number
  readonly scored: number
  readonly masked: number
  readonly failed: number
  /** Not begun, or begun without a known end. */
  readonly notRun: number
}

/**
 * Means over scored rollouts alone; absent when there are none, since 0 would be a claim.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scores {
  /** Scored rollouts: the denominator of every mean and rate. */
  readonly scored: number
  readonly rewardSum: number
  readonly rewardMean?: number
  /** Rollouts with a full score. */
  readonly successes: number
  /** In percent. */
  readonly successRate?: number
  readonly scoreSum: number
  readonly scoreMean?: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DomainFacts extends Scores {
  readonly domain: string
  readonly masked: number
  readonly failed: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Facts extends Coverage, Scores {
  /** By name. */
  readonly domains: ReadonlyArray<DomainFacts>
  /** How often each termination was seen, the most frequent first. */
  readonly terminations: ReadonlyArray<readonly [reason: string, count: number]>
}

/**
 * @since 0.1.0
 * @category constructors
 */
export const empty = (expected: number): Report => ({ expected, entries: HashMap.empty() })

/** A later attempt replaces an earlier one, except that nothing unscored replaces a score. */
const put = (report: Report, entry: Entry): Report => {
  const key = `${entry.taskIndex}-${entry.rolloutIndex}`
  const there = HashMap.get(report.entries, key)
  return Option.exists(there, ({ result }) => result._tag === "Scored") && entry.result._tag !== "Scored"
    ? report
    : { ...report, entries: HashMap.set(report.entries, key, entry) }
}

/**
 * @since 0.1.0
 * @category combinators
 */
export const add = (report: Report, outcome: RolloutOutcome, row: TaskRow): Report => {
  const { taskIndex, rolloutIndex } = outcome.identity
  const who = { taskIndex, rolloutIndex, taskId: row.taskId, domain: row.domain, earlier: false }
  switch (outcome._tag) {
    case "Scored":
    case "Masked":
      return put(report, {
        ...who,
        result:
          outcome._tag === "Scored"
            ? { _tag: "Scored", reward: outcome.reward, score: outcome.evaluation.score }
            : { _tag: "Masked", reason: outcome.reason, detail: outcome.detail },
        steps: outcome.steps.length,
        termination: reason(outcome.termination),
        milliseconds: outcome.milliseconds
      })
    case "Failed":
      return put(report, {
        ...who,
        result: { _tag: "Failed", fault: outcome.fault, detail: outcome.detail },
        milliseconds: outcome.milliseconds
      })
    case "Unresolved":
      return put(report, { ...who, result: { _tag: "Unresolved" } })
  }
}

/**
 * Adds what a resumed run found scored, by rollout key (`RolloutCollector.finished.scored`). Only rollouts that this run
 * was asked for count, that is `groupSize` of each row.
 *
 * @since 0.1.0
 * @category combinators
 */
export const addEarlier = (
  report: Report,
  scored: ReadonlyMap<string, ScoredBefore>,
  rows: Iterable<TaskRow>,
  groupSize = 1
): Report => {
  let result = report
  for (const { taskIndex, taskId, domain, rolloutIndex: named } of rows) {
    for (let repeat = 0; repeat < groupSize; repeat++) {
      const rolloutIndex = named ?? repeat
      const before = scored.get(`${taskIndex}-${rolloutIndex}`)
      if (before === undefined) continue
      const { reward, score, steps, termination, milliseconds } = before
      result = put(result, {
        taskIndex,
        rolloutIndex,
        taskId,
        domain,
        earlier: true,
        result: { _tag: "Scored", reward, score },
        steps,
        termination,
        milliseconds
      })
    }
  }
  return result
}

/**
 * All entries, by task and then by rollout.
 *
 * @since 0.1.0
 * @category getters
 */
export const entries = (report: Report): ReadonlyArray<Entry> =>
  Array.from(HashMap.values(report.entries)).sort(
    Order.combine(
      Order.mapInput(Order.number, (entry: Entry) => entry.taskIndex),
      Order.mapInput(Order.number, (entry) => entry.rolloutIndex)
    )
  )

const scores = (entries: ReadonlyArray<Entry>): Scores => {
  let [scored, rewardSum, successes, scoreSum] = [0, 0, 0, 0]
  for (const { result } of entries) {
    if (result._tag !== "Scored") continue
    scored++
    rewardSum += result.reward
    scoreSum += result.score
    if (result.score >= 1) successes++
  }
  return {
    scored,
    rewardSum,
    successes,
    scoreSum,
    ...(scored > 0 && {
      rewardMean: rewardSum / scored,
      successRate: (100 * successes) / scored,
      scoreMean: scoreSum / scored
    })
  }
}

const count = (entries: ReadonlyArray<Entry>, tag: Entry["result"]["_tag"]): number =>
  entries.filter(({ result }) => result._tag === tag).length

const groupBy = <A, K>(items: ReadonlyArray<A>, key: (item: A) => K): ReadonlyMap<K, ReadonlyArray<A>> => {
  const groups = new Map<K, Array<A>>()
  for (const item of items) {
    const group = groups.get(key(item))
    if (group === undefined) groups.set(key(item), [item])
    else group.push(item)
  }
  return groups
}

/**
 * @since 0.1.0
 * @category getters
 */
export const facts = (report: Report): Facts => {
  const all = entries(report)
  const [masked, failed] = [count(all, "Masked"), count(all, "Failed")]
  const overall = scores(all)
  const finished = overall.scored + masked + failed
  // More than was asked for can only mean that the asking was miscounted.
  const expected = Math.max(report.expected, finished)
  const ended = all.flatMap(({ termination }) => (termination === undefined ? [] : [termination]))
  return {
    ...overall,
    expected,
    masked,
    failed,
    notRun: expected - finished,
    domains: Array.from(groupBy(all, ({ domain }) => domain))
      .map(([domain, group]) => ({
        domain,
        ...scores(group),
        masked: count(group, "Masked"),
        failed: count(group, "Failed")
      }))
      .sort(Order.mapInput(Order.string, ({ domain }) => domain)),
    terminations: Array.from(
      groupBy(ended, (word) => word),
      ([word, group]) => [word, group.length] as const
    ).sort(
      Order.combine(
        Order.mapInput(Order.reverse(Order.number), ([, count]: readonly [string, number]) => count),
        Order.mapInput(Order.string, ([word]) => word)
      )
    )
  }
}

/**
 * The report as the object of `metrics.json`: the field's key names, a subset's under `<domain>/`. Masked and failed
 * rollouts are in no denominator; a mean or a rate over nothing is left out.
 *
 * @since 0.1.0
 * @category encoding
 */
export const toMetrics = (report: Report): Readonly<Record<string, number>> => {
  const { domains, terminations, ...overall } = facts(report)
  const metrics: Record<string, number> = {}
  const put = (prefix: string, scores: Scores & { readonly masked: number }) => {
    metrics[`${prefix}osworld/scored_rollout_count`] = scores.scored
    metrics[`${prefix}osworld/masked_rollout_count`] = scores.masked
    metrics[`${prefix}osworld/binary_success_count`] = scores.successes
    metrics[`${prefix}osworld/raw_reward_sum`] = scores.scoreSum
    if (scores.successRate !== undefined) metrics[`${prefix}osworld/binary_success_rate`] = scores.successRate
    if (scores.scoreMean !== undefined) metrics[`${prefix}osworld/raw_reward_rate`] = 100 * scores.scoreMean
    if (scores.rewardMean !== undefined) metrics[`${prefix}mean/reward`] = scores.rewardMean
  }
  put("", overall)
  metrics["coverage/expected_rollouts"] = overall.expected
  metrics["coverage/measured_rollouts"] = overall.scored
  metrics["coverage/masked_rollouts"] = overall.masked
  metrics["coverage/failed_rollouts"] = overall.failed
  metrics["coverage/not_run_rollouts"] = overall.notRun
  for (const [word, count] of terminations) metrics[`termination/${word}`] = count
  for (const domain of domains) put(`${domain.domain}/`, domain)
  return metrics
}
