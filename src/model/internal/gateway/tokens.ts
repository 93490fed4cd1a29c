/**
 * Keeps a call's tokens before its reply is given on, and says where they are missing.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Convert from "../../Convert.js"
import type { TokenCapture, TokenCaptureError } from "../../TokenCapture.js"
import * as TokenEntry from "../../TokenEntry.js"
import * as TokenSources from "../../TokenSources.js"
import { isObject, type JsonObject } from "../streams/streamError.js"
import { Refusal } from "./refusal.js"

export interface TokenKeeperOptions {
  readonly capture: TokenCapture["Type"]
  readonly rolloutId: string
  readonly modelCallId: string
  /** Seconds since 1970. */
  readonly createdAt: number
  /** The prompt's tokens, as the upstream counts them. */
  readonly tokenize: Effect.Effect<ReadonlyArray<number>, { readonly message: string }>
}

export interface TokenKeeper {
  /** Before the call. */
  readonly begin: Effect.Effect<void, Refusal>
  /** Of a whole completion, before its end is given on. What cannot be kept makes the rollout incomplete. */
  readonly keep: (completion: JsonObject) => Effect.Effect<void>
  /** The client got no word of the model's. */
  readonly abandon: (why: string) => Effect.Effect<void>
  /** The client got some of the reply, and its tokens are not known. */
  readonly lose: (why: string) => Effect.Effect<void>
}

const isLate = (error: TokenCaptureError): boolean => error.reason === "frozen" || error.reason === "retired"

export const makeTokenKeeper = (options: TokenKeeperOptions): TokenKeeper => {
  const { capture, createdAt, modelCallId, rolloutId } = options
  let begun = false
  const lose = (why: string) =>
    Effect.catchAll(capture.markIncomplete(rolloutId, why), (error) =>
      Effect.logError(`rollout ${rolloutId} lacks tokens (${why}), and that could not be noted: ${error.message}`)
    )

  /** What was said, as items; the tokens are kept beside it. */
  const outputItems = (
    completion: JsonObject
  ): Either.Either<ReadonlyArray<JsonObject>, { readonly message: string }> =>
    Either.map(
      Convert.chatReplyToResponses(
        TokenSources.withoutTokens(completion),
        {},
        { id: modelCallId, createdAt, thinkTags: true }
      ),
      ({ output }) => (Array.isArray(output) ? output.filter(isObject) : [])
    )

  const entryOf = (completion: JsonObject) =>
    Effect.gen(function* () {
      const prompt = TokenSources.needsTokenize(completion) ? { promptTokens: yield* options.tokenize } : {}
      const tokens = yield* TokenSources.fromChatCompletion(completion, prompt)
      if (Option.isNone(tokens)) return undefined
      return TokenEntry.fromBundle({
        rolloutId,
        modelCallId,
        model: typeof completion["model"] === "string" ? completion["model"] : "",
        tokens: tokens.value,
        outputItems: yield* outputItems(completion),
        createdAt
      })
    })

  return {
    begin: capture.begin(rolloutId, modelCallId).pipe(
      Effect.tap(() => {
        begun = true
      }),
      Effect.mapError(
        (error) =>
          new Refusal({
            status: isLate(error) ? 410 : 503,
            code: "no_token_capture",
            detail: `the model was not asked, because ${error.message}`
          })
      )
    ),
    keep: (completion) =>
      entryOf(completion).pipe(
        Effect.flatMap((entry) =>
          entry === undefined ? lose(`the reply of call ${modelCallId} has no tokens`) : capture.put(entry)
        ),
        Effect.catchAll((error) => lose(`call ${modelCallId}: ${error.message}`))
      ),
    abandon: (why) =>
      Effect.suspend(() => (begun ? capture.abandon(rolloutId, modelCallId, why) : Effect.void)).pipe(
        Effect.catchAll((error) =>
          Effect.logWarning(`call ${modelCallId} of rollout ${rolloutId} stays open: ${error.message}`)
        )
      ),
    lose: (why) => lose(`call ${modelCallId}: ${why}`)
  }
}
