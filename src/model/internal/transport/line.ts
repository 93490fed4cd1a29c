const byCodePoint = (a: string, b: string): number => {
  // UTF-16 order is code point order, but for surrogates against U+E000 and above.
  if (!/[\ud800-\udfff]/.test(a) && !/[\ud800-\udfff]/.test(b)) return a < b ? -1 : a > b ? 1 : 0
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Compact JSON with keys sorted by code point; a `bigint` is written as the integer it is, `undefined` is left out. */
export const sortedJson = (value: unknown): string => {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "null"
  if (typeof value === "bigint") return value.toString()
  if (Array.isArray(value)) {
    // Tokens and their log-probabilities: long, and nothing to sort.
    const isPlain = value.every((item: unknown) => typeof item === "number")
    return isPlain ? JSON.stringify(value) : `[${value.map(sortedJson).join(",")}]`
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value)
      .filter(([, entry]) => entry !== undefined)
      .sort(([a], [b]) => byCodePoint(a, b))
      .map(([key, entry]) => `${JSON.stringify(key)}:${sortedJson(entry)}`)
    return `{${entries.join(",")}}`
  }
  return JSON.stringify(value) ?? "null"
}
