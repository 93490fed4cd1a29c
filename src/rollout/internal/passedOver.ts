/** Rollouts of a collection that are not run, because they are over: counted, and told once. */
import * as Effect from "effect/Effect"
import type { Finished } from "../Collection.js"
import type { Standing } from "../Journal.js"

export interface PassedOver {
  /** Over before the folder was opened, by the same run as far as is known: what a resumed run wants. */
  resumed: number
  /** By run, those that the collector itself has finished since. */
  readonly here: Map<string, number>
  /** By run, those of other runs in the folder. */
  readonly others: Map<string, number>
}

export const make = (): PassedOver => ({ resumed: 0, here: new Map(), others: new Map() })

const more = (counts: Map<string, number>, run: string) => counts.set(run, (counts.get(run) ?? 0) + 1)

/** Counts a rollout that is over. `finished` is what there was when the folder was opened. */
export const add = (passed: PassedOver, runId: string, finished: Finished, key: string, standing: Standing): void => {
  const { attempt, run } = standing.last
  const before = finished.scored.has(key) || (finished.attempts.get(key) ?? 0) > attempt
  if (!before) more(passed.here, run ?? runId)
  else if (run === undefined || run === runId) passed.resumed += 1
  else more(passed.others, run)
}

const shownRuns = 3

const shown = (counts: ReadonlyMap<string, number>, who: (run: string) => string): ReadonlyArray<string> => {
  const all = Array.from(counts, ([run, rollouts]) => `${rollouts} that ${who(run)}`)
  return all.length <= shownRuns ? all : [...all.slice(0, shownRuns), `those of ${all.length - shownRuns} more runs`]
}

const remedy =
  "A rollout is known by its task index and its repeat in this folder, whatever the run: to run these tasks again give " +
  "their rows task indices of their own, as examples/trainer.ts does for each step, or choose another folder"

/** One line, and a warning where nobody has asked for it by resuming the run. */
export const tell = ({ here, others, resumed }: PassedOver): Effect.Effect<void> => {
  const unasked = [
    ...shown(here, (run) => `this collector finished earlier for run ${run}`),
    ...shown(others, (run) => `run ${run} finished earlier`)
  ]
  const asked = resumed === 0 ? [] : [`${resumed} that were over before this run was resumed`]
  const line = `rollouts passed over: ${[...unasked, ...asked].join(", ")}`
  if (unasked.length > 0) return Effect.logWarning(`${line}. ${remedy}`)
  return resumed === 0 ? Effect.void : Effect.logInfo(line)
}
