/**
 * Stops a run that fails the same way again and again, and lets it go on once a probe goes well.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"
import type { Failure } from "./FailurePolicy.js"

const withDefault = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Schema.optionalWith(schema, { exact: true, default: () => value })

/**
 * When the breaker opens, for how long, and when it gives up.
 *
 * @since 0.1.0
 * @category models
 */
export class BreakerOptions extends Schema.Class<BreakerOptions>("deskhand/rollout/BreakerOptions")({
  /** Failures of one kind in a row, over all rollouts, that open it. */
  failures: withDefault(Schema.Int.pipe(Schema.positive()), 10),
  /** How long nothing is started before the first probe, in milliseconds; twice as long before each later one. */
  coolDownMilliseconds: withDefault(Schema.Finite.pipe(Schema.nonNegative()), 30_000),
  capMilliseconds: withDefault(Schema.Finite.pipe(Schema.nonNegative()), 600_000),
  /** Probes in a row that fail before it gives up: what was not started stays so. */
  probes: withDefault(Schema.Int.pipe(Schema.positive()), 10)
}) {}

/**
 * `Closed` lets everything start, `Open` nothing, `Probing` one rollout, and `GivenUp` nothing any more.
 *
 * @since 0.1.0
 * @category models
 */
export type Breaker = Data.TaggedEnum<{
  Closed: { readonly kind: string | undefined; readonly inARow: number }
  Open: { readonly kind: string; readonly until: number; readonly failedProbes: number }
  Probing: { readonly kind: string; readonly failedProbes: number }
  GivenUp: { readonly kind: string }
}>

/**
 * Constructors of the breaker's states, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Breaker = Data.taggedEnum<Breaker>()

/**
 * The breaker at the start: no failure has been seen.
 *
 * @since 0.1.0
 * @category constructors
 */
export const closed: Breaker = Breaker.Closed({ kind: undefined, inARow: 0 })

/**
 * What an attempt came to, as far as the breaker cares.
 *
 * @since 0.1.0
 * @category models
 */
export interface Result {
  /** `undefined` for an attempt that was scored, or whose failure is the task's alone. */
  readonly kind: string | undefined
  /** Whether it was the probe. */
  readonly probe: boolean
  /** Milliseconds of the clock. */
  readonly now: number
}

/**
 * The kind of a failure; a task's own says nothing of the others, and has none.
 *
 * @since 0.1.0
 * @category decisions
 */
export const kindOf = (failure: Failure | undefined): string | undefined =>
  failure === undefined || failure.class === "task" ? undefined : `${failure.class} (${failure.kind})`

/**
 * The breaker after an attempt. While it is open, only the probe decides: what ends then began before.
 *
 * @since 0.1.0
 * @category decisions
 */
export const next = (options: BreakerOptions, breaker: Breaker, { kind, now, probe }: Result): Breaker => {
  switch (breaker._tag) {
    case "Closed": {
      if (kind === undefined) return closed
      const inARow = breaker.kind === kind ? breaker.inARow + 1 : 1
      return inARow < options.failures
        ? Breaker.Closed({ kind, inARow })
        : Breaker.Open({
            kind,
            until: now + Math.min(options.capMilliseconds, options.coolDownMilliseconds),
            failedProbes: 0
          })
    }
    case "Probing": {
      if (!probe) return breaker
      if (kind === undefined) return closed
      const failedProbes = breaker.failedProbes + 1
      if (failedProbes >= options.probes) return Breaker.GivenUp({ kind })
      const wait = Math.min(options.capMilliseconds, options.coolDownMilliseconds * 2 ** failedProbes)
      return Breaker.Open({ kind, until: now + wait, failedProbes })
    }
    case "Open":
    case "GivenUp":
      return breaker
  }
}

/**
 * Whether a rollout may start: at once, as the probe, after so many milliseconds, when the probe is over, or never.
 *
 * @since 0.1.0
 * @category models
 */
export type Admit = Data.TaggedEnum<{
  Go: Record<never, never>
  Probe: Record<never, never>
  Later: { readonly milliseconds: number }
  AfterProbe: Record<never, never>
  Never: { readonly kind: string }
}>

/**
 * Constructors of the answers, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Admit = Data.taggedEnum<Admit>()

/**
 * Whether a rollout may start at `now`, in milliseconds of a clock that never goes back.
 *
 * @since 0.1.0
 * @category decisions
 */
export const admit = (breaker: Breaker, now: number): Admit => {
  switch (breaker._tag) {
    case "Closed":
      return Admit.Go()
    case "Open":
      return now >= breaker.until ? Admit.Probe() : Admit.Later({ milliseconds: breaker.until - now })
    case "Probing":
      return Admit.AfterProbe()
    case "GivenUp":
      return Admit.Never({ kind: breaker.kind })
  }
}

/**
 * The breaker once the probe is on its way; and open again at once when the probe was called off.
 *
 * @since 0.1.0
 * @category decisions
 */
export const probing = (breaker: Breaker): Breaker =>
  breaker._tag === "Open" ? Breaker.Probing({ kind: breaker.kind, failedProbes: breaker.failedProbes }) : breaker

/**
 * The breaker when a probe ended without a result: another rollout is the probe.
 *
 * @since 0.1.0
 * @category decisions
 */
export const probeLost = (breaker: Breaker, now: number): Breaker =>
  breaker._tag === "Probing"
    ? Breaker.Open({ kind: breaker.kind, until: now, failedProbes: breaker.failedProbes })
    : breaker
