/**
 * How many model calls may be under way, found by trying: one more at a time while the server keeps up, a good part fewer
 * when it refuses, throws requests out of its cache, or lets its queue grow.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const Value = <A, I>(schema: Schema.Schema<A, I>, value: NoInfer<A>) =>
  Schema.optionalWith(schema, { exact: true, default: () => value })

/**
 * Between which bounds the number of calls moves, and how fast.
 *
 * @since 0.1.0
 * @category models
 */
export class AdaptiveOptions extends Schema.Class<AdaptiveOptions>("deskhand/model/AdaptiveOptions")(
  Schema.Struct({
    /** Never fewer calls than this. */
    min: Value(Schema.Int.pipe(Schema.positive()), 1),
    /** Never more calls than this. */
    max: Schema.Int.pipe(Schema.positive()),
    /** Where it starts. */
    initial: Value(Schema.Int.pipe(Schema.positive()), 8),
    /** Calls that a whole round of successes adds. */
    increase: Value(Schema.Finite.pipe(Schema.positive()), 1),
    /** What a cut leaves of the limit. */
    decrease: Value(Schema.Finite.pipe(Schema.greaterThan(0), Schema.lessThan(1)), 0.5),
    /** Requests that may wait at a server before a growing queue is a reason to cut. */
    queue: Value(Schema.NonNegativeInt, 4),
    /** Shortest time between two cuts for what `/metrics` tells, in milliseconds: a cut takes its time to show. */
    cooldown: Value(Schema.Finite.pipe(Schema.nonNegative()), 5_000)
  }).pipe(Schema.filter(({ max, min }) => (min <= max ? undefined : `min is ${min}, more than max, ${max}`)))
) {}

/**
 * What a server tells of its load, over all its engines and models.
 *
 * @since 0.1.0
 * @category models
 */
export interface ServerLoad {
  /** Requests that wait for a place. */
  readonly waiting: number
  /** Requests that lost their place since the server started. */
  readonly preemptions: number
}

/**
 * What happened. Times are milliseconds of one clock.
 *
 * - `Succeeded`: a call got its reply; `inFlight` calls were under way, it among them.
 * - `Refused`: a call that was sent at `sentAt` got a 429.
 * - `Observed`: a server's `/metrics` said so.
 * - `Unobserved`: a server's `/metrics` said nothing; what it said before is forgotten.
 *
 * @since 0.1.0
 * @category models
 */
export type Signal =
  | { readonly _tag: "Succeeded"; readonly inFlight: number }
  | { readonly _tag: "Refused"; readonly sentAt: number; readonly now: number }
  | { readonly _tag: "Observed"; readonly server: string; readonly load: ServerLoad; readonly now: number }
  | { readonly _tag: "Unobserved"; readonly server: string }

/**
 * The controller, as plain data.
 *
 * @since 0.1.0
 * @category models
 */
export interface AdaptiveState {
  /** Between `min` and `max`; `permits` rounds it down. */
  readonly limit: number
  /** When it was cut last; absent: never. */
  readonly cutAt?: number
  /** What each server said last. */
  readonly loads: ReadonlyMap<string, ServerLoad>
}

/**
 * The state at the start: the initial limit, within the bounds, and no load measured yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: AdaptiveOptions): AdaptiveState => ({
  limit: within(options, options.initial),
  loads: new Map()
})

/**
 * Calls that may be under way.
 *
 * @since 0.1.0
 * @category queries
 */
export const permits = (state: AdaptiveState): number => Math.floor(state.limit)

const within = ({ max, min }: AdaptiveOptions, limit: number): number => Math.min(max, Math.max(min, limit))

const cut = (options: AdaptiveOptions, state: AdaptiveState, now: number): AdaptiveState => ({
  ...state,
  limit: within(options, Math.min(Math.floor(state.limit * options.decrease), Math.floor(state.limit) - 1)),
  cutAt: now
})

const isQueueing = ({ queue }: AdaptiveOptions, { waiting }: ServerLoad): boolean => waiting > queue

/** Whether a server that said `before` and now says `load` is asked for too much. */
const isOverloaded = (options: AdaptiveOptions, before: ServerLoad | undefined, load: ServerLoad): boolean => {
  if (before === undefined) return false
  // A count that fell is that of a server that was started anew.
  const preempted = load.preemptions > before.preemptions
  return preempted || (isQueueing(options, load) && load.waiting > before.waiting)
}

/**
 * What follows from what happened.
 *
 * A refusal of a call cuts the limit by at least one, down to `min`; those of calls that were sent before the last cut do not
 * cut again, since they tell of the same crowd. So does a server whose preemptions or long queue grew, once in a
 * `cooldown`. A success adds `increase` over the limit, so that a round of calls adds `increase`; but not while a server
 * has a long queue, nor while half of the permits lie idle, when nothing is learnt.
 *
 * @since 0.1.0
 * @category transitions
 */
export const next = (options: AdaptiveOptions, state: AdaptiveState, signal: Signal): AdaptiveState => {
  switch (signal._tag) {
    case "Refused":
      return state.cutAt !== undefined && signal.sentAt < state.cutAt ? state : cut(options, state, signal.now)
    case "Observed": {
      const { load, now, server } = signal
      const told = { ...state, loads: new Map(state.loads).set(server, load) }
      const rested = state.cutAt === undefined || now - state.cutAt >= options.cooldown
      return rested && isOverloaded(options, state.loads.get(server), load) ? cut(options, told, now) : told
    }
    case "Unobserved":
      return { ...state, loads: new Map(Array.from(state.loads).filter(([server]) => server !== signal.server)) }
    case "Succeeded": {
      const busy = signal.inFlight * 2 >= permits(state)
      const calm = Array.from(state.loads.values()).every((load) => !isQueueing(options, load))
      return busy && calm ? { ...state, limit: within(options, state.limit + options.increase / state.limit) } : state
    }
  }
}

// -----------------------------------------------------------------------------
// vLLM's /metrics
// -----------------------------------------------------------------------------

/** A name, perhaps labels, a value, perhaps a time. A label's text may hold braces, commas and escaped quotes. */
const sample = /^\s*([A-Za-z_:][\w:]*)\s*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}\s*|\s)([^\s{]+)(?:\s+-?\d+)?\s*$/

const total = (lines: ReadonlyArray<string>, ...names: ReadonlyArray<string>): number | undefined => {
  const values = lines.flatMap((line) => {
    const [, name = "", value] = sample.exec(line) ?? []
    return names.includes(name) ? [Number(value)] : []
  })
  const sum = values.reduce((all, value) => all + value, 0)
  return values.length === 0 || !Number.isFinite(sum) || sum < 0 ? undefined : sum
}

/**
 * The load that the text of vLLM's `/metrics` (the Prometheus text format) tells: `vllm:num_requests_waiting` and
 * `vllm:num_preemptions_total`, each summed over its labels. `undefined` where one is missing, as with other servers, or
 * is no finite number.
 *
 * @since 0.1.0
 * @category decoding
 */
export const parseLoad = (metrics: string): ServerLoad | undefined => {
  const lines = metrics.split("\n").filter((line) => /^\s*vllm:num_(?:requests_waiting|preemptions)/.test(line))
  const waiting = total(lines, "vllm:num_requests_waiting")
  const preemptions = total(lines, "vllm:num_preemptions_total", "vllm:num_preemptions")
  return waiting === undefined || preemptions === undefined ? undefined : { waiting, preemptions }
}
