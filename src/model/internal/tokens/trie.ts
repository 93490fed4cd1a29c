/**
 * Finds, among token sequences, the longest that begins another. A shared beginning is stored once, and as a reference
 * to the sequence that brought it: no token is copied.
 */

/** A prompt and what was generated after it, as one sequence. */
export interface Cumulative {
  readonly promptTokenIds: ReadonlyArray<number>
  readonly generationTokenIds: ReadonlyArray<number>
}

/** A stretch of tokens that nothing branches off, and what follows it. */
interface Node<A> {
  /** The sequence that the stretch is read from, and where in it the stretch begins and ends. */
  readonly of: Cumulative
  readonly from: number
  to: number
  /** By the first token of their stretch. */
  next: Map<number, Node<A>>
  /** What ends exactly here. */
  values: Array<A>
}

const lengthOf = (sequence: Cumulative): number => sequence.promptTokenIds.length + sequence.generationTokenIds.length

const tokenAt = (sequence: Cumulative, at: number): number | undefined => {
  const prompt = sequence.promptTokenIds
  return at < prompt.length ? prompt[at] : sequence.generationTokenIds[at - prompt.length]
}

/** How many tokens two sequences share from `at` on, `end` at the most. */
const shared = (a: Cumulative, b: Cumulative, at: number, end: number): number => {
  let to = at
  while (to < end && tokenAt(a, to) === tokenAt(b, to)) to++
  return to
}

export interface Trie<A> {
  readonly insert: (sequence: Cumulative, value: A) => void
  /** The values of the longest sequence that is all of `tokens` or a beginning of it; none where there is no such. */
  readonly longestPrefix: (tokens: ReadonlyArray<number>) => ReadonlyArray<A>
}

/** Time is linear in the tokens that are put in and looked up. */
export const makeTrie = <A>(): Trie<A> => {
  const nothing: Cumulative = { promptTokenIds: [], generationTokenIds: [] }
  const root: Node<A> = { of: nothing, from: 0, to: 0, next: new Map(), values: [] }

  const split = (node: Node<A>, at: number): void => {
    const first = tokenAt(node.of, at)
    if (first === undefined) return
    const rest: Node<A> = { of: node.of, from: at, to: node.to, next: node.next, values: node.values }
    node.to = at
    node.next = new Map([[first, rest]])
    node.values = []
  }

  return {
    insert: (sequence, value) => {
      const length = lengthOf(sequence)
      let node = root
      for (;;) {
        const first = tokenAt(sequence, node.to)
        if (first === undefined) break
        const next = node.next.get(first)
        if (next === undefined) {
          node.next.set(first, { of: sequence, from: node.to, to: length, next: new Map(), values: [value] })
          return
        }
        // Stretches lie at the same place in every sequence that has them, so one index serves both.
        const to = shared(next.of, sequence, next.from, Math.min(next.to, length))
        if (to < next.to) split(next, to)
        node = next
      }
      node.values.push(value)
    },
    longestPrefix: (tokens) => {
      const sequence: Cumulative = { promptTokenIds: tokens, generationTokenIds: [] }
      let found: ReadonlyArray<A> = root.values
      let node = root
      for (;;) {
        const first = tokens[node.to]
        const next = first === undefined ? undefined : node.next.get(first)
        if (next === undefined || next.to > tokens.length) return found
        if (shared(next.of, sequence, next.from, next.to) < next.to) return found
        if (next.values.length > 0) found = next.values
        node = next
      }
    }
  }
}
