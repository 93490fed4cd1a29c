/**
 * How much a collection may take: time, tokens, money. What does not fit is not started, and what was started is never
 * dropped.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const NonNegative = Schema.Finite.pipe(Schema.nonNegative())

/**
 * What a million tokens cost, in the unit that `cost` is in.
 *
 * @since 0.1.0
 * @category models
 */
export const Prices = Schema.Struct({ promptMillion: NonNegative, completionMillion: NonNegative })

/**
 * Each limit is of one collection and begins anew with the next of the same collector: a trainer that collects once a step
 * gives what a step may take. Every limit is absent unless given.
 *
 * @since 0.1.0
 * @category models
 */
export class DispatchBudget extends Schema.Class<DispatchBudget>("deskhand/rollout/DispatchBudget")({
  /** Rollouts start for so long after the collection began, less the drain margin. */
  milliseconds: Schema.optionalWith(NonNegative, { exact: true }),
  /**
   * How long before that nothing starts any more. Adaptive unless given: as long as three of four rollouts take, once
   * `adaptiveAfter` of them are over, those of the collector's earlier collections among them, and 0 before.
   */
  drainMilliseconds: Schema.optionalWith(NonNegative, { exact: true }),
  /** Tokens of prompts and replies, as the servers count them. Calls that a server does not count are not in it. */
  tokens: Schema.optionalWith(NonNegative, { exact: true }),
  /** Needs `prices`. */
  cost: Schema.optionalWith(NonNegative, { exact: true }),
  prices: Schema.optionalWith(Prices, { exact: true })
}) {}

/**
 * Whether a budget refuses nothing.
 *
 * @since 0.1.0
 * @category predicates
 */
export const isUnlimited = ({ cost, milliseconds, tokens }: DispatchBudget): boolean =>
  cost === undefined && milliseconds === undefined && tokens === undefined

/**
 * Rollouts that are over before the drain margin follows them: the field's 5 (gym, dispatch budget).
 *
 * @since 0.1.0
 * @category constants
 */
export const adaptiveAfter = 5

/**
 * What a collection has taken so far.
 *
 * @since 0.1.0
 * @category models
 */
export interface Spent {
  /** Since the collection began, by a clock that may jump: it never counts back. */
  readonly milliseconds: number
  readonly promptTokens: number
  readonly completionTokens: number
}

/**
 * The cost of tokens; 0 without prices.
 *
 * @since 0.1.0
 * @category decisions
 */
export const costOf = (budget: DispatchBudget, spent: Omit<Spent, "milliseconds">): number =>
  budget.prices === undefined
    ? 0
    : (spent.promptTokens * budget.prices.promptMillion + spent.completionTokens * budget.prices.completionMillion) /
      1_000_000

/**
 * The value below which `part` of all lie (nearest rank), of an ascending list; 0 of an empty one.
 *
 * @since 0.1.0
 * @category decisions
 */
export const quantile = (ascending: ReadonlyArray<number>, part: number): number =>
  ascending[Math.max(0, Math.ceil(part * ascending.length) - 1)] ?? 0

/**
 * How long before the end nothing starts any more, given how long rollouts took, ascending, without their waits.
 *
 * @since 0.1.0
 * @category decisions
 */
export const drainMargin = (budget: DispatchBudget, durations: ReadonlyArray<number>): number =>
  budget.drainMilliseconds ?? (durations.length < adaptiveAfter ? 0 : quantile(durations, 0.75))

/**
 * Why a rollout was not started.
 *
 * @since 0.1.0
 * @category models
 */
export const NotStartedReason = Schema.Literal(
  "time_budget",
  "token_budget",
  "cost_budget",
  "circuit_open",
  "drained",
  "cancelled"
)

/**
 * @since 0.1.0
 * @category models
 */
export type NotStartedReason = typeof NotStartedReason.Type

/**
 * Why no rollout may start now, or `undefined` when one may. A ceiling is passed by what runs when it is reached.
 *
 * @since 0.1.0
 * @category decisions
 */
export const refuses = (
  budget: DispatchBudget,
  spent: Spent,
  durations: ReadonlyArray<number>
): "time_budget" | "token_budget" | "cost_budget" | undefined => {
  if (budget.milliseconds !== undefined && spent.milliseconds >= budget.milliseconds - drainMargin(budget, durations)) {
    return "time_budget"
  }
  if (budget.tokens !== undefined && spent.promptTokens + spent.completionTokens >= budget.tokens) return "token_budget"
  return budget.cost !== undefined && costOf(budget, spent) >= budget.cost ? "cost_budget" : undefined
}
