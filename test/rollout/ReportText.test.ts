import { assert, describe, it } from "@effect/vitest"
import * as HashMap from "effect/HashMap"
import * as Report from "../../src/rollout/Report.js"
import * as ReportText from "../../src/rollout/ReportText.js"

type Fields = Partial<Omit<Report.Entry, "taskIndex" | "result">>

const entry = (taskIndex: number, result: Report.Entry["result"], fields: Fields): Report.Entry => ({
  taskIndex,
  rolloutIndex: 0,
  taskId: `task-${taskIndex}`,
  domain: "os",
  attempt: 0,
  earlier: false,
  result,
  ...fields
})

const scored = (taskIndex: number, score: number, fields: Fields = {}) =>
  entry(
    taskIndex,
    { _tag: "Scored", reward: score >= 1 ? 1 : 0, score },
    { steps: 2, termination: "agent_done", milliseconds: 12_000, ...fields }
  )

const masked = (taskIndex: number, fields: Fields = {}) =>
  entry(
    taskIndex,
    { _tag: "Masked", reason: "environment_lost", detail: "the desktop is gone" },
    { steps: 1, termination: "environment_lost", milliseconds: 65_000, ...fields }
  )

const failed = (taskIndex: number, detail: string, fault: string) =>
  entry(taskIndex, { _tag: "Failed", fault, detail }, { milliseconds: 100 })

const reportOf = (expected: number, entries: ReadonlyArray<Report.Entry>): Report.Report => ({
  expected,
  asked: new Map(),
  entries: HashMap.fromIterable(entries.map((entry) => [`${entry.taskIndex}-${entry.rolloutIndex}`, entry]))
})

describe("ReportText.summary", () => {
  it("never shows a mean without what it is over", () => {
    const entries = Array.from({ length: 10 }, (_, index) => scored(index, index === 0 ? 0 : 1))
    assert.strictEqual(
      ReportText.summary(Report.facts(reportOf(10, entries))),
      "mean reward 0.90 over 10 scored of 10 expected; 0 masked, 0 failed, 0 unresolved, 0 not started"
    )
    assert.strictEqual(
      ReportText.summary(Report.facts(reportOf(3, [masked(0)]))),
      "no mean reward: 0 scored of 3 expected; 1 masked, 0 failed, 0 unresolved, 2 not started"
    )
  })
})

describe("ReportText.render", () => {
  it("is a table by task, the totals, and why the others have no score", () => {
    const detail = "the image deskhand/desktop is not there. Build it with `npm run image`, or choose --provider local"
    const report = reportOf(5, [
      failed(3, detail, "infrastructure"),
      scored(1, 0.5, { milliseconds: 200_000, termination: "max_steps" }),
      scored(0, 1),
      masked(2)
    ])
    assert.strictEqual(
      ReportText.render(report, { width: 72, color: false }),
      `task    domain  reward  score  steps  termination             time
task-0  os      1                  2  agent_done              12 s
task-1  os      0        0.50      2  max_steps         3 min 20 s
task-2  os      masked             1  environment_lost   1 min 5 s
task-3  os      failed                                       0.1 s

mean reward 0.50 over 2 scored of 5 expected; 1 masked, 1 failed, 0
unresolved, 1 not started
1 of 2 scored in full (50.0 %); mean score 0.75
With what has no score as 0, as published OSWorld numbers have it: 1 of
5 in full (20.0 %), mean score 0.30
terminations: agent_done 1, environment_lost 1, max_steps 1

without a score:
  task-2 masked: environment_lost
    the desktop is gone
  task-3 failed: the infrastructure; it may go better with --resume
    the image deskhand/desktop is not there. Build it with \`npm run
    image\`, or choose --provider local`
    )
  })

  it("keeps every word of a reason, and no line of the table is wider than asked", () => {
    const reason = `first line\n    at /a/path/${"x".repeat(100)}/that/is/longer.ts\n${"word ".repeat(60)}`
    const text = ReportText.render(reportOf(1, [failed(0, reason, "defect")]), { width: 60, color: false })
    for (const word of reason.split(/\s+/)) assert.include(text, word)
    for (const line of text.split("\n")) if (!line.includes("xxx")) assert.isAtMost(line.length, 60)
  })

  it("numbers the rollouts of a group, and marks an earlier run's", () => {
    const report = reportOf(2, [scored(0, 0.25, { earlier: true }), scored(0, 1, { rolloutIndex: 1 })])
    const [header, first, second] = ReportText.render(report, { width: 80, color: false }).split("\n")
    assert.deepStrictEqual(
      [header, first, second],
      [
        "task       domain  reward  score  steps  termination  time",
        "task-0 #1  os      0        0.25      2  agent_done   12 s  (earlier run)",
        "task-0 #2  os      1                  2  agent_done   12 s"
      ]
    )
  })

  it("sums up by domain, unless that repeats the table or the totals", () => {
    const render = (...domains: ReadonlyArray<string>) => {
      const entries = domains.map((domain, index) =>
        index === 0 ? masked(index, { domain }) : scored(index, 1, { domain })
      )
      return ReportText.render(reportOf(entries.length, entries), { width: 80, color: false })
    }
    assert.include(
      render("os", "os", "vlc"),
      `
by domain:
  os   mean reward 1.00 over 1 scored of 2 expected; 1 masked, 0 failed, 0 unresolved, 0 not started
  vlc  mean reward 1.00 over 1 scored of 1 expected
`
    )
    assert.notInclude(render("os", "os", "os"), "by domain")
    assert.notInclude(render("os", "vlc", "chrome"), "by domain")
  })

  it("has colours only when asked", () => {
    const report = reportOf(2, [scored(0, 1), masked(1)])
    const [plain, painted] = [false, true].map((color) => ReportText.render(report, { width: 80, color }))
    assert.notInclude(plain, "\u001b")
    assert.strictEqual((painted ?? "").replace(/\u001b\[\d+m/g, ""), plain)
  })
})

describe("ReportText.showDuration", () => {
  it("is short", () => {
    assert.deepStrictEqual(
      [0, 400, 999, 12_000, 59_600, 60_000, 200_000, 3_600_000, 7_500_000].map(ReportText.showDuration),
      ["0.0 s", "0.4 s", "1 s", "12 s", "1 min", "1 min", "3 min 20 s", "1 h", "2 h 5 min"]
    )
  })
})
