/**
 * Memory that is used again, in pieces of a few sizes. What is in a piece that nobody holds can be found by its name until
 * the piece is taken for something else: memory that has to be kept anyway serves as a cache.
 */
import * as Effect from "effect/Effect"
import * as Blocks from "./blocks.js"

const smallest = 2 ** 16

/** Larger ones are made for their one use. */
const largest = 2 ** 22

/** The sizes: four from one power of two to the next, so that no more than a fifth of one that fits is left over. */
const sizeFor = (length: number): number => {
  if (length <= smallest) return smallest
  const step = 2 ** (Math.floor(Math.log2(length - 1)) - 2)
  return Math.ceil(length / step) * step
}

/** A piece, held by somebody or free. Each `take` and each `find` is one hold, and is due one `give`. */
export class Piece {
  /** Bytes in it that mean something. */
  length = 0
  /** Of `Buffers` alone. */
  holders = 1
  /** Of `Buffers` alone. */
  name: string | undefined
  /** Of `Buffers` alone: whether somebody is still to come for what is in it. */
  expected = false
  constructor(
    readonly memory: Uint8Array,
    /** Of `Buffers` alone: whether the memory is no part of a block. It is not used again. */
    readonly apart: boolean
  ) {}
}

export interface Buffers {
  /**
   * Waits until less than the limit is held, or expected by somebody, which counts for no more than half of it. A thousand
   * things that come at once then wait for their turn with nothing in their hands, and take nothing away from those that
   * are further on. What follows has to take at once: run it where nothing interrupts, and this where something may.
   */
  readonly room: Effect.Effect<void>
  /** At least so many bytes, with anything in them, for one holder; whether there is room or not. */
  readonly take: (length: number) => Piece
  /** The piece that was named so, if it is still there: to be read, whoever else reads it. */
  readonly find: (name: string) => Piece | undefined
  /**
   * From now on the piece holds what the name stands for: nobody writes to it any more. What is expected to be found is
   * kept when it is free, before what was found already.
   */
  readonly name: (piece: Piece, name: string, expected: boolean) => void
  /** The last one's is due when nothing reads or writes the memory any more. */
  readonly give: (piece: Piece) => void
}

/** Keeps no more than `limit` bytes, and waits with `room` while so many are held. */
export const make = (limit: number): Buffers => {
  const blocks = Blocks.make(limit)
  /** Free pieces by size; in each set, the one that was given back longest ago comes first. */
  const spent = new Map<number, Set<Piece>>()
  const expected = new Map<number, Set<Piece>>()
  const byName = new Map<string, Piece>()
  const waiting = new Set<() => void>()
  /** Bytes that somebody holds, that are free, and those of the free that are expected. */
  let held = 0
  let idle = 0
  let idleExpected = 0

  const forget = (piece: Piece) => {
    if (piece.name !== undefined) byName.delete(piece.name)
    piece.name = undefined
  }
  const enter = (piece: Piece) => {
    const size = piece.memory.length
    const free = piece.expected ? expected : spent
    const same = free.get(size)
    if (same === undefined) free.set(size, new Set([piece]))
    else same.add(piece)
    idle += size
    if (piece.expected) idleExpected += size
  }
  const leave = (piece: Piece) => {
    const size = piece.memory.length
    ;(piece.expected ? expected : spent).get(size)?.delete(piece)
    idle -= size
    if (piece.expected) idleExpected -= size
  }
  const drop = (piece: Piece) => {
    leave(piece)
    forget(piece)
    blocks.give(piece.memory)
  }
  /** Drops what is free until all is within the limit, what nobody comes for first. */
  const shrink = () => {
    for (const free of [spent, expected]) {
      for (const pieces of free.values()) {
        for (const piece of pieces) {
          if (held + idle <= limit) return
          drop(piece)
        }
      }
    }
  }
  /** Memory of the blocks, if need be in the place of what nobody comes for; of its own, if that is too scattered. */
  const made = (size: number): Piece => {
    if (size > largest) return new Piece(new Uint8Array(size), true)
    const found = blocks.take(size)
    if (found !== undefined) return new Piece(found, false)
    for (const pieces of spent.values()) {
      for (const piece of pieces) {
        drop(piece)
        const part = blocks.take(size)
        if (part !== undefined) return new Piece(part, false)
      }
    }
    return new Piece(new Uint8Array(size), true)
  }
  const hasRoom = () => held + Math.min(idleExpected, limit / 2) < limit
  const wake = () => {
    if (!hasRoom()) return
    for (const resume of waiting) {
      waiting.delete(resume)
      return resume()
    }
  }
  const hold = (piece: Piece): Piece => {
    if (piece.holders === 0) {
      leave(piece)
      held += piece.memory.length
    }
    piece.holders += 1
    return piece
  }
  const reuse = (piece: Piece): Piece => {
    hold(piece)
    forget(piece)
    piece.expected = false
    return piece
  }
  const allocate = (size: number): Piece => {
    held += size
    shrink()
    return made(size)
  }
  const oldest = (free: Map<number, Set<Piece>>, size: number): Piece | undefined => {
    for (const piece of free.get(size) ?? []) return piece
    return undefined
  }
  /** Whether that was the last hold. */
  const released = (piece: Piece): boolean => {
    piece.holders -= 1
    if (piece.holders > 0) return false
    held -= piece.memory.length
    return true
  }
  return {
    room: Effect.suspend(() =>
      hasRoom() && waiting.size === 0
        ? Effect.void
        : Effect.async<void>((resume) => {
            let woken = false
            const waiter = () => {
              woken = true
              resume(Effect.void)
            }
            waiting.add(waiter)
            wake()
            return Effect.sync(() => {
              waiting.delete(waiter)
              // Interrupted between the call and its use: it goes on to the next.
              if (woken) wake()
            })
          })
    ),
    take: (length) => {
      if (length > largest) return allocate(length)
      const size = sizeFor(length)
      for (let larger = size; larger < 2 * size; larger = sizeFor(larger + 1)) {
        const piece = oldest(spent, larger)
        if (piece !== undefined) return reuse(piece)
      }
      // A new one, as long as there is memory for it beside what somebody comes for.
      const fits = held + idleExpected + size <= limit
      const piece = fits ? undefined : oldest(expected, size)
      return piece === undefined ? allocate(size) : reuse(piece)
    },
    find: (name) => {
      const piece = byName.get(name)
      if (piece === undefined) return undefined
      hold(piece)
      piece.expected = false
      return piece
    },
    name: (piece, name, isExpected) => {
      // One of that name is enough, and the newest stays longest.
      const before = byName.get(name)
      if (before !== undefined) {
        forget(before)
        if (before.holders === 0) leave(before)
        before.expected = false
        if (before.holders === 0) enter(before)
      }
      forget(piece)
      piece.name = name
      piece.expected = isExpected
      byName.set(name, piece)
    },
    give: (piece) => {
      if (!released(piece)) return
      if (piece.name === undefined) piece.expected = false
      // Memory of its own is kept no longer than for who comes for it, and not at all if there is much of it.
      if (piece.memory.length > largest || (piece.apart && !piece.expected)) forget(piece)
      else {
        enter(piece)
        shrink()
      }
      wake()
    }
  }
}
