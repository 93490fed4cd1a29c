/**
 * Metrics over PDF documents.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Pdf from "./internal/pdf.js"
import * as PerceptualHash from "./internal/perceptualHash.js"
import { type Metric, make, makeEffect, type Reader as ReaderType, type Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"
import * as Rule from "./Rule.js"
import { indelSimilarity } from "./Similarity.js"

const none = Schema.Struct({})

/** The similarity of two texts takes time in proportion to the product of their lengths. */
const maxProduct = 1e11

/** What an agent left that is no PDF says nothing; what cannot be judged is a failure. */
const orNothing = (text: Effect.Effect<string, Unusable>): Effect.Effect<string | undefined, string> =>
  Effect.catchAll(text, ({ kind, reason }) =>
    kind === "Undecidable" ? Effect.fail(`result: ${reason}`) : Effect.succeed(undefined)
  )

/**
 * How similar the texts of PDFs are, pair by pair: the mean of the normalized Indel similarities. A result that is missing
 * or broken counts 0 in it.
 *
 * @since 0.1.0
 * @category metrics
 */
export const comparePdfs: Metric = makeEffect({
  name: "compare_pdfs",
  result: Pdf.documents,
  expected: Pdf.documents,
  options: none,
  score: (results, golds) =>
    Effect.gen(function* () {
      if (golds.length === 0) return yield* Effect.fail("no document is expected")
      let sum = 0
      for (const [index, gold] of golds.entries()) {
        const expected = yield* Effect.mapError(Pdf.text(gold), ({ reason }) => `expected value: ${reason}`)
        const candidate = results[index]
        const found = candidate === undefined ? undefined : yield* orNothing(Pdf.text(candidate))
        if (found === undefined) continue
        if (found !== expected && found.length * expected.length > maxProduct) {
          return yield* Effect.fail(
            `texts of ${found.length} and ${expected.length} characters are too long to be compared`
          )
        }
        sum += indelSimilarity(found, expected)
      }
      return sum / golds.length
    })
})

const imageHashes: ReaderType<ReadonlyArray<ReadonlyArray<boolean>>> = (value) =>
  Effect.flatMap(Pdf.document(value), Pdf.imageHashes)

/** Upstream's limit, in bits of 64. */
const sameImage = 5

/**
 * Two PDFs show as many pictures, and the score is the part of them that look the same: their perceptual hashes differ in
 * at most 5 of 64 bits. Two documents without pictures are equal.
 *
 * @since 0.1.0
 * @category metrics
 */
export const comparePdfImages: Metric = make({
  name: "compare_pdf_images",
  result: imageHashes,
  expected: imageHashes,
  options: none,
  score: (result, expected) => {
    if (result.length !== expected.length) return Either.right(0)
    const equal = expected.filter((hash, index) => PerceptualHash.distance(hash, result[index] ?? []) <= sameImage)
    return Either.right(expected.length === 0 ? 1 : equal.length / expected.length)
  }
})

const pageRule = Reader.json(
  Schema.Struct({ relation: Schema.Literal("eq", "ne", "lt", "le", "gt", "ge"), ref_value: Schema.Number })
)

const pageCount: ReaderType<number> = (value) => Effect.flatMap(Pdf.document(value), Pdf.pageCount)

/**
 * The number of pages is in the `relation` (`eq ne lt le gt ge`) to `ref_value`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPdfPages: Metric = make({
  name: "check_pdf_pages",
  result: pageCount,
  expected: pageRule,
  options: none,
  score: (pages, { ref_value, relation }) =>
    Either.map(Rule.matches(pages, { method: relation, ref: ref_value }), (holds) => (holds ? 1 : 0))
})

const text: ReaderType<string> = (value) => Effect.flatMap(Pdf.document(value), Pdf.text)

const goldTexts: ReaderType<ReadonlyArray<string>> = (value) =>
  value?._tag === "Json"
    ? Effect.map(Reader.json(Schema.Record({ key: Schema.String, value: Schema.String }))(value), Object.values)
    : goldFile(value)

const goldFile = Reader.file((bytes) =>
  Either.mapBoth(
    Schema.decodeEither(Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.String })))(
      new TextDecoder().decode(bytes)
    ),
    {
      onLeft: (): Reader.Refusal => ({ kind: "Unparsable", reason: "no JSON object of texts" }),
      onRight: (texts) => Object.values(texts)
    }
  )
)

/** Where a line ends is the layout's affair. */
const oneLine = (content: string): string => content.replace(/\s+/g, " ").trim()

/**
 * All the texts of a JSON object occur in the PDF; white space is as good as other white space.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isGoldTextIncludedInPdf: Metric = make({
  name: "is_gold_text_included_in_pdf",
  result: text,
  expected: goldTexts,
  options: none,
  score: (content, texts) => {
    const line = oneLine(content)
    return verdict(texts.every((part) => line.includes(oneLine(part))))
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [comparePdfs, comparePdfImages, checkPdfPages, isGoldTextIncludedInPdf]
