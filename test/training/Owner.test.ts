import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import * as TokenCapture from "../../src/model/TokenCapture.js"
import { TokenEntry } from "../../src/model/TokenEntry.js"
import { build } from "../../src/model/TraceBuilder.js"
import * as Custody from "../../src/training/Custody.js"
import * as Owner from "../../src/training/Owner.js"
import { type Row, validate } from "../../src/training/Row.js"
import { call, facts, left, right, valid } from "./dataFixture.js"

const entry = (modelCallId: string, prompt: ReadonlyArray<number>, generated: ReadonlyArray<number>, createdAt = 0) =>
  new TokenEntry({
    schemaVersion: 1,
    rolloutId: "r",
    modelCallId,
    model: "m",
    promptTokenIds: prompt,
    generationTokenIds: generated,
    generationLogProbs: generated.map(() => -1),
    outputItems: [],
    createdAt
  })

const capture = (entries: ReadonlyArray<TokenEntry>, more: Partial<Owner.Capture> = {}): Owner.Capture => ({
  rolloutId: "r",
  entries,
  incomplete: false,
  gaps: [],
  ...more
})

const whole = [entry("a", [1, 2], [3], 0), entry("b", [1, 2, 3, 4], [5], 1), entry("c", [1, 9], [6], 2)]

const reasonOf = (owner: Owner.Owner): string => (owner._tag === "Rejected" ? owner.reason : "valid")

describe("an owner of a capture", () => {
  it("has the segments of its calls, in the order in which they began", () => {
    const [a, b, c] = whole
    if (a === undefined || b === undefined || c === undefined) return assert.fail()
    const owner = right(Owner.fromCapture(facts("G", 0), "r", capture([c, a, b])))
    if (owner._tag === "Rejected") return assert.fail(owner.detail)
    assert.deepStrictEqual(
      owner.segments.map(({ calls }) => calls.map(({ modelCallId }) => modelCallId)),
      [["a", "b"], ["c"]]
    )
  })

  it("is rejected, with the reason, for what a rollout can do wrong", () => {
    const of = (given: Owner.Capture | undefined, limits: Owner.RowLimits = {}) =>
      reasonOf(right(Owner.fromCapture(facts("G", 0), "r", given, limits)))
    assert.deepStrictEqual(
      [
        of(capture(whole)),
        of(undefined),
        of(capture(whole, { rolloutId: "other" })),
        of(capture(whole, { incomplete: true, gaps: ["call d was begun and not committed"] })),
        of(capture([])),
        of(capture([entry("a", [1], [])])),
        of(capture([entry("a", [1], [2]), entry("a", [1, 2, 3], [4], 1)])),
        of(capture(whole), { maxSequenceLength: 4 }),
        of(capture(whole), { maxSequenceLength: 5 }),
        of(capture(whole), { maxSequenceLength: 5, overlongFiltering: true })
      ],
      [
        "valid",
        "missing_receipt",
        "identity_mismatch",
        "capture_poisoned",
        "empty_manifest",
        "empty_manifest",
        "duplicate_staging_key",
        "rebuild_failed",
        "valid",
        "logical_owner_invalid"
      ]
    )
    const image = { id: "x", offset: 0, length: 1, tokenId: 99, height: 1, width: 1 }
    const entries = (more: Parameters<typeof call>[3]) => [{ ...call("a", [1, 2], [3], more), rolloutId: "r" }]
    assert.strictEqual(of({ ...capture([]), entries: entries({ images: [image] }) }), "image_alignment")
    assert.match(of({ ...capture([]), entries: entries({ routedExperts: "?" }) }), /^route_assembly:/)
  })

  it("is an error where no honest capture has such numbers", () => {
    const entries = [{ ...call("a", [1, 2], [3], { generationLogProbs: [Number.NaN] }), rolloutId: "r" }]
    const error = left(Owner.fromCapture(facts("G", 1), "r", { ...capture([]), entries }))
    assert.deepStrictEqual([error.reason, error.owner, error.group], ["log_probs", "G_g1", "G"])
  })
})

describe("a call that was begun and never committed", () => {
  it.scoped("masks its owner, whose placeholder a sibling's tensors fill", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const frozen = yield* Effect.gen(function* () {
        const tokens = yield* TokenCapture.TokenCapture
        yield* tokens.begin("r", "a")
        yield* tokens.put(entry("a", [1, 2], [3]))
        yield* tokens.begin("r", "b")
        return yield* tokens.freeze("r")
      }).pipe(Effect.provide(TokenCapture.layer({ directory: yield* fs.makeTempDirectoryScoped() })))
      const owner = right(Owner.fromCapture(facts("G", 0), "r", frozen))
      assert.strictEqual(reasonOf(owner), "capture_poisoned")
      const { rejections, rows } = right(Owner.assemble([owner, valid("G", 1)], 2))
      assert.deepStrictEqual(
        rows.map(({ id, sampleMask }) => [id, sampleMask]),
        [
          ["G_g0_s0", 0],
          ["G_g1_s0", 1]
        ]
      )
      assert.include(rejections[0]?.detail, "b")
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("an owner of a trace", () => {
  const of = (entries: ReadonlyArray<TokenEntry>, incomplete = false) =>
    right(Owner.fromTrace(facts("G", 0), "r", build({ rolloutId: "r", entries, incomplete })))

  it("has a segment for each chain, and each generated token once", () => {
    const shared = [
      entry("a", [1], [2], 0),
      entry("b", [1, 2, 3], [4], 1),
      entry("c", [1, 2, 7], [8], 2),
      entry("d", [5], [6], 3)
    ]
    const owner = of(shared)
    if (owner._tag === "Rejected") return assert.fail(owner.detail)
    assert.deepStrictEqual(
      owner.segments.map(({ tokenMask }) => Array.from(tokenMask)),
      [
        [0, 1, 0, 1],
        [0, 0, 0, 1],
        [0, 1]
      ]
    )
  })

  it("is rejected where the trace is doubtful", () => {
    const retries = [entry("a", [1], [2], 0), entry("b", [1], [3], 1)]
    assert.deepStrictEqual(
      [reasonOf(of(whole, true)), reasonOf(of([])), reasonOf(of(retries))],
      ["capture_poisoned", "empty_manifest", "rebuild_failed"]
    )
    const foreign = build({ rolloutId: "other", entries: [], incomplete: false })
    assert.strictEqual(reasonOf(right(Owner.fromTrace(facts("G", 0), "r", foreign))), "identity_mismatch")
    assert.strictEqual(reasonOf(right(Owner.fromTrace(facts("G", 0), "r", undefined))), "missing_receipt")
  })
})

const idsOf = (rows: ReadonlyArray<Row>) => rows.map(({ id }) => id)

describe("groups of owners", () => {
  it("a failed owner is one masked row of a sibling's tensors, with its own reward and prompt", () => {
    const failed = Owner.rejected(
      facts("G", 0, { reward: -2, promptTokenIds: Int32Array.from([7]), weightVersion: 5 }),
      "rollout_failed",
      "the desktop died"
    )
    const sibling = valid("G", 1, [3, 4])
    const { dropped, rejections, rows } = right(Owner.assemble([sibling, failed], 2))
    assert.deepStrictEqual(idsOf(rows), ["G_g0_s0", "G_g1_s0", "G_g1_s1"])
    const [placeholder, ...healthy] = rows
    assert.isTrue(placeholder?.usesBorrowedInput)
    assert.strictEqual(placeholder?.sampleMask, 0)
    assert.strictEqual(placeholder?.owner?.segmentCount, 1)
    assert.strictEqual(placeholder?.reward, -2)
    assert.strictEqual(placeholder?.weightVersion, 3)
    assert.deepStrictEqual(Array.from(placeholder?.promptTokenIds ?? []), [7])
    assert.strictEqual(placeholder?.segment, sibling.segments[0])
    assert.isTrue(healthy.every(({ sampleMask, usesBorrowedInput }) => sampleMask === 1 && !usesBorrowedInput))
    assert.deepStrictEqual(rejections, [
      { groupId: "G", owner: "G_g0", reason: "rollout_failed", detail: "the desktop died" }
    ])
    assert.deepStrictEqual(dropped, [])
    const table = right(validate(rows, { groupSize: 2 }))
    assert.deepStrictEqual(
      table.owners.map(({ reward, valid }) => [reward, valid]),
      [
        [-2, false],
        [1, true]
      ]
    )
  })

  it("a group without a valid owner is dropped, with the reasons", () => {
    const lost = [0, 1].map((slot) => Owner.rejected(facts("A", slot), "capture_poisoned", "a hole"))
    const { dropped, rows } = right(Owner.assemble([...lost, valid("B", 0), valid("B", 1)], 2))
    assert.deepStrictEqual(idsOf(rows), ["B_g0_s0", "B_g1_s0"])
    assert.deepStrictEqual(
      dropped.map(({ groupId, owners, reason }) => [groupId, reason, owners.map(({ owner }) => owner)]),
      [["A", "no_valid_owner", ["A_g0", "A_g1"]]]
    )
  })

  it("an owner that comes again counts once when it is the same, and is an error when it is not", () => {
    const owners = [valid("G", 0), valid("G", 1), valid("G", 0)]
    const { duplicates, rows } = right(Owner.assemble(owners, 2))
    assert.deepStrictEqual([duplicates, rows.length], [1, 2])
    const conflict = left(Owner.assemble([valid("G", 0), valid("G", 1), valid("G", 0, [4])], 2))
    assert.deepStrictEqual([conflict.reason, conflict.owner, conflict.group], ["DuplicateOwner", "G_g0", "G"])
  })

  it("are refused when they are not whole", () => {
    const one = valid("G", 0)
    const check = (more: Partial<Owner.OwnerFacts>) => left(Owner.assemble([one, { ...valid("G", 1), ...more }], 2))
    const found = [
      left(Owner.assemble([], 2)),
      left(Owner.assemble([one], 2)),
      check({ reward: Number.NaN }),
      check({ reward: Number.POSITIVE_INFINITY }),
      check({ slot: 2 }),
      check({ groupSize: 3 }),
      check({ weightVersion: -1 }),
      check({ promptTokenIds: new Int32Array() }),
      check({ groupId: "" })
    ].map(({ field, group, owner, reason }) => [reason, field, owner, group])
    assert.deepStrictEqual(found, [
      ["Empty", "owners", undefined, undefined],
      ["MissingOwner", "slot", "G_g1", "G"],
      ["NotFinite", "reward", "G_g1", "G"],
      ["NotFinite", "reward", "G_g1", "G"],
      ["Foreign", "slot", "G_g2", "G"],
      ["Inconsistent", "groupSize", "G_g1", "G"],
      ["OutOfRange", "weightVersion", "G_g1", "G"],
      ["Empty", "promptTokenIds", "G_g1", "G"],
      ["Foreign", "groupId", "_g1", ""]
    ])
  })

  it.prop(
    "make rows that are whole, with a valid owner in each group and no row of a failed one that trains",
    {
      groups: FC.array(FC.array(FC.option(FC.integer({ min: 1, max: 3 })), { minLength: 3, maxLength: 3 }), {
        minLength: 1,
        maxLength: 5
      })
    },
    ({ groups }) => {
      const owners = groups.flatMap((members, group) =>
        members.map((count, slot): Owner.Owner => {
          const more = { groupSize: 3, reward: 0 }
          return count === null
            ? Owner.rejected(facts(`G${group}`, slot, more), "rollout_failed", "")
            : valid(`G${group}`, slot, [1, ...new Array<number>(count - 1).fill(2)], more)
        })
      )
      const { dropped, rows } = right(Owner.assemble(owners, 3))
      const alive = groups.filter((members) => members.some((count) => count !== null)).length
      assert.strictEqual(dropped.length, groups.length - alive)
      if (alive === 0) return assert.strictEqual(left(validate(rows, { groupSize: 3 })).reason, "Empty")
      const table = right(validate(rows, { groupSize: 3 }))
      assert.strictEqual(table.groupIds.length, alive)
      for (const [group, groupId] of table.groupIds.entries()) {
        assert.isTrue(
          table.owners.some((owner) => owner.group === group && owner.valid),
          groupId
        )
      }
      for (const row of rows) assert.strictEqual(row.sampleMask === 0, row.usesBorrowedInput)
    }
  )
})

describe("custody of calls", () => {
  it("an id is never begun twice, whatever came of it, and stays pending until its tokens are durable", () => {
    const begun = right(Custody.begin(right(Custody.begin(Custody.empty, "a")), "b"))
    assert.deepStrictEqual(Custody.pending(begun), ["a", "b"])
    const done = right(Custody.commit(begun, "a"))
    assert.deepStrictEqual(Custody.pending(done), ["b"])
    assert.strictEqual(left(Custody.begin(done, "a")).reason, "reused")
    assert.strictEqual(left(Custody.begin(done, "b")).reason, "reused")
    assert.strictEqual(left(Custody.commit(done, "a")).reason, "committed")
    assert.strictEqual(left(Custody.commit(done, "c")).reason, "unknown")
  })
})
