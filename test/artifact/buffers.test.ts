import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Buffers from "../../src/artifact/internal/buffers.js"

const kept = 4 * 2 ** 16

describe("buffers", () => {
  it("keeps what a name stands for as long as it is found, and hands nothing out that is held", () => {
    const operation = FastCheck.oneof(
      FastCheck.record({
        _tag: FastCheck.constant("take" as const),
        length: FastCheck.integer({ min: 0, max: 3 * 2 ** 16 })
      }),
      FastCheck.record({
        _tag: FastCheck.constant("name" as const),
        at: FastCheck.nat(),
        name: FastCheck.integer({ min: 0, max: 5 }),
        expected: FastCheck.boolean()
      }),
      FastCheck.record({ _tag: FastCheck.constant("find" as const), name: FastCheck.integer({ min: 0, max: 5 }) }),
      FastCheck.record({ _tag: FastCheck.constant("give" as const), at: FastCheck.nat() })
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(operation, { maxLength: 60 }), (operations) => {
        const buffers = Buffers.make(kept)
        /** One for each hold; those that were taken and not named yet may be written to. */
        const held: Array<{ readonly piece: Buffers.Piece; name: number | undefined }> = []
        for (const step of operations) {
          switch (step._tag) {
            case "take": {
              const piece = buffers.take(step.length)
              assert.isAtLeast(piece.memory.length, step.length)
              assert.isFalse(
                held.some((other) => other.piece === piece),
                "it is somebody else's"
              )
              piece.memory.fill(255)
              held.push({ piece, name: undefined })
              break
            }
            case "name": {
              const own = held.filter(({ name }) => name === undefined)
              const one = own[step.at % Math.max(1, own.length)]
              if (one === undefined) break
              // What a name stands for is its own number, all over the piece.
              one.piece.memory.fill(step.name)
              one.name = step.name
              buffers.name(one.piece, String(step.name), step.expected)
              break
            }
            case "find": {
              const piece = buffers.find(String(step.name))
              if (piece === undefined) break
              assert.isTrue(piece.memory.every((byte) => byte === step.name))
              held.push({ piece, name: step.name })
              break
            }
            case "give": {
              const [one] = held.splice(step.at % Math.max(1, held.length), 1)
              if (one !== undefined) buffers.give(one.piece)
            }
          }
          for (const { name, piece } of held) {
            if (name !== undefined) assert.strictEqual(piece.memory[piece.memory.length - 1], name)
          }
        }
      }),
      { numRuns: 300 }
    )
  })

  it("finds what was named and given back, until its memory is taken for something else", () => {
    const buffers = Buffers.make(kept)
    const piece = buffers.take(100)
    buffers.name(piece, "a", true)
    buffers.give(piece)
    const found = buffers.find("a")
    assert.strictEqual(found, piece)
    assert.notStrictEqual(buffers.take(100), piece)
    // Now that it was found, nobody else is expected to come for it.
    if (found !== undefined) buffers.give(found)
    assert.strictEqual(buffers.take(100), piece)
    assert.isUndefined(buffers.find("a"))
  })

  it("takes what was given back longest ago first", () => {
    const buffers = Buffers.make(kept)
    const [first, second] = [buffers.take(1), buffers.take(1)]
    buffers.name(first, "first", false)
    buffers.name(second, "second", false)
    buffers.give(second)
    buffers.give(first)
    assert.strictEqual(buffers.take(1), second)
    assert.strictEqual(buffers.find("first"), first)
  })

  it("takes what was found already before what somebody is still to come for, however long that has waited", () => {
    const buffers = Buffers.make(kept)
    const pieces = Array.from({ length: 4 }, () => buffers.take(1))
    for (const [at, piece] of pieces.entries()) {
      buffers.name(piece, String(at), true)
      buffers.give(piece)
    }
    const [oldest, ...others] = pieces
    for (const at of [2, 3]) {
      const found = buffers.find(String(at))
      if (found !== undefined) buffers.give(found)
    }
    assert.strictEqual(buffers.take(1), others[1])
    assert.strictEqual(buffers.take(1), others[2])
    assert.strictEqual(buffers.take(1), oldest)
    assert.strictEqual(buffers.find("1"), others[0])
  })

  it("takes one that nobody comes for, if it is less than twice as large", () => {
    const buffers = Buffers.make(kept)
    const piece = buffers.take(1.75 * 2 ** 16)
    buffers.give(piece)
    assert.strictEqual(buffers.take(1), piece)
    buffers.give(piece)
    const larger = buffers.take(2 ** 17)
    assert.notStrictEqual(larger, piece)
    buffers.take(1)
    buffers.give(larger)
    assert.notStrictEqual(buffers.take(1), larger)
  })

  it("has pieces of which no more than a fifth is left over, four sizes from one power of two to the next", () => {
    const buffers = Buffers.make(kept)
    // 300,000 bytes in five quarters of 2 ** 18.
    assert.strictEqual(buffers.take(300_000).memory.length, 5 * 2 ** 16)
    FastCheck.assert(
      FastCheck.property(FastCheck.integer({ min: 2 ** 16, max: 2 ** 22 }), (length) => {
        const size = Buffers.make(kept).take(length).memory.length
        assert.isTrue(size >= length && size <= 1.25 * length)
      })
    )
  })

  it("has one memory for all sizes, and drops as many as it takes of those that nobody comes for", () => {
    const buffers = Buffers.make(kept)
    const pieces = Array.from({ length: 4 }, () => buffers.take(1))
    const block = pieces[0]?.memory.buffer
    for (const piece of pieces) {
      assert.strictEqual(piece.memory.buffer, block)
      buffers.give(piece)
    }
    const whole = buffers.take(kept)
    assert.strictEqual(whole.memory.buffer, block)
    assert.strictEqual(whole.memory.length, kept)
    // While all is held, who takes something all the same gets memory of its own, and it is not kept.
    const beyond = buffers.take(1)
    assert.notStrictEqual(beyond.memory.buffer, block)
    buffers.give(whole)
    buffers.give(beyond)
    assert.notStrictEqual(buffers.take(1), beyond)
  })

  it.effect("keeps half of its room for those who come, whatever is expected", () =>
    Effect.gen(function* () {
      const buffers = Buffers.make(kept)
      const hasRoom = Effect.map(Effect.timeoutOption(buffers.room, 0), Option.isSome)
      const pieces = Array.from({ length: 4 }, () => buffers.take(1))
      assert.isFalse(yield* hasRoom)
      const [first, second, third] = pieces
      for (const [at, piece] of [first, second, third].entries()) {
        if (piece === undefined) continue
        buffers.name(piece, String(at), true)
        buffers.give(piece)
      }
      // One is held; of the three that are expected, two count.
      assert.isTrue(yield* hasRoom)
      assert.strictEqual(buffers.take(1), first)
      assert.isFalse(yield* hasRoom)
      const found = buffers.find("1")
      assert.strictEqual(found, second)
      if (found !== undefined) buffers.give(found)
      assert.isTrue(yield* hasRoom)
    })
  )

  it("keeps no more than it may", () => {
    const buffers = Buffers.make(kept)
    const pieces = Array.from({ length: 6 }, () => buffers.take(2 ** 16))
    for (const [at, piece] of pieces.entries()) {
      buffers.name(piece, String(at), true)
      buffers.give(piece)
    }
    // While the others were held there was no place for the first two.
    assert.deepStrictEqual(
      pieces.map((_, at) => buffers.find(String(at)) !== undefined),
      [false, false, true, true, true, true]
    )
  })

  it("drops what is free for what is needed in another size", () => {
    const buffers = Buffers.make(kept)
    const pieces = Array.from({ length: 4 }, () => buffers.take(1))
    for (const [at, piece] of pieces.entries()) {
      buffers.name(piece, String(at), true)
      buffers.give(piece)
    }
    buffers.take(2 ** 17)
    assert.deepStrictEqual(
      pieces.map((_, at) => buffers.find(String(at)) !== undefined),
      [false, false, true, true]
    )
  })

  it.effect("makes whoever comes wait while all is held, in the order of their coming", () =>
    Effect.gen(function* () {
      const buffers = Buffers.make(2 * 2 ** 16)
      const [first, second] = [buffers.take(1), buffers.take(1)]
      const order: Array<number> = []
      const fibers = yield* Effect.forEach([0, 1, 2], (index) =>
        Effect.fork(
          Effect.uninterruptibleMask((restore) =>
            Effect.map(restore(buffers.room), () => {
              order.push(index)
              return buffers.take(1)
            })
          )
        )
      )
      yield* Effect.yieldNow()
      assert.deepStrictEqual(order, [])
      buffers.give(first)
      yield* Effect.yieldNow()
      assert.deepStrictEqual(order, [0])
      // One that goes away does not keep its turn.
      const [, gone, last] = fibers
      if (gone !== undefined) yield* Fiber.interrupt(gone)
      buffers.give(second)
      if (last !== undefined) yield* Fiber.join(last)
      assert.deepStrictEqual(order, [0, 2])
    })
  )

  it.effect("passes the turn on wherever somebody who waits is interrupted", () =>
    Effect.forEach(
      Array.from({ length: 12 }, (_, at) => at),
      (yields) =>
        Effect.gen(function* () {
          const buffers = Buffers.make(2 ** 16)
          const only = buffers.take(1)
          const use = Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(restore(buffers.room), () => {
              const piece = buffers.take(1)
              return Effect.ensuring(
                restore(Effect.yieldNow()),
                Effect.sync(() => buffers.give(piece))
              )
            })
          )
          const first = yield* Effect.fork(use)
          const others = yield* Effect.forEach([1, 2, 3], () => Effect.fork(use))
          yield* Effect.yieldNow()
          buffers.give(only)
          for (let at = 0; at < yields; at++) yield* Effect.yieldNow()
          yield* Fiber.interrupt(first)
          yield* Fiber.joinAll(others)
          assert.isTrue(Option.isSome(yield* Effect.timeoutOption(buffers.room, 0)))
        }),
      { discard: true }
    )
  )
})
