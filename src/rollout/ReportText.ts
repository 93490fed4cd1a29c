/**
 * A report as text for a reader.
 *
 * @since 0.1.0
 */
import type { Coverage } from "./Metrics.js"
import { type Entry, entries, type Facts, facts, type Report } from "./Report.js"

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
 * `2 masked, 1 failed, 0 unresolved, 3 not started`: the rollouts that are in no mean.
 *
 * @since 0.1.0
 * @category rendering
 */
export const showUnscored = ({ masked, failed, notStarted, unresolved }: Coverage): string =>
  `${masked} masked, ${failed} failed, ${unresolved} unresolved, ${notStarted} not started`

/**
 * `mean reward 0.90 over 10 scored of 10 expected; 0 masked, …`: never a mean without what it is over.
 *
 * @since 0.1.0
 * @category rendering
 */
export const summary = (facts: Facts): string => {
  const { expected, measured, rewardMean } = facts
  return rewardMean === undefined
    ? `no mean reward: 0 scored of ${expected} expected; ${showUnscored(facts)}`
    : `mean reward ${rewardMean.toFixed(2)} over ${measured} scored of ${expected} expected; ${showUnscored(facts)}`
}

/**
 * The full scores over all that was expected, as OSWorld's published numbers count: what has no score is 0. Undefined where
 * that is the same as over scored rollouts, or where nothing is scored.
 *
 * @since 0.1.0
 * @category rendering
 */
export const overExpected = ({ expected, measured, scoreSum, successes }: Facts): string | undefined =>
  measured === 0 || measured === expected
    ? undefined
    : `With what has no score as 0, as published OSWorld numbers have it: ${successes} of ${expected} in full (${((100 * successes) / expected).toFixed(1)} %), mean score ${(scoreSum / expected).toFixed(2)}`

/**
 * The repeats that a reader wants to see: k = 1, the powers of two, and the last.
 *
 * @since 0.1.0
 * @category rendering
 */
export const shownRepeats = ({ repeats }: Facts): Facts["repeats"] =>
  repeats.length < 2 ? [] : repeats.filter(({ k }) => Number.isInteger(Math.log2(k)) || k === repeats.length)

/**
 * @since 0.1.0
 * @category models
 */
export interface RenderOptions {
  /** Columns that a line may take. */
  readonly width: number
  readonly color: boolean
}

const fractional = (score: number): boolean => !Number.isInteger(score)

const showNumber = (value: number): string => (fractional(value) ? value.toFixed(2) : String(value))

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
    const withEarlier = all.some(({ earlier }) => earlier)
    const cells = all.map((entry) => {
      const { domain, earlier, milliseconds, result, steps, termination } = entry
      return {
        code: result._tag !== "Scored" ? 33 : result.score >= 1 ? 32 : 31,
        cells: [
          nameOf(entry, numbered),
          domain,
          result._tag === "Scored" ? showNumber(result.reward) : result._tag.toLowerCase(),
          ...(withScores ? [result._tag === "Scored" && fractional(result.score) ? result.score.toFixed(2) : ""] : []),
          steps === undefined ? "" : String(steps),
          termination ?? "",
          milliseconds === undefined ? "" : showDuration(milliseconds),
          ...(withEarlier ? [earlier ? "(earlier run)" : ""] : [])
        ]
      }
    })
    const header = [
      "task",
      "domain",
      "reward",
      ...(withScores ? ["score"] : []),
      "steps",
      "termination",
      "time",
      ...(withEarlier ? [""] : [])
    ]
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
  const over = overExpected(total)
  if (over !== undefined) lines.push(...wrap(over, width, ""))
  for (const repeat of shownRepeats(total)) lines.push(...wrap(showRepeats(repeat), width, ""))
  if (total.terminations.length > 0) {
    lines.push(
      ...wrap(`terminations: ${total.terminations.map(([word, count]) => `${word} ${count}`).join(", ")}`, width, "")
    )
  }
  // A domain of one rollout says no more than its line of the table does.
  if (total.domains.length > 1 && all.length > total.domains.length) {
    lines.push("", "by domain:")
    const size = Math.max(...total.domains.map(({ domain }) => domain.length))
    for (const { domain, rewardMean, measured, ...coverage } of total.domains) {
      const mean = rewardMean === undefined ? "no mean reward" : `mean reward ${rewardMean.toFixed(2)}`
      const rest = measured === coverage.expected ? "" : `; ${showUnscored({ ...coverage, measured })}`
      lines.push(`  ${domain.padEnd(size)}  ${mean} over ${measured} scored of ${coverage.expected} expected${rest}`)
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
        lines.push(
          `  ${name} unresolved: it was begun and has no end; when the run is over, --resume runs it again, but for one that has been given up`
        )
      }
    }
  }
  return lines.join("\n")
}

/** `pass@2 66.7 % over 3 tasks; pass@1[avg-of-2] 50.0 % over 3 tasks, std dev across runs 7.1, std err 5.0`. */
const showRepeats = ({ average, averageTasks, deviation, error, k, pass, passTasks }: Facts["repeats"][number]) => {
  const passed = pass === undefined ? "" : `pass@${k} ${pass.toFixed(1)} % over ${passTasks} tasks`
  const mean = average === undefined ? "" : `; pass@1[avg-of-${k}] ${average.toFixed(1)} % over ${averageTasks} tasks`
  const spread =
    deviation === undefined || error === undefined
      ? ""
      : `, std dev across runs ${deviation.toFixed(1)}, std err ${error.toFixed(1)}`
  return `${passed}${mean}${spread}`
}

const showSuccess = ({ successes, measured, scoreMean }: Facts, rate: number): string => {
  const success = `${successes} of ${measured} scored in full (${rate.toFixed(1)} %)`
  return scoreMean === undefined ? success : `${success}; mean score ${scoreMean.toFixed(2)}`
}

const whose = (fault: string): string => {
  switch (fault) {
    case "infrastructure":
      return "the infrastructure; it may go better with --resume"
    case "task":
      return "the task itself"
    case "defect":
      return "a defect of ours or of a layer"
    case "cancelled":
      return "somebody called it off"
    default:
      // A row of others.
      return fault
  }
}
