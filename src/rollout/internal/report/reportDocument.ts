/** What there is to say of a run. */
import * as Option from "effect/Option"
import type { Scores } from "../../Metrics.js"
import { svgPlot } from "../../Plot.js"
import { type RecordedRun, showNote } from "../../RecordedRun.js"
import * as Report from "../../Report.js"
import { overExpected, showDuration, shownRepeats, showUnscored } from "../../ReportText.js"
import { colours, countBars, percentBars, stack } from "./charts.js"
import { type Block, type Document, type Figure, heading, paragraph, type Table, tableOf } from "./document.js"

/** A page of more rows is no page any more. */
const mostRows = 2000

export const percent = (value: number | undefined): string => (value === undefined ? "–" : `${value.toFixed(1)} %`)

const decimals = (value: number | undefined): string => (value === undefined ? "–" : value.toFixed(3))

export const plural = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

const knobOf = (run: RecordedRun, name: string): string | undefined =>
  Option.match(run.manifest, {
    onNone: () => undefined,
    onSome: ({ knobs }) => {
      const value = knobs[name]
      return value === undefined || value === null ? undefined : String(value)
    }
  })

/** The run's id, or its folder where it has none. */
export const nameOf = (run: RecordedRun): string =>
  Option.match(run.manifest, { onNone: () => run.folder, onSome: ({ run_id }) => run_id })

/** `2026-01-01 00:00 UTC`, of a time that is written as ISO 8601 has it. */
const showTime = (time: string): string => time.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*Z$/, "$1 $2 UTC")

/** Folder, agent, model and start, as far as they are known. */
export const about = (run: RecordedRun): string =>
  [
    run.folder,
    ...["agent", "model"].flatMap((name) => {
      const value = knobOf(run, name)
      return value === undefined ? [] : [`${name} ${value}`]
    }),
    ...Option.match(run.manifest, { onNone: () => [], onSome: ({ started_at }) => [`started ${showTime(started_at)}`] })
  ].join(" · ")

export const warnings = (items: ReadonlyArray<string>): ReadonlyArray<Block> => {
  const most = 20
  const shown =
    items.length > most ? [...items.slice(0, most), `and ${items.length - most} more (--json has all)`] : items
  return shown.length === 0 ? [] : [{ _tag: "Warnings", items: shown }]
}

const nameOfEntry = ({ rolloutIndex, taskId }: Report.Entry, numbered: boolean): string =>
  numbered ? `${taskId} #${rolloutIndex + 1}` : taskId

/** `166 of 361`, or a dash over nothing. */
const outOf = ({ measured, successes }: Scores): string => (measured === 0 ? "–" : `${successes} of ${measured}`)

const figures = (facts: Report.Facts): ReadonlyArray<Figure> => {
  const { expected, measured, repeats, scoreMean, successRate } = facts
  const last = repeats[repeats.length - 1]
  return [
    { label: "Full score", value: percent(successRate), over: `${outOf(facts)} scored rollouts` },
    {
      label: "Mean score",
      value: percent(scoreMean === undefined ? undefined : 100 * scoreMean),
      over: `${facts.scoreSum.toFixed(2)} points over ${measured} scored rollouts`
    },
    {
      label: "Coverage",
      value: percent(expected === 0 ? undefined : (100 * measured) / expected),
      over: `${measured} scored of ${expected} expected`
    },
    ...(last === undefined || last.k < 2
      ? []
      : [{ label: `pass@${last.k}`, value: percent(last.pass), over: `over ${plural(last.passTasks, "task")}` }])
  ]
}

const coverage = (facts: Report.Facts): ReadonlyArray<Block> => {
  const parts = [
    { label: "full score", value: facts.successes, colour: colours.success },
    { label: "scored below", value: facts.measured - facts.successes, colour: colours.noSuccess },
    { label: "masked", value: facts.masked, colour: colours.masked },
    { label: "failed", value: facts.failed, colour: colours.failed },
    { label: "unresolved", value: facts.unresolved, colour: colours.unresolved },
    { label: "not started", value: facts.notStarted, colour: colours.notStarted }
  ]
  const over = overExpected(facts)
  return [
    heading("Coverage"),
    paragraph(`${facts.expected} expected = ${facts.measured} scored + ${showUnscored(facts).replaceAll(", ", " + ")}`),
    ...(facts.expected === 0 ? [] : [{ _tag: "Plot", svg: stack("Coverage", parts) } as const]),
    ...(over === undefined ? [] : [paragraph(`${over}.`)])
  ]
}

const domains = ({ domains }: Report.Facts): ReadonlyArray<Block> => {
  if (domains.length < 2) return []
  const rows = domains.map((domain) => [
    domain.domain,
    percent(domain.successRate),
    outOf(domain),
    decimals(domain.scoreMean),
    String(domain.masked),
    String(domain.failed),
    String(domain.unresolved),
    String(domain.notStarted),
    String(domain.expected)
  ])
  const heads = [
    "domain",
    "full score",
    "of scored",
    "mean score",
    "masked",
    "failed",
    "unresolved",
    "not started",
    "expected"
  ]
  const bars = domains
    .filter(({ measured }) => measured > 0)
    .map((domain) => ({
      label: domain.domain,
      share: domain.successes / domain.measured,
      mark: domain.scoreSum / domain.measured,
      value: `${percent(domain.successRate)} (${domain.successes}/${domain.measured})`
    }))
  const names = { bar: "full score, share of scored rollouts", mark: "mean score" }
  return [
    heading("By domain"),
    ...(bars.length === 0 ? [] : [{ _tag: "Plot", svg: percentBars("By domain", bars, names) } as const]),
    { _tag: "Table", table: tableOf(1, heads, rows) }
  ]
}

const repeats = (facts: Report.Facts): ReadonlyArray<Block> => {
  const shown = shownRepeats(facts)
  if (shown.length === 0) return []
  const table = tableOf(
    0,
    ["k", "pass@k", "tasks", "pass@1[avg-of-k]", "tasks", "std dev across runs", "std err"],
    shown.map(({ average, averageTasks, deviation, error, k, pass, passTasks }) => [
      String(k),
      percent(pass),
      String(passTasks),
      percent(average),
      String(averageTasks),
      deviation?.toFixed(2) ?? "–",
      error?.toFixed(2) ?? "–"
    ])
  )
  const points = (value: "average" | "pass") =>
    facts.repeats.flatMap((repeat) => {
      const y = repeat[value]
      return y === undefined ? [] : [[repeat.k, y] as const]
    })
  return [
    heading("Repeats"),
    paragraph("Rates in percent, over rewards. The spread is over the averages of the repeats, in percentage points."),
    {
      _tag: "Plot",
      svg: svgPlot("pass@k and the mean of k rollouts", [
        {
          title: "Over rewards, in percent",
          xLabel: "k",
          yLabel: "percent",
          yMax: 100,
          series: [
            { name: "pass@k", points: points("pass") },
            { name: "pass@1[avg-of-k]", points: points("average") }
          ]
        }
      ])
    },
    { _tag: "Table", table }
  ]
}

const terminations = ({ terminations }: Report.Facts): ReadonlyArray<Block> =>
  terminations.length === 0
    ? []
    : [
        heading("How episodes ended"),
        {
          _tag: "Plot",
          svg: countBars("Terminations", terminations),
          otherwise: tableOf(
            1,
            ["termination", "rollouts"],
            terminations.map(([word, count]) => [word, String(count)])
          )
        }
      ]

const lengths = ({ measured, milliseconds, steps }: Report.Facts): ReadonlyArray<Block> => {
  const number = (value: number | undefined) => (value === undefined ? "–" : String(Math.round(value * 10) / 10))
  const rows = [
    ...(steps === undefined ? [] : [["steps", ...[steps.min, steps.median, steps.mean, steps.max].map(number)]]),
    ...(milliseconds === undefined
      ? []
      : [["time", ...[milliseconds.min, milliseconds.median, milliseconds.mean, milliseconds.max].map(showDuration)]])
  ]
  return rows.length === 0
    ? []
    : [
        heading("Length of episodes"),
        paragraph(`Over ${measured} scored rollouts.`),
        { _tag: "Table", table: tableOf(1, ["", "shortest", "median", "mean", "longest"], rows) }
      ]
}

/** Outcome, reason and detail of a rollout without a score. */
const whyNot = ({ result }: Report.Entry): ReadonlyArray<string> | undefined => {
  switch (result._tag) {
    case "Scored":
      return undefined
    case "Masked":
      return ["masked", result.reason, result.detail]
    case "Failed":
      return ["failed", result.fault, result.detail]
    case "Unresolved":
      return ["unresolved", "", "it was begun and has no end"]
  }
}

const unscored = (entries: ReadonlyArray<Report.Entry>, numbered: boolean): ReadonlyArray<Block> => {
  const rows = entries.flatMap((entry) => {
    const why = whyNot(entry)
    return why === undefined ? [] : [[nameOfEntry(entry, numbered), ...why]]
  })
  return rows.length === 0
    ? []
    : [
        heading("Without a score"),
        ...capped(tableOf(4, ["rollout", "outcome", "reason", "detail"], rows), (table) => ({ _tag: "Table", table }))
      ]
}

const capped = (table: Table, as: (table: Table) => Block): ReadonlyArray<Block> =>
  table.rows.length <= mostRows
    ? [as(table)]
    : [
        as({ ...table, rows: table.rows.slice(0, mostRows) }),
        paragraph(`The first ${mostRows} of ${table.rows.length}; --json has all.`)
      ]

const all = (entries: ReadonlyArray<Report.Entry>, numbered: boolean): ReadonlyArray<Block> => {
  const rows = entries.map((entry) => {
    const { domain, milliseconds, result, steps, termination } = entry
    return [
      nameOfEntry(entry, numbered),
      domain,
      result._tag.toLowerCase(),
      termination ?? "",
      result._tag === "Scored" ? String(Number(result.score.toFixed(3))) : "",
      steps === undefined ? "" : String(steps),
      milliseconds === undefined ? "" : showDuration(milliseconds)
    ]
  })
  const table = tableOf(4, ["rollout", "domain", "outcome", "termination", "score", "steps", "time"], rows)
  return rows.length === 0
    ? []
    : capped(table, (table) => ({ _tag: "Details", summary: `All ${plural(rows.length, "rollout")}`, table }))
}

const settings = (run: RecordedRun): ReadonlyArray<Block> =>
  Option.match(run.manifest, {
    onNone: () => [],
    onSome: ({ knobs, versions }) => [
      {
        _tag: "Details",
        summary: "What it was made of",
        table: tableOf(
          2,
          ["setting", "value"],
          [...Object.entries(knobs), ...Object.entries(versions)].map(([name, value]) => [name, String(value ?? "–")])
        )
      }
    ]
  })

export const reportDocument = (run: RecordedRun): Document => {
  const facts = Report.facts(run.report)
  const entries = Report.entries(run.report)
  const numbered = entries.some(({ rolloutIndex }) => rolloutIndex > 0)
  return {
    title: `Run ${nameOf(run)}`,
    blocks: [
      paragraph(about(run)),
      ...warnings(run.notes.map(showNote)),
      { _tag: "Figures", figures: figures(facts) },
      ...coverage(facts),
      ...domains(facts),
      ...repeats(facts),
      ...terminations(facts),
      ...lengths(facts),
      ...unscored(entries, numbered),
      ...all(entries, numbered),
      ...settings(run)
    ]
  }
}
