/**
 * What a run came to: how many rollouts count, what they earned, and what is to be said of those that do not count.
 *
 * @since 0.1.0
 */
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Order from "effect/Order"
import type { RolloutOutcome } from "./Outcome.js"
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
  readonly result:
    | {
        readonly _tag: "Scored"
        readonly reward: number
        /** Absent where only the reward is known: an earlier run scored the rollout. */
        readonly score?: number
      }
    | { readonly _tag: "Masked"; readonly reason: string; readonly detail: string }
    | { readonly _tag: "Failed"; readonly fault: string; readonly detail: string }
    | { readonly _tag: "Unresolved" }
  /** Absent where no episode took place, and for an earlier run's. */
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
  /** Scored rollouts: the denominator of `rewardMean` and `successRate`. */
  readonly scored: number
  readonly rewardSum: number
  readonly rewardMean?: number
  /** Rollouts with a full score. */
  readonly successes: number
  /** In percent. */
  readonly successRate?: number
  /** Scored rollouts whose score is known: the denominator of `scoreMean`. */
  readonly withScore: number
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
  const who = { taskIndex, rolloutIndex, taskId: row.taskId, domain: row.domain }
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
 * Adds what a resumed run found scored: `scored` has rewards by rollout key (`RolloutCollector.finished.scored`). Only
 * rollouts that this run was asked for count, that is `groupSize` of each row.
 *
 * @since 0.1.0
 * @category combinators
 */
export const addEarlier = (
  report: Report,
  scored: ReadonlyMap<string, number>,
  rows: Iterable<TaskRow>,
  groupSize = 1
): Report => {
  let result = report
  for (const { taskIndex, taskId, domain } of rows) {
    for (let rolloutIndex = 0; rolloutIndex < groupSize; rolloutIndex++) {
      const reward = scored.get(`${taskIndex}-${rolloutIndex}`)
      if (reward === undefined) continue
      result = put(result, { taskIndex, rolloutIndex, taskId, domain, result: { _tag: "Scored", reward } })
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
  let [scored, rewardSum, successes, withScore, scoreSum] = [0, 0, 0, 0, 0]
  for (const { result } of entries) {
    if (result._tag !== "Scored") continue
    scored++
    rewardSum += result.reward
    // A full score is a reward of 1 and nothing else is, in both readings of a score.
    if ((result.score ?? result.reward) >= 1) successes++
    if (result.score === undefined) continue
    withScore++
    scoreSum += result.score
  }
  return {
    scored,
    rewardSum,
    successes,
    withScore,
    scoreSum,
    ...(scored > 0 && { rewardMean: rewardSum / scored, successRate: (100 * successes) / scored }),
    ...(withScore > 0 && { scoreMean: scoreSum / withScore })
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
  // Fewer than are measured after a resume: of an earlier run's rollouts only the reward is known.
  metrics["coverage/raw_reward_rollouts"] = overall.withScore
  for (const [word, count] of terminations) metrics[`termination/${word}`] = count
  for (const domain of domains) put(`${domain.domain}/`, domain)
  return metrics
}

// -------------------------------------------------------------------------------------------------------------------
// Text
// -------------------------------------------------------------------------------------------------------------------

/**
 * A time for a reader: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
 *
 * @since 0.1.0
 * @category rendering
 */
export const showDuration = (milliseconds: number): string => {
  const seconds = Math.round(milliseconds / 1000)
  if (milliseconds < 950) return `${(milliseconds / 1000).toFixed(1)} s`
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/**
 * `mean reward 0.90 over 10 scored of 10 expected; 0 masked, 0 failed, 0 not run`: never a mean without what it is over.
 *
 * @since 0.1.0
 * @category rendering
 */
export const summary = ({ expected, scored, masked, failed, notRun, rewardMean }: Facts): string => {
  const rest = `${masked} masked, ${failed} failed, ${notRun} not run`
  return rewardMean === undefined
    ? `no mean reward: 0 scored of ${expected} expected; ${rest}`
    : `mean reward ${rewardMean.toFixed(2)} over ${scored} scored of ${expected} expected; ${rest}`
}

/**
 * @since 0.1.0
 * @category models
 */
export interface RenderOptions {
  /** Columns that a line may take. */
  readonly width: number
  readonly color: boolean
}

const fractional = (score: number | undefined): score is number => score !== undefined && !Number.isInteger(score)

const showNumber = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(2))

const cut = (text: string, width: number): string =>
  text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`

/** Broken at spaces and at its own line ends. A word that is longer than a line, such as a path, stays whole to be copied. */
const wrap = (text: string, width: number, indent: string): ReadonlyArray<string> =>
  text.split(/\r?\n/).flatMap((paragraph) => {
    const own = indent + (/^\s*/.exec(paragraph)?.[0] ?? "")
    const lines: Array<string> = []
    let line = ""
    for (const word of paragraph.trim().split(/\s+/)) {
      if (line !== "" && own.length + line.length + 1 + word.length > width) {
        lines.push(line)
        line = word
      } else line = line === "" ? word : `${line} ${word}`
    }
    return [...lines, line].map((part) => (part === "" ? "" : own + part))
  })

const nameOf = ({ taskId, rolloutIndex }: Entry, numbered: boolean): string =>
  numbered ? `${taskId} #${rolloutIndex + 1}` : taskId

/**
 * The report as text: a line for each rollout, the totals, and then for each rollout without a score why it has none, in
 * full.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (report: Report, { width, color }: RenderOptions): string => {
  const paint = (code: number, text: string) => (color ? `\u001b[${code}m${text}\u001b[0m` : text)
  const all = entries(report)
  const total = facts(report)
  const numbered = all.some(({ rolloutIndex }) => rolloutIndex > 0)
  const lines: Array<string> = []

  if (all.length > 0) {
    const withScores = all.some(({ result }) => result._tag === "Scored" && fractional(result.score))
    const cells = all.map(({ result, ...entry }) => ({
      code: result._tag !== "Scored" ? 33 : (result.score ?? result.reward) >= 1 ? 32 : 31,
      cells: [
        nameOf({ result, ...entry }, numbered),
        entry.domain,
        result._tag === "Scored" ? showNumber(result.reward) : result._tag.toLowerCase(),
        ...(withScores ? [result._tag === "Scored" && fractional(result.score) ? result.score.toFixed(2) : ""] : []),
        entry.steps === undefined ? "" : String(entry.steps),
        entry.termination ?? (result._tag === "Scored" ? "(earlier run)" : ""),
        entry.milliseconds === undefined ? "" : showDuration(entry.milliseconds)
      ]
    }))
    const header = ["task", "domain", "reward", ...(withScores ? ["score"] : []), "steps", "termination", "time"]
    const right = new Set(["steps", "time", "score"])
    const widths = header.map((title, column) =>
      Math.max(title.length, ...cells.map(({ cells }) => cells[column]?.length ?? 0))
    )
    // The task gives way first: it is the widest, and its beginning tells most of it.
    const others = widths.slice(1).reduce((sum, width) => sum + 2 + width, 0)
    const taskWidth = Math.min(widths[0] ?? 0, Math.max(12, width - others))
    const row = (cells: ReadonlyArray<string>, paintReward: (text: string) => string) =>
      cells
        .map((cell, column) => {
          const size = column === 0 ? taskWidth : (widths[column] ?? 0)
          const text = cut(cell, size)
          const padded = right.has(header[column] ?? "") ? text.padStart(size) : text.padEnd(size)
          return header[column] === "reward" ? paintReward(padded) : padded
        })
        .join("  ")
        .trimEnd()
    lines.push(
      paint(
        1,
        row(header, (text) => text)
      )
    )
    for (const { code, cells: texts } of cells) lines.push(row(texts, (text) => paint(code, text)))
    lines.push("")
  }

  lines.push(...wrap(summary(total), width, "").map((line) => paint(1, line)))
  if (total.successRate !== undefined) {
    lines.push(...wrap(showSuccess(total, total.successRate), width, ""))
  }
  if (total.terminations.length > 0) {
    lines.push(
      ...wrap(`terminations: ${total.terminations.map(([word, count]) => `${word} ${count}`).join(", ")}`, width, "")
    )
  }
  if (total.domains.length > 1) {
    lines.push("", "by domain:")
    const size = Math.max(...total.domains.map(({ domain }) => domain.length))
    for (const { domain, rewardMean, scored, masked, failed } of total.domains) {
      const mean = rewardMean === undefined ? "no mean reward" : `mean reward ${rewardMean.toFixed(2)}`
      lines.push(`  ${domain.padEnd(size)}  ${mean} over ${scored} scored; ${masked} masked, ${failed} failed`)
    }
  }

  const unscored = all.filter(({ result }) => result._tag !== "Scored")
  if (unscored.length > 0) {
    lines.push("", "without a score:")
    for (const entry of unscored) {
      const name = paint(33, nameOf(entry, numbered))
      const { result } = entry
      if (result._tag === "Masked") {
        lines.push(`  ${name} masked: ${result.reason}`, ...wrap(result.detail, width, "    "))
      } else if (result._tag === "Failed") {
        lines.push(`  ${name} failed: ${whose(result.fault)}`, ...wrap(result.detail, width, "    "))
      } else {
        lines.push(`  ${name} unresolved: the run was stopped in the middle of it; --resume runs it again`)
      }
    }
  }
  return lines.join("\n")
}

const showSuccess = ({ successes, scored, scoreMean, withScore }: Facts, rate: number): string => {
  const success = `${successes} of ${scored} scored in full (${rate.toFixed(1)} %)`
  return scoreMean === undefined ? success : `${success}; mean score ${scoreMean.toFixed(2)} over ${withScore}`
}

const whose = (fault: string): string => {
  switch (fault) {
    case "infrastructure":
      return "the infrastructure; it may go better with --resume"
    case "task":
      return "the task itself"
    default:
      return "a defect of ours or of a layer"
  }
}
