/**
 * A trainer that fits into a page and learns in a second, with a gradient that anyone can check. It shows that what is around
 * it learns, and stands where a real trainer will.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import {
  type ChainPolicy,
  type ChainTask,
  logProbabilities,
  placeOf,
  probabilities,
  scoreTokens,
  uniform
} from "./ChainPolicy.js"
import { tokenGradient, tokenLoss } from "./Loss.js"
import { Trainer, TrainerError, type UpdateBatch, UpdateReport } from "./Trainer.js"

// -----------------------------------------------------------------------------
// A step
// -----------------------------------------------------------------------------

/**
 * What a step came to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stepped {
  readonly policy: ChainPolicy
  readonly loss: number
  /** `[decisions * actions]`: of the loss. */
  readonly gradient: Float64Array
}

const refused = (detail: string) =>
  Either.left(new TrainerError({ reason: "refused", operation: "update", trainer: "reference", detail, attempts: 1 }))

/**
 * Plain gradient descent. With c the derivative of the loss by a token's log-probability, the derivative by its decision's
 * logits is c (1[k = action] - p_k). A gradient of zero leaves every bit of the weights as it is.
 *
 * Refuses a weight on a token that is no choice, and numbers that are none.
 *
 * @since 0.1.0
 * @category operations
 */
export const step = (
  policy: ChainPolicy,
  { loss, rows }: Pick<UpdateBatch, "loss" | "rows">,
  learningRate: number
): Either.Either<Stepped, TrainerError> => {
  const { actions } = policy
  const all = probabilities(policy)
  const logs = logProbabilities(policy)
  const gradient = new Float64Array(policy.logits.length)
  let sum = 0
  for (const { advantage, id, previous, tokenIds, weight } of rows) {
    if (weight.length !== tokenIds.length - 1 || previous.length !== weight.length) {
      return refused(
        `row ${id}: ${tokenIds.length} tokens have ${weight.length} weights and ${previous.length} log-probabilities`
      )
    }
    for (let at = 0; at < weight.length; at++) {
      const own = weight[at] ?? 0
      if (own === 0) continue
      const place = placeOf(policy, tokenIds[at] ?? -1, tokenIds[at + 1] ?? -1)
      if (place < 0)
        return refused(`row ${id}, token ${at + 1}: it is no action that follows a decision, and has a weight`)
      const current = logs[place] ?? 0
      const derivative = own * tokenGradient(loss, current, previous[at] ?? 0, advantage)
      sum += own * tokenLoss(loss, current, previous[at] ?? 0, advantage)
      if (!Number.isFinite(derivative) || !Number.isFinite(sum)) {
        return refused(`row ${id}, token ${at + 1}: its loss is no number (weight ${own}, advantage ${advantage})`)
      }
      if (derivative === 0) continue
      const start = place - (place % actions)
      for (let other = start; other < start + actions; other++) {
        gradient[other] = (gradient[other] ?? 0) + derivative * ((other === place ? 1 : 0) - (all[other] ?? 0))
      }
    }
  }
  const logits = policy.logits.map((logit, at) => {
    const slope = gradient[at] ?? 0
    return slope === 0 ? logit : logit - learningRate * slope
  })
  return Either.right({ policy: { ...policy, logits }, loss: sum, gradient })
}

// -----------------------------------------------------------------------------
// The service
// -----------------------------------------------------------------------------

/**
 * Weights that engines may answer with.
 *
 * @since 0.1.0
 * @category models
 */
export interface PublishedPolicy {
  readonly version: number
  readonly policy: ChainPolicy
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ReferenceOptions {
  readonly task: ChainTask
  readonly learningRate: number
  /** The weights at the beginning; `uniform` unless given. */
  readonly policy?: ChainPolicy
}

/**
 * What an engine in this process reads, beside the `Trainer` that makes it.
 *
 * @since 0.1.0
 * @category context
 */
export class ReferencePolicy extends Context.Tag("deskhand/training/ReferencePolicy")<
  ReferencePolicy,
  {
    /** What was last published. */
    readonly published: Effect.Effect<PublishedPolicy>
    /** What is being trained. */
    readonly current: Effect.Effect<PublishedPolicy>
  }
>() {}

/**
 * A trainer in this process. It is at version 0 at the beginning, which is published. The step that it took last may come
 * again, and is answered as before.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: ReferenceOptions): Effect.Effect<Trainer["Type"] & ReferencePolicy["Type"]> =>
  Effect.sync(() => {
    let current: PublishedPolicy = { version: 0, policy: options.policy ?? uniform(options.task) }
    let published = current
    let last: { readonly id: string; readonly report: UpdateReport } | undefined
    const fail = (operation: "update" | "publish", reason: "conflict" | "refused", detail: string) =>
      new TrainerError({ reason, operation, trainer: "reference", detail, attempts: 1 })
    return {
      version: Effect.sync(() => current.version),
      current: Effect.sync(() => current),
      published: Effect.sync(() => published),
      score: (rows) =>
        Effect.sync(() => {
          const all = logProbabilities(current.policy)
          return rows.map(({ tokenIds }) => scoreTokens(current.policy, all, tokenIds))
        }),
      update: (batch) =>
        Effect.suspend((): Effect.Effect<UpdateReport, TrainerError> => {
          if (last?.id === batch.id) return Effect.succeed(last.report)
          if (batch.version !== current.version) {
            return fail(
              "update",
              "conflict",
              `the step starts from version ${batch.version}, and this is ${current.version}`
            )
          }
          return Effect.map(step(current.policy, batch, options.learningRate), ({ gradient, loss, policy }) => {
            current = { version: current.version + 1, policy }
            const gradientNorm = Math.sqrt(gradient.reduce((sum, slope) => sum + slope * slope, 0))
            const report = new UpdateReport({ version: current.version, loss, gradientNorm })
            last = { id: batch.id, report }
            return report
          })
        }),
      publish: (version) =>
        Effect.suspend(() => {
          if (version !== current.version) {
            return fail("publish", "conflict", `version ${version} was asked for, and this is ${current.version}`)
          }
          published = current
          return Effect.void
        })
    }
  })

/**
 * The trainer, and what it published, as two services of one thing.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: ReferenceOptions): Layer.Layer<Trainer | ReferencePolicy> =>
  Layer.effectContext(
    Effect.map(make(options), (reference) =>
      Context.make(Trainer, reference).pipe(Context.add(ReferencePolicy, reference))
    )
  )
