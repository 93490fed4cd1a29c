/** What there is to say of two runs side by side. */
import { type ComparedTask, type Comparison, type Difference, draws, significance, wins } from "../../Compare.js"
import { groupBy } from "../../Metrics.js"
import { type RecordedRun, showNote } from "../../RecordedRun.js"
import * as Report from "../../Report.js"
import { histogram, intervals, twins } from "./charts.js"
import { type Block, type Document, heading, paragraph, tableOf } from "./document.js"
import { about, nameOf, percent, plural, warnings } from "./reportDocument.js"

const points = (value: number): string => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`

const interval = ({ difference, high, low }: Difference): string =>
  `${points(difference)} (${points(low)} to ${points(high)})`

const chance = (p: number): string => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(p < 0.1 ? 3 : 2)}`)

/** In words, whether the difference is more than noise. */
export const verdictText = (comparison: Comparison): string => {
  const { discordance, success, verdict } = comparison
  if (verdict._tag === "NoPairs" || success === undefined || discordance === undefined) {
    return "Nothing can be said: no rollout has a score in both runs."
  }
  const over = `full scores ${percent(success.a)} (A) and ${percent(success.b)} (B) over ${plural(comparison.tasks.length, "task")} and ${plural(comparison.pairs, "pair")} of rollouts`
  const found = `B minus A is ${points(success.difference)} points, 95 % interval ${points(success.low)} to ${points(success.high)}; exact McNemar ${chance(discordance.p)}`
  return verdict._tag === "WithinNoise"
    ? `The difference is within repeat noise: ${over}. ${found}.`
    : `${verdict.better} is better by more than repeat noise: ${over}. ${found}.`
}

/** How that was decided, in words. */
export const ruleText = (comparison: Comparison): string =>
  comparison.repeats > 1
    ? `“Within repeat noise” is said unless the 95 % interval leaves 0 out. It is a paired bootstrap over tasks (${draws.toLocaleString("en-US")} draws, seed ${comparison.seed}), so it holds what other repeats and other tasks would change. McNemar's test takes the pairs of a task for independent trials; with ${comparison.repeats} repeats its p can come out too small, so it decides nothing.`
    : `“Within repeat noise” is said unless the 95 % interval leaves 0 out and McNemar's p is below ${significance}. The interval is a paired bootstrap over tasks (${draws.toLocaleString("en-US")} draws, seed ${comparison.seed}), so it holds what another repeat and other tasks would change; McNemar's test looks at the discordant pairs alone.`

/** How far the repeats of one run lie apart, where it has some. */
const spread = (side: string, run: RecordedRun): ReadonlyArray<string> => {
  const repeats = Report.facts(run.report).repeats
  const last = repeats[repeats.length - 1]
  return last?.deviation === undefined
    ? []
    : [`the ${last.k} repeats of ${side} have a standard deviation of ${last.deviation.toFixed(1)} points`]
}

/** Where the other measure would lead elsewhere. */
const otherMeasure = ({ score, verdict }: Comparison): string | undefined => {
  if (score === undefined || verdict._tag !== "WithinNoise" || (score.low <= 0 && score.high >= 0)) return undefined
  return `Mean scores do differ: ${interval(score)} points. Full scores decide here, as OSWorld counts them.`
}

const list = (ids: ReadonlyArray<string>): string => {
  const most = 10
  return ids.length <= most ? ids.join(", ") : `${ids.slice(0, most).join(", ")} and ${ids.length - most} more`
}

const notBoth = (comparison: Comparison): ReadonlyArray<string> => {
  const { ambiguous, onlyInA, onlyInB, unpairedA, unpairedB } = comparison
  const only = (side: string, ids: ReadonlyArray<string>) =>
    ids.length === 0 ? [] : [`${plural(ids.length, "task")} only in ${side}, left out: ${list(ids)}`]
  const unpaired = (side: string, other: string, count: number) =>
    count === 0
      ? []
      : [`${plural(count, "scored rollout")} of ${side} left out, because ${other} has no score to pair with`]
  return [
    ...only("A", onlyInA),
    ...only("B", onlyInB),
    ...unpaired("A", "B", unpairedA),
    ...unpaired("B", "A", unpairedB),
    ...(ambiguous.length === 0
      ? []
      : [`ids that several tasks of a run have, of which the first counts: ${list(ambiguous)}`])
  ]
}

const measures = (comparison: Comparison): ReadonlyArray<Block> => {
  const { discordance, drawn, pairs, score, success, tasks } = comparison
  if (success === undefined || score === undefined || discordance === undefined) return []
  const { both, neither, onlyA, onlyB, p } = discordance
  const rows = [
    { label: "full score", value: success },
    { label: "mean score", value: score }
  ]
  return [
    heading("The difference"),
    {
      _tag: "Table",
      table: tableOf(
        1,
        ["", "A", "B", "B − A, points (95 % interval)", "tasks"],
        rows.map(({ label, value }) => [
          label,
          percent(value.a),
          percent(value.b),
          interval(value),
          String(tasks.length)
        ])
      )
    },
    {
      _tag: "Plot",
      caption: "B − A in percentage points, with 95 % intervals: to the left of 0 A is better, to the right B",
      svg: intervals(
        "Differences",
        rows.map(({ label, value }) => ({ label, ...value, value: value.difference, text: points(value.difference) }))
      )
    },
    ...(drawn === undefined
      ? []
      : [
          {
            _tag: "Plot" as const,
            caption: "Full scores, B − A in points: the bootstrap's draws, the middle 95 % in colour",
            svg: histogram("Bootstrap", drawn, { ...success, step: 100 / tasks.length })
          }
        ]),
    heading("Pairs of rollouts"),
    {
      _tag: "Table",
      table: tableOf(
        1,
        ["", "B in full", "B not in full", "together"],
        [
          ["A in full", String(both), String(onlyA), String(both + onlyA)],
          ["A not in full", String(onlyB), String(neither), String(onlyB + neither)],
          ["together", String(both + onlyB), String(onlyA + neither), String(pairs)]
        ]
      )
    },
    paragraph(
      `${plural(onlyA + onlyB, "discordant pair")}: ${onlyA} for A, ${onlyB} for B. Exact two-sided McNemar: ${chance(p)}.`
    )
  ]
}

const domains = ({ tasks }: Comparison): ReadonlyArray<Block> => {
  const groups = Array.from(groupBy(tasks, ({ domain }) => domain)).sort(([a], [b]) => (a < b ? -1 : 1))
  if (groups.length < 2) return []
  const rows = groups.map(([domain, group]) => {
    const sum = (pick: (task: ComparedTask) => number) => group.reduce((sum, task) => sum + pick(task), 0)
    const pairs = sum(({ pairs }) => pairs)
    const [successesA, successesB] = [sum(({ successesA }) => successesA), sum(({ successesB }) => successesB)]
    return { domain, pairs, successesA, successesB, a: successesA / pairs, b: successesB / pairs }
  })
  return [
    heading("By domain"),
    {
      _tag: "Plot",
      svg: twins(
        "By domain",
        rows.map(({ a, b, domain, pairs, successesA, successesB }) => ({
          label: domain,
          a,
          b,
          value: `${successesA} → ${successesB} of ${pairs}`
        })),
        { a: "A, full score", b: "B, full score" }
      ),
      otherwise: tableOf(
        1,
        ["domain", "A in full", "B in full", "pairs", "B − A, points"],
        rows.map(({ a, b, domain, pairs, successesA, successesB }) => [
          domain,
          String(successesA),
          String(successesB),
          String(pairs),
          points(100 * (b - a))
        ])
      )
    }
  ]
}

const won = (comparison: Comparison, side: "A" | "B"): ReadonlyArray<Block> => {
  const tasks = wins(comparison, side)
  if (tasks.length === 0) return [paragraph(`${side} has the higher mean score in no task.`)]
  return [
    paragraph(`${side} has the higher mean score in ${plural(tasks.length, "task")}:`),
    {
      _tag: "Table",
      table: tableOf(
        2,
        ["task", "domain", "A", "B", "pairs"],
        tasks.map(({ a, b, domain, pairs, taskId }) => [taskId, domain, a.toFixed(2), b.toFixed(2), String(pairs)])
      )
    }
  ]
}

export const compareDocument = (a: RecordedRun, b: RecordedRun, comparison: Comparison): Document => {
  const other = otherMeasure(comparison)
  const notes = [
    ...notBoth(comparison),
    ...a.notes.map((note) => `A: ${showNote(note)}`),
    ...b.notes.map((note) => `B: ${showNote(note)}`)
  ]
  const spreads = [...spread("A", a), ...spread("B", b)]
  const ties = comparison.tasks.length - wins(comparison, "A").length - wins(comparison, "B").length
  return {
    title: `${nameOf(a)} against ${nameOf(b)}`,
    blocks: [
      paragraph(`A: ${about(a)}`),
      paragraph(`B: ${about(b)}`),
      { _tag: "Verdict", text: verdictText(comparison) },
      paragraph(ruleText(comparison)),
      ...(spreads.length === 0 ? [] : [paragraph(`For comparison: ${spreads.join(", ")}, over rewards.`)]),
      ...(other === undefined ? [] : [paragraph(other)]),
      ...warnings(notes),
      ...measures(comparison),
      ...domains(comparison),
      ...(comparison.tasks.length === 0
        ? []
        : [
            heading("Wins and losses by task"),
            paragraph(`${plural(ties, "task")} with the same mean score on both sides.`),
            ...won(comparison, "A"),
            ...won(comparison, "B")
          ])
    ]
  }
}
