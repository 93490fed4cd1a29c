/**
 * Spans where somebody looks at them.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"

/** The tracer that comes with the runtime: its spans are seen by nobody. */
const unseen = Effect.runSync(Effect.tracer)

/**
 * A span around the work when a tracer is installed. Without one there is none: a span that nobody sees takes two regions
 * and a context for as long as the work goes on, and there are thousands of episodes that wait for a model.
 *
 * @since 0.1.0
 * @category tracing
 */
export const spanned =
  (name: string) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Effect.tracer, (tracer) =>
      tracer === unseen ? work : Effect.withSpan(work, name, { captureStackTrace: false })
    )
