/** JSON with its keys in order, for comparing what was written with what is made again. */

const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** Keys in code point order, no white space, numbers as JavaScript prints them. A key whose value is undefined is absent. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  return `{${Object.entries(value)
    .filter(([, entry]) => entry !== undefined)
    .sort(([a], [b]) => byCodePoint(a, b))
    .map(([key, entry]) => `${JSON.stringify(key)}:${canonical(entry)}`)
    .join(",")}}`
}

const around = 40

/** The first byte at which two texts part, with what stands there. Undefined where they are the same. */
export const firstDifference = (
  expected: string,
  found: string
): { readonly byte: number; readonly expected: string; readonly found: string } | undefined => {
  if (expected === found) return undefined
  let at = 0
  while (at < expected.length && expected[at] === found[at]) at++
  const from = Math.max(0, at - around / 2)
  const excerpt = (text: string) => text.slice(from, at + around)
  return { byte: Buffer.byteLength(expected.slice(0, at)), expected: excerpt(expected), found: excerpt(found) }
}

/** The same, in words. */
export const differs = (expected: string, found: string): string | undefined => {
  const difference = firstDifference(expected, found)
  return difference === undefined
    ? undefined
    : `byte ${difference.byte}: expected ${JSON.stringify(difference.expected)}, found ${JSON.stringify(difference.found)}`
}
