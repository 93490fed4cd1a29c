import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import * as Option from "effect/Option"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { Sampling } from "../../src/model/Sampling.js"
import { Started } from "../../src/rollout/Evidence.js"
import * as ExactTrace from "../../src/rollout/ExactTrace.js"
import { mediaId, pythonFloat, samplingContractId } from "../../src/rollout/internal/evidence/media.js"
import { segments } from "../../src/rollout/internal/evidence/segments.js"
import { fromRecords, type RecordedRollout, type RowVerdict } from "../../src/rollout/RecordedRollout.js"
import * as Fixture from "./evidenceFixture.js"

const scored: RowVerdict = { reward: 1, mask_sample: false, model: "toy" }

const envelope = (shape: Fixture.Options, row: RowVerdict | undefined = scored, owned = true) =>
  Fixture.withRun(() =>
    Effect.gen(function* () {
      const records = yield* Fixture.episode(Fixture.policy.id, shape)
      const rollout = Option.getOrThrow(fromRecords(records))
      return yield* ExactTrace.envelope(owned ? ownedByCaller(rollout) : rollout, row)
    })
  )

const ownedByCaller = (rollout: RecordedRollout): RecordedRollout => ({
  ...rollout,
  started: new Started({
    ...rollout.started,
    identity: new RolloutIdentity({
      ...rollout.started.identity,
      trajectory: {
        schema_version: 1,
        rollout_id: "r-1",
        group_id: "g-1",
        task_id: "task-0",
        rollout_index: 0,
        attempt_index: 0
      }
    })
  })
})

describe("ExactTrace", () => {
  it("has the published ids", () => {
    // osworld-gym.md 3.6, computed there with the recipe's own code.
    assert.strictEqual(
      mediaId({ type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "high" }),
      "media-4ae62df475df7ace88bf8bdc"
    )
    const long = new Sampling({ temperature: 0.6, topP: 0.95, maxTokens: 16384 })
    assert.strictEqual(samplingContractId(long), "sampling-contract-5c9ff2ca32eb1f50692b8660")
    const short = new Sampling({ temperature: 1, maxTokens: 1500 })
    assert.strictEqual(samplingContractId(short), "sampling-contract-3d659b171b660b1d79a2b219")
  })

  it("prints floats as Python's repr does", () => {
    // The right-hand sides are repr(x) of CPython 3.11.
    const printed = [1, 0.6, 0, 1e-5, 0.0001, 1.5e-7, 1e16, 123456789.25].map(pythonFloat)
    assert.deepStrictEqual(printed, ["1.0", "0.6", "0.0", "1e-05", "0.0001", "1.5e-07", "1e+16", "123456789.25"])
  })

  it.effect("is whole where all tokens are known and the caller named the rollout", () =>
    Effect.gen(function* () {
      const made = yield* envelope({ steps: 3, tokens: true })
      assert.deepStrictEqual(made.trajectory_contract.training_eligibility, {
        status: "requires_runtime_admission",
        incomplete_reasons: []
      })
      assert.strictEqual(made.trajectory_contract.rollout_id, "r-1")
      assert.strictEqual(made.trajectory_contract.schema_version, 2)
      assert.deepStrictEqual(
        made.trajectory_transitions.map(({ done, reward, turn_id }) => [turn_id, reward, done]),
        [
          [1, 0, false],
          [2, 0, false],
          [3, 1, true]
        ]
      )
      assert.isNotNull(made.trajectory_transitions[2]?.next_state)
      assert.strictEqual(made.context_compaction_contract?.mode, "exact_trace_authority")
      assert.strictEqual(made.context_compaction_contract?.generation_contract.training_eligible, false)
      // Each picture once, under the id that prompts show it by.
      const shown = new Set(made.trajectory_model_calls.flatMap(({ state }) => state.media_ids))
      assert.deepStrictEqual(new Set(Object.keys(made.media_assets)), shown)
      assert.strictEqual(shown.size, 3)
    })
  )

  it.effect("says what it does not know, and makes nothing up", () =>
    Effect.gen(function* () {
      const made = yield* envelope({ steps: 2 }, { reward: null, mask_sample: true, model: "toy" }, false)
      assert.deepStrictEqual(made.trajectory_contract.training_eligibility, {
        status: "ineligible",
        incomplete_reasons: [
          "caller_owned_rollout_identity_unavailable",
          "exact_prompt_token_ids_unavailable",
          "exact_sampled_logprobs_unavailable",
          "exact_sampled_token_ids_unavailable",
          "rollout_sample_masked"
        ]
      })
      assert.isNull(made.context_compaction_contract)
      assert.notProperty(made, "model_call_output")
      assert.deepStrictEqual(
        made.trajectory_transitions.map(({ reward }) => reward),
        [null, null]
      )
      assert.isNull(made.trajectory_model_calls[0]?.generation_evidence.prompt_token_ids)
    })
  )

  it.effect("has a call of its own for a reply that could not be read", () =>
    Effect.gen(function* () {
      const made = yield* envelope({ steps: 3, tokens: true, retry: true })
      assert.deepStrictEqual(
        made.trajectory_model_calls.map((call) => [
          call.turn_id,
          call.environment_step,
          call.parse_attempt,
          call.accepted
        ]),
        [
          [1, 0, 0, true],
          [2, 1, 0, false],
          [3, 1, 1, true],
          [4, 2, 0, true]
        ]
      )
      assert.strictEqual(made.trajectory_model_calls[1]?.parse_error, "no code")
      assert.strictEqual(made.trajectory_transitions[1]?.state.model_call_ids.length, 2)
      const ids = made.trajectory_model_calls.map(({ model_call_id }) => model_call_id)
      assert.strictEqual(new Set(ids).size, 4)
    })
  )
})

describe("Segments", () => {
  const call = (promptTokenIds: Array<number>, generationTokenIds: Array<number>, mediaIds: Array<string>) => ({
    promptTokenIds,
    generationTokenIds,
    mediaIds
  })

  it("go on while prompts extend prompts and replies, and pictures pictures", () => {
    // osworld-gym.md 3.7, the append rule.
    const placed = segments("r", [
      call([1], [2], ["a"]),
      call([1, 2, 3], [4], ["a", "b"]),
      call([1, 2, 3, 4, 5], [6], ["b"]),
      call([1, 2, 3, 4, 5], [7], ["b"])
    ])
    assert.deepStrictEqual(
      placed.map(({ removedMedia, segmentIndex, sharedTokens }) => [segmentIndex, sharedTokens, removedMedia]),
      [
        [0, 0, 0],
        [0, 2, 0],
        // Its tokens go on, and a picture is gone.
        [1, 0, 2],
        // A retry: the same prompt, without the reply.
        [2, 0, 0]
      ]
    )
    assert.strictEqual(placed[0]?.segmentId, placed[1]?.segmentId)
    assert.notStrictEqual(placed[2]?.segmentId, placed[3]?.segmentId)
  })

  const ids = FC.array(FC.nat(1), { maxLength: 4 })
  const calls = FC.array(FC.tuple(ids, ids, FC.array(FC.constantFrom("a", "b"), { maxLength: 2 })), { maxLength: 6 })

  it.prop("are exactly the maximal runs of calls that extend each other", { calls }, ({ calls }) => {
    const given = calls.map(([prompt, reply, media]) => call(prompt, reply, media))
    const isPrefix = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>) => a.every((value, at) => b[at] === value)
    let expected = 0
    const indices = given.map((now, at) => {
      const before = given[at - 1]
      const follows =
        before !== undefined &&
        isPrefix([...before.promptTokenIds, ...before.generationTokenIds], now.promptTokenIds) &&
        isPrefix(before.mediaIds, now.mediaIds)
      return at === 0 || follows ? expected : ++expected
    })
    assert.deepStrictEqual(
      segments("r", given).map(({ segmentIndex }) => segmentIndex),
      indices
    )
  })
})
