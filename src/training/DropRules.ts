/**
 * What becomes of a prompt whose rollouts fail: tried again, given up, or the end of the run. Decisions over plain data.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"

const Count = Schema.NonNegativeInt
const Attempts = Schema.Int.pipe(Schema.positive())

/**
 * - `infrastructure`: a dead server, a timeout, a lost connection; another try lands elsewhere
 * - `data`: the prompt itself; another try tells a passing fault from a bad prompt
 *
 * @since 0.1.0
 * @category models
 */
export type FailureKind = "infrastructure" | "data"

/**
 * The values are NeMo RL's where nothing is given.
 *
 * @since 0.1.0
 * @category models
 */
export class DropRules extends Schema.Class<DropRules>("deskhand/training/DropRules")(
  Schema.Struct({
    /** Tries of a prompt that fails for infrastructure. The two budgets are counted apart. */
    infrastructureAttempts: Schema.optionalWith(Attempts, { default: () => 5 }),
    /** Tries of a prompt that fails by itself. */
    dataAttempts: Schema.optionalWith(Attempts, { default: () => 2 }),
    /** Tries of one rollout within its group. */
    rowAttempts: Schema.optionalWith(Attempts, { default: () => 3 }),
    /** Before the second try, in milliseconds; it doubles with each one. */
    backoffMillis: Schema.optionalWith(Schema.Positive, { default: () => 1_000 }),
    backoffCapMillis: Schema.optionalWith(Schema.Positive, { default: () => 30_000 }),
    /** Prompts that may be given up for data in the whole run. */
    maxSkipped: Schema.optionalWith(Count, { default: () => 0 }),
    /** Prompts that may be given up for infrastructure in a row: an outage that ends is got over, one that lasts stops the run. */
    maxConsecutiveDropped: Schema.optionalWith(Count, { default: () => 0 }),
    /** The smallest part of its groups that a step may train on. */
    minStepFraction: Schema.optionalWith(Schema.Number.pipe(Schema.greaterThan(0), Schema.lessThanOrEqualTo(1)), {
      default: () => 0.9
    }),
    /** Whether a step goes on with fewer groups, or gets a fresh prompt for the one it lost. */
    onDropped: Schema.optionalWith(Schema.Literal("shrink", "replace"), { default: () => "shrink" as const }),
    /** Fresh prompts for one that was lost, before the step shrinks after all. */
    replacementAttempts: Schema.optionalWith(Count, { default: () => 1 }),
    /** Spare prompts that are kept ready. */
    replacementReserve: Schema.optionalWith(Count, { default: () => 1 })
  }).pipe(
    Schema.filter((rules) =>
      rules.backoffCapMillis < rules.backoffMillis
        ? `the longest wait (${rules.backoffCapMillis} ms) is shorter than the first (${rules.backoffMillis} ms)`
        : rules.onDropped === "replace" && (rules.replacementAttempts === 0 || rules.replacementReserve === 0)
          ? "a step that replaces prompts needs at least one replacement and one prompt in reserve"
          : undefined
    )
  )
) {}

/**
 * The rules unless given: each field's default.
 *
 * @since 0.1.0
 * @category constants
 */
export const standard = new DropRules({})

/**
 * For owners whose context was compacted: what a request selected cannot be dispatched again safely, so nothing is, and a
 * step needs every group.
 *
 * @since 0.1.0
 * @category constants
 */
export const contextCompaction = new DropRules({
  infrastructureAttempts: 1,
  dataAttempts: 1,
  rowAttempts: 1,
  minStepFraction: 1,
  onDropped: "shrink"
})

/**
 * Whose fault a reply with this HTTP status is: 408, 429 and what is 500 or above is the infrastructure's.
 *
 * @since 0.1.0
 * @category decisions
 */
export const classifyStatus = (status: number): FailureKind =>
  status >= 500 || status === 408 || status === 429 ? "infrastructure" : "data"

/**
 * The wait after `failures` failures in a row (1 and more), in milliseconds.
 *
 * @since 0.1.0
 * @category decisions
 */
export const backoff = ({ backoffCapMillis, backoffMillis }: DropRules, failures: number): number =>
  Math.min(backoffCapMillis, backoffMillis * 2 ** (failures - 1))

/**
 * The fewest groups that a step of `prompts` may train on: `ceil(prompts * minStepFraction)`.
 *
 * @since 0.1.0
 * @category decisions
 */
export const fewestGroups = ({ minStepFraction }: DropRules, prompts: number): number =>
  // The product of a whole number and a decimal fraction may lie a hair above the whole number that it is.
  Math.ceil(prompts * minStepFraction - 1e-9)

/**
 * What has happened so far. `infrastructure` and `data` count this prompt's failures, the newest among them; the rest is
 * the run's and the step's.
 *
 * @since 0.1.0
 * @category models
 */
export interface DropState {
  readonly infrastructure: number
  readonly data: number
  /** Prompts that were given up for data before, in the whole run. */
  readonly skipped: number
  /** Prompts that were given up for infrastructure since a group last arrived. */
  readonly consecutiveDropped: number
  /** Groups of a full step. */
  readonly prompts: number
  /** Groups that this step has lost for good before. */
  readonly lost: number
  /** Fresh prompts that this lost group has had. */
  readonly replacements: number
  /** Spare prompts that are there. */
  readonly reserve: number
}

/**
 * @since 0.1.0
 * @category models
 */
export type DropDecision = Data.TaggedEnum<{
  /** The same prompt again, after so long. */
  Retry: { readonly afterMillis: number }
  /** The prompt is given up, and a fresh one takes its place. */
  Replace: Record<never, never>
  /** The prompt is given up, and the step goes on with so many groups. */
  Shrink: { readonly groups: number }
  /** The run ends. */
  Fatal: { readonly reason: string }
}>

/**
 * Constructors of decisions, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const DropDecision = Data.taggedEnum<DropDecision>()

/**
 * What to do now that a prompt has failed once more.
 *
 * @since 0.1.0
 * @category decisions
 */
export const afterFailure = (rules: DropRules, kind: FailureKind, state: DropState): DropDecision => {
  const [failures, attempts] =
    kind === "infrastructure" ? [state.infrastructure, rules.infrastructureAttempts] : [state.data, rules.dataAttempts]
  if (failures < attempts) return DropDecision.Retry({ afterMillis: backoff(rules, failures) })
  const [before, allowed, what] =
    kind === "infrastructure"
      ? [state.consecutiveDropped, rules.maxConsecutiveDropped, "in a row were given up for infrastructure"]
      : [state.skipped, rules.maxSkipped, "were given up because they themselves fail"]
  if (before + 1 > allowed) {
    return DropDecision.Fatal({ reason: `${before + 1} prompts ${what}, and ${allowed} may be` })
  }
  if (rules.onDropped === "replace" && state.replacements < rules.replacementAttempts && state.reserve > 0) {
    return DropDecision.Replace()
  }
  const groups = state.prompts - state.lost - 1
  const fewest = fewestGroups(rules, state.prompts)
  return groups < fewest
    ? DropDecision.Fatal({
        reason: `the step is left with ${groups} of ${state.prompts} groups, and it needs ${fewest}`
      })
    : DropDecision.Shrink({ groups })
}
