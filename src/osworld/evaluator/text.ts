/**
 * Metrics over text, lists of lines and CSV.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { equals } from "./internal/json.js"
import { splitLines } from "./internal/lines.js"
import * as PythonRegex from "./internal/pythonRegex.js"
import { type Metric, make, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"
import { indelSimilarity } from "./Similarity.js"

/** A switch of the options, off unless the task says otherwise. */
const off = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })
const on = Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true })
const none = Schema.Struct({})
const strings = Schema.optionalWith(Schema.Array(Schema.String), { default: () => [], nullable: true })

/** `{ expected: ... }`, the usual shape of a task's `rules`. */
const expecting = <A, I>(schema: Schema.Schema<A, I>) => Reader.json(Schema.Struct({ expected: schema }))

/** `expected` has to be there, whatever it is. */
const Present = Schema.Unknown.pipe(Schema.filter((value) => value !== undefined || "an expected value is missing"))

const includeExclude = Reader.json(Schema.Struct({ include: strings, exclude: strings }))

const Pattern = Schema.transformOrFail(Schema.String, Schema.instanceOf(RegExp), {
  strict: true,
  decode: (text, _, ast) =>
    Either.mapLeft(PythonRegex.compile(text), (reason) => new ParseResult.Type(ast, text, reason)),
  encode: ({ source }) => Either.right(source)
})
const PatternList = Schema.optionalWith(Schema.Array(Pattern), { default: () => [], nullable: true })
const patterns = Reader.json(Schema.Struct({ expect: PatternList, unexpect: PatternList }))
const expectingAny = expecting(Present)
const expectingText = expecting(Schema.String)
const expectingList = expecting(Schema.Array(Schema.Unknown))
const expectingTexts = expecting(Schema.Array(Schema.String))

/**
 * All of `include` occur in the text and none of `exclude`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkIncludeExclude: Metric = make({
  name: "check_include_exclude",
  result: Reader.text,
  expected: includeExclude,
  options: none,
  score: (text, { exclude, include }) =>
    verdict(include.every((part) => text.includes(part)) && !exclude.some((part) => text.includes(part)))
})

/**
 * The result is the expected value, exactly.
 *
 * @since 0.1.0
 * @category metrics
 */
export const exactMatch: Metric = make({
  name: "exact_match",
  result: Reader.plain,
  expected: expectingAny,
  options: none,
  score: (result, { expected }) => verdict(equals(result, expected))
})

/**
 * How similar the text is to the expected one: the normalized Indel similarity, a fraction.
 *
 * @since 0.1.0
 * @category metrics
 */
export const fuzzyMatch: Metric = make({
  name: "fuzzy_match",
  result: Reader.text,
  expected: expectingText,
  options: none,
  score: (text, { expected }) => Either.right(indelSimilarity(text, expected))
})

/**
 * The result is one of the expected values.
 *
 * @since 0.1.0
 * @category metrics
 */
export const matchInList: Metric = make({
  name: "match_in_list",
  result: Reader.plain,
  expected: expectingList,
  options: none,
  score: (result, { expected }) => verdict(expected.some((item) => equals(item, result)))
})

/**
 * The expected value is an element of the result, or a part of it when the result is text.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isInList: Metric = make({
  name: "is_in_list",
  result: Reader.plain,
  expected: expectingAny,
  options: none,
  score: (result, { expected }) => {
    if (Array.isArray(result)) return verdict(result.some((item) => equals(item, expected)))
    if (typeof result !== "string") return Either.left(`the result is neither a list nor text`)
    return typeof expected === "string"
      ? verdict(result.includes(expected))
      : Either.left(`text cannot contain ${JSON.stringify(expected)}`)
  }
})

const lower = (value: unknown): unknown => (typeof value === "string" ? value.toLowerCase() : value)

/**
 * Result and expected value are the same text, or, with `type: "list"`, lists with the same elements in the same order.
 *
 * @since 0.1.0
 * @category metrics
 */
export const literalMatch: Metric = make({
  name: "literal_match",
  result: Reader.plain,
  expected: Reader.plain,
  options: Schema.Struct({
    type: Schema.optionalWith(Schema.Literal("str", "list"), { default: () => "str", nullable: true }),
    ignore_case: off
  }),
  score: (result, expected, { ignore_case, type }) => {
    const fold = ignore_case ? lower : (value: unknown) => value
    if (type === "str") return verdict(equals(fold(String(result)), fold(String(expected))))
    if (!Array.isArray(expected)) return Either.left("the expected value is not a list")
    return verdict(Array.isArray(result) && equals(result.map(fold), expected.map(fold)))
  }
})

/**
 * Each pattern of `expect` is found in some line, and none of `unexpect` in any.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkList: Metric = make({
  name: "check_list",
  result: Reader.text,
  expected: patterns,
  options: none,
  score: (text, { expect, unexpect }) => {
    const lines = text.split("\n")
    const found = (pattern: RegExp) => lines.some((line) => pattern.test(line))
    return verdict(expect.every(found) && !unexpect.some(found))
  }
})

/**
 * The file contains all the strings.
 *
 * @since 0.1.0
 * @category metrics
 */
export const fileContains: Metric = make({
  name: "file_contains",
  result: Reader.text,
  expected: expectingTexts,
  options: none,
  score: (text, { expected }) => verdict(expected.every((part) => text.includes(part)))
})

/**
 * Two text files are equal. `ignore_blanks` takes any run of white space for one space and none at the ends;
 * `ignore_case` folds case.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareTextFile: Metric = make({
  name: "compare_text_file",
  result: Reader.text,
  expected: Reader.text,
  options: Schema.Struct({ ignore_blanks: off, ignore_case: off }),
  score: (result, expected, { ignore_blanks, ignore_case }) => {
    const normalize = (text: string) => {
      const spaced = ignore_blanks ? text.trim().replace(/\s+/g, " ") : text
      return ignore_case ? spaced.toLowerCase() : spaced
    }
    return verdict(normalize(result) === normalize(expected))
  }
})

const byteOrderMark = (bytes: Uint8Array): "utf-16le" | "utf-16be" | undefined => {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return "utf-16le"
  if (first === 0xfe && second === 0xff) return "utf-16be"
  // ASCII in UTF-16 without a mark: every other byte is 0, which no text in another encoding has.
  if (bytes.length >= 4 && first !== 0 && second === 0 && bytes[3] === 0) return "utf-16le"
  return bytes.length >= 4 && first === 0 && second !== 0 && bytes[2] === 0 ? "utf-16be" : undefined
}

/**
 * CSV as spreadsheet programs write it: UTF-16 by its byte order mark, UTF-8 with or without one, otherwise Latin-1 (in
 * its Windows form). Line ends become `\n`.
 *
 * @since 0.1.0
 * @category parsing
 */
export const decodeCsv = (bytes: Uint8Array): string => {
  const decode = (encoding: string) => new TextDecoder(encoding, { fatal: encoding === "utf-8" }).decode(bytes)
  const utf16 = byteOrderMark(bytes)
  const text =
    utf16 === undefined
      ? Either.getOrElse(
          Either.try(() => decode("utf-8")),
          () => decode("windows-1252")
        )
      : decode(utf16)
  return text.replace(/\r\n?/g, "\n")
}

const csv = Reader.file((bytes) => Either.right(decodeCsv(bytes)))
const csvs = Reader.files((bytes) => Either.right(decodeCsv(bytes)))

/**
 * A CSV file equals one of the expected ones, line by line; they are not parsed. How the last line ends does not count,
 * and without `strict` neither does white space around lines.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareCsv: Metric = make({
  name: "compare_csv",
  result: csv,
  expected: csvs,
  options: Schema.Struct({ strict: on, ignore_case: off }),
  score: (result, expected, { ignore_case, strict }) => {
    const lines = (text: string) => {
      const all = splitLines(ignore_case ? text.toLowerCase() : text)
      return strict ? all : all.map((line) => line.trim())
    }
    const found = lines(result)
    return verdict(expected.some((text) => equals(lines(text), found)))
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkIncludeExclude,
  exactMatch,
  fuzzyMatch,
  matchInList,
  isInList,
  literalMatch,
  checkList,
  fileContains,
  compareTextFile,
  compareCsv
]
