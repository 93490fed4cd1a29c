/**
 * A history policy of one's own, and the laws that say what is wrong with it:
 *
 *     npx vitest run examples/custom-policy.test.ts
 *
 * The idea: screenshots change little from step to step, so every second one should do, and twice the time is seen.
 */
import { assert, it } from "vitest"
// In a project of your own these come from "deskhand" and "deskhand/testing".
import { HistoryLaws, HistoryPolicy } from "../src/index.js"
import { counterExample, historyPolicyLaws } from "../src/testing/index.js"

type Policy = HistoryPolicy.HistoryPolicy["Type"]

interface Options {
  /** Images in a prompt, the newest among them. */
  readonly keep: number
}

const config = ({ keep }: Options) => ({ schema_version: 1, name: "every_second", params: { keep } }) as const

/** The first try: count back from the newest, two turns at a time. */
const countingBack = ({ keep }: Options): Policy => ({
  config: config({ keep }),
  id: HistoryPolicy.policyId(config({ keep })),
  initial: HistoryPolicy.initialState,
  pinnedImages: 0,
  maximumImages: keep,
  supportsAppendStableIntervals: false,
  plan: (state, completedTurns, limit = keep) => {
    const turns = Array.from({ length: Math.min(keep, limit) }, (_, index) => completedTurns - 2 * index)
    return {
      imageIntervals: turns
        .filter((turn) => turn >= 0)
        .reverse()
        .map((turn) => [turn, turn + 1]),
      compaction: completedTurns > 0,
      clamped: limit < keep,
      next: {
        imageWindowStart: 0,
        compactionEpoch: state.compactionEpoch + (completedTurns > 0 ? 1 : 0)
      }
    }
  }
})

/**
 * What is wrong with it: at turn 2 it shows the image of turn 0, which the prompt of turn 1 had dropped. So the even turns
 * stay, and an odd one is shown only while it is the newest. `imageWindowStart` remembers the oldest even turn that is
 * left, so that a limit takes images away for good.
 */
const everySecond = ({ keep }: Options): Policy => ({
  ...countingBack({ keep }),
  plan: (state, completedTurns, limit = Number.POSITIVE_INFINITY) => {
    const most = Math.max(1, Math.min(keep, limit))
    const evenTurns = (from: number) =>
      Array.from({ length: Math.floor(completedTurns / 2) + 1 }, (_, index) => 2 * index).filter((turn) => turn >= from)
    const shown = (from: number) => [...new Set([...evenTurns(from), completedTurns])]
    const before = state.imageWindowStart
    // Each step forward drops one even turn, until what is left fits.
    let start = before
    while (shown(start).length > most) start += 2
    const oddLeft = completedTurns >= 2 && completedTurns % 2 === 0
    const compaction = start !== before || oddLeft
    return {
      imageIntervals: merged(shown(start)),
      compaction,
      clamped: shown(before).length > most && most < keep,
      next: {
        imageWindowStart: start,
        compactionEpoch: state.compactionEpoch + (compaction ? 1 : 0)
      }
    }
  }
})

/** Turns in order as half-open intervals. */
const merged = (turns: ReadonlyArray<number>): ReadonlyArray<HistoryPolicy.Interval> => {
  const intervals: Array<[number, number]> = []
  for (const turn of turns) {
    const last = intervals.at(-1)
    if (last !== undefined && last[1] === turn) last[1] = turn + 1
    else intervals.push([turn, turn + 1])
  }
  return intervals
}

// The second try obeys all laws: each is a test of its own.
historyPolicyLaws("every second image", () => everySecond({ keep: 4 }), { variants: [() => everySecond({ keep: 5 })] })

// The first does not, and this is what is said of it.
it("the first try shows an image that was gone", () => {
  const explained = HistoryLaws.laws.flatMap(
    (law) => counterExample(law, () => countingBack({ keep: 4 }), { seed: 1 }) ?? []
  )
  console.log(explained.join("\n\n"))
  assert.isTrue(
    explained.some((text) => text.includes("the image of turn 0 is back, which the prompt before did not show"))
  )
})
