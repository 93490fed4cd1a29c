/**
 * String similarity.
 *
 * @since 0.1.0
 */

const codePoints = (text: string): Uint32Array => Uint32Array.from(text, (char) => char.codePointAt(0) ?? 0)

const popCount = (word: number): number => {
  let x = word - ((word >>> 1) & 0x55555555)
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333)
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/**
 * Length of the longest common subsequence, in code points: the bit-parallel method of Hyyrö (2004), 32 cells of a row
 * at a time, because whole documents are compared.
 */
const lcsLength = (a: Uint32Array, b: Uint32Array): number => {
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let endA = a.length
  let endB = b.length
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA--
    endB--
  }
  const same = start + a.length - endA
  const left = a.subarray(start, endA)
  const right = b.subarray(start, endB)
  if (left.length === 0 || right.length === 0) return same

  const words = Math.ceil(left.length / 32)
  const masks = new Map<number, Uint32Array>()
  left.forEach((code, i) => {
    const mask = masks.get(code) ?? new Uint32Array(words)
    masks.set(code, mask)
    mask[i >>> 5] = (mask[i >>> 5] ?? 0) | (1 << (i & 31))
  })
  // A cleared bit is one more character of the common subsequence.
  const row = new Uint32Array(words).fill(0xffffffff)
  for (const code of right) {
    const mask = masks.get(code)
    if (mask === undefined) continue
    let carry = 0
    for (let w = 0; w < words; w++) {
      const cell = row[w] ?? 0
      const match = (cell & (mask[w] ?? 0)) >>> 0
      const sum = cell + match + carry
      carry = sum > 0xffffffff ? 1 : 0
      row[w] = (sum | (cell & ~match)) >>> 0
    }
  }
  let ones = 0
  for (let w = 0; w < words; w++) {
    const used = w === words - 1 && left.length % 32 !== 0 ? (1 << (left.length % 32)) - 1 : -1
    ones += popCount((row[w] ?? 0) & used)
  }
  return same + left.length - ones
}

/**
 * Normalized Indel similarity, `2 * LCS(a, b) / (|a| + |b|)` over code points, in [0, 1]; two empty strings are equal.
 * It is RapidFuzz's `fuzz.ratio` divided by 100.
 *
 * @since 0.1.0
 * @category similarity
 */
export const indelSimilarity = (a: string, b: string): number => {
  const left = codePoints(a)
  const right = codePoints(b)
  const total = left.length + right.length
  return total === 0 ? 1 : (2 * lcsLength(left, right)) / total
}
