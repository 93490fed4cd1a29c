/**
 * Memory that is used again, in pieces of a few sizes. What is in a piece that nobody holds can be found by its name until
 * the piece is taken for something else: memory that has to be kept anyway serves as a cache.
 */
import * as Effect from "effect/Effect"

const smallest = 2 ** 16

/** Larger ones are made for their one use. */
const largest = 2 ** 22

/** A piece, held by somebody or free. Each `take` and each `find` is one hold, and is due one `give` or `lose`. */
export class Piece {
  /** Bytes in it that mean something. */
  length = 0
  /** Of `Buffers` alone. */
  holders = 1
  /** Of `Buffers` alone. */
  name: string | undefined
  constructor(readonly memory: Uint8Array) {}
}

export interface Buffers {
  /**
   * Waits until less than the limit is held. A thousand things that come at once then wait for their turn with nothing in
   * their hands, and do not each hold memory while they hinder each other. What follows has to take at once: run it where
   * nothing interrupts, and this where something may.
   */
  readonly room: Effect.Effect<void>
  /** At least so many bytes, with anything in them, for one holder; whether there is room or not. */
  readonly take: (length: number) => Piece
  /** The piece that was named so, if it is still there: to be read, whoever else reads it. */
  readonly find: (name: string) => Piece | undefined
  /** From now on the piece holds what the name stands for: nobody writes to it any more. */
  readonly name: (piece: Piece, name: string) => void
  readonly give: (piece: Piece) => void
  /** Gives back the hold and not the memory, which something may still read or write. */
  readonly lose: (piece: Piece) => void
}

/** Keeps no more than `limit` bytes, and waits with `room` while so many are held. */
export const make = (limit: number): Buffers => {
  /** By size; in each, the one that was given back longest ago comes first. */
  const free = new Map<number, Set<Piece>>()
  const byName = new Map<string, Piece>()
  const waiting = new Set<() => void>()
  /** Bytes that somebody holds, and bytes that are free. */
  let held = 0
  let idle = 0

  const forget = (piece: Piece) => {
    if (piece.name !== undefined) byName.delete(piece.name)
    piece.name = undefined
  }
  const hold = (piece: Piece) => {
    piece.holders += 1
    if (piece.holders > 1) return
    idle -= piece.memory.length
    held += piece.memory.length
    free.get(piece.memory.length)?.delete(piece)
  }
  /** Drops what is free until all is within the limit. */
  const shrink = () => {
    for (const pieces of free.values()) {
      for (const piece of pieces) {
        if (held + idle <= limit) return
        pieces.delete(piece)
        idle -= piece.memory.length
        forget(piece)
      }
    }
  }
  const allocate = (size: number): Piece => {
    held += size
    shrink()
    return new Piece(new Uint8Array(size))
  }
  const wake = () => {
    for (const resume of waiting) {
      waiting.delete(resume)
      return resume()
    }
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
      held < limit && waiting.size === 0
        ? Effect.void
        : Effect.async<void>((resume) => {
            let woken = false
            const waiter = () => {
              woken = true
              resume(Effect.void)
            }
            waiting.add(waiter)
            if (held < limit) wake()
            return Effect.sync(() => {
              waiting.delete(waiter)
              // Interrupted between the call and its use: it goes on to the next.
              if (woken) wake()
            })
          })
    ),
    take: (length) => {
      if (length > largest) return allocate(length)
      const size = Math.max(smallest, 2 ** Math.ceil(Math.log2(Math.max(1, length))))
      for (const piece of free.get(size) ?? []) {
        hold(piece)
        forget(piece)
        return piece
      }
      return allocate(size)
    },
    find: (name) => {
      const piece = byName.get(name)
      if (piece !== undefined) hold(piece)
      return piece
    },
    name: (piece, name) => {
      // One of that name is enough, and the newest stays longest.
      const before = byName.get(name)
      if (before !== undefined) forget(before)
      forget(piece)
      piece.name = name
      byName.set(name, piece)
    },
    give: (piece) => {
      if (!released(piece)) return
      const size = piece.memory.length
      if (size > largest || held + idle + size > limit) forget(piece)
      else {
        idle += size
        const same = free.get(size)
        if (same === undefined) free.set(size, new Set([piece]))
        else same.add(piece)
      }
      if (held < limit) wake()
    },
    lose: (piece) => {
      forget(piece)
      if (released(piece) && held < limit) wake()
    }
  }
}
