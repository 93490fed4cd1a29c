/**
 * Metrics over the text of word-processor documents.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import {
  collapse,
  compareTexts,
  document,
  isBlank,
  mean,
  none,
  nothing,
  on,
  paragraphsOf,
  similarities,
  splitWords,
  strip,
  TextOptions,
  word,
  words
} from "./internal/documents.js"
import { equals } from "./internal/json.js"
import type { WordDocument } from "./internal/wordDocument.js"
import { type Metric, make, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const places = Reader.json(Schema.Struct({ expected: Schema.Array(Schema.String) }))

const textsOf = ({ paragraphs }: WordDocument): ReadonlyArray<string> => paragraphs.map(({ text }) => text)

/** Lines with something on them, without the white space around it. */
const linesOf = (document: WordDocument): ReadonlyArray<string> =>
  textsOf(document)
    .map(strip)
    .filter((line) => line !== "")

const sameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  a.size === b.size && Array.from(a).every((item) => b.has(item))

/**
 * Two .docx or two .odt have the same paragraphs. By default white space does not count, so neither do paragraph ends;
 * with `ignore_blanks: false` paragraphs are compared one by one. `ignore_case`, `ignore_order` and `delete_empty_lines`
 * do what they say. `content_only` gives the similarity of the whole text; `fuzzy_match` that of the text or, paragraph by
 * paragraph, the mean one, and with `fuzzy_match_threshold` whether it is reached.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareDocxFiles: Metric = make({
  name: "compare_docx_files",
  result: document,
  expected: document,
  options: TextOptions,
  score: (result, expected, options, { compat }) =>
    Either.flatMap(paragraphsOf(result, expected, compat), (pair) =>
      pair === undefined ? verdict(false) : compareTexts(...pair, options, compat)
    )
})

/**
 * Two .docx have the same paragraphs, empty ones left out; by default white space does not count.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareDocxFilesAndIgnoreNewLines: Metric = make({
  name: "compare_docx_files_and_ignore_new_lines",
  result: word,
  expected: word,
  options: Schema.Struct({ ignore_blanks: on }),
  score: (result, expected, { ignore_blanks }) => {
    const kept = (document: WordDocument) => textsOf(document).filter((text) => text !== "")
    const [a, b] = [kept(result), kept(expected)]
    return verdict(ignore_blanks ? collapse(a.join("\n")) === collapse(b.join("\n")) : equals(a, b))
  }
})

/**
 * Two .docx have the same set of lines, empty ones left out.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareDocxLines: Metric = make({
  name: "compare_docx_lines",
  result: word,
  expected: word,
  options: none,
  score: (result, expected) => verdict(sameSet(new Set(linesOf(result)), new Set(linesOf(expected))))
})

/**
 * The result begins with all paragraphs of the expected document. (Upstream stops at the shorter one's end, so an empty
 * document passes.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareInitLines: Metric = make({
  name: "compare_init_lines",
  result: word,
  expected: word,
  options: none,
  score: (result, expected, _, { compat }) => {
    const [a, b] = [textsOf(result), textsOf(expected)]
    const length = compat ? Math.min(a.length, b.length) : b.length
    return verdict(equals(a.slice(0, length), b.slice(0, length)))
  }
})

/**
 * Two .docx have the same tables: as many, of the same size, with the same text in each place of the grid, white space
 * around it aside.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareDocxTables: Metric = make({
  name: "compare_docx_tables",
  result: word,
  expected: word,
  options: none,
  score: (result, expected) =>
    verdict(
      result.tables.length === expected.tables.length &&
        result.tables.every((table, i) => {
          const other = expected.tables[i]
          if (other === undefined || table.rows !== other.rows || table.columns !== other.columns) return false
          const cellText = (grid: typeof table.grid, place: number) => {
            const cell = grid[place]
            return cell === undefined ? undefined : strip(cell.paragraphs.map(({ text }) => text).join("\n"))
          }
          const places = Math.min(table.rows * table.columns, Math.max(table.grid.length, other.grid.length))
          for (let place = 0; place < places; place++) {
            if (cellText(table.grid, place) !== cellText(other.grid, place)) return false
          }
          return true
        })
    )
})

/**
 * The references after the line `reference_indicator` (`References`) are as similar as they need to be: the mean similarity
 * of the paired entries, rescaled so that `reference_base_result` (0.5; what doing nothing gives) is 0. As many entries are
 * needed, and at least 0.01 more than the base.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareReferences: Metric = make({
  name: "compare_references",
  result: word,
  expected: word,
  options: Schema.Struct({
    reference_indicator: Schema.optionalWith(Schema.String, { default: () => "References", nullable: true }),
    reference_base_result: Schema.optionalWith(Schema.Number.pipe(Schema.greaterThanOrEqualTo(0), Schema.lessThan(1)), {
      default: () => 0.5,
      nullable: true
    })
  }),
  score: (result, expected, { reference_base_result: base, reference_indicator }) => {
    const references = (document: WordDocument) => {
      const texts = textsOf(document)
      const start = texts.indexOf(reference_indicator)
      return start < 0 ? undefined : texts.slice(start + 1).filter((text) => !isBlank(text))
    }
    const [found, wanted] = [references(result), references(expected)]
    if (found === undefined || wanted === undefined) return verdict(found === wanted)
    if (found.length !== wanted.length) return verdict(false)
    if (found.length === 0) return verdict(true)
    return Either.map(similarities(found, wanted), (each) => {
      const similarity = mean(each)
      return similarity >= base + 0.01 ? (similarity - base) / (1 - base) : 0
    })
  }
})

/** `time, train, station, platform`: the train of a line of that form. */
const trainOf = (line: string): string | undefined => {
  const parts = line.split(",")
  return parts.length === 4 && parts[1] !== undefined ? strip(parts[1]) : undefined
}

const trainsOf = (lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.map(trainOf).filter((train) => train !== undefined)

/**
 * The trains of a document's lines, each once. It is no metric, although upstream lists it among them: it has no score.
 *
 * @since 0.1.0
 * @category parsing
 */
export const uniqueTrainIds = (lines: ReadonlyArray<string>): ReadonlySet<string> => new Set(trainsOf(lines))

/**
 * The result keeps one line for each train: only lines of the initial document (the second expected file), no train twice,
 * the trains of the gold document (the first) and as many lines as it has.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareUniqueTrainRecords: Metric = make({
  name: "compare_unique_train_records",
  result: word,
  expected: words,
  options: none,
  score: (result, [gold, initial]) => {
    if (gold === undefined || initial === undefined)
      return Either.left("two expected files are needed, the gold document and the initial one")
    const lines = linesOf(result)
    const known = new Set(linesOf(initial))
    const trains = trainsOf(lines)
    return verdict(
      lines.every((line) => known.has(line)) &&
        trains.length === new Set(trains).size &&
        sameSet(new Set(trains), uniqueTrainIds(linesOf(gold))) &&
        lines.length === linesOf(gold).length
    )
  }
})

/**
 * The result has each train of the initial document (the expected file) once. (Upstream looks for the duplicates in the
 * expected file.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkNoDuplicates: Metric = make({
  name: "check_no_duplicates",
  result: word,
  expected: word,
  options: none,
  score: (result, expected, _, { compat }) => {
    const [initial, processed] = compat ? [result, expected] : [expected, result]
    const trains = trainsOf(textsOf(processed))
    const unique = new Set(trains)
    return verdict(trains.length === unique.size && sameSet(unique, uniqueTrainIds(textsOf(initial))))
  }
})

/**
 * How near a document of exactly three words comes to the expected places: the mean of each word's best similarity.
 *
 * @since 0.1.0
 * @category metrics
 */
export const fuzzyPlaceMath: Metric = make({
  name: "fuzzy_place_math",
  result: word,
  expected: places,
  options: none,
  score: (result, { expected }) => {
    const found = textsOf(result).flatMap(splitWords)
    if (found.length !== 3) return verdict(false)
    const best = found.map((place) =>
      Either.map(
        similarities(
          expected.map(() => place),
          expected
        ),
        (each) => Math.max(0, ...each)
      )
    )
    return Either.map(Either.all(best), mean)
  }
})

/** As Python's `isupper`: something has a case, and all that has is upper case. */
const isUpper = (text: string): boolean => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text)

/**
 * No run, in tables or outside, is all capitals.
 *
 * @since 0.1.0
 * @category metrics
 */
export const evaluateConversion: Metric = make({
  name: "evaluate_conversion",
  result: word,
  expected: nothing,
  options: none,
  score: ({ paragraphs, tables }) => {
    const inTables = tables.flatMap(({ cells }) => cells.flatMap((cell) => cell.paragraphs))
    return verdict(![...paragraphs, ...inTables].some(({ runs }) => runs.some(({ text }) => isUpper(text))))
  }
})

/**
 * In each sentence of four words and more the first three stand apart from the rest: a tab or a run of spaces lies between.
 * (Upstream only asks that both parts occur in this order, and fails every sentence of exactly three words.)
 *
 * @since 0.1.0
 * @category metrics
 */
export const evaluateAlignment: Metric = make({
  name: "evaluate_alignment",
  result: word,
  expected: nothing,
  options: none,
  score: (result, _, __, { compat }) => {
    const asUpstream = (sentence: string): boolean => {
      const found = splitWords(sentence)
      if (found.length < 3) return true
      const [from, to] = [found.slice(0, 3), found.slice(3)].map((part) => sentence.indexOf(part.join(" ")))
      return from !== undefined && to !== undefined && from >= 0 && from < to
    }
    const apart = (sentence: string): boolean => {
      if (splitWords(sentence).length < 4) return true
      const [, gap] = /^\s*\S+ \S+ \S+(\s+)/.exec(sentence) ?? []
      return gap !== undefined && (gap.includes("\t") || gap.length > 1)
    }
    const stands = compat ? asUpstream : apart
    return verdict(textsOf(result).every((text) => text.split(".").every(stands)))
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkNoDuplicates,
  compareDocxFiles,
  compareDocxFilesAndIgnoreNewLines,
  compareDocxLines,
  compareDocxTables,
  compareInitLines,
  compareReferences,
  compareUniqueTrainRecords,
  evaluateAlignment,
  evaluateConversion,
  fuzzyPlaceMath
]
