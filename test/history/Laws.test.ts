import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { fromText } from "../../src/history/BuiltIn.js"
import * as FixedWindow from "../../src/history/FixedWindow.js"
import type { HistoryPlan, HistoryPolicy } from "../../src/history/HistoryPolicy.js"
import * as Hysteresis from "../../src/history/Hysteresis.js"
import { laws } from "../../src/history/Laws.js"
import { counterExample, historyPolicyLaws, type LawOptions } from "../../src/testing/HistoryPolicyLaws.js"

type Policy = HistoryPolicy["Type"]

const made = (text: string) => (): Policy => Either.getOrThrow(fromText(text))

const builtIn = [
  "fixed:1",
  "fixed:3",
  "hysteresis:1,5",
  "hysteresis:3,10",
  "sink:1,4,4",
  "sink:2,5,10",
  "compaction:3,10",
  "compaction:1,2,trained"
]

for (const text of builtIn) {
  historyPolicyLaws(text, made(text), { cases: 2000, variants: builtIn.filter((other) => other !== text).map(made) })
}

/** The laws that a policy breaks, with what is said of each. */
const broken = (make: () => Policy, options: LawOptions = {}): ReadonlyMap<string, string> =>
  new Map(
    laws.flatMap((law) => {
      const said = counterExample(law, make, { seed: 7, ...options })
      return said === undefined ? [] : [[law.name, said] as const]
    })
  )

/** A fixed window whose plans are tampered with. */
const tampered = (tamper: (plan: HistoryPlan, completedTurns: number) => HistoryPlan): Policy => {
  const policy = FixedWindow.make({ keepImages: 3 })
  return {
    ...policy,
    plan: (state, completedTurns, limit) => tamper(policy.plan(state, completedTurns, limit), completedTurns)
  }
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
    const law = "the id is that of the configuration, and policies that plan differently have different ids"
    assert.deepStrictEqual([...found.keys()], [law])
    assert.include(found.get(law) ?? "", "made twice, it is osworld-history-policy-")
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
})
