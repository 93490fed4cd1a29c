/**
 * What bounds one episode.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

/**
 * @since 0.1.0
 * @category models
 */
export class EpisodeLimits extends Schema.Class<EpisodeLimits>("deskhand/rollout/EpisodeLimits")({
  /** Steps, that is model turns, after which the episode ends; 15 unless given, as OSWorld runs it. */
  maxSteps: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 15 }),
  /** From opening the environment to the last evaluation; 30 minutes unless given. */
  episodeTimeout: Schema.optionalWith(Schema.DurationFromSelf, { default: () => Duration.minutes(30) }),
  /** One action in the environment; 3 minutes unless given. */
  stepTimeout: Schema.optionalWith(Schema.DurationFromSelf, { default: () => Duration.minutes(3) })
}) {}
