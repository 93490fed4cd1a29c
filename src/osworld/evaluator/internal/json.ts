/** JSON as people and programs write it: comments, trailing commas, and equality of parsed values. */
import * as Either from "effect/Either"

export const parse = (text: string): Either.Either<unknown, string> =>
  Either.try({
    try: (): unknown => JSON.parse(text.replace(/^\uFEFF/, "")),
    catch: (error) => (error instanceof Error ? error.message : String(error))
  })

/** Strings first, so that what looks like a comment inside one stays. */
const token = /"(?:[^"\\]|\\[\s\S])*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g

/** JSON with `//` and block comments and trailing commas, as VS Code's settings files are. */
export const parseWithComments = (text: string): Either.Either<unknown, string> => {
  const bare = text.replace(token, (part) => (part.startsWith('"') ? part : " "))
  return parse(bare.replace(/"(?:[^"\\]|\\[\s\S])*"|,(?=\s*[}\]])/g, (part) => (part === "," ? "" : part)))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Structural equality; the order of keys does not matter, that of lists does. */
export const equals = (a: unknown, b: unknown): boolean => {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, i) => equals(item, b[i]))
  }
  if (isObject(a) && isObject(b)) {
    const keys = Object.keys(a)
    return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equals(a[key], b[key]))
  }
  return a === b
}

/** Equal as multisets: every item of one has a partner in the other. */
export const equalsUnordered = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>): boolean => {
  const rest = [...b]
  for (const item of a) {
    const i = rest.findIndex((other) => equals(item, other))
    if (i < 0) return false
    rest.splice(i, 1)
  }
  return rest.length === 0
}

export { isObject }
