/**
 * The whole way from sampled tokens to new weights, on the reference policy and in one process: what an objective does to
 * learning, seen in a second and the same on every machine.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Batch from "./Batch.js"
import * as ChainPolicy from "./ChainPolicy.js"
import * as GenerationWindow from "./GenerationWindow.js"
import type { Objective } from "./Objective.js"
import * as Owner from "./Owner.js"
import { mulberry32 } from "./Random.js"
import * as ReferenceTrainer from "./ReferenceTrainer.js"
import type { ModelCall, SegmentError } from "./Segment.js"
import type { ObjectiveError, StepError } from "./StepError.js"
import type { TrainerError } from "./Trainer.js"
import * as Update from "./Update.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface LoopOptions {
  readonly task: ChainPolicy.ChainTask
  readonly objective: Objective
  /** Groups of a step. */
  readonly prompts: number
  /** Owners of a group. */
  readonly generations: number
  readonly learningRate: number
  readonly steps: number
  /** How many versions the weights that sample are behind the trainer's. */
  readonly lag: number
  /** Of mulberry32: a draw for each decision of each owner, and one more for whether it fails. */
  readonly seed: number
  /** How likely an owner is to fail, from 0 to 1; 0 unless given. Its reward counts all the same, its tokens don't. */
  readonly failures?: number
  /** Whether the prompt of the last decision begins anew, so that every owner has two segments; yes unless given. */
  readonly split?: boolean
}

/**
 * @since 0.1.0
 * @category models
 */
export interface LoopStep {
  /** From 1; the weight version after it. */
  readonly step: number
  /** How likely the policy is to succeed after the step. */
  readonly success: number
  /** Mean over all owners of the step. */
  readonly reward: number
  readonly loss: number
  /** Rows with a token that trains, and how many of them the gate refused. */
  readonly rows: number
  readonly rejectedRows: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface LoopResult {
  readonly policy: ChainPolicy.ChainPolicy
  readonly steps: ReadonlyArray<LoopStep>
}

/**
 * The model calls of an owner that took these actions: each prompt goes on from the one before, but for the last one's where
 * `split` is true.
 *
 * @since 0.1.0
 * @category constructors
 */
export const callsOf = (
  policy: ChainPolicy.ChainPolicy,
  logs: Float64Array,
  actions: ReadonlyArray<number>,
  split: boolean
): ReadonlyArray<ModelCall> => {
  const opening = ChainPolicy.textToken(policy)
  let context: ReadonlyArray<number> = [opening]
  return actions.map((action, decision) => {
    if (split && decision > 0 && decision === actions.length - 1) context = [opening]
    const prompt = [...context, ChainPolicy.decisionToken(policy, decision)]
    context = [...prompt, ChainPolicy.actionToken(action)]
    return {
      modelCallId: `call-${decision}`,
      promptTokenIds: prompt,
      generationTokenIds: [ChainPolicy.actionToken(action)],
      generationLogProbs: [logs[decision * policy.actions + action] ?? Number.NaN]
    }
  })
}

type LoopError = StepError | ObjectiveError | SegmentError | TrainerError | GenerationWindow.GenerationWindowError

/**
 * Takes the steps: sample, reward, owners, rows, window, scores, objective, update. Nothing is drawn from anywhere but the
 * seed, and the same options give the same weights bit by bit.
 *
 * @since 0.1.0
 * @category operations
 */
export const run = (options: LoopOptions): Either.Either<LoopResult, LoopError> =>
  Either.gen(function* () {
    const { failures = 0, generations, lag, learningRate, objective, prompts, split = true, task } = options
    const draw = mulberry32(options.seed)
    let policy = ChainPolicy.uniform(task)
    const past = [policy]
    const steps: Array<LoopStep> = []
    for (let version = 0; version < options.steps; version++) {
      const sampledAt = Math.max(0, version - lag)
      const behaviour = past[sampledAt] ?? policy
      const odds = ChainPolicy.probabilities(behaviour)
      const logs = ChainPolicy.logProbabilities(behaviour)
      const promptTokenIds = Int32Array.of(ChainPolicy.textToken(policy), ChainPolicy.decisionToken(policy, 0))
      const owners: Array<Owner.Owner> = []
      let rewards = 0
      for (let prompt = 0; prompt < prompts; prompt++) {
        for (let slot = 0; slot < generations; slot++) {
          const actions = task.targets.map((_, decision) => ChainPolicy.act(odds, task.actions, decision, draw()))
          const failed = draw() < failures
          const reward = actions.every((action, decision) => action === task.targets[decision]) ? 1 : 0
          rewards += reward
          const facts = {
            groupId: `v${version}-${prompt}`,
            slot,
            groupSize: generations,
            reward,
            promptTokenIds,
            weightVersion: sampledAt
          }
          const rolloutId = `${facts.groupId}-${slot}`
          owners.push(
            failed
              ? Owner.rejected(facts, "rollout_failed", "drawn to fail")
              : yield* Owner.fromCapture(facts, rolloutId, {
                  rolloutId,
                  entries: callsOf(behaviour, logs, actions, split).map((call) => ({ ...call, rolloutId })),
                  incomplete: false
                })
          )
        }
      }
      const { dropped, rows } = yield* Owner.assemble(owners, generations)
      const window = yield* GenerationWindow.open<(typeof rows)[number]>({
        sampler: { name: "windowed", maxStaleness: lag, freshestFirst: false },
        version,
        prompts,
        generations
      })
      const staged = yield* GenerationWindow.close(yield* GenerationWindow.add(window, rows), {
        groups: prompts - dropped.length
      })
      const batch = yield* Batch.make(staged.rows, { groupSize: generations })
      const current = ChainPolicy.logProbabilities(policy)
      const previous = Update.scoreRows(batch).map(({ tokenIds }) => ChainPolicy.scoreTokens(policy, current, tokenIds))
      const { result, update } = yield* Update.make(objective, batch, { id: `step-${version}`, version, previous })
      const stepped = yield* ReferenceTrainer.step(policy, update, learningRate)
      policy = stepped.policy
      past.push(policy)
      steps.push({
        step: version + 1,
        success: ChainPolicy.success(policy, task),
        reward: rewards / (prompts * generations),
        loss: stepped.loss,
        rows: result.rows,
        rejectedRows: result.rejectedRows
      })
    }
    return { policy, steps }
  })
