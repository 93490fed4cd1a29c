/** What the metrics of text documents share: how they read files and how they compare text. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { type Metric, type MetricContext, make, type Reader as ReaderType, type Score, verdict } from "../Metric.js"
import * as Reader from "../Reader.js"
import { indelSimilarity } from "../Similarity.js"
import { equals } from "./json.js"
import * as OpenDocument from "./openDocument.js"
import { parse as parseWord, type Run, type WordDocument } from "./wordDocument.js"

/** A file that the task calls neither `.docx` nor `.odt`. */
interface Other {
  readonly _tag: "Other"
  readonly name: string
}

export type TextDocument = WordDocument | OpenDocument.OpenDocument | Other

/** .docx, whatever its name. */
export const word = Reader.file(parseWord)
export const words = Reader.files(parseWord)

/** .docx or .odt, by the name that the task gives the file. */
export const document = Reader.file((bytes, { name }): Either.Either<TextDocument, Reader.Refusal> => {
  if (/\.docx$/i.test(name)) return parseWord(bytes)
  return /\.odt$/i.test(name) ? OpenDocument.parse(bytes) : Either.right({ _tag: "Other", name })
})

/** For metrics that the task gives nothing to compare with. */
export const nothing: ReaderType<undefined> = () => Effect.succeed(undefined)

/** A switch of the options, off unless the task says otherwise. */
export const off = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })
export const on = Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true })
export const none = Schema.Struct({})

/** What Python's `\s` and `strip` take for white space. */
const space = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]"
/** Runs of white space but for a single blank, which is what becomes of each, and of which a text has most. */
const spaces = new RegExp(`(?! )${space}+| ${space}+`, "g")
const oneSpace = new RegExp(space)

/** By hand, because a pattern for the end of a text starts anew at every space of a long run. */
export const strip = (text: string): string => {
  let [start, end] = [0, text.length]
  while (start < end && oneSpace.test(text.charAt(start))) start++
  while (end > start && oneSpace.test(text.charAt(end - 1))) end--
  return text.slice(start, end)
}
export const collapse = (text: string): string => strip(text.replace(spaces, " "))
export const isBlank = (text: string): boolean => strip(text) === ""
export const splitWords = (text: string): Array<string> =>
  collapse(text)
    .split(" ")
    .filter((word) => word !== "")

const texts = (of: Exclude<TextDocument, Other>, compat: boolean): ReadonlyArray<string> =>
  of._tag === "Word" ? of.paragraphs.map(({ text }) => text) : compat ? of.plainParagraphs : of.paragraphs

/**
 * The paragraphs of both; `undefined` where upstream scores 0 because the two are no pair. Their names come from the task
 * and not from the agent, so for us that is nothing to judge.
 */
export const paragraphsOf = (
  result: TextDocument,
  expected: TextDocument,
  compat: boolean
): Either.Either<readonly [ReadonlyArray<string>, ReadonlyArray<string>] | undefined, string> => {
  if (result._tag !== "Other" && expected._tag !== "Other" && result._tag === expected._tag)
    return Either.right([texts(result, compat), texts(expected, compat)])
  return compat
    ? Either.right(undefined)
    : Either.left("result and expected file have to be both .docx or both .odt by the names that the task gives them")
}

export const TextOptions = Schema.Struct({
  ignore_blanks: on,
  ignore_case: off,
  ignore_order: off,
  content_only: off,
  fuzzy_match: off,
  fuzzy_match_threshold: Schema.optionalWith(Schema.Number, { nullable: true }),
  delete_empty_lines: off
})
export type TextOptions = typeof TextOptions.Type

const fold = (text: string) => text.toLowerCase()

/** The paragraphs as they are compared, the switches about lines applied. */
const prepare = (paragraphs: ReadonlyArray<string>, options: TextOptions, compat: boolean): Array<string> => {
  const kept = options.delete_empty_lines ? paragraphs.filter((text) => !isBlank(text)) : [...paragraphs]
  // Case and blanks that do not count must not decide the order either; upstream folds them afterwards.
  if (compat) {
    const ordered = options.ignore_order ? kept.sort() : kept
    return options.ignore_case ? ordered.map(fold) : ordered
  }
  const folded = options.ignore_case ? kept.map(fold) : kept
  const loose = options.content_only || options.ignore_blanks
  if (!options.ignore_order) return folded
  return (loose ? folded.map(collapse) : folded).sort()
}

/** A second of work or two; a document of three hundred pages has half a million characters. */
const maxProduct = 1e12

/** Whether two lists of texts are short enough to be compared character by character, pair by pair. */
const comparable = (
  a: ReadonlyArray<string>,
  b: ReadonlyArray<string>,
  allowed: number
): Either.Either<void, string> =>
  a.reduce((sum, text, i) => sum + text.length * (b[i]?.length ?? 0), 0) > allowed
    ? Either.left("the texts are too long to be compared character by character")
    : Either.right(undefined)

/** The similarity of each pair of two lists of one length. */
export const similarities = (
  a: ReadonlyArray<string>,
  b: ReadonlyArray<string>,
  allowed = maxProduct
): Either.Either<ReadonlyArray<number>, string> =>
  Either.map(comparable(a, b, allowed), () => a.map((text, i) => indelSimilarity(text, b[i] ?? "")))

export const mean = (numbers: ReadonlyArray<number>): number =>
  numbers.reduce((sum, number) => sum + number, 0) / numbers.length

/** How far two lists of paragraphs agree, in [0, 1]. */
export const compareTexts = (
  result: ReadonlyArray<string>,
  expected: ReadonlyArray<string>,
  options: TextOptions,
  compat: boolean
): Score => {
  const a = prepare(result, options, compat)
  const b = prepare(expected, options, compat)
  const isExact = !options.content_only && !options.fuzzy_match
  // What is the same as it stands is the same with its white space folded, which takes far longer.
  if (isExact && equals(a, b)) return verdict(true)
  const threshold = options.fuzzy_match_threshold
  const judged = (found: number) => (threshold === undefined ? found : found >= threshold ? 1 : 0)
  const whole = options.content_only || options.ignore_blanks
  const [left, right] = whole ? [[collapse(a.join("\n"))], [collapse(b.join("\n"))]] : [a, b]
  if (left.length !== right.length) return verdict(false)
  if (isExact) return verdict(left.every((text, i) => text === right[i]))
  return Either.map(similarities(left, right), (found) =>
    found.length === 0 ? 1 : mean(options.content_only ? found : found.map(judged))
  )
}

const defaults: TextOptions = Schema.decodeSync(TextOptions)({})

/** Same text, white space aside: what most metrics of formatting ask first. */
export const sameText = (
  result: TextDocument,
  expected: TextDocument,
  compat: boolean
): Either.Either<boolean, string> =>
  Either.flatMap(paragraphsOf(result, expected, compat), (pair) =>
    pair === undefined
      ? Either.right(false)
      : Either.map(compareTexts(...pair, defaults, compat), (score) => score === 1)
  )

/** Items of the same number, up to the shorter list's end. */
export const pairs = <A>(a: ReadonlyArray<A>, b: ReadonlyArray<A>): ReadonlyArray<readonly [A, A]> =>
  a.flatMap((item, i) => {
    const other = b[i]
    return other === undefined ? [] : [[item, other] as const]
  })

export const runsOf = ({ paragraphs }: WordDocument): ReadonlyArray<Run> => paragraphs.flatMap(({ runs }) => runs)

/** Two .docx with the same text, white space aside, of which a judge looks at the formatting. */
export const sameTextAnd = <Options, OptionsJson>(definition: {
  readonly name: string
  readonly options: Schema.Schema<Options, OptionsJson>
  readonly judge: (
    result: WordDocument,
    expected: WordDocument,
    options: NoInfer<Options>,
    context: MetricContext
  ) => boolean
}): Metric =>
  make({
    name: definition.name,
    result: document,
    expected: document,
    options: definition.options,
    score: (result, expected, options, context): Score =>
      Either.flatMap(sameText(result, expected, context.compat), (same) => {
        if (!same) return verdict(false)
        return result._tag === "Word" && expected._tag === "Word"
          ? verdict(definition.judge(result, expected, options, context))
          : Either.left("only .docx is supported")
      })
  })
