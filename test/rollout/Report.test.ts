import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { StepFacts } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
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
      scored: 3,
      masked: 1,
      failed: 1,
      notRun: 1,
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
      domains.map(({ domain, scored, masked, rewardMean }) => [domain, scored, masked, rewardMean]),
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
    assert.deepInclude(Report.facts(reportOf(1, [failed(0), scored(0, 1)])), { scored: 1, failed: 0 })
    assert.deepInclude(Report.facts(reportOf(1, [scored(0, 1), failed(0)])), { scored: 1, failed: 0 })
    assert.deepInclude(Report.facts(reportOf(1, [masked(0), failed(0)])), { masked: 0, failed: 1 })
  })

  it("counts an earlier run's rollouts, if this run is asked for them", () => {
    const earlier = new Map([
      ["0-0", 1],
      ["0-1", 0],
      ["0-2", 1],
      ["9-0", 1]
    ])
    const report = Report.addEarlier(reportOf(4, [scored(1, 1)]), earlier, [row(0), row(1)], 2)
    const facts = Report.facts(report)
    assert.deepInclude(facts, { expected: 4, scored: 3, notRun: 1, successes: 2, rewardMean: 2 / 3 })
    // Of an earlier run only the reward is known, which says too little of the score.
    assert.deepInclude(facts, { withScore: 1, scoreMean: 1 })
  })

  it("keeps no steps and no text of a model", () => {
    assert.notInclude(JSON.stringify(reportOf(1, [scored(0, 1)])), step.text)
  })

  it.prop(
    "expected = scored + masked + failed + notRun, overall and whatever comes",
    { outcomes, expected: FastCheck.nat(10) },
    ({ outcomes, expected }) => {
      const report = reportOf(expected, outcomes)
      const facts = Report.facts(report)
      assert.strictEqual(facts.scored + facts.masked + facts.failed + facts.notRun, facts.expected)
      assert.isAtLeast(facts.notRun, 0)
      assert.isAtLeast(facts.expected, expected)
      const sum = (key: "scored" | "masked" | "failed" | "successes") =>
        facts.domains.reduce((sum, domain) => sum + domain[key], 0)
      for (const key of ["scored", "masked", "failed", "successes"] as const) assert.strictEqual(sum(key), facts[key])
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
    const metrics = Report.toMetrics(reportOf(5, [scored(0, 1), scored(1, 0.5), masked(2), failed(3)]))
    assert.deepStrictEqual(metrics, {
      "osworld/scored_rollout_count": 2,
      "osworld/masked_rollout_count": 1,
      "osworld/binary_success_count": 1,
      "osworld/raw_reward_sum": 1.5,
      "osworld/binary_success_rate": 50,
      "osworld/raw_reward_rate": 75,
      "mean/reward": 0.5,
      "coverage/expected_rollouts": 5,
      "coverage/measured_rollouts": 2,
      "coverage/masked_rollouts": 1,
      "coverage/failed_rollouts": 1,
      "coverage/not_run_rollouts": 1,
      "coverage/raw_reward_rollouts": 2,
      "termination/agent_done": 2,
      "termination/environment_lost": 1,
      "os/osworld/scored_rollout_count": 2,
      "os/osworld/masked_rollout_count": 1,
      "os/osworld/binary_success_count": 1,
      "os/osworld/raw_reward_sum": 1.5,
      "os/osworld/binary_success_rate": 50,
      "os/osworld/raw_reward_rate": 75,
      "os/mean/reward": 0.5
    })
  })

  // osworld-gym.md section 7.3: a run that is masked throughout reports its coverage and no score.
  it("reports coverage without a score when nothing is scored", () => {
    const metrics = Report.toMetrics(reportOf(1, [masked(0)]))
    assert.notProperty(metrics, "osworld/binary_success_rate")
    assert.notProperty(metrics, "mean/reward")
    assert.strictEqual(metrics["coverage/masked_rollouts"], 1)
  })
})

describe("Report.summary", () => {
  it("never shows a mean without what it is over", () => {
    const outcomes = Array.from({ length: 10 }, (_, index) => scored(index, index === 0 ? 0 : 1))
    assert.strictEqual(
      Report.summary(Report.facts(reportOf(10, outcomes))),
      "mean reward 0.90 over 10 scored of 10 expected; 0 masked, 0 failed, 0 not run"
    )
    assert.strictEqual(
      Report.summary(Report.facts(reportOf(3, [masked(0)]))),
      "no mean reward: 0 scored of 3 expected; 1 masked, 0 failed, 2 not run"
    )
  })
})

describe("Report.render", () => {
  it("is a table by task, the totals, and why the others have no score", () => {
    const report = reportOf(5, [
      failed(3, "the image deskhand/desktop is not there. Build it with `npm run image`, or choose --provider local"),
      scored(1, 0.5, { milliseconds: 200_000, termination: new MaxSteps() }),
      scored(0, 1),
      masked(2)
    ])
    assert.strictEqual(
      Report.render(report, { width: 72, color: false }),
      `task    domain  reward  score  steps  termination             time
task-0  os      1                  2  agent_done              12 s
task-1  os      0        0.50      2  max_steps         3 min 20 s
task-2  os      masked             1  environment_lost   1 min 5 s
task-3  os      failed                                       0.1 s

mean reward 0.50 over 2 scored of 5 expected; 1 masked, 1 failed, 1 not
run
1 of 2 scored in full (50.0 %); mean score 0.75 over 2
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
    const text = Report.render(reportOf(1, [failed(0, reason, "defect")]), { width: 60, color: false })
    for (const word of reason.split(/\s+/)) assert.include(text, word)
    for (const line of text.split("\n")) if (!line.includes("xxx")) assert.isAtMost(line.length, 60)
  })

  it("numbers the rollouts of a group, and marks an earlier run's", () => {
    const report = Report.addEarlier(
      reportOf(2, [scored(0, 1, { rolloutIndex: 1 })]),
      new Map([["0-0", 0]]),
      [row(0)],
      2
    )
    const text = Report.render(report, { width: 80, color: false })
    assert.match(text, /task-0 #1 {2}os {6}0 .*\(earlier run\)/)
    assert.match(text, /task-0 #2 {2}os {6}1 .*agent_done/)
  })

  it("has colours only when asked", () => {
    const report = reportOf(2, [scored(0, 1), masked(1)])
    const [plain, painted] = [false, true].map((color) => Report.render(report, { width: 80, color }))
    assert.notInclude(plain, "\u001b")
    assert.strictEqual((painted ?? "").replace(/\u001b\[\d+m/g, ""), plain)
  })
})

describe("Report.showDuration", () => {
  it("is short", () => {
    assert.deepStrictEqual(
      [0, 400, 999, 12_000, 59_600, 60_000, 200_000, 3_600_000, 7_500_000].map(Report.showDuration),
      ["0.0 s", "0.4 s", "1 s", "12 s", "1 min", "1 min", "3 min 20 s", "1 h", "2 h 5 min"]
    )
  })
})
