/**
 * The tokens of one model call, as they are kept on disk and built into what trains.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { LogProbs, TokenIds } from "./internal/tokens/ids.js"
import type { TokenBundle } from "./TokenBundle.js"

/**
 * The newest form of an entry that is known here. Newer ones are refused, older ones read.
 *
 * @since 0.1.0
 * @category models
 */
export const tokenEntryVersion = 1

/**
 * One call and its tokens. The keys on disk are those of the field's `<rollout id>.tokens.jsonl`.
 *
 * @since 0.1.0
 * @category models
 */
export class TokenEntry extends Schema.Class<TokenEntry>("deskhand/model/TokenEntry")(
  Schema.Struct({
    schemaVersion: Schema.optionalWith(Schema.Int.pipe(Schema.between(0, tokenEntryVersion)), {
      default: () => tokenEntryVersion
    }).pipe(Schema.fromKey("schema_version")),
    /** A file name is made of it: letters, digits, `.`, `_`, `-`. */
    rolloutId: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("rollout_id")),
    /** The same as in the record of the call's request and reply. */
    modelCallId: Schema.propertySignature(Schema.NonEmptyString).pipe(Schema.fromKey("model_call_id")),
    /** The model that replied. */
    model: Schema.String,
    promptTokenIds: Schema.propertySignature(TokenIds).pipe(Schema.fromKey("prompt_token_ids")),
    generationTokenIds: Schema.propertySignature(TokenIds).pipe(Schema.fromKey("generation_token_ids")),
    /** Natural logarithms, `[generation length]`, finite, at most 0. */
    generationLogProbs: Schema.propertySignature(LogProbs).pipe(Schema.fromKey("generation_log_probs")),
    routedExperts: Schema.optionalWith(Schema.Unknown, { exact: true }).pipe(Schema.fromKey("routed_experts")),
    /** What was said: output items of a Responses reply, without their tokens. */
    outputItems: Schema.propertySignature(
      Schema.Array(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
    ).pipe(Schema.fromKey("output_items")),
    /** Which of them carried the tokens; the last when absent. */
    tokenItemIndex: Schema.optionalWith(Schema.NonNegativeInt, { exact: true, nullable: true }).pipe(
      Schema.fromKey("token_item_index")
    ),
    /** When the call began, in seconds since 1970. */
    createdAt: Schema.propertySignature(Schema.Finite).pipe(Schema.fromKey("created_at"))
  }).pipe(
    Schema.filter(({ generationLogProbs, generationTokenIds, outputItems, tokenItemIndex }) =>
      generationLogProbs.length !== generationTokenIds.length
        ? `${generationTokenIds.length} tokens have ${generationLogProbs.length} log-probabilities`
        : tokenItemIndex !== undefined && tokenItemIndex >= outputItems.length
          ? `item ${tokenItemIndex} carries the tokens, and there are ${outputItems.length} items`
          : undefined
    )
  )
) {}

/**
 * An entry of a call whose tokens were read from its reply. Throws a `ParseError` when there is no such item.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromBundle = (options: {
  readonly rolloutId: string
  readonly modelCallId: string
  readonly model: string
  readonly tokens: TokenBundle
  /** Output items of a Responses reply, without their tokens. */
  readonly outputItems: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly tokenItemIndex?: number
  /** Seconds since 1970. */
  readonly createdAt: number
}): TokenEntry => {
  const { tokens, ...rest } = options
  return new TokenEntry({
    ...rest,
    promptTokenIds: tokens.promptTokenIds,
    generationTokenIds: tokens.generationTokenIds,
    generationLogProbs: tokens.generationLogProbs,
    ...(tokens.routedExperts === undefined ? {} : { routedExperts: tokens.routedExperts })
  })
}
