/**
 * How a model samples. A value that is absent is not sent, and the server's own default holds.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * @since 0.1.0
 * @category models
 */
export class Sampling extends Schema.Class<Sampling>("deskhand/model/Sampling")({
  /** 0 is greedy, and is sent as 0. */
  temperature: Schema.optionalWith(Schema.Finite.pipe(Schema.between(0, 2)), { exact: true }),
  /** Nucleus mass in (0, 1]. */
  topP: Schema.optionalWith(Schema.Finite.pipe(Schema.greaterThan(0), Schema.lessThanOrEqualTo(1)), { exact: true }),
  /** Tokens that one reply may have. */
  maxTokens: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { exact: true })
}) {}
