import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import { CallerRolloutId, fromRow, of, TrajectoryIdentity } from "../../src/identity/TrajectoryIdentity.js"

const task = "bb5e4c0d-f964-439c-97b6-bdb9747de3f4"

const identity = (
  more: { readonly callerId?: string; readonly attemptIndex?: number; readonly trajectory?: TrajectoryIdentity } = {}
) =>
  new RolloutIdentity({ runId: RunId.make("r"), taskId: task, taskIndex: 3, rolloutIndex: 0, attemptIndex: 0, ...more })

const trajectory: TrajectoryIdentity = {
  schema_version: 1,
  rollout_id: "rollout of the trainer",
  group_id: "group/7",
  task_id: task,
  rollout_index: 4,
  attempt_index: 2
}

describe("RolloutIdentity.rolloutId", () => {
  // The capture key of gym-core.md section 2.1: an explicit id, else `{task}-{rollout}`; `-a{n}` behind either.
  it("is the indices, with the attempt from the second on", () => {
    assert.strictEqual(identity().rolloutId, "3-0")
    assert.strictEqual(identity({ attemptIndex: 2 }).rolloutId, "3-0-a2")
  })

  it("is the caller's, with the attempt from the second on", () => {
    assert.strictEqual(identity({ callerId: "step12.prompt7_s1" }).rolloutId, "step12.prompt7_s1")
    assert.strictEqual(identity({ callerId: "step12.prompt7_s1", attemptIndex: 1 }).rolloutId, "step12.prompt7_s1-a1")
  })

  it("leaves the key that resume looks up to the indices", () => {
    assert.strictEqual(identity({ callerId: "x", attemptIndex: 1 }).rolloutKey, "3-0")
  })
})

describe("TrajectoryIdentity.fromRow", () => {
  it("finds nothing in a row that leaves the names to us", () => {
    for (const row of [{}, { _ng_rollout_id: null, trajectory_identity: null, context_compaction_task_id: null }]) {
      assert.deepStrictEqual(Either.getOrThrow(fromRow(row, task)), {})
    }
  })

  it.prop(
    "forwards what a caller gave, unchanged",
    { id: Arbitrary.make(CallerRolloutId), given: Arbitrary.make(TrajectoryIdentity) },
    ({ given, id }) => {
      const row = { _ng_rollout_id: id, trajectory_identity: given }
      const found = Either.getOrThrow(fromRow(row, given.task_id))
      assert.deepStrictEqual(found, { rolloutId: id, trajectory: given })
      assert.deepStrictEqual(of(identity({ callerId: id, trajectory: given }), "m"), {
        identity: given,
        source: "caller"
      })
    }
  )

  it("reads the keys of the earlier contract as the same names", () => {
    const found = fromRow(
      {
        context_compaction_contract_version: 2,
        context_compaction_rollout_id: trajectory.rollout_id,
        context_compaction_group_id: trajectory.group_id,
        context_compaction_task_id: task,
        context_compaction_rollout_index: 4,
        context_compaction_attempt_index: 2
      },
      task
    )
    assert.deepStrictEqual(Either.getOrThrow(found), { trajectory })
  })

  const { group_id: _, ...groupless } = trajectory
  const wrong: ReadonlyArray<readonly [string, Readonly<Record<string, unknown>>, string]> = [
    ["an id that is no path segment", { _ng_rollout_id: "a/b" }, "_ng_rollout_id"],
    ["an id that leads elsewhere", { _ng_rollout_id: ".." }, "_ng_rollout_id"],
    ["an empty id", { _ng_rollout_id: "" }, "_ng_rollout_id"],
    ["an id that is no text", { _ng_rollout_id: 7 }, "_ng_rollout_id"],
    ["names of which one is missing", { trajectory_identity: groupless }, "trajectory_identity.group_id"],
    [
      "a truth value for an index",
      { trajectory_identity: { ...trajectory, rollout_index: true } },
      "trajectory_identity.rollout_index"
    ],
    [
      "an index below 0",
      { trajectory_identity: { ...trajectory, attempt_index: -1 } },
      "trajectory_identity.attempt_index"
    ],
    ["an empty name", { trajectory_identity: { ...trajectory, rollout_id: "" } }, "trajectory_identity.rollout_id"],
    [
      "another version",
      { trajectory_identity: { ...trajectory, schema_version: 2 } },
      "trajectory_identity.schema_version"
    ],
    [
      "a name that nobody knows",
      { trajectory_identity: { ...trajectory, execution_id: "x" } },
      "trajectory_identity.execution_id"
    ],
    [
      "an event without its group",
      { trajectory_identity: { ...trajectory, sampling_event_id: "e" } },
      "trajectory_identity"
    ],
    [
      "a group without its event",
      { trajectory_identity: { ...trajectory, source_group_id: "g" } },
      "trajectory_identity"
    ],
    [
      "the names of another task",
      { trajectory_identity: { ...trajectory, task_id: "other" } },
      "trajectory_identity.task_id"
    ],
    ["both styles", { trajectory_identity: trajectory, context_compaction_rollout_id: "x" }, "trajectory_identity"],
    [
      "the earlier contract without its version",
      { context_compaction_rollout_id: "x" },
      "context_compaction_contract_version"
    ]
  ]
  for (const [name, row, path] of wrong) {
    it(`refuses ${name}, and says where`, () => {
      const error = Either.getOrThrow(Either.flip(fromRow(row, task)))
      assert.strictEqual(error.path, path)
      assert.notStrictEqual(error.message, "")
    })
  }
})

describe("TrajectoryIdentity.of", () => {
  it("derives the published ids of a group and a rollout", () => {
    // osworld-gym.md section 3.6: the same task, indices 0 and 0, the model osworld-policy.
    assert.deepStrictEqual(of(identity(), "osworld-policy"), {
      source: "derived",
      identity: {
        schema_version: 1,
        rollout_id: "rollout-bbfa04e0680614ab9c7fc48f",
        group_id: "trajectory-group-e08e0125b56151193508b27c",
        task_id: task,
        rollout_index: 0,
        attempt_index: 0
      }
    })
  })

  it.prop(
    "names rollouts apart, and is itself a valid identity",
    { one: Arbitrary.make(RolloutIdentity), attempt: Schema.NonNegativeInt },
    ({ attempt, one }) => {
      const { trajectory: _, ...rest } = one
      const own = new RolloutIdentity(rest)
      const other = new RolloutIdentity({ ...rest, attemptIndex: attempt })
      assert.isTrue(Schema.is(TrajectoryIdentity)(of(own, "m").identity))
      assert.strictEqual(
        of(own, "m").identity.rollout_id === of(other, "m").identity.rollout_id,
        own.attemptIndex === attempt
      )
      assert.strictEqual(of(own, "m").identity.group_id, of(other, "n").identity.group_id)
    }
  )
})
