/** What somebody may have meant. */

/** How many letters must be put in, left out, changed or swapped with their neighbour (optimal string alignment). */
export const distance = (a: string, b: string): number => {
  let [before, last, now]: ReadonlyArray<Array<number>> = [[], [], Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (row: ReadonlyArray<number> | undefined, index: number) => row?.[index] ?? Number.POSITIVE_INFINITY
  for (let i = 1; i <= a.length; i++) {
    before = last
    last = now
    now = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] && i > 1 && j > 1
      now[j] = Math.min(
        at(last, j) + 1,
        at(now, j - 1) + 1,
        at(last, j - 1) + (same ? 0 : 1),
        swapped ? at(before, j - 2) + 1 : Number.POSITIVE_INFINITY
      )
    }
  }
  return at(now, b.length)
}

const plain = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, "")

/** The name that is near enough to be meant; a third of its letters may be wrong. Case and what joins words don't count. */
export const nearest = (name: string, names: Iterable<string>): string | undefined => {
  let best: { readonly name: string; readonly apart: number } | undefined
  for (const candidate of names) {
    const apart = distance(plain(name), plain(candidate))
    if (apart <= plain(candidate).length / 3 && (best === undefined || apart < best.apart))
      best = { name: candidate, apart }
  }
  return best?.name
}
