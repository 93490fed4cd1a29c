/**
 * A few large blocks of memory, given out in parts. Parts that were asked of the allocator one by one would lie between
 * all else that a process asks it for, and leave holes there which nothing fits.
 */

/** So large that the system gives the pages of a block only when they are first written to. */
const blockBytes = 2 ** 24

interface Range {
  from: number
  to: number
}

interface Block {
  readonly memory: ArrayBuffer
  /** What nobody has of it, in order, no two of them side by side. */
  readonly free: Array<Range>
}

export interface Blocks {
  /** So many bytes, at the lowest place where there are as many together; undefined where there are not. */
  readonly take: (length: number) => Uint8Array | undefined
  /** Takes a part back that nobody uses any more. One that is of no block is not looked at. */
  readonly give: (part: Uint8Array) => void
}

/** No more than `limit` bytes in all. */
export const make = (limit: number): Blocks => {
  const blocks: Array<Block> = []
  let reserved = 0

  const takeFrom = ({ free, memory }: Block, length: number): Uint8Array | undefined => {
    const at = free.findIndex(({ from, to }) => to - from >= length)
    const range = free[at]
    if (range === undefined) return undefined
    const { from } = range
    range.from += length
    if (range.from === range.to) free.splice(at, 1)
    return new Uint8Array(memory, from, length)
  }
  const reserve = (): Block => {
    const length = Math.min(blockBytes, limit - reserved)
    reserved += length
    const block = { memory: new ArrayBuffer(length), free: [{ from: 0, to: length }] }
    blocks.push(block)
    return block
  }
  return {
    take: (length) => {
      for (const block of blocks) {
        const part = takeFrom(block, length)
        if (part !== undefined) return part
      }
      return Math.min(blockBytes, limit - reserved) < length ? undefined : takeFrom(reserve(), length)
    },
    give: ({ buffer, byteOffset, length }) => {
      const free = blocks.find(({ memory }) => memory === buffer)?.free
      if (free === undefined) return
      const next = free.findIndex(({ from }) => from > byteOffset)
      const at = next < 0 ? free.length : next
      const [before, after] = [free[at - 1], free[at]]
      const range = { from: byteOffset, to: byteOffset + length }
      const joins = { before: before?.to === range.from, after: after?.from === range.to }
      if (before !== undefined && joins.before) range.from = before.from
      if (after !== undefined && joins.after) range.to = after.to
      free.splice(joins.before ? at - 1 : at, Number(joins.before) + Number(joins.after), range)
    }
  }
}
