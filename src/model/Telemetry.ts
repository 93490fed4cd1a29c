/**
 * Model calls as metrics: how they ended, how long they took, what they waited for, how many tokens they moved. They are
 * those of the process, and every exporter of Effect's metrics sees them.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import * as MetricKeyType from "effect/MetricKeyType"
import type * as MetricLabel from "effect/MetricLabel"
import * as MetricState from "effect/MetricState"
import type { Usage } from "./ModelClient.js"
import type { ModelError } from "./ModelError.js"

const boundaries = MetricBoundaries.exponential({ start: 1, factor: 2, count: 22 })

const histogram = (name: string, description: string) => Metric.histogram(name, boundaries, description)

/**
 * Calls, tagged with `model` and with `outcome`: `ok`, a reason of `ModelError`, or `interrupted`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const calls = Metric.counter("deskhand_model_calls", {
  incremental: true,
  description: "Model calls that ended"
})

/**
 * Tries beyond the first, tagged with `model` and with `reason`, that of the error before.
 *
 * @since 0.1.0
 * @category metrics
 */
export const retries = Metric.counter("deskhand_model_retries", { incremental: true, description: "Calls made again" })

/**
 * Tokens, tagged with `model` and with `kind`: `prompt`, `completion`, `cached`, `reasoning`; as servers counted them.
 *
 * @since 0.1.0
 * @category metrics
 */
export const tokens = Metric.counter("deskhand_model_tokens", { incremental: true, description: "Tokens, by kind" })

/**
 * Milliseconds from a call to its end, retries and waits included, tagged with `model`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const latency = histogram("deskhand_model_call_milliseconds", "From a call to its end")

/**
 * Milliseconds from a try that succeeded to the first byte of its reply's body, tagged with `model`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const firstByte = histogram("deskhand_model_first_byte_milliseconds", "From a try to its reply's first byte")

/**
 * Milliseconds that a try waited for a permit, tagged with `model`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const permitWait = histogram("deskhand_model_permit_wait_milliseconds", "Waiting for a permit")

/**
 * Milliseconds that a request waited for a connection, the time to open one included, tagged with `destination`, the
 * origin. It is time that the server knows nothing of.
 *
 * @since 0.1.0
 * @category metrics
 */
export const connectionWait = histogram("deskhand_model_connection_wait_milliseconds", "Waiting for a connection")

// -----------------------------------------------------------------------------
// Recording
// -----------------------------------------------------------------------------

/** One metric for each value of a tag: made once, so that an update costs no search for it. */
const byTag = <Type, In, Out>(metric: Metric.Metric<Type, In, Out>, tag: string) => {
  const known = new Map<string, Metric.Metric<Type, In, Out>>()
  return (value: string): Metric.Metric<Type, In, Out> => {
    const found = known.get(value)
    if (found !== undefined) return found
    const made = Metric.tagged(metric, tag, value)
    known.set(value, made)
    return made
  }
}

/**
 * What one client tells of its calls.
 *
 * @since 0.1.0
 * @category models
 */
export interface Recorder {
  readonly ended: (facts: {
    readonly outcome: "ok" | "interrupted" | ModelError["reason"]
    readonly milliseconds: number
    readonly firstByteMilliseconds?: number | undefined
    readonly usage?: Usage | undefined
  }) => Effect.Effect<void>
  readonly retried: (reason: ModelError["reason"]) => Effect.Effect<void>
  readonly waitedForPermit: (milliseconds: number) => Effect.Effect<void>
}

/**
 * What counts the calls to one model; its metrics are made once, and tagged with the model's name.
 *
 * @since 0.1.0
 * @category constructors
 */
export const recorder = (model: string): Recorder => {
  const of = <Type, In, Out>(metric: Metric.Metric<Type, In, Out>) => Metric.tagged(metric, "model", model)
  const [callsBy, retriesBy, tokensBy] = [
    byTag(of(calls), "outcome"),
    byTag(of(retries), "reason"),
    byTag(of(tokens), "kind")
  ]
  const [ownLatency, ownFirstByte, ownPermitWait] = [of(latency), of(firstByte), of(permitWait)]
  return {
    // All at once: an effect for each would cost more than what it counts.
    ended: ({ firstByteMilliseconds, milliseconds, outcome, usage }) =>
      Effect.map(FiberRef.get(FiberRef.currentMetricLabels), (labels) => {
        callsBy(outcome).unsafeUpdate(1, labels)
        ownLatency.unsafeUpdate(milliseconds, labels)
        if (firstByteMilliseconds !== undefined) ownFirstByte.unsafeUpdate(firstByteMilliseconds, labels)
        const counted = (kind: string, count: number | undefined) => {
          if (count !== undefined) tokensBy(kind).unsafeUpdate(count, labels)
        }
        counted("prompt", usage?.promptTokens)
        counted("completion", usage?.completionTokens)
        counted("cached", usage?.cachedTokens)
        counted("reasoning", usage?.reasoningTokens)
      }),
    retried: (reason) => Metric.update(retriesBy(reason), 1),
    waitedForPermit: (milliseconds) => Metric.update(ownPermitWait, milliseconds)
  }
}

const connectionWaitAt = byTag(connectionWait, "destination")

/**
 * For code outside of Effect that hands out connections.
 *
 * @since 0.1.0
 * @category recording
 */
export const unsafeWaitedForConnection = (destination: string, milliseconds: number): void =>
  connectionWaitAt(destination).unsafeUpdate(milliseconds, [])

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/**
 * A histogram in short; all values in milliseconds. `median` and `p95` are upper bounds, at most twice the true value.
 *
 * @since 0.1.0
 * @category models
 */
export interface Distribution {
  readonly count: number
  readonly sum: number
  readonly minimum: number
  readonly maximum: number
  readonly median: number
  readonly p95: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ModelSnapshot {
  readonly calls: Readonly<Record<string, number>>
  readonly retries: Readonly<Record<string, number>>
  readonly tokens: Readonly<Record<string, number>>
  readonly latency?: Distribution
  readonly firstByte?: Distribution
  readonly permitWait?: Distribution
}

/**
 * The metrics so far. What never happened is absent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Snapshot {
  /** By the model's name. */
  readonly models: Readonly<Record<string, ModelSnapshot>>
  /** Waits for a connection, by origin. */
  readonly connections: Readonly<Record<string, Distribution>>
}

const distribution = (state: MetricState.MetricState.Histogram): Distribution => {
  // Where all values are 0 the runtime's maximum is the smallest number above it.
  const maximum = state.sum === 0 ? 0 : state.max
  // A bucket counts what is at most its boundary, all smaller buckets included.
  const atMost = (share: number) =>
    Math.min(maximum, state.buckets.find(([, count]) => count >= share * state.count)?.[0] ?? maximum)
  return {
    count: state.count,
    sum: state.sum,
    minimum: state.min,
    maximum,
    median: atMost(0.5),
    p95: atMost(0.95)
  }
}

const labelled = (labels: ReadonlyArray<MetricLabel.MetricLabel>, key: string): string | undefined =>
  labels.find((label) => label.key === key)?.value

/**
 * What all recorders of this process have counted so far.
 *
 * @since 0.1.0
 * @category queries
 */
export const snapshot: Effect.Effect<Snapshot> = Effect.map(Metric.snapshot, (pairs) => {
  const models = new Map<string, Map<string, Map<string, number> | Distribution>>()
  const connections = new Map<string, Distribution>()
  const sections: Readonly<Record<string, readonly [section: string, tag: string]>> = {
    deskhand_model_calls: ["calls", "outcome"],
    deskhand_model_retries: ["retries", "reason"],
    deskhand_model_tokens: ["tokens", "kind"],
    deskhand_model_call_milliseconds: ["latency", ""],
    deskhand_model_first_byte_milliseconds: ["firstByte", ""],
    deskhand_model_permit_wait_milliseconds: ["permitWait", ""]
  }
  for (const { metricKey, metricState } of pairs) {
    const destination = labelled(metricKey.tags, "destination")
    if (metricKey.name === "deskhand_model_connection_wait_milliseconds") {
      if (destination !== undefined && MetricState.isHistogramState(metricState)) {
        connections.set(destination, distribution(metricState))
      }
      continue
    }
    const [section, tag] = sections[metricKey.name] ?? []
    const model = labelled(metricKey.tags, "model")
    if (section === undefined || tag === undefined || model === undefined) continue
    const of = models.get(model) ?? new Map<string, Map<string, number> | Distribution>()
    models.set(model, of)
    if (MetricState.isHistogramState(metricState)) {
      of.set(section, distribution(metricState))
    } else if (MetricState.isCounterState(metricState) && MetricKeyType.isCounterKey(metricKey.keyType)) {
      const before = of.get(section)
      const counts = before instanceof Map ? before : new Map<string, number>()
      of.set(section, counts.set(labelled(metricKey.tags, tag) ?? "", Number(metricState.count)))
    }
  }
  const counts = (value: Map<string, number> | Distribution | undefined): Readonly<Record<string, number>> =>
    value instanceof Map ? Object.fromEntries(value) : {}
  const times = (
    name: "latency" | "firstByte" | "permitWait",
    value: Map<string, number> | Distribution | undefined
  ) => (value === undefined || value instanceof Map ? {} : { [name]: value })
  return {
    models: Object.fromEntries(
      Array.from(models, ([model, of]) => [
        model,
        {
          calls: counts(of.get("calls")),
          retries: counts(of.get("retries")),
          tokens: counts(of.get("tokens")),
          ...times("latency", of.get("latency")),
          ...times("firstByte", of.get("firstByte")),
          ...times("permitWait", of.get("permitWait"))
        }
      ])
    ),
    connections: Object.fromEntries(connections)
  }
})
