/**
 * Several scores, one score.
 *
 * @since 0.1.0
 */
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { Conjunction } from "../EvaluatorSpec.js"

/** The score that settles the matter, whatever comes after it. */
const decisive = (conj: Conjunction): number => (conj === "and" ? 0 : 1)

/**
 * `and`: a 0 is 0, otherwise the arithmetic mean. `or`: a 1 is 1, otherwise the maximum.
 *
 * @since 0.1.0
 * @category combinators
 */
export const combine = (conj: Conjunction, scores: Arr.NonEmptyReadonlyArray<number>): number => {
  if (scores.includes(decisive(conj))) return decisive(conj)
  return conj === "and" ? scores.reduce((sum, score) => sum + score, 0) / scores.length : Math.max(...scores)
}

/**
 * `combine` over evaluations, in order, stopping at the first score that decides: later getters, which may drive the
 * desktop, don't run. A failure ends it; it is no score.
 *
 * @since 0.1.0
 * @category combinators
 */
export const combineEffect = <E, R>(
  conj: Conjunction,
  evaluations: Arr.NonEmptyReadonlyArray<Effect.Effect<number, E, R>>
): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    const [first, ...rest] = evaluations
    const scores: Arr.NonEmptyArray<number> = [yield* first]
    for (const evaluation of rest) {
      if (scores.includes(decisive(conj))) break
      scores.push(yield* evaluation)
    }
    return combine(conj, scores)
  })
