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
  /** What it answered, the field's `extracted_answer`; absent where it gave none, and where tasks ask for none. */
  readonly answer?: string
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
  /** Mean over tasks of the sample standard deviation of their first k; no percentage. Absent where no task has two. */
  readonly sampleDeviation?: number
  /**
   * Mean over `passTasks` tasks of what the most frequent answer of their first k earns: an answer is one with its value,
   * of several that are as frequent it is their mean, and without any answer it is 0. Absent where nothing is answered.
   */
  readonly majority?: number
}

/**
 * Means of one repeat over the tasks that it measured.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sample {
  /** Rollout index. */
  readonly repeat: number
  readonly tasks: number
  /** In percent. */
  readonly mean: number
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
  /** The same of having no answer, 1 or 0; only where something is answered. */
  readonly noAnswer?: ReadonlyArray<Repeats>
  readonly samples: ReadonlyArray<Sample>
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
 * Items by key, in their order; keys in the order of their first item.
 *
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
 * Means over the entries with a score. Masked, failed and unresolved ones have none, and count nowhere.
 *
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
 * pass@k, avg-of-k and majority@k of the field (gym-core.md 7.4) over rewards, or over what else `value` says. With rewards of 0 and 1
 * pass@k is the unbiased estimate; where a task has others it is the largest of its first k. A repeat is a rollout index,
 * so that a rollout without a score leaves a gap and does not move the ones behind it.
 *
 * @since 0.1.0
 * @category getters
 */
export const repeats = (entries: ReadonlyArray<Entry>, value: Value = rewardOf): ReadonlyArray<Repeats> => {
  const measured = measuredOf(entries, value)
  const groups = Array.from(groupBy(measured, ({ task }) => task).values())
  const tasks = groups.map((group) => group.map(({ value }) => value))
  const answered = measured.some(({ answer }) => answer !== undefined)
  const runs = samples(entries, value).map(({ mean }) => mean / 100)
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
    const within = mean(tasks.flatMap((values) => sampleDeviation(values.slice(0, k)) ?? []))
    const majorities = groups.filter((group) => group.length >= k).map((group) => majorityOf(group.slice(0, k)))
    const majority = answered ? mean(majorities) : undefined
    return {
      k,
      passTasks: passes.length,
      averageTasks: tasks.length,
      ...(pass === undefined ? {} : { pass: 100 * pass }),
      ...(average === undefined ? {} : { average: 100 * average }),
      ...(deviation === undefined
        ? {}
        : { deviation: 100 * deviation, error: (100 * deviation) / Math.sqrt(first.length) }),
      ...(within === undefined ? {} : { sampleDeviation: within }),
      ...(majority === undefined ? {} : { majority: 100 * majority })
    }
  })
}

/**
 * Each repeat's mean over the tasks that it measured (`per_sample_aggregate` of gym-core.md 7.4), by rollout index.
 *
 * @since 0.1.0
 * @category getters
 */
export const samples = (entries: ReadonlyArray<Entry>, value: Value = rewardOf): ReadonlyArray<Sample> =>
  Array.from(groupBy(measuredOf(entries, value), ({ repeat }) => repeat))
    .sort(Order.mapInput(Order.number, ([repeat]) => repeat))
    .map(([repeat, group]) => ({
      repeat,
      tasks: group.length,
      mean: (100 * group.reduce((sum, { value }) => sum + value, 0)) / group.length
    }))

/** What a measured rollout is worth. */
type Value = (scored: { readonly reward: number; readonly score: number }, entry: Entry) => number

const rewardOf: Value = ({ reward }) => reward

const answersNothing: Value = (_, { answer }) => (answer === undefined ? 1 : 0)

interface Measured {
  readonly task: number
  readonly repeat: number
  readonly value: number
  readonly answer?: string
}

const measuredOf = (entries: ReadonlyArray<Entry>, value: Value): ReadonlyArray<Measured> =>
  [...entries].sort(byTaskAndRollout).flatMap((entry) => {
    const scored = scoreOf(entry)
    if (scored === undefined) return []
    const { answer, rolloutIndex, taskIndex } = entry
    const who = { task: taskIndex, repeat: rolloutIndex, value: value(scored, entry) }
    return [answer === undefined ? who : { ...who, answer }]
  })

const majorityOf = (rollouts: ReadonlyArray<Measured>): number => {
  const valid = rollouts.filter(({ answer }) => answer !== undefined)
  const votes = Array.from(groupBy(valid, ({ answer, value }) => JSON.stringify([answer, value])).values())
  const most = votes.reduce((most, { length }) => Math.max(most, length), 0)
  return mean(votes.flatMap((vote) => (vote.length === most ? (vote[0]?.value ?? []) : []))) ?? 0
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
    ...(measured.some(({ answer }) => answer !== undefined) ? { noAnswer: repeats(entries, answersNothing) } : {}),
    samples: samples(entries),
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
  for (const [name, repeats] of [["accuracy", facts.repeats] as const, ["no_answer", facts.noAnswer ?? []] as const]) {
    for (const { average, averageTasks, deviation, error, k, majority, pass, passTasks, sampleDeviation } of repeats) {
      const averageOf = `pass@1[avg-of-${k}]/${name}`
      put(`pass@${k}/${name}`, pass)
      put(`pass@${k}/${name}/task_count`, passTasks)
      put(averageOf, average)
      put(`${averageOf}/task_count`, averageTasks)
      put(`${averageOf}/std_dev_across_runs`, deviation)
      put(`${averageOf}/std_err_across_runs`, error)
      put(`${averageOf}/avg_sample_std_dev`, sampleDeviation)
      // Whatever has an answer has none without one: that majority is 0 by definition.
      if (name === "accuracy") put(`majority@${k}/accuracy`, majority)
    }
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

const family = /^(pass@1\[avg-of-|pass@|majority@)(\d+)\]?\/([^/]+)$/

/**
 * The metrics that a reader looks at first, as the field picks them (gym-core.md 7.3 and 7.4, osworld-gym.md 7.3): means,
 * OSWorld's two rates, and of pass@k, avg-of-k and majority@k the largest k of each score; of subsets none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const keyMetrics = (metrics: Readonly<Record<string, number>>): Readonly<Record<string, number>> => {
  const highest = new Map<string, { readonly key: string; readonly k: number }>()
  const rates = new Set(["osworld/binary_success_rate", "osworld/raw_reward_rate"])
  const chosen = Object.keys(metrics).filter((key) => key.startsWith("mean/") || rates.has(key))
  for (const key of Object.keys(metrics)) {
    const [, what = "", k = "", score = ""] = family.exec(key) ?? []
    // The field has the share of rollouts without an answer on average, and not how likely k of them have none.
    if (what === "" || (score === "no_answer" && !what.includes("avg"))) continue
    const best = highest.get(`${what}/${score}`)
    if (best === undefined || Number(k) > best.k) highest.set(`${what}/${score}`, { key, k: Number(k) })
  }
  const keys = [...chosen, ...Array.from(highest.values(), ({ key }) => key)]
  return Object.fromEntries(keys.flatMap((key) => (metrics[key] === undefined ? [] : [[key, metrics[key]]])))
}
