/**
 * What bounds one episode.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

/**
 * How long an episode and its parts may take.
 *
 * @since 0.1.0
 * @category models
 */
export class EpisodeLimits extends Schema.Class<EpisodeLimits>("deskhand/rollout/EpisodeLimits")({
  /** Steps, that is model turns, after which the episode ends; 15 unless given, as OSWorld runs it. */
  maxSteps: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 15 }),
  /** The whole attempt: from opening the environment to the last of the evaluation; 30 minutes unless given. */
  episodeTimeout: Schema.optionalWith(Schema.DurationFromSelf, { default: () => Duration.minutes(30) }),
  /**
   * One model call, from asking to its record, the client's retries and waits in it; 15 minutes unless given. A step that
   * makes several calls may take it for each.
   */
  modelTimeout: Schema.optionalWith(Schema.DurationFromSelf, { default: () => Duration.minutes(15) }),
  /** One action in the environment, or one wait; 3 minutes unless given. */
  stepTimeout: Schema.optionalWith(Schema.DurationFromSelf, { default: () => Duration.minutes(3) })
}) {}
