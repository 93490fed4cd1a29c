/**
 * Metrics over JSON: settings files and objects that getters return.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Json from "./internal/json.js"
import { type Metric, make, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const AnyObject = Schema.Record({ key: Schema.String, value: Schema.Unknown })

const flag = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })

const settings: ReaderType<Record<string, unknown>> = (value) => {
  if (value?._tag === "Json" && Json.isObject(value.json)) return Effect.succeed(value.json)
  return Effect.flatMap(Reader.text(value), (text) =>
    Either.match(Json.parseWithComments(text), {
      onLeft: (reason) => new Unusable({ kind: "Unparsable", reason }),
      onRight: (json) =>
        Json.isObject(json) ? Effect.succeed(json) : new Unusable({ kind: "Unparsable", reason: "no JSON object" })
    })
  )
}

const expectedSettings = Reader.json(Schema.Struct({ expected: AnyObject }))

/**
 * A settings file has all the expected keys with the expected values. Comments and trailing commas are tolerated, as VS
 * Code tolerates them.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkJsonSettings: Metric = make({
  name: "check_json_settings",
  result: settings,
  expected: expectedSettings,
  options: Schema.Struct({}),
  score: (result, { expected }) =>
    verdict(
      Object.entries(expected).every(([key, value]) => Object.hasOwn(result, key) && Json.equals(result[key], value))
    )
})

const expectedObject = Reader.json(
  Schema.Struct({ expected: AnyObject, ignore_list_order: flag, expect_in_result: flag })
)

/** Getters that parse pages answer an object, or text that is one with single quotes. */
const looseObject: ReaderType<Record<string, unknown>> = (value) =>
  Effect.flatMap(Reader.plain(value), (result) => {
    const parsed = typeof result === "string" ? Json.parse(result.trim().replaceAll("'", '"')) : Either.right(result)
    return Either.isRight(parsed) && Json.isObject(parsed.right)
      ? Effect.succeed(parsed.right)
      : new Unusable({ kind: "Unparsable", reason: "no JSON object" })
  })

/** With `expect_in_result`: any element of a list will do, and a string may be a part. */
const occursIn = (expected: unknown, found: unknown): boolean => {
  if (Array.isArray(expected)) {
    return expected.some((item) =>
      Array.isArray(found) ? found.some((other) => Json.equals(other, item)) : Json.equals(found, item)
    )
  }
  if (typeof expected !== "string") return Json.equals(expected, found)
  return typeof found === "string" ? found.includes(expected) : Array.isArray(found) && found.includes(expected)
}

/**
 * Each expected key has its value in the result; other keys don't matter. `ignore_list_order` compares lists as
 * multisets; `expect_in_result` is satisfied by any listed element, or by a part of a string.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkDirectJsonObject: Metric = make({
  name: "check_direct_json_object",
  result: looseObject,
  expected: expectedObject,
  options: Schema.Struct({}),
  score: (result, { expect_in_result, expected, ignore_list_order }) =>
    verdict(
      Object.entries(expected).every(([key, wanted]) => {
        // A getter names absent things with null or leaves them out: upstream sees no difference.
        const found = Object.hasOwn(result, key) ? result[key] : null
        if (expect_in_result) return occursIn(wanted, found)
        if (ignore_list_order && Array.isArray(wanted))
          return Array.isArray(found) && Json.equalsUnordered(wanted, found)
        return Json.equals(wanted, found)
      })
    )
})
