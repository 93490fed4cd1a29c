import * as Schema from "effect/Schema"

/** Five published tasks write `"shell": "true"`, so the words are accepted next to the booleans. */
const BooleanLike = Schema.transform(Schema.Literal(true, false, "true", "false"), Schema.Boolean, {
  strict: true,
  decode: (value) => value === true || value === "true",
  encode: (value) => value
})

/** A boolean under a name of its own, false where it is absent. */
export const flag = <const Key extends string>(key: Key) =>
  Schema.optionalWith(BooleanLike, { default: () => false, nullable: true }).pipe(Schema.fromKey(key))

export const optional = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(schema, { exact: true, nullable: true })

export const list = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(Schema.Array(schema), { default: () => [], nullable: true })
