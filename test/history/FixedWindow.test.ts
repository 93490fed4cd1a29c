import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { make } from "../../src/history/FixedWindow.js"
import { isLive } from "../../src/history/HistoryPolicy.js"
import vectors from "../vectors/osworld-gym-vectors.json" with { type: "json" }

describe("FixedWindow", () => {
  const ids = vectors.history_policy_ids.filter(({ config }) => config.name === "fixed")

  it("has the published ids", () => {
    assert.isAtLeast(ids.length, 4)
    for (const { config, id } of ids) {
      const { keep_images: keepImages } = config.params
      assert.isDefined(keepImages)
      assert.strictEqual(make({ keepImages: Number(keepImages) }).id, id)
    }
  })

  it("plans as the published vectors do", () => {
    const plans = vectors.history_plans.filter(({ name }) => name === "fixed")
    assert.isAtLeast(plans.length, 1)
    for (const { high, turns } of plans) {
      const policy = make({ keepImages: high })
      let state = policy.initial
      for (const turn of turns) {
        const plan = policy.plan(state, turn.completed_turns)
        assert.deepEqual<unknown>(plan.imageIntervals, turn.intervals)
        assert.strictEqual(plan.compaction, turn.compaction)
        assert.strictEqual(plan.next.compactionEpoch, turn.epoch)
        state = plan.next
      }
    }
  })

  it.prop(
    "always shows the newest image, and never more than it keeps",
    { keepImages: FastCheck.integer({ min: 1, max: 20 }), completed: FastCheck.integer({ min: 0, max: 200 }) },
    ({ keepImages, completed }) => {
      const policy = make({ keepImages })
      const plan = policy.plan(policy.initial, completed)
      const live = Array.from({ length: completed + 1 }, (_, turn) => turn).filter((turn) => isLive(plan, turn))
      assert.include(live, completed)
      assert.strictEqual(live.length, Math.min(keepImages, completed + 1))
    }
  )
})
