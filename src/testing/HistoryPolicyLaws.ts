/**
 * The laws of history policies as property tests, for a policy of your own.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import { describe, it } from "vitest"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import { type Law, laws, type Scenario, type Subject } from "../history/Laws.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface LawOptions {
  /** Random episodes for each law; 500 unless given. */
  readonly cases?: number
  /**
   * The longest episode, in turns. Unless given, twice the policy's `maximumImages` and 20, so that it shows what becomes of
   * a full prompt: at least 40, at most 300. A policy that is to hold more than 140 images wants it given.
   */
  readonly turns?: number
  /** To see a failure again: the seed that it printed. */
  readonly seed?: number
  /** The policy with other options: where they plan differently, their ids have to differ. */
  readonly variants?: ReadonlyArray<() => HistoryPolicy["Type"]>
}

/** Turns in which a policy can fill its prompt and break it more than once. */
const turnsFor = ({ maximumImages }: HistoryPolicy["Type"]): number =>
  Number.isFinite(maximumImages) ? Math.min(Math.max(40, 2 * Math.ceil(maximumImages) + 20), 300) : 40

/** Limits go up to what the policy shows; one that is larger than the episode is none. */
const scenarios = (turns: number, { maximumImages }: HistoryPolicy["Type"]): FC.Arbitrary<Scenario> =>
  FC.record({
    turns: FC.integer({ min: 1, max: turns }),
    // Context overflows are rare.
    limits: FC.array(
      FC.tuple(
        FC.nat({ max: turns - 1 }),
        FC.integer({
          min: 1,
          max: Math.max(12, Number.isFinite(maximumImages) ? Math.min(Math.ceil(maximumImages), turns) : turns)
        })
      ),
      { maxLength: 4 }
    )
  }).map(({ limits, turns }) => ({ turns, limits: new Map(limits.filter(([turn]) => turn < turns)) }))

const describeScenario = ({ limits, turns }: Scenario): string => {
  const refused = [...limits].sort(([a], [b]) => a - b).map(([turn, limit]) => `turn ${turn} has room for ${limit}`)
  return `an episode of ${turns} turn${turns === 1 ? "" : "s"}${refused.length === 0 ? "" : `, where ${refused.join(", ")}`}`
}

/**
 * Looks for an episode that breaks a law, and makes it as small as it can. The text explains it; `undefined` when none was
 * found.
 *
 * @since 0.1.0
 * @category operations
 */
export const counterExample = (
  law: Law,
  make: () => HistoryPolicy["Type"],
  options: LawOptions = {}
): string | undefined => {
  const subject: Subject = {
    policy: make(),
    again: make(),
    variants: (options.variants ?? []).map((make) => make())
  }
  const seed = options.seed ?? FC.readConfigureGlobal()?.seed ?? Math.floor(Math.random() * 2 ** 31)
  const found = FC.check(
    FC.property(scenarios(options.turns ?? turnsFor(subject.policy), subject.policy), (scenario) =>
      Either.isRight(law.check(subject, scenario))
    ),
    { numRuns: options.cases ?? 500, seed }
  )
  const scenario = found.counterexample?.[0]
  if (!found.failed || scenario === undefined) return undefined
  return Either.match(
    Either.try(() => law.check(subject, scenario)),
    {
      // What the policy itself throws is as good an explanation.
      onLeft: (error) =>
        `${law.name}\n\nnot in ${describeScenario(scenario)}: it throws ${String(error)}\n\n(seed ${seed})`,
      onRight: Either.match({
        onLeft: ({ law, message }) => `${law}\n\nnot in ${describeScenario(scenario)}: ${message}\n\n(seed ${seed})`,
        onRight: () =>
          `${law.name}\n\nnot always in ${describeScenario(scenario)}: it did not hold, and holds when looked at again, so the plans depend on something that is not in the state\n\n(seed ${seed})`
      })
    }
  )
}

/** Milliseconds for a law: a policy of a hundred images takes some seconds, and a busy machine has several times that. */
const timeout = 60_000

/**
 * Declares a test for each law. `make` makes the policy; it is called twice, so that what outlives one shows.
 *
 * @example
 * historyPolicyLaws("every second image", () => everySecondImage({ keep: 4 }))
 *
 * @since 0.1.0
 * @category tests
 */
export const historyPolicyLaws = (name: string, make: () => HistoryPolicy["Type"], options: LawOptions = {}): void => {
  describe(`${name} is a lawful history policy`, () => {
    for (const law of laws) {
      it(
        law.name,
        async () => {
          // Thousands of cases hold the thread, and the test runner wants it now and then.
          await new Promise((resolve) => setImmediate(resolve))
          const broken = counterExample(law, make, options)
          if (broken !== undefined) throw new Error(broken)
        },
        timeout
      )
    }
  })
}
