/**
 * Memory that is used again, in pieces of a few sizes. What is in a piece that nobody holds can be found by its name until
 * the piece is taken for something else: memory that has to be kept anyway serves as a cache.
 */

const smallest = 2 ** 16

/** Larger ones are made for their one use. */
const largest = 2 ** 22

/** A piece, held by somebody or free. Each `take` and each `find` is one hold, and is due one `give`. */
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
  /** At least so many bytes, with anything in them, for one holder. */
  readonly take: (length: number) => Piece
  /** The piece that was named so, if it is still there: to be read, whoever else reads it. */
  readonly find: (name: string) => Piece | undefined
  /** From now on the piece holds what the name stands for: nobody writes to it any more. */
  readonly name: (piece: Piece, name: string) => void
  readonly give: (piece: Piece) => void
}

/** Keeps no more than `kept` bytes that nobody uses. */
export const make = (kept: number): Buffers => {
  /** By size; in each, the one that was given back longest ago comes first. */
  const free = new Map<number, Set<Piece>>()
  const byName = new Map<string, Piece>()
  let idle = 0
  const forget = (piece: Piece) => {
    if (piece.name !== undefined) byName.delete(piece.name)
    piece.name = undefined
  }
  const hold = (piece: Piece) => {
    piece.holders += 1
    if (piece.holders > 1) return
    idle -= piece.memory.length
    free.get(piece.memory.length)?.delete(piece)
  }
  return {
    take: (length) => {
      if (length > largest) return new Piece(new Uint8Array(length))
      const size = Math.max(smallest, 2 ** Math.ceil(Math.log2(Math.max(1, length))))
      for (const piece of free.get(size) ?? []) {
        hold(piece)
        forget(piece)
        return piece
      }
      return new Piece(new Uint8Array(size))
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
      piece.holders -= 1
      if (piece.holders > 0) return
      const size = piece.memory.length
      if (size > largest || idle + size > kept) return forget(piece)
      idle += size
      const same = free.get(size)
      if (same === undefined) free.set(size, new Set([piece]))
      else same.add(piece)
    }
  }
}
