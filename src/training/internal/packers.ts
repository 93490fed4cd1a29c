/**
 * Bin packing over lengths that were checked: whole, above 0, at most the capacity.
 */

export const concatenative = (lengths: ReadonlyArray<number>, capacity: number): Array<Array<number>> => {
  const bins: Array<Array<number>> = []
  let bin: Array<number> = []
  let filled = 0
  for (const [row, length] of lengths.entries()) {
    if (bin.length > 0 && filled + length > capacity) {
      bins.push(bin)
      bin = []
      filled = 0
    }
    bin.push(row)
    filled += length
  }
  if (bin.length > 0) bins.push(bin)
  return bins
}

/** Rows in `order`, each into the first bin with room. A tree over the bins' room finds it in logarithmic time. */
export const firstFit = (
  lengths: ReadonlyArray<number>,
  order: ArrayLike<number>,
  capacity: number
): Array<Array<number>> => {
  const bins: Array<Array<number>> = []
  let leaves = 1
  while (leaves < order.length) leaves *= 2
  // Bins that are not open yet have all their room, so the first of them is what a new bin is.
  const room = new Float64Array(2 * leaves).fill(capacity)
  for (let at = 0; at < order.length; at++) {
    const row = order[at] ?? 0
    const length = lengths[row] ?? 0
    let node = 1
    while (node < leaves) {
      node *= 2
      if ((room[node] ?? 0) < length) node++
    }
    const bin = bins[node - leaves]
    if (bin === undefined) bins.push([row])
    else bin.push(row)
    room[node] = (room[node] ?? 0) - length
    for (node = Math.floor(node / 2); node >= 1; node = Math.floor(node / 2)) {
      room[node] = Math.max(room[2 * node] ?? 0, room[2 * node + 1] ?? 0)
    }
  }
  return bins
}

/**
 * Rows in an order by length from which some are taken: the nearest that is left, on either side of a place, in almost
 * constant time.
 */
class Shelf {
  private readonly after: Int32Array
  private readonly before: Int32Array
  private left: number
  constructor(
    readonly rows: Int32Array,
    private readonly lengths: ReadonlyArray<number>
  ) {
    this.left = rows.length
    // Places are counted from 1, so that both ends have one of their own.
    this.after = Int32Array.from({ length: rows.length + 2 }, (_, place) => place)
    this.before = Int32Array.from({ length: rows.length + 2 }, (_, place) => place)
  }
  get count(): number {
    return this.left
  }
  lengthAt(place: number): number {
    return this.lengths[this.rows[place - 1] ?? -1] ?? 0
  }
  /** The first place from `place` on that is left; `rows.length + 1` where there is none. */
  from(place: number): number {
    return find(this.after, place)
  }
  /** The last place up to `place` that is left; 0 where there is none. */
  upTo(place: number): number {
    return find(this.before, place)
  }
  take(place: number): number {
    this.left--
    this.after[place] = place + 1
    this.before[place] = place - 1
    return this.rows[place - 1] ?? -1
  }
  remaining(): Array<number> {
    const rows: Array<number> = []
    for (let place = this.from(1); place <= this.rows.length; place = this.from(place + 1)) {
      rows.push(this.rows[place - 1] ?? -1)
    }
    return rows
  }
  /** The first place whose length is at most `most`, where lengths fall. */
  firstAtMost(most: number): number {
    return this.search((place) => this.lengthAt(place) <= most)
  }
  /** The last place whose length is at most `most`, where lengths rise. */
  lastAtMost(most: number): number {
    return this.search((place) => this.lengthAt(place) > most) - 1
  }
  /** The first place from which on it holds, `rows.length + 1` where it never does. */
  private search(holds: (place: number) => boolean): number {
    let low = 1
    let high = this.rows.length + 1
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (holds(middle)) high = middle
      else low = middle + 1
    }
    return low
  }
}

/** The end of a path of places that were taken; halves it on the way. */
const find = (next: Int32Array, place: number): number => {
  let at = place
  for (;;) {
    const step = next[at] ?? at
    if (step === at) return at
    const further = next[step] ?? step
    next[at] = further
    at = further
  }
}

/** Bins by how full they are; of bins that are as full, the one that was filled first. */
class LeastFilled {
  private readonly heap: Array<{ readonly filled: number; readonly stamp: number; readonly bin: Array<number> }> = []
  private stamps = 0
  least(): number | undefined {
    return this.heap[0]?.filled
  }
  push(filled: number, bin: Array<number>): void {
    const entry = { filled, stamp: this.stamps++, bin }
    let at = this.heap.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = this.heap[parent]
      if (above === undefined || !before(entry, above)) break
      this.heap[at] = above
      at = parent
    }
    this.heap[at] = entry
  }
  pop(): { readonly filled: number; readonly bin: Array<number> } | undefined {
    const [top] = this.heap
    const last = this.heap.pop()
    if (last === undefined || this.heap.length === 0) return top
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      let lower = this.heap[child]
      const right = this.heap[child + 1]
      if (lower !== undefined && right !== undefined && before(right, lower)) {
        child++
        lower = right
      }
      if (lower === undefined || !before(lower, last)) break
      this.heap[at] = lower
      at = child
    }
    this.heap[at] = last
    return top
  }
  /** All bins, the least filled first. */
  bins(): Array<Array<number>> {
    return this.heap.toSorted((a, b) => a.filled - b.filled || a.stamp - b.stamp).map(({ bin }) => bin)
  }
}

interface Filled {
  readonly filled: number
  readonly stamp: number
}

const before = (a: Filled, b: Filled): boolean => a.filled < b.filled || (a.filled === b.filled && a.stamp < b.stamp)

export const modifiedFirstFitDecreasing = (lengths: ReadonlyArray<number>, capacity: number): Array<Array<number>> => {
  const of = (row: number): number => lengths[row] ?? 0
  const classes = { large: [] as number[], medium: [] as number[], small: [] as number[], tiny: [] as number[] }
  for (const [row, length] of lengths.entries()) {
    if (length > capacity / 2) classes.large.push(row)
    else if (length > capacity / 3) classes.medium.push(row)
    else if (length > capacity / 6) classes.small.push(row)
    else classes.tiny.push(row)
  }
  // Sorts are stable: of rows of the same length the earlier one stays first.
  const falling = (rows: Array<number>) => rows.sort((a, b) => of(b) - of(a))
  const rising = (rows: Array<number>) => rows.sort((a, b) => of(a) - of(b))

  const bins = falling(classes.large).map((row) => ({ rows: [row], room: capacity - of(row), medium: false }))
  const put = (bin: { readonly rows: Array<number>; room: number }, row: number): void => {
    bin.rows.push(row)
    bin.room -= of(row)
  }

  const medium = new Shelf(Int32Array.from(falling(classes.medium)), lengths)
  for (const bin of bins) {
    const place = medium.from(medium.firstAtMost(bin.room))
    if (place > medium.rows.length) continue
    put(bin, medium.take(place))
    bin.medium = true
  }

  const small = new Shelf(Int32Array.from(rising(classes.small)), lengths)
  for (const bin of bins.toReversed()) {
    if (bin.medium || small.count < 2) continue
    const first = small.from(1)
    const second = small.from(first + 1)
    if (small.lengthAt(first) + small.lengthAt(second) > bin.room) continue
    put(bin, small.take(first))
    put(bin, small.take(small.upTo(small.lastAtMost(bin.room))))
  }

  const rest = new Shelf(
    Int32Array.from(falling([...medium.remaining(), ...small.remaining(), ...rising(classes.tiny)])),
    lengths
  )
  for (const bin of bins) {
    while (rest.count > 0) {
      const place = rest.from(rest.firstAtMost(bin.room))
      if (place > rest.rows.length) break
      put(bin, rest.take(place))
    }
  }

  const left = new LeastFilled()
  for (const row of rest.remaining()) {
    const least = left.least()
    const open = least !== undefined && of(row) <= capacity - least ? left.pop() : undefined
    const bin = open?.bin ?? []
    bin.push(row)
    left.push((open?.filled ?? 0) + of(row), bin)
  }
  return [...bins.map(({ rows }) => rows), ...left.bins()]
}
