import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { forReport, forTraining, type MaybeTokens, type ScoredRollout } from "../../src/training/TokenFree.js"

const call = (modelCallId: string, fields: Partial<MaybeTokens> = {}): MaybeTokens => ({
  modelCallId,
  promptTokenIds: [9, 4],
  generationTokenIds: [2],
  generationLogProbs: [-1],
  ...fields
})

const rollout = (fields: Partial<ScoredRollout> = {}): ScoredRollout => ({
  groupId: "a",
  owner: "a_g0",
  purpose: "training",
  reward: 1,
  calls: [call("c0"), call("c1")],
  ...fields
})

const told = (fields: Partial<ScoredRollout>) => {
  const { call, reason } = Either.getOrThrow(Either.flip(forTraining(rollout(fields))))
  return [reason, call]
}

const silent = [call("c0"), { modelCallId: "c1" }]

describe("rollouts without tokens", () => {
  it("train when every call has them", () => {
    const calls = Either.getOrThrow(forTraining(rollout()))
    assert.deepStrictEqual(
      calls.map(({ modelCallId }) => modelCallId),
      ["c0", "c1"]
    )
  })

  it("are refused for training, with owner, group and call", () => {
    assert.deepStrictEqual(told({ calls: silent }), ["token_ids", "c1"])
    assert.deepStrictEqual(told({ calls: [call("c0", { generationTokenIds: undefined })] }), ["token_ids", "c0"])
    assert.deepStrictEqual(told({ calls: [call("c0", { generationLogProbs: undefined })] }), ["log_probs", "c0"])
    assert.deepStrictEqual(told({ calls: [call("c0", { generationLogProbs: [-1, -2] })] }), ["log_probs", "c0"])
    assert.deepStrictEqual(told({ calls: [] }), ["no_calls", undefined])
    assert.deepStrictEqual(told({ purpose: "evaluation" }), ["evaluation", undefined])
    const { message } = Either.getOrThrow(Either.flip(forTraining(rollout({ calls: silent }))))
    assert.include(message, "owner a_g0, group a, call c1: it cannot train: its prompt has no token ids")
  })

  it("are reported all the same", () => {
    const rollouts = [rollout(), rollout({ purpose: "evaluation", reward: 0, calls: silent }), rollout({ reward: 0.5 })]
    assert.deepStrictEqual(forReport(rollouts), { rollouts: 3, meanReward: 0.5, withTokens: 2 })
    assert.deepStrictEqual(forReport([]), { rollouts: 0, meanReward: 0, withTokens: 0 })
  })
})
