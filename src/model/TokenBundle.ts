/**
 * The tokens behind one reply, as the server that sampled them counted them: all of them, or none.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { LogProbs, TokenIds } from "./internal/tokens/ids.js"

/**
 * What trains: tokens in, tokens out, and how likely each was. The keys on the wire are those of the field's rollout
 * rows.
 *
 * @since 0.1.0
 * @category models
 */
export class TokenBundle extends Schema.Class<TokenBundle>("deskhand/model/TokenBundle")(
  Schema.Struct({
    /** The prompt's tokens, `[prompt length]`, from 0 to 2^31 - 1. */
    promptTokenIds: Schema.propertySignature(TokenIds).pipe(Schema.fromKey("prompt_token_ids")),
    /** The reply's tokens, `[reply length]`, from 0 to 2^31 - 1. */
    generationTokenIds: Schema.propertySignature(TokenIds).pipe(Schema.fromKey("generation_token_ids")),
    /** Natural logarithms of the probability of each of the reply's tokens, `[reply length]`, finite, at most 0. */
    generationLogProbs: Schema.propertySignature(LogProbs).pipe(Schema.fromKey("generation_log_probs")),
    /** Which experts each token went to; never looked into. */
    routedExperts: Schema.optionalWith(Schema.Unknown, { exact: true }).pipe(Schema.fromKey("routed_experts"))
  }).pipe(
    Schema.filter(({ generationLogProbs, generationTokenIds }) =>
      generationLogProbs.length === generationTokenIds.length
        ? undefined
        : `${generationTokenIds.length} tokens have ${generationLogProbs.length} log-probabilities`
    )
  )
) {}
