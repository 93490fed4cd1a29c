import * as Either from "effect/Either"

/** A JSON object as it is on a wire. */
export type JsonObject = Readonly<Record<string, unknown>>

/** What can't be carried: where it is, and what it is. */
export interface Refused {
  readonly path: string
  readonly what: string
}

export type Reading<A> = Either.Either<A, Refused>

export const refuse = (path: string, what: string): Either.Either<never, Refused> => Either.left({ path, what })

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Wire fields that are absent and those that are `null` say the same on every wire that is read here. */
export const isSet = (value: unknown): boolean => value !== undefined && value !== null

/** What a value is, for an error: never the value itself, which may be long or secret. */
export const kindOf = (value: unknown): string => {
  if (value === undefined) return "nothing"
  if (value === null) return "null"
  if (Array.isArray(value)) return "a list"
  switch (typeof value) {
    case "object":
      return "an object"
    case "string":
      return "a text"
    case "number":
      return "a number"
    case "boolean":
      return "a truth value"
    default:
      return `a ${typeof value}`
  }
}

/** A wire's own word for a type, for an error: short, or only what kind of value stands there. */
export const typeName = (value: unknown): string =>
  typeof value === "string" && value.length <= 64 ? JSON.stringify(value) : kindOf(value)

export const object = (value: unknown, path: string): Reading<JsonObject> =>
  isObject(value) ? Either.right(value) : refuse(path, `${kindOf(value)} where an object should be`)

/** As `object`, of fields that are kept as they are: a `__proto__` among them would be lost where they are copied. */
export const fields = (value: unknown, path: string): Reading<JsonObject> =>
  Either.flatMap(object(value, path), (found) =>
    Object.hasOwn(found, "__proto__") ? refuse(path, "a field named __proto__") : Either.right(found)
  )

export const list = (value: unknown, path: string): Reading<ReadonlyArray<unknown>> =>
  Array.isArray(value) ? Either.right(value) : refuse(path, `${kindOf(value)} where a list should be`)

export const string = (value: unknown, path: string): Reading<string> =>
  typeof value === "string" ? Either.right(value) : refuse(path, `${kindOf(value)} where a text should be`)

export const nonEmpty = (value: unknown, path: string): Reading<string> =>
  Either.flatMap(string(value, path), (text) => (text === "" ? refuse(path, "an empty text") : Either.right(text)))

/** Each of a list, with where it is; the first that is refused refuses all. */
export const each = <A>(
  values: ReadonlyArray<unknown>,
  path: string,
  read: (value: unknown, path: string) => Reading<A>
): Reading<ReadonlyArray<A>> => {
  const done: Array<A> = []
  for (const [index, value] of values.entries()) {
    const one = read(value, `${path}[${index}]`)
    if (Either.isLeft(one)) return Either.left(one.left)
    done.push(one.right)
  }
  return Either.right(done)
}

/** As `each`, where one value may become several or none. */
export const eachFlat = <A>(
  values: ReadonlyArray<unknown>,
  path: string,
  read: (value: unknown, path: string) => Reading<ReadonlyArray<A>>
): Reading<ReadonlyArray<A>> => Either.map(each(values, path, read), (parts) => parts.flat())
