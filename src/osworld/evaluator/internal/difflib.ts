/**
 * How alike two sequences are as Python's `difflib.SequenceMatcher` says it, its "autojunk" included: twice the number of
 * elements in matching blocks by the number of all elements. Blocks are found greedily, the longest first, so the value
 * is not symmetric, and no other similarity can stand in for it.
 */
import * as Either from "effect/Either"

/** Comparisons of elements: a second's worth. Hostile sequences would take the cube of their length. */
const maxSteps = 50_000_000

/** From this length on, elements that make up more than a hundredth of the second sequence start no block. */
const autojunkFrom = 200

/** Where each element stands in the second sequence, as far as it may start a block. */
const positions = (b: Int32Array, kinds: number): ReadonlyArray<ReadonlyArray<number>> => {
  const found: Array<Array<number>> = Array.from({ length: kinds }, () => [])
  for (const [j, element] of b.entries()) found[element]?.push(j)
  const most = b.length >= autojunkFrom ? Math.floor(b.length / 100) + 1 : b.length
  return found.map((places) => (places.length > most ? [] : places))
}

/** The first index whose value is at least `low`. */
const lowerBound = (values: ReadonlyArray<number>, low: number): number => {
  let from = 0
  let to = values.length
  while (from < to) {
    const middle = (from + to) >> 1
    if ((values[middle] ?? 0) < low) from = middle + 1
    else to = middle
  }
  return from
}

const numbered = (sequences: ReadonlyArray<ReadonlyArray<string>>) => {
  const numbers = new Map<string, number>()
  const encoded = sequences.map((sequence) =>
    Int32Array.from(sequence, (element) => {
      const known = numbers.get(element)
      if (known !== undefined) return known
      numbers.set(element, numbers.size)
      return numbers.size - 1
    })
  )
  return { encoded, kinds: numbers.size }
}

/** `Left` when the two are too long and too unlike each other to be compared in reasonable time. */
export const ratio = (
  first: ReadonlyArray<string>,
  second: ReadonlyArray<string>,
  allowed: number = maxSteps
): Either.Either<number, string> => {
  const total = first.length + second.length
  if (total === 0) return Either.right(1)
  const { encoded, kinds } = numbered([first, second])
  const [a = new Int32Array(), b = new Int32Array()] = encoded
  const places = positions(b, kinds)

  // The length of the block that ends at an element of `b`, in this row and the one before; a length counts only when its
  // row says so, which saves clearing them.
  const rows = [0, 1].map(() => ({ length: new Int32Array(b.length + 1), row: new Int32Array(b.length + 1) }))
  let row = 0
  let steps = 0
  let matched = 0
  const waiting: Array<readonly [number, number, number, number]> = [[0, a.length, 0, b.length]]
  for (let region = waiting.pop(); region !== undefined; region = waiting.pop()) {
    const [aLow, aHigh, bLow, bHigh] = region
    let bestA = aLow
    let bestB = bLow
    let size = 0
    row++
    for (let i = aLow; i < aHigh; i++) {
      row++
      const current = rows[row & 1]
      const before = rows[(row + 1) & 1]
      const candidates = places[a[i] ?? 0] ?? []
      if (++steps > allowed || current === undefined || before === undefined) {
        return Either.left(`sequences of ${a.length} and ${b.length} elements are too long to be compared`)
      }
      for (let at = lowerBound(candidates, bLow); at < candidates.length; at++) {
        const j = candidates[at] ?? 0
        if (j >= bHigh) break
        steps++
        const length = (before.row[j] === row - 1 ? (before.length[j] ?? 0) : 0) + 1
        current.length[j + 1] = length
        current.row[j + 1] = row
        if (length > size) {
          bestA = i - length + 1
          bestB = j - length + 1
          size = length
        }
      }
    }
    while (bestA > aLow && bestB > bLow && a[bestA - 1] === b[bestB - 1]) {
      bestA--
      bestB--
      size++
    }
    while (bestA + size < aHigh && bestB + size < bHigh && a[bestA + size] === b[bestB + size]) size++
    if (size === 0) continue
    matched += size
    if (aLow < bestA && bLow < bestB) waiting.push([aLow, bestA, bLow, bestB])
    if (bestA + size < aHigh && bestB + size < bHigh) waiting.push([bestA + size, aHigh, bestB + size, bHigh])
  }
  return Either.right((2 * matched) / total)
}
