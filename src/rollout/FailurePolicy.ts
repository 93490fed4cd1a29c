/**
 * What a failure means: whose it is, whether it is tried again, and when.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"
import type { Failed, Masked } from "./Outcome.js"

// -----------------------------------------------------------------------------
// Classes
// -----------------------------------------------------------------------------

/**
 * - `infrastructure`: no desktop could be had, the disk is full, the episode's time was up
 * - `model`: a model call came to nothing
 * - `environment`: a desktop that was open failed or went away
 * - `evaluator`: the evaluator could not decide
 * - `task`: the task itself is wrong or not supported; it will not go better
 * - `defect`: a bug in an agent, an environment or in this program
 * - `cancelled`: somebody called the attempt off; it says nothing of the rollout
 * - `unresolved`: the attempt was begun and the program ended in the middle of it, nobody knows why
 *
 * @since 0.1.0
 * @category models
 */
export const FailureClass = Schema.Literal(
  "infrastructure",
  "model",
  "environment",
  "evaluator",
  "task",
  "defect",
  "cancelled",
  "unresolved"
)

/**
 * @since 0.1.0
 * @category models
 */
export type FailureClass = typeof FailureClass.Type

/**
 * Why an attempt gave nothing that may be used.
 *
 * @since 0.1.0
 * @category models
 */
export interface Failure {
  readonly class: FailureClass
  /** The field's word for it: `model_timeout`, `evaluator_error`, or the fault of an environment that did not open. */
  readonly kind: string
  /** What happened, for a reader; at most `causeLength` characters. */
  readonly cause: string
}

/**
 * How much of a cause is kept, in characters: what the field keeps (gym m4 branch: 2,000).
 *
 * @since 0.1.0
 * @category constants
 */
export const causeLength = 2_000

/** A reason that is not here is one that this program does not know: a defect. */
const classes: Readonly<Record<string, FailureClass>> = {
  timeout: "infrastructure",
  evidence_failed: "infrastructure",
  model_timeout: "model",
  model_call_failed: "model",
  action_timeout: "environment",
  environment_lost: "environment",
  environment_failed: "environment",
  evaluator_error: "evaluator",
  evaluation_incomplete: "evaluator"
}

/**
 * What is said of a rollout whose attempts, so many, have no known end.
 *
 * @since 0.1.0
 * @category constructors
 */
export const withoutEnd = (attempts: number): Failure => ({
  class: "unresolved",
  kind: "unresolved",
  cause: `it was begun ${attempts} times, and each time the program was gone before it ended`
})

/**
 * The class of an outcome that may not be used.
 *
 * @since 0.1.0
 * @category decisions
 */
export const classify = (outcome: Masked | Failed): Failure => {
  const cause = outcome.detail.slice(0, causeLength)
  if (outcome._tag === "Failed") return { class: outcome.fault, kind: outcome.fault, cause }
  const known = Object.hasOwn(classes, outcome.reason) ? classes[outcome.reason] : undefined
  return { class: known ?? "defect", kind: outcome.reason, cause }
}

// -----------------------------------------------------------------------------
// Policies
// -----------------------------------------------------------------------------

const withDefault = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Schema.optionalWith(schema, { exact: true, default: () => value })

const Milliseconds = Schema.Finite.pipe(Schema.nonNegative())

const Attempts = Schema.Int.pipe(Schema.positive())

/**
 * How often a rollout that fails in one way is tried.
 *
 * @since 0.1.0
 * @category models
 */
export class ClassPolicy extends Schema.Class<ClassPolicy>("deskhand/rollout/ClassPolicy")({
  /** Failures of the class after which this run leaves the rollout alone; what is cancelled it leaves alone at once. */
  inRun: withDefault(Attempts, 2),
  /** Failures of the class after which no run tries it again, those of earlier runs counted; 1 makes the class terminal. */
  inAll: withDefault(Attempts, 6),
  /** The wait after the first failure in a run, in milliseconds; each later one is `factor` times as long, up to the cap. */
  baseMilliseconds: withDefault(Milliseconds, 1_000),
  factor: withDefault(Schema.Finite.pipe(Schema.greaterThanOrEqualTo(1)), 2),
  capMilliseconds: withDefault(Milliseconds, 60_000)
}) {}

/**
 * Attempts without a known end after which no run tries a rollout again: the field's most attempts (gym,
 * `NEMO_GYM_MAX_ROLLOUT_ATTEMPTS`). One that takes its program down with it would do so for ever.
 *
 * @since 0.1.0
 * @category constants
 */
export const unresolvedAttempts = 3

const terminal = new ClassPolicy({ inRun: 1, inAll: 1 })

const bounded = new ClassPolicy({ inRun: 1, inAll: unresolvedAttempts })

/**
 * A policy as data: one rule for each class.
 *
 * @since 0.1.0
 * @category models
 */
export class FailurePolicy extends Schema.Class<FailurePolicy>("deskhand/rollout/FailurePolicy")({
  infrastructure: ClassPolicy,
  model: ClassPolicy,
  environment: ClassPolicy,
  evaluator: ClassPolicy,
  task: ClassPolicy,
  defect: ClassPolicy,
  cancelled: withDefault(ClassPolicy, terminal),
  unresolved: withDefault(ClassPolicy, bounded)
}) {}

const same = (policy: ClassPolicy): FailurePolicy =>
  new FailurePolicy({
    infrastructure: policy,
    model: policy,
    environment: policy,
    evaluator: policy,
    task: terminal,
    defect: policy
  })

/**
 * Two tries a run and six in all for what may go better; one for a task that cannot, and for what somebody called off.
 * What has no known end is tried `unresolvedAttempts` times.
 *
 * @since 0.1.0
 * @category constants
 */
export const standard: FailurePolicy = same(new ClassPolicy({}))

/**
 * One try a run; a resumed run tries again, however often that was, all but what is the task's fault, what somebody
 * called off, and what has no known end for the `unresolvedAttempts`th time.
 *
 * @since 0.1.0
 * @category constants
 */
export const once: FailurePolicy = same(new ClassPolicy({ inRun: 1, inAll: Number.MAX_SAFE_INTEGER }))

// -----------------------------------------------------------------------------
// Decisions
// -----------------------------------------------------------------------------

/**
 * How often a rollout has failed, by class. What is absent is 0.
 *
 * @since 0.1.0
 * @category models
 */
export type Tally = Readonly<Partial<Record<FailureClass, number>>>

/**
 * The tally with one more failure of this class.
 *
 * @since 0.1.0
 * @category combinators
 */
export const count = (tally: Tally, failure: Pick<Failure, "class">): Tally => ({
  ...tally,
  [failure.class]: (tally[failure.class] ?? 0) + 1
})

/**
 * What is done after a failure. A terminal one is not tried again by any run.
 *
 * @since 0.1.0
 * @category models
 */
export type Decision = Data.TaggedEnum<{
  Retry: { readonly afterMilliseconds: number }
  GiveUp: { readonly terminal: boolean }
}>

/**
 * Constructors of decisions, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Decision = Data.taggedEnum<Decision>()

/**
 * Whether a run may try a rollout again that failed so before.
 *
 * @since 0.1.0
 * @category decisions
 */
export const mayTryAgain = (policy: FailurePolicy, inAll: Tally, last: FailureClass): boolean =>
  (inAll[last] ?? 0) < policy[last].inAll

/**
 * What is done after a failure; both tallies count it already.
 *
 * @since 0.1.0
 * @category decisions
 */
export const decide = (
  policy: FailurePolicy,
  tallies: { readonly inRun: Tally; readonly inAll: Tally },
  failure: Pick<Failure, "class">
): Decision => {
  const rule = policy[failure.class]
  if (!mayTryAgain(policy, tallies.inAll, failure.class)) return Decision.GiveUp({ terminal: true })
  const failures = tallies.inRun[failure.class] ?? 0
  if (failure.class === "cancelled" || failures >= rule.inRun) return Decision.GiveUp({ terminal: false })
  const times = rule.factor ** Math.max(0, failures - 1)
  // A factor may grow past all numbers, and nothing times that is none.
  const wait = rule.baseMilliseconds === 0 ? 0 : rule.baseMilliseconds * times
  return Decision.Retry({ afterMilliseconds: Math.min(rule.capMilliseconds, wait) })
}
