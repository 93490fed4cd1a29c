/** What tasks read off an address. */
import * as Schema from "effect/Schema"
import * as Urls from "../../internal/urls.js"

export const QueryParameters = Schema.Struct({
  parse_keys: Schema.Array(Schema.String),
  /** New names for keys. */
  replace: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), {
    default: () => ({}),
    nullable: true
  }),
  split_list: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })
})

/** The first value of each key of the query, empty where there is none; with `split_list` the parts between commas. */
export const query = (
  url: string,
  { parse_keys, replace, split_list }: typeof QueryParameters.Type
): Readonly<Record<string, string | ReadonlyArray<string>>> => {
  const values = Urls.queryValues(url)
  return Object.fromEntries(
    parse_keys.map((key) => {
      const value = values.get(key)?.[0] ?? ""
      return [replace[key] ?? key, split_list ? value.split(",") : value]
    })
  )
}

const Index = Schema.Union(Schema.Int, Schema.NumberFromString.pipe(Schema.int()))

export const PartParameters = Schema.Struct({
  /** Of what lies between the slashes of the whole address, from 0, or from -1 backwards. */
  partIndex: Index,
  /** Whether a query in it is dropped. */
  needDeleteId: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true }),
  returnType: Schema.Literal("string", "json"),
  key: Schema.optionalWith(Schema.String, { default: () => "", nullable: true })
})

/** Undefined where the address has no such part. */
export const part = (url: string, { needDeleteId, partIndex }: typeof PartParameters.Type): string | undefined => {
  const found = url.split("/").at(partIndex)
  return needDeleteId ? found?.split("?")[0] : found
}

export const ShopParameters = Schema.Struct({ parse_keys: Schema.Array(Schema.String) })

const discounts = ["20_PERCENT_ off & more", "30_PERCENT_ off & more"]
const half = "50_PERCENT_ off & more"

/**
 * The filters in the address of a Macy's list, where a part with commas names them and the next one has their values.
 * What is not set is null, as upstream answers it.
 */
export const shop = (url: string, { parse_keys }: typeof ShopParameters.Type): Record<string, string | true | null> => {
  const path = Urls.decodedPath(url)
  const parts = path.replace(/^\/+|\/+$/g, "").split("/")
  const at = parts.findIndex((each, index) => each.includes(",") && (parts[index + 1] ?? "").includes(","))
  const list = (index: number) => (parts[index] ?? "").split(",").map((each) => each.trim())
  const values = at < 0 ? [] : list(at + 1)
  const filters = new Map(
    at < 0 ? [] : list(at).flatMap((key, index) => (index < values.length ? [[key, values[index] ?? ""] as const] : []))
  )
  const flag = (condition: boolean): true | null => (condition ? true : null)
  const result: Record<string, string | true | null> = {
    mens_clothing: flag(path.includes("mens-clothing")),
    shirts: flag(
      path.includes("shirts") || ["shirts", "Shirts", "Shirt"].includes(filters.get("Product_department") ?? "")
    ),
    short_sleeve: flag(
      path.includes("short-sleeve") || ["short-sleeve", "Short Sleeve"].includes(filters.get("Sleeve_length") ?? "")
    )
  }
  for (const key of parse_keys) {
    const value = filters.get(key)
    if (key === "Price_discount_range") {
      const ranges = (value ?? "").split("|").map((each) => each.trim())
      result[key] = ranges.includes(half) && !discounts.some((each) => ranges.includes(each)) ? half : `not_${half}`
    } else if (key === "Men_regular_size_t" || value !== undefined) {
      result[key] = value === undefined || value === "" ? null : value
    }
  }
  return result
}

/** The parameters of a getter that asks for the active tab: what Chrome has left out of the address. */
export const Prefix = Schema.optionalWith(Schema.String, { default: () => "https://", nullable: true })
