/**
 * Metrics over runs of text in word-processor documents: fonts, sizes, colours, marks, pictures.
 *
 * Formatting is what stands at the run itself; what a style brings in does not count.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { ciede2000, fromHex, toLab } from "./internal/colors.js"
import { document, isBlank, none, pairs, runsOf, sameText, sameTextAnd, word } from "./internal/documents.js"
import * as Registry from "./internal/registry.js"
import type { Paragraph, Run, WordDocument } from "./internal/wordDocument.js"
import { type Metric, make, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const runPairs = (a: WordDocument, b: WordDocument): ReadonlyArray<readonly [Run, Run]> =>
  pairs(a.paragraphs, b.paragraphs).flatMap(([left, right]) => pairs(left.runs, right.runs))

const registry = Reader.file(Registry.parse)
const fontName = Reader.json(Schema.Struct({ font_name: Schema.String }))

/**
 * Both .docx have the same text and an equation at the same place: an embedded object in runs of the same number, or
 * Office's own mathematics in paragraphs of the same number, which upstream does not know.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareInsertEquation: Metric = sameTextAnd({
  name: "compare_insert_equation",
  options: none,
  judge: (result, expected, _, { compat }) =>
    runPairs(result, expected).some(([a, b]) => a.object && b.object) ||
    (!compat && pairs(result.paragraphs, expected.paragraphs).some(([a, b]) => a.formula && b.formula))
})

/**
 * Every run with text has the font `font_name`. (Upstream asks empty runs too, which LibreOffice writes into empty paragraphs,
 * and passes a document without any run.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareFontNames: Metric = make({
  name: "compare_font_names",
  result: word,
  expected: fontName,
  options: none,
  score: (result, { font_name }, _, { compat }) => {
    const runs = runsOf(result).filter(({ text }) => compat || text !== "")
    return verdict((compat || runs.length > 0) && runs.every(({ fontName }) => fontName === font_name))
  }
})

/**
 * Some run is a subscript in both documents: the same run of the same paragraph, by number.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareSubscriptContains: Metric = make({
  name: "compare_subscript_contains",
  result: word,
  expected: word,
  options: none,
  score: (result, expected) => verdict(runPairs(result, expected).some(([a, b]) => a.subscript && b.subscript))
})

/**
 * Runs of the same number hold a picture in both documents or in neither.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareContainsImage: Metric = make({
  name: "compare_contains_image",
  result: word,
  expected: word,
  options: none,
  score: (result, expected) => verdict(runPairs(result, expected).every(([a, b]) => a.picture === b.picture))
})

/**
 * Two .odt have the same text and nothing in the result is marked yellow, neither words nor whole paragraphs (upstream
 * looks at words only).
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkHighlightedWords: Metric = make({
  name: "check_highlighted_words",
  result: document,
  expected: document,
  options: none,
  score: (result, expected, _, { compat }) =>
    Either.flatMap(sameText(result, expected, compat), (same) => {
      if (!same) return verdict(false)
      if (result._tag !== "OpenDocument") return Either.left("only .odt is supported")
      const yellow = "#ffff00"
      return verdict(!result.spanBackgrounds.has(yellow) && (compat || !result.paragraphBackgrounds.has(yellow)))
    })
})

/**
 * Two .docx have the same set of marked pieces of text. A shade behind text counts as a mark, because that is how
 * LibreOffice writes one. (Upstream knows no shades, so it sees no marks in such a file.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareHighlightedText: Metric = make({
  name: "compare_highlighted_text",
  result: word,
  expected: word,
  options: none,
  score: (result, expected, _, { compat }) => {
    const marked = ({ highlighted }: WordDocument) =>
      new Set(
        highlighted()
          .filter(({ marker }) => marker || !compat)
          .map(({ text }) => text)
      )
    const [a, b] = [marked(result), marked(expected)]
    return verdict(a.size === b.size && Array.from(a).every((text) => b.has(text)))
  }
})

/**
 * Two .docx have the same text and the last paragraph is struck through. It is the last one with text; upstream takes the
 * last one and passes an empty one.
 *
 * @since 0.1.0
 * @category metrics
 */
export const evaluateStrikeThroughLastParagraph: Metric = sameTextAnd({
  name: "evaluate_strike_through_last_paragraph",
  options: none,
  judge: ({ paragraphs }, _, __, { compat }) => {
    if (compat) return paragraphs.at(-1)?.runs.every(({ strike }) => strike) ?? false
    const last = paragraphs.findLast(({ text }) => !isBlank(text))?.runs.filter(({ text }) => text !== "") ?? []
    return last.length > 0 && last.every(({ strike }) => strike)
  }
})

const red = toLab([255, 0, 0])
const blue = toLab([0, 0, 255])
const isVowel = (character: string): boolean => "aeiou".includes(character.toLowerCase())

/** Each stretch of characters that has to be of one colour: its first letter and the colours found. */
const stretches = (
  { runs }: Paragraph,
  compat: boolean
): ReadonlyArray<{ first: string; colors: ReadonlyArray<string | undefined> }> => {
  const first = (text: string) => Array.from(text.slice(0, 2))[0] ?? ""
  // Upstream takes every run for a word, with the blanks around it.
  if (compat)
    return runs.filter(({ text }) => text !== "").map(({ color, text }) => ({ first: first(text), colors: [color] }))
  const found: Array<{ first: string; colors: Array<string | undefined> }> = []
  let inWord = false
  for (const { color, text } of runs) {
    for (const part of text.split(/(\s+)/)) {
      if (part === "") continue
      if (isBlank(part)) {
        inWord = false
        continue
      }
      if (inWord) found[found.length - 1]?.colors.push(color)
      else found.push({ first: first(part), colors: [color] })
      inWord = true
    }
  }
  return found
}

/**
 * Two .docx have the same text and in the result's tables words that begin with a vowel are red, the others blue: within
 * `threshold` (3.5) by CIEDE2000. (Upstream takes each run for a word, fails to judge a word without a colour, and passes tables
 * without words.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const evaluateColoredWordsInTables: Metric = sameTextAnd({
  name: "evaluate_colored_words_in_tables",
  options: Schema.Struct({ threshold: Schema.optionalWith(Schema.Number, { default: () => 3.5, nullable: true }) }),
  judge: (result, expected, { threshold }, { compat }) => {
    const near = (color: string | undefined, vowel: boolean): boolean => {
      const rgb = color === undefined ? undefined : fromHex(color)
      return rgb !== undefined && ciede2000(toLab(rgb), vowel ? red : blue) <= threshold
    }
    const words = ({ tables }: WordDocument) =>
      tables
        .flatMap(({ cells }) => cells.flatMap(({ paragraphs }) => paragraphs))
        .flatMap((paragraph) => stretches(paragraph, compat))
    const found = words(result)
    return (
      found.every(({ colors, first }) => colors.every((color) => near(color, isVowel(first)))) &&
      (compat || found.length > 0 || words(expected).length === 0)
    )
  }
})

/**
 * Two .docx have the same text and what is italic in the result is 14 points large. (Upstream also passes a document whose
 * italics are gone, and asks runs without text.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkItalicFontSize14: Metric = sameTextAnd({
  name: "check_italic_font_size_14",
  options: none,
  judge: (result, expected, _, { compat }) => {
    const italic = (document: WordDocument) =>
      runsOf(document).filter((run) => run.italic && (compat || run.text !== ""))
    const found = italic(result)
    return found.every(({ size }) => size === 14) && (compat || found.length > 0 || italic(expected).length === 0)
  }
})

/**
 * The default font of LibreOffice Writer, as a profile's `registrymodifications.xcu` sets it, is `font_name`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const findDefaultFont: Metric = make({
  name: "find_default_font",
  result: registry,
  expected: fontName,
  options: none,
  score: (profile, { font_name }) =>
    verdict(profile.get("/org.openoffice.Office.Writer/DefaultFont", "Standard") === font_name)
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkHighlightedWords,
  checkItalicFontSize14,
  compareContainsImage,
  compareFontNames,
  compareHighlightedText,
  compareInsertEquation,
  compareSubscriptContains,
  evaluateColoredWordsInTables,
  evaluateStrikeThroughLastParagraph,
  findDefaultFont
]
