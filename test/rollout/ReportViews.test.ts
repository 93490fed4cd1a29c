import { assert, describe, it } from "@effect/vitest"
import { DOMParser, onErrorStopParsing } from "@xmldom/xmldom"
import * as Option from "effect/Option"
import * as Compare from "../../src/rollout/Compare.js"
import * as CompareReport from "../../src/rollout/CompareReport.js"
import type { Entry } from "../../src/rollout/Metrics.js"
import type { RecordedRun } from "../../src/rollout/RecordedRun.js"
import * as Report from "../../src/rollout/Report.js"
import * as ReportHtml from "../../src/rollout/ReportHtml.js"
import * as ReportJson from "../../src/rollout/ReportJson.js"
import * as ReportMarkdown from "../../src/rollout/ReportMarkdown.js"

const hostile = '<img src=x onerror="alert(1)"> | `code` &amp; *bold*\nsecond line'

const entry = (taskIndex: number, rolloutIndex: number, result: Entry["result"]): Entry => ({
  taskIndex,
  rolloutIndex,
  taskId: `task-${taskIndex}`,
  domain: taskIndex % 2 === 0 ? "os" : "vlc",
  attempt: 0,
  earlier: false,
  result,
  ...(result._tag === "Scored" ? { steps: 3, termination: "agent_done", milliseconds: 5_000 } : {})
})

const scored = (score: number): Entry["result"] => ({ _tag: "Scored", reward: score >= 1 ? 1 : 0, score })

const runOf = (name: string, entries: ReadonlyArray<Entry>, notes: RecordedRun["notes"] = []): RecordedRun => ({
  folder: name,
  manifest: Option.none(),
  report: entries.reduce(
    Report.put,
    Report.ofTasks(
      [0, 1, 2].map((taskIndex) => ({ taskIndex, taskId: `task-${taskIndex}`, domain: "os", rollouts: 2 }))
    )
  ),
  notes
})

const run = runOf(
  "run-a",
  [
    entry(0, 0, scored(1)),
    entry(0, 1, scored(0.5)),
    entry(1, 0, { _tag: "Masked", reason: "environment_lost", detail: hostile }),
    entry(1, 1, scored(1)),
    entry(2, 0, { _tag: "Failed", fault: "task", detail: hostile })
  ],
  [{ kind: "unreadable", file: "rollouts.jsonl", line: 7, text: hostile }]
)

const other = runOf("run-b", [
  entry(0, 0, scored(0)),
  entry(0, 1, scored(0)),
  entry(1, 1, scored(1)),
  entry(2, 0, scored(1))
])

const comparison = Compare.compare(Report.entries(run.report), Report.entries(other.report))

const nothing = runOf("nothing", [])

const pages = {
  report: ReportHtml.render(run),
  "report of nothing": ReportHtml.render(nothing),
  comparison: CompareReport.toHtml(run, other, comparison),
  "comparison with nothing": CompareReport.toHtml(run, nothing, Compare.compare(Report.entries(run.report), []))
}

/** The page as XML: what HTML leaves open is closed. */
const parse = (page: string) =>
  new DOMParser({ onError: onErrorStopParsing }).parseFromString(
    page.replace("<!doctype html>", "").replace(/<meta ([^>]*)>/g, "<meta $1/>"),
    "application/xhtml+xml"
  )

describe("pages", () => {
  for (const [name, page] of Object.entries(pages)) {
    it(`the ${name} is well-formed, loads nothing and runs nothing`, () => {
      const document = parse(page)
      const elements = Array.from(document.getElementsByTagName("*"))
      const names = new Set(elements.map(({ tagName }) => tagName))
      for (const tag of ["script", "link", "img", "iframe", "object", "image", "use"])
        assert.notInclude([...names], tag)
      for (const attribute of ["src", "href", "onerror", "onload", "style"]) {
        assert.isFalse(
          elements.some((element) => element.hasAttribute(attribute)),
          attribute
        )
      }
      assert.notMatch(page, /url\(|@import/)
      for (const number of ["NaN", "Infinity", "undefined"]) assert.notInclude(page, number)
    })
  }

  it("show coverage, rates with what they are over, and what rows say as it was said", () => {
    const text = parse(pages.report).documentElement?.textContent ?? ""
    for (const said of [
      "6 expected = 3 scored + 1 masked + 1 failed + 0 unresolved + 1 not started",
      "66.7 %",
      "2 of 3 scored rollouts",
      "2.50 points over 3 scored rollouts",
      "rollouts.jsonl, line 7",
      hostile
    ]) {
      assert.include(text, said)
    }
  })

  it("have a plot for each thing that has one", () => {
    const plots = (page: string) => Array.from(parse(page).getElementsByTagName("svg")).length
    // Coverage, domains, repeats, terminations; of nothing, its coverage alone.
    assert.strictEqual(plots(pages.report), 4)
    assert.strictEqual(plots(pages["report of nothing"]), 1)
    // Differences, the bootstrap, domains.
    assert.strictEqual(plots(pages.comparison), 3)
    assert.strictEqual(plots(pages["comparison with nothing"]), 0)
  })
})

describe("Markdown", () => {
  it("keeps what rows say out of its own signs", () => {
    const markdown = ReportMarkdown.render(run)
    assert.include(
      markdown,
      '| task-1 #1 | masked | environment\\_lost | \\<img src=x onerror="alert(1)"\\> \\| \\`code\\` &amp;amp; \\*bold\\* second line |'
    )
    assert.include(markdown, "- Full score: **66.7 %** (2 of 3 scored rollouts)")
    assert.notMatch(markdown, /(?<!\\)</)
  })

  it("has as many cells in each row of a table as in its head", () => {
    for (const markdown of [ReportMarkdown.render(run), CompareReport.toMarkdown(run, other, comparison)]) {
      const tables = markdown
        .trimEnd()
        .split("\n\n")
        .filter((block) => block.startsWith("|"))
      assert.isAbove(tables.length, 3)
      for (const table of tables) {
        const cells = table.split("\n").map((row) => row.split(/(?<!\\)\|/).length)
        assert.strictEqual(new Set(cells).size, 1, table)
      }
    }
  })
})

describe("a comparison in words", () => {
  it("says whether the difference is within repeat noise, how that is decided, and what is not in both", () => {
    const b = runOf("run-b", [entry(0, 0, scored(0)), entry(4, 0, scored(1))])
    const compared = Compare.compare(Report.entries(run.report), Report.entries(b.report))
    const text = CompareReport.toText(run, b, compared)
    assert.include(
      text,
      "The difference is within repeat noise: full scores 100.0 % (A) and 0.0 % (B) over 1 task and 1 pair"
    )
    assert.include(text, "unless the 95 % interval leaves 0 out and McNemar's p is below 0.05")
    assert.include(text, "note: 2 tasks only in A, left out: task-1, task-2")
    assert.include(text, "note: 1 task only in B, left out: task-4")
    assert.include(text, "note: 1 scored rollout of A left out, because B has no score to pair with")
  })

  it("says nothing where there is nothing to compare", () => {
    const empty = Compare.compare(Report.entries(run.report), [])
    assert.include(
      CompareReport.toText(run, nothing, empty),
      "Nothing can be said: no rollout has a score in both runs."
    )
    assert.deepInclude(ReportJson.comparison(run, nothing, empty).verdict, { within_repeat_noise: null, better: null })
  })
})

describe("JSON", () => {
  it("has coverage that adds up, the field's metrics and a line a rollout", () => {
    const json = ReportJson.report(run)
    assert.deepStrictEqual(json.coverage, {
      expected: 6,
      measured: 3,
      masked: 1,
      failed: 1,
      unresolved: 0,
      not_started: 1
    })
    assert.strictEqual(json.metrics["osworld/binary_success_count"], 2)
    assert.deepStrictEqual(
      json.rollouts.map(({ outcome, reason, reward, task_id }) => [task_id, outcome, reward, reason]),
      [
        ["task-0", "scored", 1, null],
        ["task-0", "scored", 0, null],
        ["task-1", "masked", null, "environment_lost"],
        ["task-1", "scored", 1, null],
        ["task-2", "failed", null, "task"]
      ]
    )
    assert.deepStrictEqual(json.completion, {
      expected_rollouts: 6,
      completed_rollouts: 3,
      missing_rollouts: 3,
      percent: 50,
      tasks: { total: 3, complete: 1, partial: 1, missing: 1 }
    })
    assert.deepStrictEqual(
      json.group_level_metrics.map((task) => [
        task.task_id,
        task.num_rollouts,
        task.expected_num_rollouts,
        task.missing_num_rollouts,
        task.reward_profile_completion_pct,
        task.rollout_infos.map(({ reward, rollout_id }) => `${rollout_id} ${reward}`)
      ]),
      [
        ["task-0", 2, 2, 0, 100, ["0:0 1", "0:1 0"]],
        ["task-1", 1, 2, 1, 50, ["1:1 1"]],
        ["task-2", 0, 2, 2, 0, []]
      ]
    )
    const [first] = json.group_level_metrics.map((task) => Object.fromEntries(Object.entries(task)))
    assert.deepInclude(first, { "mean/reward": 0.5, "std/reward": Math.SQRT1_2 })
    // 1 and nothing; 0 and 1.
    assert.deepStrictEqual(json.per_sample_aggregate, { accuracy: [100, 50] })
    assert.deepInclude(json.key_metrics, { "mean/reward": 2 / 3, "pass@2/accuracy": 100 })
    assert.notProperty(json.key_metrics, "pass@1/accuracy")
    assert.deepStrictEqual(JSON.parse(JSON.stringify(json)), json)
  })
})
