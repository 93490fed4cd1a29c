/**
 * What rollouts come to: coverage, scores and terminations, and the field's metrics over repeats. Plain functions over a few
 * words and numbers a rollout.
 *
 * @since 0.1.0
 */
import * as Order from "effect/Order"
import { mean, median, passAtK, sampleDeviation } from "./internal/report/statistics.js"

/**
 * What is kept of a rollout: a few words and numbers, never its steps.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly taskIndex: number
  readonly rolloutIndex: number
  readonly taskId: string
  readonly domain: string
  /** Which attempt at the rollout it tells of, from 0. */
  readonly attempt: number
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
 * `measured + masked + failed + unresolved + notStarted = expected`, always.
 *
 * @since 0.1.0
 * @category models
 */
export interface Coverage {
  readonly expected: number
  /** Scored: the denominator of every mean and rate. */
  readonly measured: number
  readonly masked: number
  readonly failed: number
  /** Begun, without a known end. */
  readonly unresolved: number
  readonly notStarted: number
}

/**
 * Over measured rollouts alone. Means and rates are absent when there are none, since 0 would be a claim.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scores {
  /** The denominator. */
  readonly measured: number
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
 * A metric over the repeats of tasks, for one k. In percent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Repeats {
  readonly k: number
  /** Over `passTasks` tasks, those with at least k measured rollouts; absent when there are none. */
  readonly pass?: number
  readonly passTasks: number
  /** Mean over `averageTasks` tasks of the mean of their first k measured rollouts, or of as many as they have. */
  readonly average?: number
  readonly averageTasks: number
  /** Sample standard deviation of the averages of the first k repeats, each over the tasks that it measured; from k = 2. */
  readonly deviation?: number
  /** `deviation` by the square root of how many repeats it is over. */
  readonly error?: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Spread {
  readonly mean: number
  readonly max: number
  readonly min: number
  readonly median: number
  /** With n - 1; absent for one value. */
  readonly deviation?: number
}

/**
 * Measured rollouts by what a reward, a score, a number of steps or a time was.
 *
 * @since 0.1.0
 * @category models
 */
export interface Facts extends Coverage, Scores {
  readonly tasks: number
  /** For k = 1 to the most measured rollouts that a task has. */
  readonly repeats: ReadonlyArray<Repeats>
  readonly reward?: Spread
  readonly steps?: Spread
  readonly milliseconds?: Spread
  /** How often each termination was seen, the most frequent first. */
  readonly terminations: ReadonlyArray<readonly [reason: string, count: number]>
}

/**
 * Whether an entry is measured, and with what.
 *
 * @since 0.1.0
 * @category getters
 */
export const scoreOf = ({ result }: Entry): { readonly reward: number; readonly score: number } | undefined =>
  result._tag === "Scored" ? result : undefined

/**
 * Whether a score counts as a success: 1 or more, as OSWorld has it.
 *
 * @since 0.1.0
 * @category predicates
 */
export const isSuccess = (score: number): boolean => score >= 1

/**
 * By task and then by rollout.
 *
 * @since 0.1.0
 * @category instances
 */
export const byTaskAndRollout: Order.Order<Entry> = Order.combine(
  Order.mapInput(Order.number, (entry: Entry) => entry.taskIndex),
  Order.mapInput(Order.number, (entry) => entry.rolloutIndex)
)

/**
 * @since 0.1.0
 * @category combinators
 */
export const groupBy = <A, K>(items: Iterable<A>, key: (item: A) => K): ReadonlyMap<K, ReadonlyArray<A>> => {
  const groups = new Map<K, Array<A>>()
  for (const item of items) {
    const group = groups.get(key(item))
    if (group === undefined) groups.set(key(item), [item])
    else group.push(item)
  }
  return groups
}

/**
 * What became of `expected` rollouts. More entries than that can only mean that the asking was miscounted, so they raise it.
 *
 * @since 0.1.0
 * @category getters
 */
export const coverage = (entries: ReadonlyArray<Entry>, expected: number): Coverage => {
  const count = (tag: Entry["result"]["_tag"]) => entries.filter(({ result }) => result._tag === tag).length
  return {
    expected: Math.max(expected, entries.length),
    measured: count("Scored"),
    masked: count("Masked"),
    failed: count("Failed"),
    unresolved: count("Unresolved"),
    notStarted: Math.max(expected - entries.length, 0)
  }
}

/**
 * @since 0.1.0
 * @category getters
 */
export const scores = (entries: ReadonlyArray<Entry>): Scores => {
  let [measured, rewardSum, successes, scoreSum] = [0, 0, 0, 0]
  for (const entry of entries) {
    const scored = scoreOf(entry)
    if (scored === undefined) continue
    measured++
    rewardSum += scored.reward
    scoreSum += scored.score
    if (isSuccess(scored.score)) successes++
  }
  return {
    measured,
    rewardSum,
    successes,
    scoreSum,
    ...(measured > 0 && {
      rewardMean: rewardSum / measured,
      successRate: (100 * successes) / measured,
      scoreMean: scoreSum / measured
    })
  }
}

/**
 * pass@k and avg-of-k of the field (gym-core.md 7.4) over rewards, or over what else `value` says. With rewards of 0 and 1
 * pass@k is the unbiased estimate; where a task has others it is the largest of its first k. A repeat is a rollout index,
 * so that a rollout without a score leaves a gap and does not move the ones behind it.
 *
 * @since 0.1.0
 * @category getters
 */
export const repeats = (
  entries: ReadonlyArray<Entry>,
  value: (scored: { readonly reward: number; readonly score: number }) => number = ({ reward }) => reward
): ReadonlyArray<Repeats> => {
  const measured = [...entries].sort(byTaskAndRollout).flatMap((entry) => {
    const scored = scoreOf(entry)
    return scored === undefined ? [] : [{ task: entry.taskIndex, repeat: entry.rolloutIndex, value: value(scored) }]
  })
  const tasks = Array.from(groupBy(measured, ({ task }) => task).values(), (group) => group.map(({ value }) => value))
  const runs = Array.from(groupBy(measured, ({ repeat }) => repeat))
    .sort(Order.mapInput(Order.number, ([repeat]) => repeat))
    .flatMap(([, group]) => mean(group.map(({ value }) => value)) ?? [])
  const most = tasks.reduce((most, values) => Math.max(most, values.length), 0)
  return Array.from({ length: most }, (_, index) => {
    const k = index + 1
    const passes = tasks
      .filter((values) => values.length >= k)
      .map((values) =>
        values.every((value) => value === 0 || value === 1)
          ? passAtK(values.length, values.filter((value) => value === 0).length, k)
          : values.slice(0, k).reduce((best, value) => Math.max(best, value))
      )
    const pass = mean(passes)
    const average = mean(tasks.flatMap((values) => mean(values.slice(0, k)) ?? []))
    const first = runs.slice(0, k)
    const deviation = k >= 2 ? sampleDeviation(first) : undefined
    return {
      k,
      passTasks: passes.length,
      averageTasks: tasks.length,
      ...(pass === undefined ? {} : { pass: 100 * pass }),
      ...(average === undefined ? {} : { average: 100 * average }),
      ...(deviation === undefined
        ? {}
        : { deviation: 100 * deviation, error: (100 * deviation) / Math.sqrt(first.length) })
    }
  })
}

const spread = (values: ReadonlyArray<number>): Spread | undefined => {
  const [middle, half, deviation] = [mean(values), median(values), sampleDeviation(values)]
  if (middle === undefined || half === undefined) return undefined
  return {
    mean: middle,
    max: values.reduce((most, value) => Math.max(most, value)),
    min: values.reduce((least, value) => Math.min(least, value)),
    median: half,
    ...(deviation === undefined ? {} : { deviation })
  }
}

/**
 * All that is to be said of these entries, where `expected` rollouts were asked for.
 *
 * @since 0.1.0
 * @category getters
 */
export const facts = (entries: ReadonlyArray<Entry>, expected: number): Facts => {
  const measured = entries.filter(({ result }) => result._tag === "Scored")
  const reward = spread(measured.flatMap((entry) => scoreOf(entry)?.reward ?? []))
  const steps = spread(measured.flatMap(({ steps }) => steps ?? []))
  const milliseconds = spread(measured.flatMap(({ milliseconds }) => milliseconds ?? []))
  const words = entries.flatMap(({ termination }) => termination ?? [])
  return {
    ...coverage(entries, expected),
    ...scores(entries),
    tasks: new Set(entries.map(({ taskIndex }) => taskIndex)).size,
    repeats: repeats(entries),
    ...(reward === undefined ? {} : { reward }),
    ...(steps === undefined ? {} : { steps }),
    ...(milliseconds === undefined ? {} : { milliseconds }),
    terminations: Array.from(
      groupBy(words, (word) => word),
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
 * Facts as numbers under the field's key names, each behind `prefix`. Rates are in percent, over measured rollouts; the two
 * `_over_expected` count whatever has no score as 0, as OSWorld's published numbers do. What is over nothing is left out.
 *
 * @since 0.1.0
 * @category encoding
 */
export const toKeys = (facts: Facts, prefix = ""): Readonly<Record<string, number>> => {
  const metrics: Record<string, number> = {}
  const put = (key: string, value: number | undefined) => {
    if (value !== undefined) metrics[`${prefix}${key}`] = value
  }
  put("osworld/scored_rollout_count", facts.measured)
  put("osworld/masked_rollout_count", facts.masked)
  put("osworld/binary_success_count", facts.successes)
  put("osworld/binary_success_rate", facts.successRate)
  put("osworld/raw_reward_sum", facts.scoreSum)
  put("osworld/raw_reward_rate", facts.scoreMean === undefined ? undefined : 100 * facts.scoreMean)
  if (facts.measured > 0) {
    put("osworld/binary_success_rate_over_expected", (100 * facts.successes) / facts.expected)
    put("osworld/raw_reward_rate_over_expected", (100 * facts.scoreSum) / facts.expected)
  }
  for (const name of ["reward", "steps", "milliseconds"] as const) {
    const spread = facts[name]
    put(`mean/${name}`, spread?.mean)
    put(`max/${name}`, spread?.max)
    put(`min/${name}`, spread?.min)
    put(`median/${name}`, spread?.median)
    put(`std/${name}`, spread?.deviation)
  }
  for (const { average, averageTasks, deviation, error, k, pass, passTasks } of facts.repeats) {
    put(`pass@${k}/accuracy`, pass)
    put(`pass@${k}/accuracy/task_count`, passTasks)
    put(`pass@1[avg-of-${k}]/accuracy`, average)
    put(`pass@1[avg-of-${k}]/accuracy/task_count`, averageTasks)
    put(`pass@1[avg-of-${k}]/accuracy/std_dev_across_runs`, deviation)
    put(`pass@1[avg-of-${k}]/accuracy/std_err_across_runs`, error)
  }
  put("coverage/expected_rollouts", facts.expected)
  put("coverage/measured_rollouts", facts.measured)
  put("coverage/masked_rollouts", facts.masked)
  put("coverage/failed_rollouts", facts.failed)
  put("coverage/unresolved_rollouts", facts.unresolved)
  put("coverage/not_started_rollouts", facts.notStarted)
  for (const [word, count] of facts.terminations) put(`termination/${word}`, count)
  return metrics
}
