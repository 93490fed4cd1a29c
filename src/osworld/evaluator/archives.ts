/**
 * Metrics over archives and books, file by file. Nothing is ever unpacked under a name that an archive gives.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as TaskFolder from "../TaskFolder.js"
import { compareDocxFiles } from "./documentText.js"
import { compareImages } from "./images.js"
import * as Difflib from "./internal/difflib.js"
import * as Epub from "./internal/epub.js"
import * as Json from "./internal/json.js"
import * as Tar from "./internal/tar.js"
import { unzip } from "./internal/zip.js"
import { EvaluationError, type Metric, makeEffect, Value } from "./Metric.js"
import { compareAudios, compareVideos } from "./media.js"
import { comparePdfs } from "./pdf.js"
import * as Reader from "./Reader.js"
import { compareTable } from "./sheets.js"
import { comparePptxFiles } from "./slides.js"
import { compareCsv, compareTextFile } from "./text.js"

type Members = ReadonlyMap<string, Uint8Array>

/** Compressed tar archives that we don't read; that is no fault of whoever made them. */
const isUnread = (bytes: Uint8Array): boolean =>
  Buffer.from(bytes.subarray(0, 3)).toString("latin1") === "BZh" ||
  Buffer.from(bytes.subarray(0, 6)).toString("latin1") === "\xfd7zXZ\0"

const members: Reader.Parser<Members> = (bytes) => {
  if (Tar.isGzip(bytes)) return Either.flatMap(Tar.gunzip(bytes), (unpacked) => Tar.untar(unpacked))
  if (Tar.isTar(bytes)) return Tar.untar(bytes)
  if (isUnread(bytes)) return Either.left({ kind: "Undecidable", reason: "archives in bzip2 and xz are not supported" })
  return unzip(bytes, (name) => !name.endsWith("/"))
}

const archive = Reader.file(members)

/** The files below a folder of the archive, by their names from there on. */
const below = (found: Members, folder: string): Members => {
  const prefix = folder.replace(/^(\.?\/)+/, "").replace(/\/*$/, "/")
  if (prefix === "/") return found
  return new Map(
    Array.from(found).flatMap(([name, bytes]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), bytes] as const] : []
    )
  )
}

/**
 * The metric that compares files of a kind, by the `file_type` of `compare_archive`.
 *
 * @since 0.1.0
 * @category models
 */
export type FileComparisons = Readonly<Record<string, Metric>>

/**
 * Upstream's kinds of files.
 *
 * @since 0.1.0
 * @category constants
 */
export const fileComparisons: FileComparisons = {
  text: compareTextFile,
  pdf: comparePdfs,
  docx: compareDocxFiles,
  ppt: comparePptxFiles,
  image: compareImages,
  csv: compareCsv,
  table: compareTable,
  audio: compareAudios,
  video: compareVideos
}

const ArchiveOptions = Schema.Struct(
  {
    file_type: Schema.optionalWith(Schema.String, { default: () => "text", nullable: true }),
    file_path: Schema.optionalWith(Schema.String, { default: () => "", nullable: true })
  },
  { key: Schema.String, value: Schema.Unknown }
)

/**
 * `compare_archive` with comparisons of one's own.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeCompareArchive = (comparisons: FileComparisons): Metric => {
  const compare = (type: string) =>
    Either.fromNullable(
      Object.hasOwn(comparisons, type) ? comparisons[type] : undefined,
      () => `files of type ${JSON.stringify(type)} are not supported`
    )

  const metric = makeEffect({
    name: "compare_archive",
    result: archive,
    expected: archive,
    options: ArchiveOptions,
    score: (result, expected, { file_path, file_type, ...options }, context) =>
      Effect.gen(function* () {
        const { evaluate } = yield* compare(file_type)
        const gold = below(expected, file_path)
        const names = Array.from(gold.keys()).toSorted()
        if (names.length === 0) return yield* Effect.fail("the expected archive has no files there")
        const found = below(result, file_path)
        if (!Json.equals(Array.from(found.keys()).toSorted(), names)) return 0

        const fs = yield* FileSystem.FileSystem
        const path = yield* Path.Path
        const folder = yield* TaskFolder.make
        /** Metrics look at a file's extension; the place is named by us. */
        const lay = (role: string, name: string, bytes: Uint8Array) => {
          const place = path.join(folder, `${role}${/\.[A-Za-z0-9]{1,8}$/.exec(name)?.[0] ?? ""}`)
          return Effect.as(fs.writeFile(place, bytes), Value.File({ path: place, name: path.basename(name) }))
        }
        let sum = 0
        for (const name of names) {
          const pair = Effect.all([
            lay("result", name, found.get(name) ?? new Uint8Array()),
            lay("expected", name, gold.get(name) ?? new Uint8Array())
          ])
          const [one, other] = yield* pair
          sum += yield* Effect.mapError(
            evaluate({ result: one, expected: other, options, context }),
            ({ reason }) => `${name}: ${reason}`
          )
        }
        return sum / names.length
      }).pipe(
        Effect.scoped,
        Effect.mapError((error) => (typeof error === "string" ? error : error.message))
      )
  })

  const validate = (options: Record<string, unknown>): Either.Either<void, EvaluationError> =>
    Either.flatMap(metric.validate(options), () => {
      const { file_path: _, file_type: type, ...rest } = options
      return Either.match(compare(typeof type === "string" ? type : "text"), {
        onLeft: (reason) => Either.left(new EvaluationError({ metric: metric.name, reason })),
        onRight: (chosen) => chosen.validate(rest)
      })
    })
  return { ...metric, validate }
}

/**
 * Two archives (ZIP, tar, gzipped tar) hold files of the same names below `file_path`; the score is the mean of what the
 * metric for `file_type` (`text pdf docx ppt image csv table audio video`) says of each pair. Other options are that
 * metric's.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareArchive: Metric = makeCompareArchive(fileComparisons)

/** Held as bytes: what is read of it is the judgement's affair. */
const book = Reader.file((bytes) => Either.right(bytes))

const linesOf = (parts: Epub.Parts, name: string): ReadonlyArray<string> => parts.get(name) ?? []

/**
 * How similar two EPUB books are: the mean of `difflib` ratios over table of contents, package and pages, line by line. A
 * part that only one of them has counts 0.
 *
 * Upstream pairs parts by their order, whatever their names, counts those of the result alone, and compares identifiers
 * and dates of the conversion, so that a right answer scores less than 1.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareEpub: Metric = makeEffect({
  name: "compare_epub",
  result: book,
  expected: book,
  options: Schema.Struct({}),
  score: (result, expected, _, { compat }) =>
    Effect.gen(function* () {
      const gold = yield* Effect.mapError(Epub.parts(expected, compat), ({ reason }) => `expected value: ${reason}`)
      if (gold.size === 0) return yield* Effect.fail("the expected book has no parts")
      const found = yield* Effect.catchAll(Epub.parts(result, compat), ({ kind, reason }) =>
        kind === "Unparsable" ? Effect.succeed(new Map<string, ReadonlyArray<string>>()) : Effect.fail(reason)
      )
      const [ours, theirs] = [found, gold].map((parts) => Array.from(parts.keys()).toSorted())
      let sum = 0
      if (compat) {
        for (const [index, name] of (ours ?? []).entries()) {
          const other = theirs?.[index]
          if (other !== undefined) sum += yield* Difflib.ratio(linesOf(found, name), linesOf(gold, other))
        }
        return found.size === 0 ? 0 : sum / found.size
      }
      for (const name of ours ?? []) {
        // Other rollouts go on between two pages.
        yield* Effect.yieldNow()
        if (gold.has(name)) sum += yield* Difflib.ratio(linesOf(found, name), linesOf(gold, name))
      }
      return sum / new Set([...found.keys(), ...gold.keys()]).size
    })
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [compareArchive, compareEpub]
