/**
 * Rollouts of models that tell no tokens: they count in reports, and never train.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { ModelCall } from "./Segment.js"

/**
 * A model call of which the tokens may be unknown: all of them, or their log-probabilities.
 *
 * @since 0.1.0
 * @category models
 */
export interface MaybeTokens extends Pick<ModelCall, "modelCallId" | "routedExperts" | "images"> {
  readonly promptTokenIds?: ArrayLike<number> | undefined
  readonly generationTokenIds?: ArrayLike<number> | undefined
  readonly generationLogProbs?: ArrayLike<number> | undefined
}

/**
 * A rollout that was scored, before it is decided what it may be used for.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScoredRollout {
  readonly groupId: string
  /** `{group}_g{slot}`. */
  readonly owner: string
  /** What it was asked for. */
  readonly purpose: "training" | "evaluation"
  readonly reward: number
  /** In the order in which they were made. */
  readonly calls: ReadonlyArray<MaybeTokens>
}

/**
 * - `evaluation`: it was asked for to be reported
 * - `no_calls`: it has no model call
 * - `token_ids`: a call's prompt or reply has no token ids
 * - `log_probs`: a call's reply has no log-probabilities, or not as many as tokens
 *
 * A rollout that must not train. Its score may be reported all the same.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotTrainable extends Schema.TaggedError<NotTrainable>("deskhand/NotTrainable")("NotTrainable", {
  reason: Schema.Literal("evaluation", "no_calls", "token_ids", "log_probs"),
  group: Schema.String,
  owner: Schema.String,
  /** The call that lacks them. */
  call: Schema.optionalWith(Schema.String, { exact: true }),
  detail: Schema.String
}) {
  override get message() {
    const call = this.call === undefined ? "" : `, call ${this.call}`
    return `owner ${this.owner}, group ${this.group}${call}: it cannot train: ${this.detail}`
  }
}

/**
 * The calls with their tokens, for a rollout that may train. Every call needs its tokens: one that lacks them leaves a hole
 * in what the policy did.
 *
 * @since 0.1.0
 * @category decisions
 */
export const forTraining = ({
  calls,
  groupId,
  owner,
  purpose
}: ScoredRollout): Either.Either<ReadonlyArray<ModelCall>, NotTrainable> => {
  const refuse = (reason: NotTrainable["reason"], detail: string, call?: string) =>
    Either.left(new NotTrainable({ reason, group: groupId, owner, detail, ...(call === undefined ? {} : { call }) }))
  if (purpose === "evaluation")
    return refuse("evaluation", "it was asked for as an evaluation. Dispatch it for training")
  if (calls.length === 0) return refuse("no_calls", "no model call is known of it")
  const whole: Array<ModelCall> = []
  for (const call of calls) {
    const { generationLogProbs, generationTokenIds, modelCallId, promptTokenIds } = call
    if (promptTokenIds === undefined || generationTokenIds === undefined) {
      const what = promptTokenIds === undefined ? "prompt" : "reply"
      return refuse(
        "token_ids",
        `its ${what} has no token ids. Ask the server for them, or dispatch it as an evaluation`,
        modelCallId
      )
    }
    if (generationLogProbs?.length !== generationTokenIds.length) {
      const found = generationLogProbs === undefined ? "no" : String(generationLogProbs.length)
      return refuse(
        "log_probs",
        `its reply has ${generationTokenIds.length} tokens and ${found} log-probabilities`,
        modelCallId
      )
    }
    whole.push({ ...call, promptTokenIds, generationTokenIds, generationLogProbs })
  }
  return Either.right(whole)
}

/**
 * What a report counts of rollouts, whether or not their tokens are known.
 *
 * @since 0.1.0
 * @category models
 */
export interface EvaluationReport {
  readonly rollouts: number
  readonly meanReward: number
  /** Of them, those that could train. */
  readonly withTokens: number
}

/**
 * Mean over rollouts of all purposes; 0 over none.
 *
 * @since 0.1.0
 * @category decisions
 */
export const forReport = (rollouts: ReadonlyArray<ScoredRollout>): EvaluationReport => ({
  rollouts: rollouts.length,
  meanReward: rollouts.length === 0 ? 0 : rollouts.reduce((sum, { reward }) => sum + reward, 0) / rollouts.length,
  withTokens: rollouts.filter((rollout) => Either.isRight(forTraining({ ...rollout, purpose: "training" }))).length
})
