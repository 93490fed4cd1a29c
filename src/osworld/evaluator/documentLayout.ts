/**
 * Metrics over how the lines and pages of word-processor documents are laid out: spacing, alignment, tab stops, page breaks,
 * footers.
 *
 * Formatting is what stands at the paragraph itself; what a style brings in does not count.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { isBlank, none, nothing, pairs, runsOf, sameTextAnd, splitWords, word } from "./internal/documents.js"
import type { Paragraph } from "./internal/wordDocument.js"
import { type Metric, make, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const pageBreakCount = Reader.optional(
  Reader.json(Schema.Struct({ page_break_count: Schema.optionalWith(Schema.Number, { nullable: true }) }))
)

const spacingOf = ({ lineSpacing }: Paragraph): string | undefined =>
  lineSpacing === undefined ? undefined : `${lineSpacing.amount} ${lineSpacing.unit}`

/**
 * Two .docx have the same text and, paragraph by paragraph, the same line spacing.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareLineSpacing: Metric = sameTextAnd({
  name: "compare_line_spacing",
  options: none,
  judge: ({ paragraphs: a }, { paragraphs: b }) =>
    a.length === b.length && pairs(a, b).every(([left, right]) => spacingOf(left) === spacingOf(right))
})

/**
 * The first three paragraphs are spaced single, double and one and a half.
 *
 * @since 0.1.0
 * @category metrics
 */
export const evaluateSpacing: Metric = make({
  name: "evaluate_spacing",
  result: word,
  expected: nothing,
  options: none,
  score: ({ paragraphs }) =>
    verdict(
      ["1 lines", "2 lines", "1.5 lines"].every((spacing, i) => {
        const paragraph = paragraphs[i]
        return paragraph !== undefined && spacingOf(paragraph) === spacing
      })
    )
})

/**
 * Every section's footer shows a page number: a digit in its first paragraph, or a page field wherever it stands, which
 * upstream does not look for.
 *
 * @since 0.1.0
 * @category metrics
 */
export const hasPageNumbersInFooters: Metric = make({
  name: "has_page_numbers_in_footers",
  result: word,
  expected: nothing,
  options: none,
  score: ({ footers, sections }, _, __, { compat }) => {
    // A document that describes no section has no footer either, and upstream passes it.
    if (sections.length === 0) return verdict(compat)
    const found = footers()
    if (Either.isLeft(found)) return found.left.kind === "Undecidable" ? Either.left(found.left.reason) : verdict(false)
    return verdict(
      found.right.every(
        (footer) =>
          footer !== undefined && (/\p{Nd}/u.test(footer.paragraphs[0]?.text ?? "") || (!compat && footer.pageField))
      )
    )
  }
})

/**
 * The first paragraph of the document is centred.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isFirstLineCentered: Metric = make({
  name: "is_first_line_centered",
  result: word,
  expected: nothing,
  options: none,
  score: ({ paragraphs }) => verdict(paragraphs[0]?.alignment === "center")
})

/** Newer files name the sides of a line by where it begins. */
const side = (alignment: string): string => (alignment === "start" ? "left" : alignment === "end" ? "right" : alignment)

/**
 * How near the tab stops are to the expected ones: 1 less the mean over the paragraphs with text of how far they are off, as
 * a part of the line's width. Other stops, or another number of paragraphs, score 0. With `word_number_split_by_tabstop`
 * each paragraph's part number `index` (0) between tabs has to have so many words.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkTabstops: Metric = make({
  name: "check_tabstops",
  result: word,
  expected: word,
  options: Schema.Struct({
    word_number_split_by_tabstop: Schema.optionalWith(Schema.Number, { nullable: true }),
    index: Schema.optionalWith(Schema.Int, { default: () => 0, nullable: true })
  }),
  score: (result, expected, { index, word_number_split_by_tabstop: wordCount }, { compat }) => {
    const [a, b] = [result, expected].map(({ paragraphs }) => paragraphs.filter(({ text }) => !isBlank(text)))
    const [section] = expected.sections
    const { leftMargin, pageWidth, rightMargin } = section ?? {}
    if (pageWidth === undefined || leftMargin === undefined || rightMargin === undefined)
      return Either.left("the expected document does not say how wide its lines are")
    const width = pageWidth - leftMargin - rightMargin
    if (a === undefined || b === undefined || b.length === 0 || width <= 0)
      return Either.left("the expected document has no lines")
    if (a.length !== b.length) return verdict(false)
    if (wordCount !== undefined) {
      const counts = a.map(({ text }) => splitWords(text.split("\t").at(index) ?? "").length)
      if (counts.some((count) => count !== wordCount)) return verdict(false)
    }
    const stops = ({ tabStops }: Paragraph) =>
      tabStops
        .map((stop) => (compat ? stop : { ...stop, alignment: side(stop.alignment) }))
        .filter(({ alignment, position }) => alignment !== "clear" && !(alignment === "left" && position === 0))
    let off = 0
    for (const [left, right] of pairs(a, b)) {
      const [found, wanted] = [stops(left), stops(right)]
      if (found.length !== wanted.length) return verdict(false)
      for (const [x, y] of pairs(found, wanted)) {
        if (x.alignment !== y.alignment) return verdict(false)
        off += Math.abs(x.position - y.position) / width
      }
    }
    return Either.right(Math.max(0, 1 - off / b.length))
  }
})

/**
 * The document has page breaks, as many as `page_break_count` where the rule says so.
 *
 * @since 0.1.0
 * @category metrics
 */
export const containsPageBreak: Metric = make({
  name: "contains_page_break",
  result: word,
  expected: pageBreakCount,
  options: none,
  score: (result, expected) => {
    const breaks = runsOf(result).reduce((sum, { pageBreaks }) => sum + pageBreaks, 0)
    return verdict(breaks > 0 && (expected?.page_break_count ?? breaks) === breaks)
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkTabstops,
  compareLineSpacing,
  containsPageBreak,
  evaluateSpacing,
  hasPageNumbersInFooters,
  isFirstLineCentered
]
