/** Memory that is used again, in pieces of a few sizes: what is read and forgotten at once need not be made each time. */

const smallest = 2 ** 16

/** Larger ones are made for their one use. */
const largest = 2 ** 22

export interface Buffers {
  /** At least so many bytes, with anything in them. */
  readonly take: (length: number) => Uint8Array
  readonly give: (buffer: Uint8Array) => void
}

/** Keeps no more than `kept` bytes that nobody uses. */
export const make = (kept: number): Buffers => {
  const free = new Map<number, Array<Uint8Array>>()
  let idle = 0
  return {
    take: (length) => {
      if (length > largest) return new Uint8Array(length)
      const size = Math.max(smallest, 2 ** Math.ceil(Math.log2(Math.max(1, length))))
      const found = free.get(size)?.pop()
      if (found === undefined) return new Uint8Array(size)
      idle -= size
      return found
    },
    give: (buffer) => {
      const size = buffer.length
      if (size > largest || idle + size > kept) return
      idle += size
      const same = free.get(size)
      if (same === undefined) free.set(size, [buffer])
      else same.push(buffer)
    }
  }
}
