/**
 * What lets rollouts start: permits for creating a desktop and for running an episode. Permits for calling a model are
 * `model/Limits`.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Usage } from "../model/ModelClient.js"

/**
 * What a program tells its collector while it runs. Nobody listens unless the collector provides it.
 *
 * @since 0.1.0
 * @category context
 */
export class Admissions extends Context.Reference<Admissions>()("deskhand/rollout/Admissions", {
  defaultValue: (): {
    /**
     * Goes around what opens the environment: when it is over, the next rollout may open its own. A program that does
     * without keeps its permit to create until its end.
     */
    readonly opening: <A, E, R>(open: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    /** Tokens that a model call took, for the budget. */
    readonly spent: (usage: Usage) => Effect.Effect<void>
  } => ({ opening: (open) => open, spent: () => Effect.void })
}) {}

const withDefault = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Schema.optionalWith(schema, { exact: true, default: () => value })

const Permits = Schema.Int.pipe(Schema.positive())

/**
 * How fast a run may begin: from `from` episodes at a time, evenly, to all of them.
 *
 * @since 0.1.0
 * @category models
 */
export class RampUp extends Schema.Class<RampUp>("deskhand/rollout/RampUp")({
  from: withDefault(Permits, 1),
  milliseconds: Schema.Finite.pipe(Schema.positive())
}) {}

/**
 * How rollouts are let in: how many at a time, and how fast.
 *
 * @since 0.1.0
 * @category models
 */
export class AdmissionOptions extends Schema.Class<AdmissionOptions>("deskhand/rollout/AdmissionOptions")({
  /** Environments that may be opening at a time; as many as may run unless given. */
  creates: Schema.optionalWith(Permits, { exact: true }),
  /** Environments that may begin to open in a second; no limit unless given. */
  createsPerSecond: Schema.optionalWith(Schema.Finite.pipe(Schema.positive()), { exact: true }),
  /** Rows in memory, running or waiting; `residentRows` unless given. Fewer than may run is as many. */
  maxResident: Schema.optionalWith(Permits, { exact: true }),
  rampUp: Schema.optionalWith(RampUp, { exact: true })
}) {}

/**
 * Rows in memory where nothing else is said: as many as may run, and as many again that wait, so that there are other groups
 * to choose from; of those no more than 128, since each that waits has a fiber of its own.
 *
 * @since 0.1.0
 * @category decisions
 */
export const residentRows = (concurrency: number): number => concurrency + Math.min(concurrency, 128)

/**
 * Episodes that may run so many milliseconds after the beginning.
 *
 * @since 0.1.0
 * @category decisions
 */
export const limitAt = (concurrency: number, rampUp: RampUp | undefined, elapsed: number): number => {
  if (rampUp === undefined || elapsed >= rampUp.milliseconds) return concurrency
  const from = Math.min(rampUp.from, concurrency)
  return from + Math.floor(((concurrency - from) * Math.max(0, elapsed)) / rampUp.milliseconds)
}

/**
 * When the limit grows next, in milliseconds after the beginning; `undefined` once it is reached.
 *
 * @since 0.1.0
 * @category decisions
 */
export const growsAt = (concurrency: number, rampUp: RampUp | undefined, limit: number): number | undefined => {
  if (rampUp === undefined || limit >= concurrency) return undefined
  const from = Math.min(rampUp.from, concurrency)
  return Math.min(rampUp.milliseconds, Math.ceil(((limit + 1 - from) * rampUp.milliseconds) / (concurrency - from)))
}
