import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { StepFacts } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import type { Standing } from "../../src/rollout/Journal.js"
import { Failed, Masked, type RolloutOutcome, Scored, Step, Unresolved } from "../../src/rollout/Outcome.js"
import * as Report from "../../src/rollout/Report.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone, Infrastructure, MaxSteps, type Termination } from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

const row = (taskIndex: number, domain = "os"): TaskRow =>
  new TaskRow({ taskIndex, taskId: `task-${taskIndex}`, domain, instruction: "Do it", task: {} })

const identity = (taskIndex: number, rolloutIndex = 0, attemptIndex = 0) =>
  new RolloutIdentity({ runId: Simulator.runId, taskId: `task-${taskIndex}`, taskIndex, rolloutIndex, attemptIndex })

const step = new Step({
  step: 0,
  text: "a long text that no report keeps",
  actions: ["a"],
  facts: [new StepFacts({ milliseconds: 1, done: false })],
  screenshot: "0",
  observeMilliseconds: 1,
  decideMilliseconds: 1
})

const scored = (
  taskIndex: number,
  score: number,
  options: {
    readonly reward?: number
    readonly rolloutIndex?: number
    readonly termination?: Termination
    readonly milliseconds?: number
  } = {}
) =>
  new Scored({
    identity: identity(taskIndex, options.rolloutIndex),
    termination: options.termination ?? new AgentDone(),
    steps: [step, step],
    milliseconds: options.milliseconds ?? 12_000,
    evaluation: new Evaluation({ score, details: [] }),
    reward: options.reward ?? (score >= 1 ? 1 : 0)
  })

const masked = (taskIndex: number, detail = "the desktop is gone") =>
  new Masked({
    identity: identity(taskIndex),
    termination: new Infrastructure({ kind: "environment_lost", detail }),
    steps: [step],
    milliseconds: 65_000,
    reason: "environment_lost",
    detail
  })

const failed = (taskIndex: number, detail = "no desktop", fault: Failed["fault"] = "infrastructure") =>
  new Failed({ identity: identity(taskIndex), fault, detail, milliseconds: 100 })

const reportOf = (expected: number, outcomes: ReadonlyArray<RolloutOutcome>, domain?: (index: number) => string) =>
  outcomes.reduce(
    (report, outcome) =>
      Report.add(report, outcome, row(outcome.identity.taskIndex, domain?.(outcome.identity.taskIndex))),
    Report.empty(expected)
  )

const outcomes = FastCheck.array(
  FastCheck.record({
    taskIndex: FastCheck.nat(6),
    kind: FastCheck.constantFrom("scored", "masked", "failed", "unresolved"),
    score: FastCheck.constantFrom(0, 0.25, 0.999, 1)
  }).map(({ taskIndex, kind, score }): RolloutOutcome => {
    switch (kind) {
      case "scored":
        return scored(taskIndex, score)
      case "masked":
        return masked(taskIndex)
      case "failed":
        return failed(taskIndex)
      default:
        return new Unresolved({ identity: identity(taskIndex) })
    }
  })
)

describe("Report.facts", () => {
  it("counts, and takes means over scored rollouts alone", () => {
    const facts = Report.facts(
      reportOf(6, [scored(0, 1), scored(1, 0.5), masked(2), failed(3), scored(4, 0, { termination: new MaxSteps() })])
    )
    assert.deepInclude(facts, {
      expected: 6,
      measured: 3,
      masked: 1,
      failed: 1,
      unresolved: 0,
      notStarted: 1,
      rewardMean: 1 / 3,
      successes: 1,
      successRate: 100 / 3,
      scoreMean: 0.5
    })
    assert.deepStrictEqual(facts.terminations, [
      ["agent_done", 2],
      ["environment_lost", 1],
      ["max_steps", 1]
    ])
  })

  it("has facts for each domain", () => {
    const { domains } = Report.facts(
      reportOf(3, [scored(0, 1), scored(1, 0), masked(2)], (index) => (index === 0 ? "vlc" : "chrome"))
    )
    assert.deepStrictEqual(
      domains.map(({ domain, measured, masked, rewardMean }) => [domain, measured, masked, rewardMean]),
      [
        ["chrome", 1, 1, 0],
        ["vlc", 1, 0, 1]
      ]
    )
  })

  it("claims no mean over nothing", () => {
    const facts = Report.facts(reportOf(2, [masked(0), failed(1)]))
    for (const key of ["rewardMean", "successRate", "scoreMean"]) assert.notProperty(facts, key)
  })

  it("counts a rollout once, by its latest attempt, and never gives up a score", () => {
    assert.deepInclude(Report.facts(reportOf(1, [failed(0), scored(0, 1)])), { measured: 1, failed: 0 })
    assert.deepInclude(Report.facts(reportOf(1, [scored(0, 1), failed(0)])), { measured: 1, failed: 0 })
    assert.deepInclude(Report.facts(reportOf(1, [masked(0), failed(0)])), { masked: 0, failed: 1 })
    const second = new Unresolved({ identity: identity(0, 0, 1) })
    assert.deepInclude(Report.facts(reportOf(1, [second, failed(0)])), { unresolved: 1, failed: 0 })
  })

  it("counts an earlier run's rollouts, if this run is asked for them", () => {
    const kept = (score: number) => ({
      reward: score >= 1 ? 1 : 0,
      score,
      steps: 3,
      termination: "max_steps",
      milliseconds: 7000
    })
    const earlier = new Map([
      ["0-0", kept(1)],
      ["0-1", kept(0.5)],
      ["0-2", kept(1)],
      ["9-0", kept(1)]
    ])
    const failedAs = (kind: string) => ({
      class: "infrastructure" as const,
      kind,
      cause: "why",
      attempt: 3,
      failures: {}
    })
    const failed = new Map([
      ["2-0", failedAs("infrastructure")],
      ["2-1", failedAs("environment_lost")],
      ["1-0", failedAs("infrastructure")]
    ])
    const report = Report.addEarlier(
      reportOf(6, [scored(1, 1)]),
      { scored: earlier, failed },
      [row(0), row(1), row(2)],
      2
    )
    const facts = Report.facts(report)
    assert.deepInclude(facts, {
      expected: 6,
      measured: 3,
      failed: 1,
      masked: 1,
      notStarted: 1,
      successes: 2,
      rewardMean: 2 / 3,
      scoreMean: 2.5 / 3
    })
    assert.deepStrictEqual(facts.terminations, [
      ["max_steps", 2],
      ["agent_done", 1],
      ["environment_lost", 1]
    ])
    assert.deepStrictEqual(
      Report.entries(report).map(({ taskIndex, rolloutIndex, earlier, steps, milliseconds }) => [
        `${taskIndex}-${rolloutIndex}`,
        earlier,
        steps,
        milliseconds
      ]),
      [
        ["0-0", true, 3, 7000],
        ["0-1", true, 3, 7000],
        ["1-0", false, 2, 12_000],
        ["2-0", true, undefined, undefined],
        ["2-1", true, undefined, undefined]
      ]
    )
  })

  it("takes success from the score, whatever the reward", () => {
    const outcomes = [scored(0, 0.5, { reward: 1 }), scored(1, 1, { reward: 0 })]
    assert.deepInclude(Report.facts(reportOf(2, outcomes)), { successes: 1, rewardMean: 0.5, scoreMean: 0.75 })
  })

  it("keeps no steps and no text of a model", () => {
    assert.notInclude(JSON.stringify(reportOf(1, [scored(0, 1)])), step.text)
  })

  it.prop(
    "expected = measured + masked + failed + unresolved + not started, overall, in each domain, and whatever comes",
    { outcomes, expected: FastCheck.nat(10) },
    ({ outcomes, expected }) => {
      const report = reportOf(expected, outcomes)
      const facts = Report.facts(report)
      for (const each of [facts, ...facts.domains]) {
        const { failed, masked, measured, notStarted, unresolved } = each
        assert.strictEqual(measured + masked + failed + unresolved + notStarted, each.expected)
        assert.isAtLeast(notStarted, 0)
      }
      assert.isAtLeast(facts.expected, expected)
      const sum = (key: "measured" | "masked" | "failed" | "successes") =>
        facts.domains.reduce((sum, domain) => sum + domain[key], 0)
      for (const key of ["measured", "masked", "failed", "successes"] as const) assert.strictEqual(sum(key), facts[key])
    }
  )

  it.prop("what is masked or failed changes no mean", { outcomes }, ({ outcomes }) => {
    const means = (outcomes: ReadonlyArray<RolloutOutcome>) => {
      const { rewardMean, scoreMean, successRate } = Report.facts(reportOf(7, outcomes))
      return { rewardMean, scoreMean, successRate }
    }
    assert.deepStrictEqual(means(outcomes), means(outcomes.filter(({ _tag }) => _tag === "Scored")))
  })
})

describe("Report.toMetrics", () => {
  it("has the field's keys, without masked rollouts in a denominator", () => {
    const outcomes = [scored(0, 1), scored(1, 0.5), masked(2), failed(3)]
    const metrics = Report.toMetrics(reportOf(5, outcomes))
    const own = {
      "osworld/scored_rollout_count": 2,
      "osworld/masked_rollout_count": 1,
      "osworld/binary_success_count": 1,
      "osworld/raw_reward_sum": 1.5,
      "osworld/binary_success_rate": 50,
      "osworld/raw_reward_rate": 75,
      "mean/reward": 0.5,
      "max/reward": 1,
      "min/reward": 0,
      "median/reward": 0.5,
      "std/reward": Math.SQRT1_2,
      "mean/steps": 2,
      "max/steps": 2,
      "min/steps": 2,
      "median/steps": 2,
      "std/steps": 0,
      "mean/milliseconds": 12_000,
      "max/milliseconds": 12_000,
      "min/milliseconds": 12_000,
      "median/milliseconds": 12_000,
      "std/milliseconds": 0,
      "pass@1/accuracy": 50,
      "pass@1/accuracy/task_count": 2,
      "pass@1[avg-of-1]/accuracy": 50,
      "pass@1[avg-of-1]/accuracy/task_count": 2,
      "coverage/measured_rollouts": 2,
      "coverage/masked_rollouts": 1,
      "coverage/failed_rollouts": 1,
      "coverage/unresolved_rollouts": 0,
      "termination/agent_done": 2,
      "termination/environment_lost": 1
    }
    const overall = {
      ...own,
      "osworld/binary_success_rate_over_expected": 20,
      "osworld/raw_reward_rate_over_expected": 30,
      "coverage/expected_rollouts": 5,
      "coverage/not_started_rollouts": 1
    }
    // What has not begun is in no domain, since nothing is known of it.
    const domain = {
      ...own,
      "osworld/binary_success_rate_over_expected": 25,
      "osworld/raw_reward_rate_over_expected": 37.5,
      "coverage/expected_rollouts": 4,
      "coverage/not_started_rollouts": 0
    }
    const prefixed = Object.fromEntries(Object.entries(domain).map(([key, value]) => [`os/${key}`, value]))
    assert.deepStrictEqual(metrics, { ...overall, ...prefixed })
  })

  it("knows of what has not begun in which domain it is, where the rows are known", () => {
    const rows = [row(0), row(1, "vlc"), row(1, "vlc")]
    const report = [scored(0, 1)].reduce(
      (report, outcome) => Report.add(report, outcome, row(0)),
      Report.ofRows(rows, 2)
    )
    const facts = Report.facts(report)
    assert.deepInclude(facts, { expected: 6, measured: 1, notStarted: 5 })
    assert.deepStrictEqual(
      facts.domains.map(({ domain, expected, notStarted }) => [domain, expected, notStarted]),
      [
        ["os", 2, 1],
        ["vlc", 4, 4]
      ]
    )
  })

  // osworld-gym.md section 7.3: a run that is masked throughout reports its coverage and no score.
  it("reports coverage without a score when nothing is scored", () => {
    const metrics = Report.toMetrics(reportOf(1, [masked(0)]))
    assert.notProperty(metrics, "osworld/binary_success_rate")
    assert.notProperty(metrics, "mean/reward")
    assert.strictEqual(metrics["coverage/masked_rollouts"], 1)
  })
})

describe("what the journal knows of a run that was stopped", () => {
  const about = (rollout: string, attempt: number) => ({ v: 1, at: 0, rollout, attempt }) as const
  const stopped = (rollout: string, attempt: number): readonly [string, Standing] => [
    rollout,
    { failures: {}, last: { ...about(rollout, attempt), state: "unresolved", cause: "stopped", stopped: true } }
  ]
  const begun = (rollout: string): readonly [string, Standing] => [
    rollout,
    { failures: {}, last: { ...about(rollout, 0), state: "dispatched", task: "task" } }
  ]

  it("counts what was started and has no end as unresolved, and not as not started", () => {
    const rows = [row(0), row(1), row(2), row(3)]
    const told = Report.add(Report.ofRows(rows), scored(0, 1), row(0))
    const standings = new Map([stopped("0-0", 1), begun("1-0"), stopped("2-0", 0), stopped("9-0", 0)])
    const facts = Report.facts(Report.addStandings(told, standings, rows))
    assert.deepInclude(facts, { expected: 4, measured: 1, unresolved: 2, notStarted: 1 })
  })
})
