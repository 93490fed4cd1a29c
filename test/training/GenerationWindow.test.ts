import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import {
  add,
  allowedVersions,
  close,
  type GenerationWindowOptions,
  open,
  type WindowRow
} from "../../src/training/GenerationWindow.js"

const right = <A, E>(either: Either.Either<A, E>): A => Either.getOrThrowWith(either, (error) => error)
const left = <A, E>(either: Either.Either<A, E>): E => Either.getOrThrow(Either.flip(either))

const options: GenerationWindowOptions = {
  sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false },
  version: 5,
  prompts: 2,
  generations: 2
}

/** A row with three tokens that train, after a prompt of one. */
const row = (groupId: string, slot: number, segment = 0, fields: Partial<WindowRow> = {}): WindowRow => ({
  id: `${groupId}_g${slot}_s${segment}`,
  groupId,
  owner: { id: `${groupId}_g${slot}`, slot },
  usesBorrowedInput: false,
  sampleMask: 1,
  weightVersion: 5,
  segment: { tokenMask: [0, 1, 1, 1] },
  ...fields
})

const group = (groupId: string, fields: Partial<WindowRow> = {}) => [
  row(groupId, 0, 0, fields),
  row(groupId, 0, 1, fields),
  row(groupId, 1, 0, fields)
]

const padding = row("a", 0, 0, { id: "a_pad0", owner: undefined, sampleMask: 0, weightVersion: 0 })

const start = right(open(options))

describe("the optimizer generation window", () => {
  it("stages a step from chunks of whole groups, in their order", () => {
    const one = right(add(start, [...group("a", { weightVersion: 4 }), padding]))
    const staged = right(close(right(add(one, group("b")))))
    assert.deepStrictEqual(
      staged.rows.map(({ id }) => id),
      ["a_g0_s0", "a_g0_s1", "a_g1_s0", "a_pad0", "b_g0_s0", "b_g0_s1", "b_g1_s0"]
    )
    assert.deepStrictEqual([staged.groups, staged.owners, staged.validTokens], [["a", "b"], 4, 18])
  })

  it("takes weights of the window for a windowed sampler, and the step's own for the others", () => {
    assert.deepStrictEqual(allowedVersions(options.sampler, 5), [4, 5])
    assert.deepStrictEqual(allowedVersions(options.sampler, 0), [0, 0])
    assert.deepStrictEqual(allowedVersions({ name: "in_order", window: 1 }, 5), [5, 5])
    assert.deepStrictEqual(allowedVersions({ name: "ready_first", window: 1 }, 5), [5, 5])
  })

  it("names row, owner and group of what does not belong", () => {
    const told = (rows: ReadonlyArray<WindowRow>, window = start) => {
      const { group, owner, reason, row } = left(add(window, rows))
      return [reason, row, owner, group]
    }
    const [first, second, third] = group("a")
    const others = [second, third].flatMap((row) => (row === undefined ? [] : [row]))
    const withFirst = (fields: Partial<WindowRow>) => told([row("a", 0, 0, fields), ...others])
    const at = ["a_g0_s0", "a_g0", "a"]
    assert.deepStrictEqual(withFirst({ weightVersion: 3 }), ["stale", ...at])
    assert.deepStrictEqual(withFirst({ weightVersion: 6 }), ["ahead", ...at])
    assert.deepStrictEqual(withFirst({ weightVersion: 4.5 }), ["number", ...at])
    assert.deepStrictEqual(withFirst({ sampleMask: Number.NaN }), ["number", ...at])
    assert.deepStrictEqual(withFirst({ owner: { id: "a_g2", slot: 2 } }), ["foreign", "a_g0_s0", "a_g2", "a"])
    assert.deepStrictEqual(withFirst({ owner: { id: "b_g0", slot: 0 } }), ["foreign", "a_g0_s0", "b_g0", "a"])
    assert.deepStrictEqual(told([...group("a"), ...(first === undefined ? [] : [first])]), ["repeated", ...at])
    assert.deepStrictEqual(told([row("a", 0), row("a", 0, 1)]), ["incomplete", undefined, undefined, "a"])
    assert.deepStrictEqual(told(group("a"), right(add(start, group("a")))), ["repeated", ...at])
    assert.deepStrictEqual(told([...group("a"), ...group("b"), ...group("c")]), ["surplus", undefined, undefined, "c"])
    assert.deepStrictEqual(told([{ ...padding, sampleMask: 1 }]), ["foreign", "a_pad0", undefined, "a"])
  })

  it("wants true and false where flags come from files", () => {
    const rows: ReadonlyArray<WindowRow> = JSON.parse(JSON.stringify([{ ...row("a", 0), usesBorrowedInput: 0 }]))
    assert.strictEqual(left(add(start, rows)).reason, "flag")
  })

  it("wants every group at its close, and one token that trains", () => {
    const one = right(add(start, group("a")))
    assert.include(left(close(one)).message, "step 5: it has 1 groups with 2 owners, and needs 2 with 4")
    assert.strictEqual(right(close(one, { groups: 1 })).owners, 2)
    assert.strictEqual(left(close(start)).reason, "short")
    const failed = right(add(start, [...group("a", { sampleMask: 0 }), ...group("b", { sampleMask: 0 })]))
    assert.strictEqual(left(close(failed)).reason, "empty")
    // A chunk without a token that trains is no error as long as the step has one.
    const mixed = right(add(right(add(start, group("a", { sampleMask: 0 }))), group("b")))
    assert.strictEqual(right(close(mixed)).validTokens, 9)
  })

  it("refuses a window that makes no sense", () => {
    for (const wrong of [{ version: -1 }, { prompts: 0 }, { generations: 1.5 }]) {
      assert.strictEqual(left(open({ ...options, ...wrong })).reason, "options")
    }
  })
})
