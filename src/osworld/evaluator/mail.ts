/**
 * Metrics over what Thunderbird keeps in a profile: settings, message filters, and mail folders.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { equals, equalsUnordered } from "./internal/json.js"
import * as Mbox from "./internal/mbox.js"
import * as Filters from "./internal/messageFilters.js"
import * as Prefs from "./internal/thunderbirdPrefs.js"
import { type Metric, make, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"
import * as Rule from "./Rule.js"

const PrefRules = Schema.optionalWith(Schema.Record({ key: Schema.String, value: Rule.Rule }), {
  default: () => ({}),
  nullable: true
})

const prefRules = Reader.json(Schema.Struct({ expect: PrefRules, unexpect: PrefRules }))

/**
 * The settings of a `prefs.js` satisfy the rules of `expect`, by name, and none of `unexpect`. A setting that the file does
 * not have satisfies no rule.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkThunderbirdPrefs: Metric = make({
  name: "check_thunderbird_prefs",
  result: Reader.text,
  expected: prefRules,
  options: Schema.Struct({}),
  score: (text, { expect, unexpect }) => {
    const prefs = Prefs.parse(text)
    const answers = (rules: typeof expect) =>
      Either.all(
        Object.entries(rules).map(([name, rule]) =>
          Either.map(Rule.matches(prefs.get(name), rule), (matches) => matches && prefs.has(name))
        )
      )
    return Either.map(Either.all([answers(expect), answers(unexpect)]), ([wanted, unwanted]) =>
      wanted.every(Boolean) && !unwanted.some(Boolean) ? 1 : 0
    )
  }
})

const FilterRecords = Schema.optionalWith(
  Schema.Array(Schema.Record({ key: Schema.String, value: Schema.Union(Schema.String, Schema.Array(Schema.String)) })),
  { default: () => [], nullable: true }
)

type FilterRecord = Readonly<Record<string, string | ReadonlyArray<string>>>

/** A filter as records, one for each of its actions. */
const recordsOf = ({ actions, ...filter }: Filters.Filter): ReadonlyArray<FilterRecord> =>
  (actions.length === 0 ? [{}] : actions).map((action) => ({ ...filter, ...action }))

/** Upstream's: the last action, and the last value that any action has. */
const lastRecordOf = ({ actions, ...filter }: Filters.Filter): ReadonlyArray<FilterRecord> => [
  Object.assign({ ...filter }, ...actions)
]

/** The terms of a condition are all joined by AND or all by OR, so their order says nothing. */
const sameValue = (found: unknown, wanted: unknown, ordered: boolean): boolean =>
  !ordered && Array.isArray(found) && Array.isArray(wanted) ? equalsUnordered(found, wanted) : equals(found, wanted)

const filterRules = Reader.json(Schema.Struct({ expect: FilterRecords, unexpect: FilterRecords }))

/**
 * Each record of `expect` describes one of the message filters of a `msgFilterRules.dat`, and none of `unexpect` does. A
 * record says some of `name`, `enabled` (`yes`, `no`), `type`, `action`, `actionValue` and `condition`, a list.
 *
 * A filter may do several things: any of them counts. Upstream looks at the last one, and minds the order of a
 * condition's terms.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkThunderbirdFilter: Metric = make({
  name: "check_thunderbird_filter",
  result: Reader.text,
  expected: filterRules,
  options: Schema.Struct({}),
  score: (text, { expect, unexpect }, _, { compat }) => {
    const records = Filters.parse(text).flatMap(compat ? lastRecordOf : recordsOf)
    const occurs = (wanted: FilterRecord) =>
      records.some((record) =>
        Object.entries(wanted).every(
          ([key, value]) => Object.hasOwn(record, key) && sameValue(record[key], value, compat)
        )
      )
    return verdict(expect.every(occurs) && !unexpect.some(occurs))
  }
})

const off = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })
const on = Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true })

const FolderOptions = Schema.Struct({
  ignore_status: off,
  ignore_keys: off,
  remove_deleted: on,
  remove_duplicate: on
})

/** What upstream makes of a folder: of its messages nothing at all, since it passes over each that is not empty. */
const vacuous = (text: string, { remove_duplicate }: typeof FolderOptions.Type): number => {
  const empty = text
    .trim()
    .split("FROM - ")
    .filter((part) => part.trim() === "").length
  return remove_duplicate ? Math.min(empty, 1) : empty
}

/** The messages of a folder, each as one text, in an order of their own. */
const messagesOf = (text: string, options: typeof FolderOptions.Type): ReadonlyArray<string> => {
  const ignored = [
    ...(options.ignore_status ? ["x-mozilla-status", "x-mozilla-status2"] : []),
    ...(options.ignore_keys ? ["x-mozilla-keys"] : [])
  ]
  const texts = Mbox.parse(text)
    .filter((message) => !(options.remove_deleted && Mbox.isDeleted(message)))
    .map((message) => Mbox.without(message, ignored))
    .map(({ body, fields }) => `${fields.map((field) => field.trimEnd()).join("\n")}\n\n${body}`)
  return (options.remove_duplicate ? Array.from(new Set(texts)) : texts).toSorted()
}

/** A byte a character: messages are in all sorts of encodings. */
const folders = Reader.files((bytes) => Either.right(Buffer.from(bytes).toString("latin1")))

/**
 * Mail folders hold the same messages as the expected ones, pair by pair and in any order. `ignore_status` and
 * `ignore_keys` leave out Thunderbird's own `X-Mozilla-Status` and `X-Mozilla-Keys`; unless `remove_deleted` is false,
 * deleted messages that are still in the file don't count, and unless `remove_duplicate` is, the same message counts once.
 * When a message came into its folder, which stands above it, does not count.
 *
 * Upstream compares nothing: any two folders with something in them are equal to it.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkThunderbirdFolder: Metric = make({
  name: "check_thunderbird_folder",
  result: folders,
  expected: folders,
  options: FolderOptions,
  score: (results, golds, options, { compat }) => {
    const read = (text: string) => (compat ? vacuous(text, options) : messagesOf(text, options))
    if (!compat && results.length !== golds.length) return verdict(false)
    const pairs = golds.slice(0, results.length)
    return verdict(pairs.every((gold, index) => equals(read(gold), read(results[index] ?? ""))))
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [checkThunderbirdPrefs, checkThunderbirdFilter, checkThunderbirdFolder]
