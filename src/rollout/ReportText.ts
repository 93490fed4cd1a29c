/**
 * A report as text for a reader.
 *
 * @since 0.1.0
 */
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
  if (total.terminations.length > 0) {
    lines.push(
      ...wrap(`terminations: ${total.terminations.map(([word, count]) => `${word} ${count}`).join(", ")}`, width, "")
    )
  }
  // A domain of one rollout says no more than its line of the table does.
  if (total.domains.length > 1 && all.length > total.domains.length) {
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

const showSuccess = ({ successes, scored, scoreMean }: Facts, rate: number): string => {
  const success = `${successes} of ${scored} scored in full (${rate.toFixed(1)} %)`
  return scoreMean === undefined ? success : `${success}; mean score ${scoreMean.toFixed(2)}`
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
