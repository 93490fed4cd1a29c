import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { fromConfig, fromText } from "../../src/history/BuiltIn.js"
import * as Compaction from "../../src/history/Compaction.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import { type HistoryPolicy, imageCount, isLive, shrink } from "../../src/history/HistoryPolicy.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import * as SinkWindow from "../../src/history/SinkWindow.js"
import vectors from "../vectors/osworld-gym-vectors.json" with { type: "json" }

const made = (text: string): HistoryPolicy["Type"] => Either.getOrThrow(fromText(text))

const message = (either: Either.Either<HistoryPolicy["Type"], { readonly message: string }>): string =>
  Either.match(either, { onLeft: ({ message }) => message, onRight: ({ id }) => `made ${id}` })

describe("the built-in history policies", () => {
  it("have the published ids", () => {
    assert.isAtLeast(vectors.history_policy_ids.length, 10)
    for (const { config, id } of vectors.history_policy_ids) {
      assert.strictEqual(Either.getOrThrow(fromConfig(config)).id, id)
    }
  })

  it("plan as the published vectors do", () => {
    assert.isAtLeast(vectors.history_plans.length, 6)
    for (const { high, low, name, sink, turns } of vectors.history_plans) {
      const policy = made(
        { fixed: `fixed:${high}`, hysteresis: `hysteresis:${low},${high}` }[name] ?? `sink:${sink},${low},${high}`
      )
      let state = policy.initial
      for (const turn of turns) {
        const plan = policy.plan(state, turn.completed_turns)
        assert.deepEqual<unknown>(plan.imageIntervals, turn.intervals, policy.id)
        assert.strictEqual(plan.compaction, turn.compaction)
        assert.strictEqual(plan.next.compactionEpoch, turn.epoch)
        assert.isFalse(plan.clamped)
        state = plan.next
      }
    }
  })

  it("are the same by their configuration, by their short form and by their options", () => {
    for (const [text, policy] of [
      ["fixed:3", FixedWindow.make({ keepImages: 3 })],
      ["hysteresis:3,10", Hysteresis.make({ lowWater: 3, highWater: 10 })],
      ["sink:1,3,10", SinkWindow.make({ sink: 1, lowWater: 3, highWater: 10 })],
      ["compaction:3,10", Compaction.make({ keepImages: 3, triggerImages: 10 })],
      ["compaction:3,10,trained", Compaction.make({ keepImages: 3, triggerImages: 10, trained: true })]
    ] as const) {
      assert.strictEqual(made(text).id, policy.id)
      assert.strictEqual(Either.getOrThrow(fromConfig(JSON.parse(JSON.stringify(policy.config)))).id, policy.id)
    }
    assert.notStrictEqual(made("compaction:3,10").id, made("compaction:3,10,trained").id)
  })

  it("say what is wrong with options that make no policy", () => {
    assert.include(message(fromText("fixed")), "fixed names no history policy: fixed:IMAGES, hysteresis:LOW,HIGH")
    assert.include(message(fromText("fixed:3,4")), "names no history policy")
    assert.include(message(fromText("fixed:3.5")), "names no history policy")
    assert.include(message(fromText("fixed:-1")), "names no history policy")
    assert.include(message(fromText("fixed:3,trained")), "names no history policy")
    assert.include(message(fromText("fixed:0")), "keepImages is 0, and has to be a whole number of at least 1")
    assert.include(message(fromText("hysteresis:3,3")), "highWater is 3, and has to be more than lowWater, 3")
    assert.include(message(fromText("sink:3,3,9")), "lowWater is 3, and has to be more than sink, 3")
    assert.include(message(fromText("sink:1,4,3")), "highWater is 3, and has to be at least lowWater, 4")
    assert.include(message(fromText("compaction:4,4")), "triggerImages is 4, and has to be more than keepImages, 4")
    const config = { schema_version: 1, name: "fixed", params: { keep_images: 3, sink: 1 } }
    assert.include(message(fromConfig(config)), "sink")
    assert.include(message(fromConfig({ ...config, params: { keep_images: true } })), "keep_images")
  })

  it("sum up what leaves a compacting prompt, and keep the summary until the next break", () => {
    const policy = made("compaction:2,4")
    const plans = []
    let state = policy.initial
    for (let turn = 0; turn < 8; turn++) {
      const plan = policy.plan(state, turn)
      plans.push([plan.imageIntervals, plan.summary])
      state = plan.next
    }
    // Worked by hand: the fifth image is one too many, two stay; so it goes again three turns later.
    assert.deepStrictEqual(plans, [
      [[[0, 1]], undefined],
      [[[0, 2]], undefined],
      [[[0, 3]], undefined],
      [[[0, 4]], undefined],
      [[[3, 5]], { turns: 3 }],
      [[[3, 6]], { turns: 3 }],
      [[[3, 7]], { turns: 3 }],
      [[[6, 8]], { turns: 6 }]
    ])
  })

  it("shrink by one image at a time, keep the sink, and stop at it and the newest", () => {
    const policy = made("sink:2,5,10")
    let state = policy.initial
    for (let turn = 0; turn < 9; turn++) state = policy.plan(state, turn).next
    let plan = policy.plan(state, 9)
    assert.strictEqual(imageCount(plan), 10)
    const shown: Array<unknown> = []
    for (;;) {
      const next = shrink(policy, state, 9, plan)
      if (Option.isNone(next)) break
      plan = next.value.plan
      shown.push(plan.imageIntervals)
      assert.isTrue(plan.clamped && plan.compaction)
      assert.strictEqual(plan.next.compactionEpoch, state.compactionEpoch + 1)
    }
    // Of ten images down to the two of the sink and the newest: seven steps.
    assert.deepStrictEqual(
      shown,
      [3, 4, 5, 6, 7, 8, 9].map((start) => [
        [0, 2],
        [start, 10]
      ])
    )
  })

  it.prop(
    "show the newest image, and as many as they can",
    { keepImages: FastCheck.integer({ min: 1, max: 20 }), completed: FastCheck.integer({ min: 0, max: 200 }) },
    ({ completed, keepImages }) => {
      const policy = FixedWindow.make({ keepImages })
      const plan = policy.plan(policy.initial, completed)
      assert.isTrue(isLive(plan, completed))
      assert.strictEqual(imageCount(plan), Math.min(keepImages, completed + 1))
    }
  )
})
