import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as GroupBuffer from "../../src/training/GroupBuffer.js"
import type { Sampler } from "../../src/training/Window.js"

const right = <A, E>(either: Either.Either<A, E>): A => Either.getOrThrowWith(either, (error) => error)
const left = <A, E>(either: Either.Either<A, E>): E => Either.getOrThrow(Either.flip(either))

const windowed: Sampler = { name: "windowed", maxStaleness: 1, freshestFirst: false }

const reserved = (...groups: ReadonlyArray<readonly [groupId: string, version: number]>) =>
  groups.reduce(
    (buffer, [groupId, version]) => right(GroupBuffer.reserve(buffer, { groupId, version })),
    GroupBuffer.empty<string>(4)
  )

describe("GroupBuffer", () => {
  it("is as stale as the stalest call", () => {
    const buffer = right(
      GroupBuffer.commit(reserved(["a", 2]), { groupId: "a", callVersions: [4, 2, 3], content: "rows" })
    )
    assert.deepStrictEqual(buffer.groups, [
      { groupId: "a", start: 2, targetStep: undefined, ready: true, content: "rows" }
    ])
  })

  it("raises the version of a group whose calls all came later than its dispatch", () => {
    const buffer = right(GroupBuffer.commit(reserved(["a", 2]), { groupId: "a", callVersions: [3, 4], content: "" }))
    assert.strictEqual(buffer.groups[0]?.start, 3)
  })

  it("trains, evicts and gives up as the sampler says, and forgets them", () => {
    let buffer = reserved(["old", 1], ["slow", 1], ["a", 4], ["b", 5])
    for (const [groupId, version] of [
      ["old", 1],
      ["a", 4]
    ] as const) {
      buffer = right(GroupBuffer.commit(buffer, { groupId, callVersions: [version], content: groupId }))
    }
    const taken = right(GroupBuffer.take(buffer, windowed, { version: 5, min: 1, max: 8 }))
    const ids = (groups: ReadonlyArray<{ readonly groupId: string }>) => groups.map(({ groupId }) => groupId)
    assert.deepStrictEqual(ids(taken.selected), ["a"])
    assert.deepStrictEqual(ids(taken.evicted), ["old"])
    assert.deepStrictEqual(ids(taken.aborted), ["slow"])
    assert.deepStrictEqual(ids(taken.buffer.groups), ["b"])
    // Whoever ran it comes too late.
    const late = left(GroupBuffer.commit(taken.buffer, { groupId: "slow", callVersions: [1], content: "" }))
    assert.strictEqual(late.reason, "unknown")
  })

  it("refuses what cannot be, by the group's name", () => {
    const one = reserved(["a", 3])
    const full = reserved(["a", 0], ["b", 0], ["c", 0], ["d", 0])
    const committed = right(GroupBuffer.commit(one, { groupId: "a", callVersions: [3], content: "" }))
    const refusals = [
      GroupBuffer.reserve(one, { groupId: "a", version: 3 }),
      GroupBuffer.reserve(full, { groupId: "e", version: 0 }),
      GroupBuffer.reserve(one, { groupId: "b", version: 0.5 }),
      GroupBuffer.commit(one, { groupId: "b", callVersions: [3], content: "" }),
      GroupBuffer.commit(committed, { groupId: "a", callVersions: [3], content: "" }),
      GroupBuffer.commit(one, { groupId: "a", callVersions: [], content: "" }),
      GroupBuffer.commit(one, { groupId: "a", callVersions: [2], content: "" }),
      GroupBuffer.commit(one, { groupId: "a", callVersions: [Number.NaN], content: "" }),
      GroupBuffer.release(one, "b")
    ].map(left)
    assert.deepStrictEqual(
      refusals.map(({ reason }) => reason),
      ["duplicate", "full", "versions", "unknown", "committed", "versions", "versions", "versions", "unknown"]
    )
    for (const { groupId, message } of refusals) assert.include(message, `group ${groupId}`)
  })

  it("never holds more than its capacity, and loses no group unsaid", () => {
    const operation = FC.oneof(
      FC.record({ do: FC.constant("reserve" as const), groupId: FC.constantFrom("a", "b", "c", "d", "e", "f") }),
      FC.record({ do: FC.constant("commit" as const), groupId: FC.constantFrom("a", "b", "c", "d", "e", "f") }),
      FC.record({ do: FC.constant("step" as const), groupId: FC.constant("") })
    )
    FC.assert(
      FC.property(FC.array(operation, { maxLength: 40 }), (operations) => {
        let buffer = GroupBuffer.empty<string>(3)
        let version = 0
        const about = new Set<string>()
        for (const { do: what, groupId } of operations) {
          if (what === "step") {
            const taken = right(GroupBuffer.take(buffer, windowed, { version, min: 1, max: 2 }))
            buffer = taken.buffer
            for (const group of [...taken.selected, ...taken.evicted, ...taken.aborted]) about.delete(group.groupId)
            if (taken.selected.length > 0) version += 1
          } else {
            const next =
              what === "reserve"
                ? GroupBuffer.reserve(buffer, { groupId, version })
                : GroupBuffer.commit(buffer, { groupId, callVersions: [version], content: groupId })
            if (Either.isRight(next)) {
              buffer = next.right
              about.add(groupId)
            }
          }
          assert.isAtMost(buffer.groups.length, 3)
          assert.deepStrictEqual(new Set(buffer.groups.map((group) => group.groupId)), about)
        }
      })
    )
  })
})
