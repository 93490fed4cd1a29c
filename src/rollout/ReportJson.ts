/**
 * Reports and comparisons as plain data for other programs.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Compare from "./Compare.js"
import { ruleText, verdictText } from "./internal/report/compareDocument.js"
import * as Metrics from "./Metrics.js"
import type { RecordedRun } from "./RecordedRun.js"
import * as Report from "./Report.js"

/** `null` where the run has no manifest. */
const about = (run: RecordedRun) => ({
  folder: run.folder,
  run: Option.match(run.manifest, {
    onNone: () => null,
    onSome: ({ knobs, run_id, started_at, versions }) => ({ run_id, started_at, versions, knobs })
  }),
  notes: run.notes
})

/** Means and their kin of one task, by the field's names. */
const spreadKeys = (task: Report.TaskFacts): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(Metrics.toKeys(task)).filter(([key]) => /^(mean|max|min|median|std)\//.test(key)))

/**
 * The run with all of its metrics under the field's names, and a line for each rollout.
 *
 * @since 0.1.0
 * @category encoding
 */
export const report = (run: RecordedRun) => {
  const { expected, failed, masked, measured, notStarted, samples, unresolved } = Report.facts(run.report)
  const metrics = Report.toMetrics(run.report)
  const tasks = Report.tasks(run.report)
  const complete = tasks.filter(({ missing }) => missing === 0).length
  const untouched = tasks.filter((task) => task.measured === 0 && task.missing > 0).length
  return {
    schema_version: 1,
    ...about(run),
    coverage: { expected, measured, masked, failed, unresolved, not_started: notStarted },
    completion: {
      expected_rollouts: expected,
      completed_rollouts: measured,
      missing_rollouts: expected - measured,
      percent: expected === 0 ? null : (100 * measured) / expected,
      tasks: {
        total: tasks.length,
        complete,
        partial: tasks.length - complete - untouched,
        missing: untouched
      }
    },
    metrics,
    key_metrics: Metrics.keyMetrics(metrics),
    per_sample_aggregate: { accuracy: samples.map(({ mean }) => mean) },
    group_level_metrics: tasks.map((task) => ({
      task_id: task.taskId ?? null,
      domain: task.domain ?? null,
      _ng_task_index: task.taskIndex,
      num_rollouts: task.measured,
      expected_num_rollouts: task.expected,
      missing_num_rollouts: task.missing,
      reward_profile_completion_pct: task.completion,
      ...spreadKeys(task),
      rollout_infos: task.entries.flatMap(({ result, rolloutIndex, taskIndex }) =>
        result._tag === "Scored"
          ? [
              {
                rollout_id: `${taskIndex}:${rolloutIndex}`,
                _ng_task_index: taskIndex,
                _ng_rollout_index: rolloutIndex,
                reward: result.reward
              }
            ]
          : []
      )
    })),
    rollouts: Report.entries(run.report).map(({ result, ...entry }) => ({
      task_id: entry.taskId,
      domain: entry.domain,
      _ng_task_index: entry.taskIndex,
      _ng_rollout_index: entry.rolloutIndex,
      _ng_attempt_index: entry.attempt,
      outcome: result._tag.toLowerCase(),
      reward: result._tag === "Scored" ? result.reward : null,
      osworld_score: result._tag === "Scored" ? result.score : null,
      reason: result._tag === "Masked" ? result.reason : result._tag === "Failed" ? result.fault : null,
      detail: result._tag === "Masked" || result._tag === "Failed" ? result.detail : null,
      steps: entry.steps ?? null,
      termination: entry.termination ?? null,
      milliseconds: entry.milliseconds ?? null
    }))
  }
}

/**
 * The comparison without its draws, which come again from its seed. Differences are B minus A, in percentage points.
 *
 * @since 0.1.0
 * @category encoding
 */
export const comparison = (a: RecordedRun, b: RecordedRun, compared: Compare.Comparison) => {
  const task = ({ domain, pairs, successesA, successesB, taskId, ...means }: Compare.ComparedTask) => ({
    task_id: taskId,
    domain,
    pairs,
    mean_score_a: means.a,
    mean_score_b: means.b,
    full_scores_a: successesA,
    full_scores_b: successesB
  })
  const { discordance, verdict } = compared
  return {
    schema_version: 1,
    a: about(a),
    b: about(b),
    verdict: {
      within_repeat_noise: verdict._tag === "NoPairs" ? null : verdict._tag === "WithinNoise",
      better: verdict._tag === "Beyond" ? verdict.better : null,
      text: verdictText(compared),
      rule: ruleText(compared)
    },
    tasks: compared.tasks.length,
    pairs: compared.pairs,
    only_in_a: compared.onlyInA,
    only_in_b: compared.onlyInB,
    unpaired_scored_rollouts: { a: compared.unpairedA, b: compared.unpairedB },
    ambiguous_task_ids: compared.ambiguous,
    full_score: compared.success ?? null,
    mean_score: compared.score ?? null,
    bootstrap: { draws: Compare.draws, seed: compared.seed, level: 0.95, over: "tasks", method: "percentile" },
    mcnemar:
      discordance === undefined
        ? null
        : {
            both: discordance.both,
            only_a: discordance.onlyA,
            only_b: discordance.onlyB,
            neither: discordance.neither,
            p: discordance.p
          },
    a_wins: Compare.wins(compared, "A").map(task),
    b_wins: Compare.wins(compared, "B").map(task)
  }
}
