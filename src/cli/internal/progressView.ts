import type { RolloutIdentity } from "../../identity/Identity.js"
import type { RolloutOutcome } from "../../rollout/Outcome.js"
import type { ProgressEvent } from "../../rollout/Progress.js"
import { showDuration } from "../../rollout/ReportText.js"
import type { TaskRow } from "../../rollout/TaskRow.js"
import { reason } from "../../rollout/Termination.js"

// -------------------------------------------------------------------------------------------------------------------
// State
// -------------------------------------------------------------------------------------------------------------------

export interface Running {
  readonly name: string
  /** Milliseconds of the clock that the events were given. */
  readonly startedAt: number
  readonly doing: string
  readonly action: string
}

export interface View {
  readonly expected: number
  readonly concurrency: number
  readonly dispatched: number
  readonly scored: number
  readonly rewardSum: number
  readonly masked: number
  readonly failed: number
  /** Scored by an earlier run; they are among `scored`. */
  readonly earlier: number
  /** By rollout id, in the order of dispatch. */
  readonly running: ReadonlyMap<string, Running>
  /** Of the rollouts that this run finished, to tell the time that is left. */
  readonly finished: number
  readonly finishedMilliseconds: number
}

export interface ViewOptions {
  /** Rollouts of the whole run, those of `earlier` among them. */
  readonly expected: number
  readonly concurrency: number
  /** Rewards of rollouts that an earlier run scored. */
  readonly earlier?: Iterable<number>
}

export const initial = ({ expected, concurrency, earlier = [] }: ViewOptions): View => {
  const rewards = Array.from(earlier)
  return {
    expected,
    concurrency,
    dispatched: 0,
    scored: rewards.length,
    rewardSum: rewards.reduce((sum, reward) => sum + reward, 0),
    masked: 0,
    failed: 0,
    earlier: rewards.length,
    running: new Map(),
    finished: 0,
    finishedMilliseconds: 0
  }
}

/** `os/rename-file`, and ` #2` for the second rollout of a group. */
export const nameOf = ({ taskId, rolloutIndex }: RolloutIdentity, { domain }: Pick<TaskRow, "domain">): string => {
  const task = domain === "" || taskId.startsWith(`${domain}/`) ? taskId : `${domain}/${taskId}`
  return oneLine(rolloutIndex === 0 ? task : `${task} #${rolloutIndex + 1}`)
}

const change = (view: View, { rolloutId }: RolloutIdentity, to: (running: Running) => Running): View => {
  const running = view.running.get(rolloutId)
  return running === undefined ? view : { ...view, running: new Map(view.running).set(rolloutId, to(running)) }
}

/** Takes an event that happened at `now`. */
export const update = (view: View, event: ProgressEvent, now: number): View => {
  switch (event._tag) {
    case "Dispatched": {
      const { identity, row } = event
      const started = { name: nameOf(identity, row), startedAt: now, doing: "opening desktop", action: "" }
      const running = new Map(view.running).set(identity.rolloutId, started)
      return { ...view, dispatched: view.dispatched + 1, running }
    }
    case "Opened":
      return change(view, event.identity, (running) => ({ ...running, doing: "step 1" }))
    case "Stepped": {
      const { identity, step, maxSteps, actions } = event
      const doing = `step ${step + 1}/${maxSteps}`
      return change(view, identity, (running) => ({ ...running, doing, action: oneLine(actions.join("; ")) }))
    }
    case "Evaluating":
      return change(view, event.identity, (running) => ({ ...running, doing: "evaluating" }))
    case "Retrying": {
      const running = new Map(view.running)
      // Its next attempt is dispatched again, and is the same one of those expected.
      return running.delete(event.outcome.identity.rolloutId)
        ? { ...view, running, dispatched: view.dispatched - 1 }
        : view
    }
    case "Finished": {
      const { outcome } = event
      const { rolloutId } = outcome.identity
      const startedAt = view.running.get(rolloutId)?.startedAt
      const running = new Map(view.running)
      running.delete(rolloutId)
      return {
        ...view,
        running,
        scored: view.scored + (outcome._tag === "Scored" ? 1 : 0),
        rewardSum: view.rewardSum + (outcome._tag === "Scored" ? outcome.reward : 0),
        masked: view.masked + (outcome._tag === "Masked" ? 1 : 0),
        failed: view.failed + (outcome._tag === "Failed" ? 1 : 0),
        ...(startedAt !== undefined && {
          finished: view.finished + 1,
          finishedMilliseconds: view.finishedMilliseconds + Math.max(0, now - startedAt)
        })
      }
    }
  }
}

const done = (view: View): number => view.scored + view.masked + view.failed

/**
 * Milliseconds until the last rollout ends, if all take as long as those that this run finished took on average, and the
 * places stay taken; undefined as long as nothing is finished.
 */
export const timeLeft = (view: View, now: number): number | undefined => {
  const { finished, finishedMilliseconds, running, expected, concurrency } = view
  const left = Math.max(0, expected - done(view))
  if (finished === 0 || left === 0) return undefined
  const mean = finishedMilliseconds / finished
  const rest = Array.from(running.values(), ({ startedAt }) => Math.max(0, mean - (now - startedAt)))
  const waiting = Math.max(0, left - running.size)
  const work = waiting * mean + rest.reduce((sum, milliseconds) => sum + milliseconds, 0)
  // No rollout is shared among places, so nothing ends before the longest rest does.
  return Math.max(work / Math.min(Math.max(1, concurrency), left), ...rest)
}

const showTimeLeft = (milliseconds: number): string => {
  const seconds = milliseconds / 1000
  if (seconds < 10) return "less than 10 s left"
  if (seconds < 55) return `about ${Math.round(seconds / 5) * 5} s left`
  const minutes = Math.round(seconds / 60)
  if (minutes < 60) return `about ${minutes} min left`
  const hours = Math.floor(minutes / 60)
  return minutes % 60 === 0 ? `about ${hours} h left` : `about ${hours} h ${minutes % 60} min left`
}

// -------------------------------------------------------------------------------------------------------------------
// Lines
// -------------------------------------------------------------------------------------------------------------------

export type Style = "plain" | "bold" | "dim" | "green" | "red" | "yellow"

/** A line before it is painted, so that what it measures is what is seen. */
export type Line = ReadonlyArray<readonly [style: Style, text: string]>

const codes: Readonly<Record<Exclude<Style, "plain">, number>> = { bold: 1, dim: 2, green: 32, red: 31, yellow: 33 }

export const paint = (line: Line, color: boolean): string =>
  line
    .map(([style, text]) =>
      !color || style === "plain" || text === "" ? text : `\u001b[${codes[style]}m${text}\u001b[0m`
    )
    .join("")

const segmenter = new Intl.Segmenter()
const wide =
  /^(?:\p{Extended_Pictographic}\uFE0F?|\p{Regional_Indicator}|[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\u3000-\u303F\uFF01-\uFF60\uFFE0-\uFFE6])/u

/** Columns that one character takes on a terminal. Where terminals differ it is the larger number: a line that ends early is better than one that wraps. */
const cellsOf = (grapheme: string): number => (wide.test(grapheme) ? 2 : /^\p{Mark}+$/u.test(grapheme) ? 0 : 1)

const isPlainAscii = (text: string) => /^[\x20-\x7e]*$/.test(text)

/** Columns that a text takes on a terminal. */
export const width = (text: string): number =>
  isPlainAscii(text)
    ? text.length
    : Array.from(segmenter.segment(text)).reduce((sum, { segment }) => sum + cellsOf(segment), 0)

/** The beginning of a text, with `…` where something was cut off. */
export const cutText = (text: string, columns: number): string => {
  if (width(text) <= columns) return text
  if (columns <= 0) return ""
  let used = 0
  let result = ""
  for (const { segment } of segmenter.segment(text)) {
    used += cellsOf(segment)
    if (used > columns - 1) break
    result += segment
  }
  return `${result}…`
}

export const cut = (line: Line, columns: number): Line => {
  const total = line.reduce((sum, [, text]) => sum + width(text), 0)
  if (total <= columns) return line
  const result: Array<Line[number]> = []
  let left = columns
  for (const [style, text] of line) {
    if (left <= 0) break
    // A part that fits exactly still has to give a column to the mark of what follows it.
    const shown = width(text) < left ? text : cutText(`${text} `, left)
    result.push([style, shown])
    left -= width(shown)
  }
  return result
}

/** Without line ends, tabs, and whatever else would move the cursor. */
export const oneLine = (text: string): string =>
  text
    .replace(/\u001b\[[0-?]*[ -/]*[@-~]/g, "")
    .replace(/[\s\p{Cc}\p{Cf}]+/gu, (run) => (/^\u200d+$/.test(run) ? run : " "))
    .trim()

const pad = (text: string, columns: number): string => text + " ".repeat(Math.max(0, columns - width(text)))

const showNumber = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(2))

/** What became of a rollout, in one line that may be longer than a terminal is wide. */
export const finishedLine = (outcome: RolloutOutcome, row: TaskRow): Line => {
  const name = nameOf(outcome.identity, row)
  switch (outcome._tag) {
    case "Scored": {
      const { evaluation, reward, steps, termination, milliseconds } = outcome
      const score = Number.isInteger(evaluation.score) ? "" : ` (score ${evaluation.score.toFixed(2)})`
      const rest = [
        `reward ${showNumber(reward)}${score}`,
        `${steps.length} step${steps.length === 1 ? "" : "s"}`,
        reason(termination),
        showDuration(milliseconds)
      ].join(" · ")
      return [evaluation.score >= 1 ? ["green", "✔"] : ["red", "✘"], ["plain", ` ${name} ${rest}`]]
    }
    case "Masked":
      return [
        ["yellow", "!"],
        ["plain", ` ${name} masked: ${outcome.reason}: ${oneLine(outcome.detail)}`]
      ]
    case "Failed":
      return [
        ["yellow", "!"],
        ["plain", ` ${name} failed: ${oneLine(outcome.detail)}`]
      ]
    case "Unresolved":
      return [
        ["yellow", "!"],
        ["plain", ` ${name} unresolved`]
      ]
  }
}

/** Why an attempt failed that is followed by another. */
export const retryingLine = ({ milliseconds, outcome, row }: Extract<ProgressEvent, { _tag: "Retrying" }>): Line => {
  const again = milliseconds < 1000 ? "trying again" : `trying again in ${showDuration(milliseconds)}`
  // A reason may be pages long; all of it is in its row.
  return [...cut(finishedLine(outcome, row), 160), ["plain", ` · ${again}`]]
}

const meanReward = ({ scored, rewardSum }: View): ReadonlyArray<string> =>
  scored === 0 ? [] : [`mean reward ${(rewardSum / scored).toFixed(2)}`]

/** `3/10 done · mean reward 1.00 (3 scored, 0 masked, 0 failed) · 2 running · about 1 min left`. */
export const headerText = (view: View, now: number, columns = Number.POSITIVE_INFINITY): string => {
  const { expected, running, scored, masked, failed } = view
  const left = timeLeft(view, now)
  const counts = [
    [scored, "scored"],
    [masked, "masked"],
    [failed, "failed"]
  ] as const
  const inFull = counts.map(([count, word]) => `${count} ${word}`).join(", ")
  // The denominator stays, and so does whatever went wrong.
  const inShort = counts
    .filter(([count, word]) => count > 0 || word === "scored")
    .map(([count, word]) => `${count} ${word}`)
    .join(", ")
  const text = (counted: string, withRunning: boolean) =>
    [
      `${done(view)}/${expected} done`,
      ...(done(view) === 0 ? [] : [[...meanReward(view), `(${counted})`].join(" ")]),
      ...(withRunning ? [`${running.size} running`] : []),
      ...(left === undefined ? [] : [showTimeLeft(left)])
    ].join(" · ")
  const full = text(inFull, true)
  return [full, text(inShort, true)].find((shown) => width(shown) <= columns) ?? text(inShort, false)
}

/** The block that is redrawn in place: a header and a line for each running rollout, none of which wraps, and no more of them than `rows`. */
export const block = (view: View, now: number, columns: number, rows: number): ReadonlyArray<Line> => {
  const running = Array.from(view.running.values())
  const room = Math.max(0, rows - 1)
  const shown = running.length <= room ? running : running.slice(0, Math.max(0, room - 1))
  const nameWidth = Math.min(
    Math.max(0, ...shown.map(({ name }) => width(name))),
    // A task of OSWorld has a UUID: half the line must stay for what is being done.
    Math.max(16, Math.floor(columns * 0.4))
  )
  const doingWidth = Math.max(0, ...shown.map(({ doing }) => width(doing)))
  const lines = shown.map(({ name, doing, action, startedAt }): Line => {
    const head = `  ${pad(cutText(name, nameWidth), nameWidth)}  ${pad(doing, doingWidth)}`
    const elapsed = `  ${showElapsed(now - startedAt)}`
    const room = columns - width(head) - width(elapsed) - 2
    return [
      ["plain", head],
      ...(action === "" || room < 4 ? [] : [["dim", `  ${cutText(action, room)}`] as const]),
      ["plain", elapsed]
    ]
  })
  const hidden = running.length - shown.length
  return [
    [["bold", headerText(view, now, columns)] as const],
    ...lines,
    ...(hidden > 0 && room > 0 ? [[["dim", `  and ${hidden} more`] as const]] : [])
  ].map((line) => cut(line, columns))
}

/** Whole seconds: a tenth that is redrawn once a second tells nothing. */
const showElapsed = (milliseconds: number): string => {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  return seconds === 0 ? "0 s" : showDuration(seconds * 1000)
}

/** What a log file is told of an event, if anything; `view` has taken the event already. */
export const plainLine = (view: View, event: ProgressEvent, now: number): string | undefined => {
  switch (event._tag) {
    case "Dispatched":
      return `started ${nameOf(event.identity, event.row)} (${view.earlier + view.dispatched} of ${view.expected})`
    case "Finished":
      return `${paint(finishedLine(event.outcome, event.row), false)} | ${headerText(view, now)}`
    case "Retrying":
      return paint(retryingLine(event), false)
    default:
      return undefined
  }
}
