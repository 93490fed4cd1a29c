import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Blocks from "../../src/artifact/internal/blocks.js"

const unit = 2 ** 16

describe("blocks", () => {
  it("give out parts that share no byte, and take each back whole", () => {
    const operation = FastCheck.oneof(
      FastCheck.record({ _tag: FastCheck.constant("take" as const), units: FastCheck.integer({ min: 1, max: 5 }) }),
      FastCheck.record({ _tag: FastCheck.constant("give" as const), at: FastCheck.nat() })
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(operation, { maxLength: 60 }), (operations) => {
        const limit = 16 * unit
        const blocks = Blocks.make(limit)
        /** Which part has each unit: the model of what is free. */
        const owners: Array<Uint8Array | undefined> = Array(16).fill(undefined)
        const parts: Array<Uint8Array> = []
        for (const step of operations) {
          if (step._tag === "take") {
            const part = blocks.take(step.units * unit)
            const first = owners.findIndex((_, at) =>
              Array.from({ length: step.units }, (_, next) => at + next).every(
                (place) => place < 16 && owners[place] === undefined
              )
            )
            // The lowest place where there are as many together.
            assert.strictEqual(part?.byteOffset, first < 0 ? undefined : first * unit)
            if (part === undefined) continue
            assert.strictEqual(part.length, step.units * unit)
            owners.fill(part, first, first + step.units)
            parts.push(part)
          } else {
            const [part] = parts.splice(step.at % Math.max(1, parts.length), 1)
            if (part === undefined) continue
            blocks.give(part)
            for (const [at, owner] of owners.entries()) if (owner === part) owners[at] = undefined
          }
        }
        for (const part of parts) blocks.give(part)
        assert.strictEqual(blocks.take(limit)?.length, limit)
      }),
      { numRuns: 500 }
    )
  })

  it("reserve the next block when those that there are do not fit, up to the limit", () => {
    const large = 2 ** 24
    const blocks = Blocks.make(large + 2 * unit)
    const parts = [blocks.take(unit), blocks.take(large - unit), blocks.take(unit), blocks.take(unit)]
    const [first, second, third, fourth] = parts.map((part) => part?.buffer)
    assert.strictEqual(first, second)
    assert.strictEqual(third, fourth)
    assert.notStrictEqual(first, third)
    assert.isUndefined(blocks.take(1))
    for (const part of parts) if (part !== undefined) blocks.give(part)
    assert.strictEqual(blocks.take(large)?.buffer, first)
  })

  it("have nothing to do with memory that is none of theirs", () => {
    const blocks = Blocks.make(unit)
    blocks.give(new Uint8Array(unit))
    assert.isDefined(blocks.take(unit))
    assert.isUndefined(blocks.take(1))
  })
})
