/**
 * What planning a prompt costs, against a bare loop that works out nothing but where the window starts.
 *
 *     npm run bench:history
 */
import * as Either from "effect/Either"
import { fromText } from "../../src/history/BuiltIn.js"
import type { HistoryPolicy } from "../../src/history/HistoryPolicy.js"

const policies = ["fixed:3", "hysteresis:3,10", "sink:1,3,10", "compaction:3,10"]
const lengths = [100, 1000, 10_000]
const plans = 2_000_000

/** Nanoseconds of each plan, over as many episodes of this length as make so many plans; the best of five rounds. */
const perPlan = (turns: number, episode: (turns: number) => number): number => {
  const episodes = Math.ceil(plans / turns / 5)
  let best = Number.POSITIVE_INFINITY
  let kept = 0
  for (let round = 0; round < 5; round++) {
    const started = process.hrtime.bigint()
    for (let each = 0; each < episodes; each++) kept += episode(turns)
    best = Math.min(best, Number(process.hrtime.bigint() - started) / (episodes * turns))
  }
  // What is worked out is used, so that no compiler leaves it out.
  if (kept < 0) throw new Error("a window cannot start before the first turn")
  return best
}

const planned =
  (policy: HistoryPolicy["Type"]) =>
  (turns: number): number => {
    let state = policy.initial
    for (let turn = 0; turn < turns; turn++) state = policy.plan(state, turn).next
    return state.imageWindowStart
  }

const bare = (turns: number): number => {
  let start = 0
  for (let turn = 0; turn < turns; turn++) if (turn + 1 - start > 10) start = turn - 2
  return start
}

console.log("nanoseconds a plan      by turns of the episode")
console.log(["", ...lengths.map(String)].map((cell) => cell.padStart(12)).join(""))
const line = (name: string, episode: (turns: number) => number) => {
  const times = lengths.map((turns) => perPlan(turns, episode))
  console.log(name.padEnd(12) + times.map((time) => time.toFixed(1).padStart(12)).join(""))
  return times
}
const [, floor = Number.NaN] = line("bare", bare)
for (const text of policies) {
  const [, middle = Number.NaN] = line(text.slice(0, 12), planned(Either.getOrThrow(fromText(text))))
  console.log(
    `${"".padEnd(12)}at 1,000 turns ${(middle / 1000).toFixed(2)} microseconds, ${(middle / floor).toFixed(0)} times the bare loop`
  )
}
