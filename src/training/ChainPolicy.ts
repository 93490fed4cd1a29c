/**
 * The smallest policy that can be wrong: a table of logits for each decision of a chain.
 *
 * The task is a chain of decisions with the same number of actions each; the reward is 1 when all of them are right, and 0
 * otherwise, so that chance succeeds once in `actions ** decisions` tries.
 *
 * @since 0.1.0
 */
import { choose } from "./Random.js"

// -----------------------------------------------------------------------------
// The policy
// -----------------------------------------------------------------------------

/**
 * @since 0.1.0
 * @category models
 */
export interface ChainTask {
  /** The right action of each decision, from 0. */
  readonly targets: ReadonlyArray<number>
  /** Actions of each decision. */
  readonly actions: number
}

/**
 * A softmax over `actions` logits for each decision.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChainPolicy {
  readonly decisions: number
  readonly actions: number
  /** `[decisions * actions]`, decision by decision. */
  readonly logits: Float64Array
}

/**
 * The chain of three decisions between four actions that the published figures are about.
 *
 * @since 0.1.0
 * @category constants
 */
export const standardTask: ChainTask = { targets: [2, 0, 3], actions: 4 }

/**
 * All logits zero: every action is as likely as any other.
 *
 * @since 0.1.0
 * @category constructors
 */
export const uniform = ({ actions, targets }: ChainTask): ChainPolicy => ({
  decisions: targets.length,
  actions,
  logits: new Float64Array(targets.length * actions)
})

/**
 * `[decisions * actions]`: natural logarithms of the probabilities, decision by decision.
 *
 * @since 0.1.0
 * @category queries
 */
export const logProbabilities = ({ actions, decisions, logits }: ChainPolicy): Float64Array => {
  const out = new Float64Array(logits.length)
  for (let decision = 0; decision < decisions; decision++) {
    const start = decision * actions
    let most = Number.NEGATIVE_INFINITY
    for (let at = start; at < start + actions; at++) most = Math.max(most, logits[at] ?? 0)
    let sum = 0
    for (let at = start; at < start + actions; at++) sum += Math.exp((logits[at] ?? 0) - most)
    const whole = most + Math.log(sum)
    for (let at = start; at < start + actions; at++) out[at] = Math.min(0, (logits[at] ?? 0) - whole)
  }
  return out
}

/**
 * `[decisions * actions]`, decision by decision.
 *
 * @since 0.1.0
 * @category queries
 */
export const probabilities = ({ actions, decisions, logits }: ChainPolicy): Float64Array => {
  const out = new Float64Array(logits.length)
  for (let decision = 0; decision < decisions; decision++) {
    const start = decision * actions
    let most = Number.NEGATIVE_INFINITY
    for (let at = start; at < start + actions; at++) most = Math.max(most, logits[at] ?? 0)
    let sum = 0
    for (let at = start; at < start + actions; at++) {
      const part = Math.exp((logits[at] ?? 0) - most)
      out[at] = part
      sum += part
    }
    for (let at = start; at < start + actions; at++) out[at] = (out[at] ?? 0) / sum
  }
  return out
}

/**
 * How likely the policy is to take all decisions right.
 *
 * @since 0.1.0
 * @category queries
 */
export const success = (policy: ChainPolicy, { targets }: ChainTask): number => {
  const all = probabilities(policy)
  let product = 1
  for (const [decision, target] of targets.entries()) product *= all[decision * policy.actions + target] ?? 0
  return product
}

/**
 * The action that the draw `u` in [0, 1) takes at a decision.
 *
 * @since 0.1.0
 * @category decisions
 */
export const act = (policyProbabilities: Float64Array, actions: number, decision: number, u: number): number =>
  choose(policyProbabilities.subarray(decision * actions, (decision + 1) * actions), u)

/**
 * One step up the exact gradient of the success J, without sampling: J (1[k = target] - p_k) at each decision.
 *
 * @since 0.1.0
 * @category operations
 */
export const ascend = (policy: ChainPolicy, task: ChainTask, learningRate: number): ChainPolicy => {
  const all = probabilities(policy)
  const value = success(policy, task)
  const logits = policy.logits.map((logit, at) => {
    const isTarget = task.targets[Math.floor(at / policy.actions)] === at % policy.actions
    return logit + learningRate * value * ((isTarget ? 1 : 0) - (all[at] ?? 0))
  })
  return { ...policy, logits }
}

// -----------------------------------------------------------------------------
// Tokens
// -----------------------------------------------------------------------------

/**
 * The token of an action, which follows a decision's: `action` itself.
 *
 * @since 0.1.0
 * @category tokens
 */
export const actionToken = (action: number): number => action

/**
 * The token that asks for a decision: the ids after the actions'.
 *
 * @since 0.1.0
 * @category tokens
 */
export const decisionToken = ({ actions }: Pick<ChainPolicy, "actions">, decision: number): number => actions + decision

/**
 * The first id that means nothing to the policy; it and all above it are for text.
 *
 * @since 0.1.0
 * @category tokens
 */
export const textToken = ({ actions, decisions }: Pick<ChainPolicy, "actions" | "decisions">): number =>
  actions + decisions

/**
 * Where in the table the log-probability of a token is that follows another; -1 where the policy has no choice.
 *
 * @since 0.1.0
 * @category tokens
 */
export const placeOf = ({ actions, decisions }: ChainPolicy, before: number, token: number): number => {
  const decision = before - actions
  return decision >= 0 && decision < decisions && token < actions ? decision * actions + token : -1
}

/**
 * `[n - 1]`: log-probabilities of all tokens but the first. An action that follows a decision's token has the table's; no
 * other token is a choice, and its log-probability is 0.
 *
 * @since 0.1.0
 * @category operations
 */
export const scoreTokens = (policy: ChainPolicy, all: Float64Array, tokenIds: ArrayLike<number>): Float64Array => {
  const out = new Float64Array(Math.max(0, tokenIds.length - 1))
  for (let at = 1; at < tokenIds.length; at++) {
    const place = placeOf(policy, tokenIds[at - 1] ?? -1, tokenIds[at] ?? -1)
    if (place >= 0) out[at - 1] = all[place] ?? 0
  }
  return out
}
