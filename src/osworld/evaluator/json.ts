/**
 * Metrics over JSON: settings files and objects that getters return.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Json from "./internal/json.js"
import { type Metric, make, makeEffect, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"
import * as Rule from "./Rule.js"

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

/** Quotes are exchanged only where the text is no JSON as it is: an apostrophe in it is right. */
const parseLoose = (text: string) => Either.orElse(Json.parse(text), () => Json.parse(text.replaceAll("'", '"')))

/** Getters that parse pages answer an object, or text that is one with single quotes. */
const looseObject: ReaderType<Record<string, unknown>> = (value) =>
  Effect.flatMap(Reader.plain(value), (result) => {
    const parsed = typeof result === "string" ? parseLoose(result.trim()) : Either.right(result)
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

const Step = Schema.Union(Schema.String, Schema.Number)
const PathRules = Schema.optionalWith(Schema.Array(Schema.Struct({ key: Schema.Array(Step), ...Rule.Rule.fields })), {
  default: () => [],
  nullable: true
})

/** What lies at a path of names and indices, which count from the end where they are negative. */
const at = (value: unknown, path: ReadonlyArray<string | number>): unknown => {
  let found = value
  for (const step of path) {
    if (Array.isArray(found)) found = typeof step === "number" && Number.isInteger(step) ? found.at(step) : undefined
    else found = Json.isObject(found) && Object.hasOwn(found, String(step)) ? found[String(step)] : undefined
    if (found === undefined) return undefined
  }
  return found
}

/** Beyond it a file is no settings file, and costs more than it says. */
const maxYaml = 4 * 1024 * 1024

/**
 * Undefined where the text is no YAML. Version 1.1 is what Python's library reads: `yes` is true there, and the last of two
 * keys counts.
 */
const parseYaml = (text: string): Effect.Effect<unknown, string> =>
  Effect.gen(function* () {
    if (text.length > maxYaml) return yield* Effect.fail(`a YAML file of more than ${maxYaml} characters`)
    const { parse } = yield* Effect.promise(() => import("yaml"))
    // The library counts what aliases unfold to and gives up in time.
    return Either.getOrUndefined(
      Either.try((): unknown => parse(text, { version: "1.1", uniqueKeys: false, logLevel: "error" }))
    )
  })

const pathRules = Reader.json(Schema.Struct({ expect: PathRules, unexpect: PathRules }))

/**
 * What lies at the paths of a JSON file satisfies the rules of `expect` and none of `unexpect`. A path that leads nowhere
 * satisfies no rule of `expect`; to one of `unexpect` it is null. `is_yaml`: the file is YAML.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkJson: Metric = makeEffect({
  name: "check_json",
  result: Reader.text,
  expected: pathRules,
  options: Schema.Struct({ is_yaml: flag }),
  score: (text, { expect, unexpect }, { is_yaml }) =>
    Effect.gen(function* () {
      const value = is_yaml ? yield* parseYaml(text) : Either.getOrUndefined(Json.parse(text))
      // All are asked, so that a rule that makes no sense is an error whatever the file says.
      const holds = yield* Effect.forEach(expect, ({ key, ...rule }) => {
        const found = at(value, key)
        return Effect.map(Rule.matches(found, rule), (matches) => matches && found !== undefined)
      })
      const fails = yield* Effect.forEach(unexpect, ({ key, ...rule }) =>
        Effect.map(Rule.matches(at(value, key) ?? null, rule), (matches) => !matches)
      )
      return value !== undefined && [...holds, ...fails].every(Boolean) ? 1 : 0
    })
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [checkJsonSettings, checkDirectJsonObject, checkJson]
