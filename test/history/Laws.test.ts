import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { fromText } from "../../src/history/BuiltIn.js"
import * as Compaction from "../../src/history/Compaction.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import {
  type HistoryPlan,
  type HistoryPolicy,
  type HistoryPolicyConfig,
  policyId
} from "../../src/history/HistoryPolicy.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import { laws } from "../../src/history/Laws.js"
import * as SinkWindow from "../../src/history/SinkWindow.js"
import { counterExample, historyPolicyLaws, type LawOptions } from "../../src/testing/HistoryPolicyLaws.js"

type Policy = HistoryPolicy["Type"]

const made = (text: string) => (): Policy => Either.getOrThrow(fromText(text))

const builtIn = [
  "fixed:1",
  "fixed:3",
  "hysteresis:1,5",
  "hysteresis:3,10",
  "hysteresis:3,4",
  "sink:1,4,4",
  "sink:2,5,10",
  "compaction:3,10",
  "compaction:1,2,trained"
]

for (const text of builtIn) {
  historyPolicyLaws(text, made(text), { cases: 2000, variants: builtIn.filter((other) => other !== text).map(made) })
}

// Longer episodes, and so fewer of them.
for (const text of ["fixed:30", "hysteresis:20,50", "sink:5,40,100", "compaction:20,50"]) {
  historyPolicyLaws(text, made(text), { cases: 200 })
}

/** A policy that lets no image go before a limit makes it. */
const everyImage = (): Policy => {
  const config = { schema_version: 1, name: "every_image", params: {} } as const
  return {
    ...FixedWindow.make({ keepImages: 1_000_000 }),
    config,
    id: policyId(config),
    maximumImages: Number.POSITIVE_INFINITY,
    supportsAppendStableIntervals: true
  }
}

historyPolicyLaws("every image", everyImage)

/** The laws that a policy breaks, with what is said of each. */
const broken = (make: () => Policy, options: LawOptions = {}): ReadonlyMap<string, string> =>
  new Map(
    laws.flatMap((law) => {
      const said = counterExample(law, make, { seed: 7, ...options })
      return said === undefined ? [] : [[law.name, said] as const]
    })
  )

/** A policy, a fixed window unless given, whose plans are tampered with. */
const tampered = (
  tamper: (plan: HistoryPlan, completedTurns: number, limit: number | undefined) => HistoryPlan,
  policy: Policy = FixedWindow.make({ keepImages: 3 })
): Policy => ({
  ...policy,
  plan: (state, completedTurns, limit) => tamper(policy.plan(state, completedTurns, limit), completedTurns, limit)
})

const compaction = Compaction.make({ keepImages: 3, triggerImages: 10 })

/** A compaction whose summaries stand for other turns. */
const summing = (turnsOf: (turns: number, completedTurns: number) => number) => (): Policy =>
  tampered(
    (plan, completedTurns) =>
      plan.summary === undefined ? plan : { ...plan, summary: { turns: turnsOf(plan.summary.turns, completedTurns) } },
    compaction
  )

const summaries = "a summary stands for completed turns, and none of their images is shown"
const declared = "between declared breaks a prompt extends the one before"
const clamps = "a plan is clamped when the limit made it smaller, and only then"
const stable = "prompts that follow a full one extend each other if the policy says so, and only then"
const ids = "the id is that of the configuration, and policies that plan differently have different ids"

/** That a policy breaks one law and no other, and what is said of it. */
const assertBreaksOnly = (make: () => Policy, law: string, saying: string): void => {
  const found = broken(make)
  assert.deepStrictEqual([...found.keys()], [law])
  assert.include(found.get(law) ?? "", saying)
}

describe("the laws catch", () => {
  it("a window that is one too long, in the fewest turns that show it", () => {
    const found = broken(() => ({ ...FixedWindow.make({ keepImages: 4 }), maximumImages: 3 }))
    assert.deepStrictEqual([...found.keys()], ["no prompt has more images than the policy and the limit allow"])
    const [said = ""] = found.values()
    assert.include(
      said,
      "not in an episode of 4 turns: at turn 3, 4 images are shown, and the policy says that it shows at most 3"
    )
    assert.include(said, "  turn   3  ####")
    assert.include(said, "(seed 7)")
  })

  it("an image that comes back", () => {
    const found = broken(() =>
      tampered((plan, completedTurns) =>
        completedTurns === 6
          ? {
              ...plan,
              imageIntervals: [
                [2, 3],
                [5, 7]
              ]
            }
          : plan
      )
    )
    const said = found.get("an image that has left does not come back") ?? ""
    assert.include(said, "at turn 6, the image of turn 2 is back, which the prompt before did not show")
    assert.include(said, "  turn   5  ...###   declares a break\n  turn   6  ..#..##   declares a break")
  })

  it("a break that is not declared", () => {
    const found = broken(() => tampered((plan) => ({ ...plan, compaction: false })))
    const said = found.get("between declared breaks a prompt extends the one before") ?? ""
    assert.include(said, "not in an episode of 4 turns: at turn 3, turn 0 is text now and was image")
    assert.include(said, "no break is declared")
  })

  it("images out of order", () => {
    const found = broken(() =>
      tampered((plan, completedTurns) =>
        completedTurns < 3
          ? plan
          : {
              ...plan,
              imageIntervals: [
                [completedTurns - 1, completedTurns + 1],
                [completedTurns - 2, completedTurns - 1]
              ]
            }
      )
    )
    const law = "images are listed in order, in intervals that are apart and within the episode"
    assert.include(
      found.get(law) ?? "",
      "the interval [1,2) comes after one that ends at 4: the intervals are out of order"
    )
  })

  it("an id that is not always the same", () => {
    let made = 0
    const found = broken(() => ({ ...FixedWindow.make({ keepImages: 3 }), id: `osworld-history-policy-${made++}` }))
    assert.deepStrictEqual([...found.keys()], [ids])
    assert.include(found.get(ids) ?? "", "made twice, it is osworld-history-policy-")
  })

  it("two policies with one id", () => {
    const three = FixedWindow.make({ keepImages: 3 })
    const four = { ...FixedWindow.make({ keepImages: 4 }), id: three.id, config: three.config }
    const [said = ""] = broken(() => three, { variants: [() => four] }).values()
    assert.include(said, `two policies have the id ${three.id} and plan differently at turn 3`)
  })

  it("a break that is none", () => {
    const found = broken(() =>
      tampered((plan, completedTurns) => (completedTurns === 1 ? { ...plan, compaction: true } : plan))
    )
    assert.include(
      found.get("a declared break is one") ?? "",
      "at turn 1, a break is declared, and every earlier turn looks as it did"
    )
    assert.include(found.get("the epoch counts the breaks") ?? "", "the epoch is 0 after this plan, and 1 breaks")
  })

  it("a policy that remembers outside its state", () => {
    const make = () => {
      const policy = Hysteresis.make({ lowWater: 1, highWater: 5 })
      let asked = 0
      const plan: Policy["plan"] = (state, completedTurns, limit) =>
        policy.plan(state, completedTurns, asked++ > 20 ? 1 : limit)
      return { ...policy, plan }
    }
    const found = broken(make)
    assert.isTrue(
      found.has("an episode planned again from its start has the plans that it had, whatever was planned in between"),
      [...found.keys()].join("; ")
    )
  })

  it("a state that JSON cannot hold, and a limit that is not heeded", () => {
    const policy = FixedWindow.make({ keepImages: 3 })
    const found = broken(() => ({ ...policy, plan: (state, completedTurns) => policy.plan(state, completedTurns) }))
    assert.include(
      found.get("no prompt has more images than the policy and the limit allow") ?? "",
      "images are shown where at most"
    )
    assert.include(
      found.get("shrinking takes images away, a few at a time, and ends") ?? "",
      "it cannot be brought below"
    )
    const half = broken(() => ({
      ...policy,
      plan: (state, completedTurns, limit) => {
        const plan = policy.plan(state, completedTurns, limit)
        return {
          ...plan,
          next: { ...plan.next, imageWindowStart: 0.5 }
        }
      }
    }))
    assert.include(
      half.get("the state is the same after it has been written as JSON and read") ?? "",
      "cannot be written as JSON and read again"
    )
  })

  it("a summary of a turn whose image is shown", () => {
    assert.include(
      broken(summing((turns) => turns + 1)).get(summaries) ?? "",
      "the images [8,11) are shown, and the summary stands for the first 9 turns\n"
    )
  })

  it("a summary of a turn that is not completed", () => {
    const said = broken(summing((_, completedTurns) => completedTurns + 1)).get(summaries) ?? ""
    assert.include(
      said,
      "at turn 10, the summary stands for 11 turns, and has to stand for a whole number of them from 1 to 10"
    )
    const early = broken(() => tampered((plan) => ({ ...plan, summary: { turns: 1 } }))).get(summaries) ?? ""
    assert.include(early, "not in an episode of 1 turn: at turn 0, there is a summary, and no turn is completed yet")
  })

  it("a summary of no turns, of fewer, of half a turn and of no number", () => {
    for (const turns of [0, -3, 0.5, Number.NaN]) {
      const found = broken(() =>
        tampered((plan, completedTurns) => (completedTurns === 0 ? plan : { ...plan, summary: { turns } }))
      )
      assert.include(found.get(summaries) ?? "", `at turn 1, the summary stands for ${turns} turns`)
    }
    const half = broken(summing((turns) => turns - 0.5)).get(summaries) ?? ""
    assert.include(half, "the summary stands for 7.5 turns")
  })

  it("a summary that is made anew where no break is declared", () => {
    // At each turn it would take in one image more: the runner would ask for a summary every time.
    const make = () =>
      tampered(
        (plan, completedTurns) =>
          plan.summary === undefined
            ? plan
            : { ...plan, imageIntervals: [[completedTurns, completedTurns + 1]], summary: { turns: completedTurns } },
        compaction
      )
    assert.include(broken(make).get(declared) ?? "", "at turn 11, turn 10 is summary now and was image")
  })

  it("a break that comes late and is not declared", () => {
    const make = () =>
      tampered(
        (plan, _, limit) => (limit === undefined ? { ...plan, compaction: false } : plan),
        Hysteresis.make({ lowWater: 20, highWater: 50 })
      )
    assert.include(
      broken(make).get(declared) ?? "",
      "not in an episode of 51 turns: at turn 50, turn 0 is text now and was image"
    )
    // As many turns as are asked for, and no more.
    assert.strictEqual(broken(make, { turns: 40 }).size, 0)
  })

  it("a large limit that is not heeded", () => {
    const policy = Hysteresis.make({ lowWater: 5, highWater: 20 })
    const found = broken(() => ({
      ...policy,
      plan: (state, completedTurns, limit) =>
        policy.plan(state, completedTurns, limit !== undefined && limit > 12 ? undefined : limit)
    }))
    assert.include(
      found.get("no prompt has more images than the policy and the limit allow") ?? "",
      "14 images are shown where at most 13 may be"
    )
  })

  it("a most that is no number", () => {
    const found = broken(() => ({ ...FixedWindow.make({ keepImages: 3 }), maximumImages: Number.NaN }))
    assert.include([...found.values()].join(), "the policy says that it shows at most NaN")
  })

  it("a plan that is clamped by nothing", () => {
    assertBreaksOnly(
      () => tampered((plan, _, limit) => (limit === undefined ? { ...plan, clamped: true } : plan)),
      clamps,
      "at turn 0, the plan is clamped, and there is no limit"
    )
    assertBreaksOnly(
      () => tampered((plan, _, limit) => (limit === undefined ? plan : { ...plan, clamped: true })),
      clamps,
      "takes nothing away: without it, 1 image would be shown"
    )
  })

  it("a plan that is clamped and does not say so", () => {
    const found = broken(() => tampered((plan) => ({ ...plan, clamped: false })))
    assert.include(
      found.get(clamps) ?? "",
      "at turn 1, the plan is not clamped, and without the limit of 1 2 images would be shown, not 1"
    )
  })

  it("a sliding window that says that its prompts extend each other", () => {
    assertBreaksOnly(
      () => ({ ...FixedWindow.make({ keepImages: 3 }), supportsAppendStableIntervals: true }),
      stable,
      "not in an episode of 16 turns: from turn 3 to turn 15, every prompt breaks the one before"
    )
    const sliding = SinkWindow.make({ sink: 1, lowWater: 4, highWater: 4 })
    assertBreaksOnly(() => ({ ...sliding, supportsAppendStableIntervals: true }), stable, "from turn 4 to turn 17")
  })

  it("a window that grows and says that its prompts do not extend each other", () => {
    assertBreaksOnly(
      () => ({ ...Hysteresis.make({ lowWater: 3, highWater: 4 }), supportsAppendStableIntervals: false }),
      stable,
      "not in an episode of 6 turns: at turn 5, the prompt extends the one before"
    )
    assertBreaksOnly(
      () => ({ ...Hysteresis.make({ lowWater: 20, highWater: 50 }), supportsAppendStableIntervals: false }),
      stable,
      "at turn 51, the prompt extends the one before"
    )
    assertBreaksOnly(() => ({ ...compaction, supportsAppendStableIntervals: false }), stable, "at turn 11, the prompt")
    assertBreaksOnly(
      () => ({ ...everyImage(), supportsAppendStableIntervals: false }),
      stable,
      "not in an episode of 2 turns: at turn 1, the prompt extends the one before"
    )
  })

  it("a configuration that its own schema refuses", () => {
    const configured = (config: HistoryPolicyConfig) => (): Policy => ({
      ...FixedWindow.make({ keepImages: 3 }),
      config,
      id: policyId(config)
    })
    assertBreaksOnly(configured({ schema_version: 1, name: "x", params: { keep: 2.5 } }), ids, "keep")
    assertBreaksOnly(configured({ schema_version: 1, name: "", params: {} }), ids, "name")
    const more = { schema_version: 1, name: "x", params: {}, author: "me" } as const
    assertBreaksOnly(configured(more), ids, "author")
  })
})
