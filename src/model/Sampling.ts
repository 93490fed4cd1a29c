/**
 * How a model samples. A value that is absent is not sent, and the server's own default holds.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const Value = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/**
 * How a reply is drawn; what is absent is left to the server.
 *
 * @since 0.1.0
 * @category models
 */
export class Sampling extends Schema.Class<Sampling>("deskhand/model/Sampling")({
  /** 0 is greedy, and is sent as 0. */
  temperature: Value(Schema.Finite.pipe(Schema.between(0, 2))),
  /** Nucleus mass in (0, 1]. */
  topP: Value(Schema.Finite.pipe(Schema.greaterThan(0), Schema.lessThanOrEqualTo(1))),
  /** The most likely tokens that are drawn from; -1 for all. vLLM, SGLang and llama.cpp know it. */
  topK: Value(Schema.Int.pipe(Schema.greaterThanOrEqualTo(-1))),
  /** Tokens that one reply may have. */
  maxTokens: Value(Schema.Int.pipe(Schema.positive())),
  /** Texts that end a reply. */
  stop: Value(Schema.Array(Schema.NonEmptyString)),
  seed: Value(Schema.Int)
}) {}
