/**
 * What a run came to: how many rollouts count, what they earned, and what is to be said of those that do not count.
 *
 * @since 0.1.0
 */
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Order from "effect/Order"
import * as Schema from "effect/Schema"
import type { Standing } from "./Journal.js"
import * as Metrics from "./Metrics.js"
import { Failed, type RolloutOutcome } from "./Outcome.js"
import type { FailedBefore, Finished } from "./RolloutCollector.js"
import type { TaskRow } from "./TaskRow.js"
import { reason } from "./Termination.js"

/**
 * @since 0.1.0
 * @category models
 */
export type Entry = Metrics.Entry

/**
 * A task of the run, and how many rollouts of it were asked for.
 *
 * @since 0.1.0
 * @category models
 */
export interface AskedTask {
  readonly taskIndex: number
  readonly taskId: string
  /** Absent where the run's manifest does not say. */
  readonly domain?: string
  readonly rollouts: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Report {
  /** Rollouts that the run was asked for, those of earlier runs among them. */
  readonly expected: number
  /** The same by task index; empty where only their number is known. */
  readonly asked: ReadonlyMap<number, AskedTask>
  /** One entry a rollout, by rollout key (`{task}-{rollout}`). */
  readonly entries: HashMap.HashMap<string, Entry>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DomainFacts extends Metrics.Facts {
  readonly domain: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Facts extends Metrics.Facts {
  /** By name. Where a run does not know the domains of its tasks, what has not begun is in none of them. */
  readonly domains: ReadonlyArray<DomainFacts>
}

/**
 * What became of one task: the field's row of a group (gym-core.md 7.3).
 *
 * @since 0.1.0
 * @category models
 */
export interface TaskFacts extends Metrics.Facts {
  readonly taskIndex: number
  /** Absent where neither the manifest nor a row tells it. */
  readonly taskId?: string
  readonly domain?: string
  /** Rollouts that were asked for and have no score. */
  readonly missing: number
  /** How many of those that were asked for have a score, in percent. */
  readonly completion: number
  /** Sorted by rollout. */
  readonly entries: ReadonlyArray<Entry>
}

/**
 * The report of a run of so many rollouts before any of them is over.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty = (expected: number): Report => ({ expected, asked: new Map(), entries: HashMap.empty() })

/**
 * The report of a run of these tasks, before anything has run.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ofTasks = (tasks: Iterable<AskedTask>): Report => {
  const asked = new Map(Array.from(tasks, (task) => [task.taskIndex, task]))
  const expected = Array.from(asked.values()).reduce((sum, { rollouts }) => sum + rollouts, 0)
  return { expected, asked, entries: HashMap.empty() }
}

/**
 * `ofTasks` of rows: `groupSize` rollouts of each row; several rows may be of one task.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ofRows = (rows: Iterable<TaskRow>, groupSize = 1): Report =>
  ofTasks(
    Array.from(Metrics.groupBy(rows, ({ taskIndex }) => taskIndex).values()).flatMap((group) =>
      group
        .slice(0, 1)
        .map(({ domain, taskId, taskIndex }) => ({ domain, taskId, taskIndex, rollouts: group.length * groupSize }))
    )
  )

/**
 * The key of an entry's rollout: `{task}-{rollout}`.
 *
 * @since 0.1.0
 * @category getters
 */
export const keyOf = ({ rolloutIndex, taskIndex }: Pick<Entry, "rolloutIndex" | "taskIndex">): string =>
  `${taskIndex}-${rolloutIndex}`

/**
 * Adds an entry. A later attempt replaces an earlier one, and of one attempt what is told last holds; except that nothing
 * unscored replaces a score, and a score replaces whatever has none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const put = (report: Report, entry: Entry): Report => {
  const key = keyOf(entry)
  const holds = Option.exists(HashMap.get(report.entries, key), (there) => {
    const [before, now] = [there, entry].map(({ result }) => result._tag === "Scored")
    return before === now ? there.attempt > entry.attempt : before === true
  })
  return holds ? report : { ...report, entries: HashMap.set(report.entries, key, entry) }
}

/**
 * The report with one more outcome, by the rule of `put`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const add = (report: Report, outcome: RolloutOutcome, row: TaskRow): Report => {
  const { attemptIndex, taskIndex, rolloutIndex } = outcome.identity
  const who = {
    taskIndex,
    rolloutIndex,
    taskId: row.taskId,
    domain: row.domain,
    attempt: attemptIndex,
    earlier: false
  }
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
        // As its row has it: what spoilt an episode is how it ended.
        termination: outcome._tag === "Scored" ? reason(outcome.termination) : outcome.reason,
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

/** A failure whose kind is a fault happened before an episode took place; all others spoilt one. */
const isFault = Schema.is(Failed.fields.fault)

const failedBefore = ({
  attempt,
  cause,
  class: whose,
  kind
}: FailedBefore): Pick<Entry, "attempt" | "result" | "termination"> =>
  whose === "unresolved"
    ? { attempt, result: { _tag: "Unresolved" } }
    : isFault(kind)
      ? { attempt, result: { _tag: "Failed", fault: kind, detail: cause } }
      : { attempt, result: { _tag: "Masked", reason: kind, detail: cause }, termination: kind }

/** Each rollout that rows ask for: `groupSize` of a row that names none. */
function* askedFor(rows: Iterable<TaskRow>, groupSize: number, earlier: boolean) {
  for (const { domain, rolloutIndex, taskId, taskIndex } of rows) {
    for (let repeat = 0; repeat < groupSize; repeat++) {
      yield { taskIndex, rolloutIndex: rolloutIndex ?? repeat, taskId, domain, earlier }
    }
  }
}

/**
 * Adds what a resumed run found (`RolloutCollector.finished`). Only rollouts that this run was asked for count, that is
 * `groupSize` of each row.
 *
 * @since 0.1.0
 * @category combinators
 */
export const addEarlier = (
  report: Report,
  { failed, scored }: Pick<Finished, "failed" | "scored">,
  rows: Iterable<TaskRow>,
  groupSize = 1
): Report => {
  let result = report
  for (const who of askedFor(rows, groupSize, true)) {
    const [score, failure] = [scored.get(keyOf(who)), failed.get(keyOf(who))]
    if (score !== undefined) {
      const { milliseconds, reward, score: points, steps, termination } = score
      const measured = { attempt: 0, steps, termination, milliseconds }
      result = put(result, { ...who, ...measured, result: { _tag: "Scored", reward, score: points } })
    } else if (failure !== undefined) {
      result = put(result, { ...who, ...failedBefore(failure) })
    }
  }
  return result
}

/**
 * Adds what the run's journal says of rollouts whose end nobody was told of: those that were stopped in their middle are
 * unresolved, and not among what was not started. Rollouts that are none of these rows do not count.
 *
 * @since 0.1.0
 * @category combinators
 */
export const addStandings = (
  report: Report,
  standings: ReadonlyMap<string, Standing>,
  rows: Iterable<TaskRow>,
  groupSize = 1
): Report => {
  let result = report
  for (const who of askedFor(rows, groupSize, false)) {
    const standing = standings.get(keyOf(who))
    if (standing === undefined) continue
    const { failures, last } = standing
    const told = HashMap.get(result.entries, keyOf(who))
    // What was told of this attempt says more than the journal does.
    if (Option.exists(told, ({ attempt, result }) => attempt >= last.attempt || result._tag === "Scored")) continue
    if (last.state === "finished") {
      const { attempt, milliseconds, reward, score, steps, termination } = last
      const measured = { attempt, milliseconds, steps, termination }
      result = put(result, { ...who, ...measured, result: { _tag: "Scored", reward, score } })
    } else if (last.state === "failed") {
      result = put(result, { ...who, ...failedBefore({ ...last, failures }) })
    } else {
      result = put(result, { ...who, attempt: last.attempt, result: { _tag: "Unresolved" } })
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
  Array.from(HashMap.values(report.entries)).sort(Metrics.byTaskAndRollout)

/** How many rollouts these tasks are: as many as were asked for, and no fewer than there are. */
const expectedOf = (tasks: ReadonlyArray<AskedTask>, all: ReadonlyArray<Entry>): number => {
  const there = Metrics.groupBy(all, ({ taskIndex }) => taskIndex)
  const known = new Set(tasks.map(({ taskIndex }) => taskIndex))
  const others = all.filter(({ taskIndex }) => !known.has(taskIndex)).length
  return tasks.reduce(
    (sum, { rollouts, taskIndex }) => sum + Math.max(rollouts, there.get(taskIndex)?.length ?? 0),
    others
  )
}

/**
 * All figures of the report, computed anew from its entries.
 *
 * @since 0.1.0
 * @category getters
 */
export const facts = (report: Report): Facts => {
  const all = entries(report)
  const tasks = Array.from(report.asked.values())
  const byDomain = Metrics.groupBy(all, ({ domain }) => domain)
  const domainOf = new Map(all.map(({ domain, taskIndex }) => [taskIndex, domain]))
  const asked = Metrics.groupBy(tasks, ({ domain, taskIndex }) => domain ?? domainOf.get(taskIndex))
  const names = new Set([...byDomain.keys(), ...asked.keys()])
  return {
    ...Metrics.facts(all, Math.max(report.expected, expectedOf(tasks, all))),
    domains: Array.from(names)
      .filter((name) => name !== undefined)
      .sort(Order.string)
      .map((domain) => {
        const group = byDomain.get(domain) ?? []
        return { domain, ...Metrics.facts(group, expectedOf(asked.get(domain) ?? [], group)) }
      })
  }
}

/**
 * Each task that was asked for or that has an entry, by its index; those without any rollout too.
 *
 * @since 0.1.0
 * @category getters
 */
export const tasks = (report: Report): ReadonlyArray<TaskFacts> => {
  const byTask = Metrics.groupBy(entries(report), ({ taskIndex }) => taskIndex)
  const indices = new Set([...report.asked.keys(), ...byTask.keys()])
  return Array.from(indices)
    .sort(Order.number)
    .map((taskIndex) => {
      const group = byTask.get(taskIndex) ?? []
      const asked = report.asked.get(taskIndex)
      const facts = Metrics.facts(group, asked?.rollouts ?? group.length)
      const { domain = group[0]?.domain, taskId = group[0]?.taskId } = asked ?? {}
      return {
        taskIndex,
        ...(taskId === undefined ? {} : { taskId }),
        ...(domain === undefined ? {} : { domain }),
        ...facts,
        missing: facts.expected - facts.measured,
        completion: facts.expected === 0 ? 0 : (100 * facts.measured) / facts.expected,
        entries: group
      }
    })
}

/**
 * The report as the object of `metrics.json`: the field's key names, a subset's under `<domain>/`. Masked and failed
 * rollouts are in no denominator; a mean or a rate over nothing is left out.
 *
 * @since 0.1.0
 * @category encoding
 */
export const toMetrics = (report: Report): Readonly<Record<string, number>> => {
  const { domains, ...overall } = facts(report)
  return Object.assign(
    {},
    Metrics.toKeys(overall),
    ...domains.map((domain) => Metrics.toKeys(domain, `${domain.domain}/`))
  )
}
