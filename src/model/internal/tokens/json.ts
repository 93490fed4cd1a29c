/**
 * Looks into JSON that others wrote, without trusting its shape.
 */

/** A JSON object as it came off a wire. */
export type JsonObject = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const isArray = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

/** What is under a key; `undefined` for `null`, which servers write for what they have not. */
export const field = (object: JsonObject, key: string): unknown => object[key] ?? undefined

export const objectField = (object: JsonObject, key: string): JsonObject | undefined => {
  const value = object[key]
  return isObject(value) ? value : undefined
}

export const omit = (object: JsonObject, keys: ReadonlySet<string>): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !keys.has(key)))
