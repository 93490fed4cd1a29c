import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { atif } from "../../src/rollout/Atif.js"
import { fromRecords, type RecordedRollout } from "../../src/rollout/RecordedRollout.js"
import * as Trajectory from "../../src/rollout/Trajectory.js"
import * as Fixture from "./evidenceFixture.js"

const withRollout = (shape: Fixture.Options, use: (rollout: RecordedRollout) => void) =>
  Fixture.withRun(() =>
    Effect.map(Fixture.episode(Fixture.policy.id, shape), (records) => use(Option.getOrThrow(fromRecords(records))))
  )

describe("ng_trajectory", () => {
  it.effect("names every turn, every call and every action, and joins them", () =>
    withRollout({ steps: 3, retry: true }, (rollout) => {
      const { turns, ...made } = Trajectory.ngTrajectory(rollout, "toy")
      assert.strictEqual(made.schema_version, "1.0")
      assert.deepStrictEqual(
        turns.map(({ answer, model_calls, step_count, turn_no }) => [turn_no, answer, step_count, model_calls.length]),
        [
          [1, "act 0", 1, 1],
          [2, "act 1", 2, 2],
          [3, "act 2", 3, 1]
        ]
      )
      assert.deepStrictEqual(
        turns.map((turn) => turn.resolved),
        [undefined, undefined, true]
      )
      // gym-core.md 2.6: references are joined exactly, ids are unique.
      const ids = made.model_calls.map(({ model_call_id }) => model_call_id)
      assert.strictEqual(new Set(ids).size, 4)
      const referred = turns.flatMap(({ model_calls }) => model_calls.map(({ model_call_id }) => model_call_id))
      assert.deepStrictEqual(referred, ids)
      assert.strictEqual(made.tool_calls.length, 3)
      assert.deepStrictEqual(
        made.gaps.map(({ code }) => code),
        ["conversation_unavailable", "multimodal_history_redacted"]
      )
    })
  )

  it.effect("has null for what a server did not tell, and a gap for what is not there", () =>
    withRollout({ steps: 1 }, ({ evaluation: _, termination: __, ...rollout }) => {
      const { gaps, invocations, model_calls, turns } = Trajectory.ngTrajectory(rollout, "toy")
      const [call] = model_calls
      assert.deepStrictEqual([call?.tokens_in, call?.tokens_total, call?.cache_hit], [null, null, null])
      assert.strictEqual(invocations[0]?.status, "unknown")
      assert.notProperty(turns[0], "resolved")
      assert.include(
        gaps.map(({ code }) => code),
        "resolution_unavailable"
      )
    })
  )
})

describe("ATIF", () => {
  it.effect("has a step for each call, numbered from 1, and observations that point at its own actions", () =>
    withRollout({ steps: 2, retry: true, tokens: true }, (rollout) => {
      const made = atif(rollout, { reward: 1, mask_sample: false, model: "toy" }, "0.1.0")
      assert.strictEqual(made.schema_version, "ATIF-v1.6")
      assert.deepStrictEqual(
        made.steps.map(({ source, step_id }) => [step_id, source]),
        [
          [1, "system"],
          [2, "user"],
          [3, "agent"],
          [4, "agent"],
          [5, "agent"]
        ]
      )
      const agentSteps = made.steps.flatMap((step) => ("tool_calls" in step ? [step] : []))
      assert.strictEqual(agentSteps.length, 2)
      for (const { observation, tool_calls } of agentSteps) {
        const own = tool_calls?.map(({ tool_call_id }) => tool_call_id)
        assert.deepStrictEqual(
          observation?.results.map((result) => ("source_call_id" in result ? result.source_call_id : "")),
          own
        )
      }
      const json = JSON.stringify(made)
      assert.include(
        json,
        '{"type":"image","source":{"media_type":"image/png","path":"screenshots/task-0.0-0/step-002.png"}}'
      )
      // 20 tokens at first, then 25 more a turn; the retry asks the same again.
      assert.strictEqual(made.final_metrics.total_prompt_tokens, 20 + 45 + 45)
      assert.notProperty(made.final_metrics, "total_cached_tokens")
      assert.strictEqual(made.extra.reward, 1)
    })
  )

  it.effect("leaves totals out where a part of them is not known", () =>
    withRollout({ steps: 2 }, (rollout) => {
      const made = atif(rollout, undefined, "0.1.0")
      assert.deepStrictEqual(made.final_metrics, { total_steps: 4 })
      assert.notProperty(made.extra, "reward")
    })
  )
})
