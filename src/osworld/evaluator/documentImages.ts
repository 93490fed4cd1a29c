/**
 * Metrics over pictures in documents, text in pictures, and whether a file is there.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { collapse, none, word } from "./internal/documents.js"
import { isObject } from "./internal/json.js"
import * as Ocr from "./internal/ocr.js"
import * as Raster from "./internal/raster.js"
import type { Picture } from "./internal/wordDocument.js"
import { type Metric, make, makeEffect, type Reader as ReaderType, Unusable, type Value, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && Buffer.compare(a, b) === 0

const samePlanes = (a: Raster.Raster, b: Raster.Raster): boolean => {
  const opaque = (plane: Uint8Array | undefined) => plane === undefined || plane.every((sample) => sample === 255)
  return (
    Raster.sameSize(a, b) &&
    a.colours.every((plane, i) => sameBytes(plane, b.colours[i] ?? new Uint8Array())) &&
    (a.alpha === undefined || b.alpha === undefined ? opaque(a.alpha) && opaque(b.alpha) : sameBytes(a.alpha, b.alpha))
  )
}

/** A picture of the result that cannot be read is another picture; one of the gold document judges nothing. */
const samePicture = (result: Picture, expected: Picture): Effect.Effect<boolean, string> =>
  Effect.gen(function* () {
    if (result.linked || expected.linked) return result.linked === expected.linked && result.name === expected.name
    const gold = yield* Either.mapLeft(expected.bytes(), ({ reason }) => `expected value: ${reason}`)
    const found = result.bytes()
    if (Either.isLeft(found)) {
      return found.left.kind === "Unparsable" ? false : yield* Effect.fail(`result: ${found.left.reason}`)
    }
    if (sameBytes(found.right, gold)) return true
    const wanted = yield* Effect.mapError(
      Raster.decode({ name: expected.name, bytes: gold }),
      ({ reason }) => `expected value: ${reason}`
    )
    const decoded = yield* Effect.either(Raster.decode({ name: result.name, bytes: found.right }))
    if (Either.isRight(decoded)) return samePlanes(decoded.right, wanted)
    return decoded.left.kind === "Unparsable" ? false : yield* Effect.fail(`result: ${decoded.left.reason}`)
  })

/**
 * Two .docx hold the same pictures in the same order, pixel by pixel, however they are compressed.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareDocxImages: Metric = makeEffect({
  name: "compare_docx_images",
  result: word,
  expected: word,
  options: none,
  score: Effect.fnUntraced(function* (result, expected) {
    if (result.pictures.length !== expected.pictures.length) return 0
    for (const [i, picture] of result.pictures.entries()) {
      const other = expected.pictures[i]
      // One pair at a time, so that no more than two pictures are in memory.
      if (other !== undefined && !(yield* samePicture(picture, other))) return 0
    }
    return 1
  })
})

const writtenText = Reader.json(Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }))

const forReading: ReaderType<Uint8Array> = (value) =>
  Effect.flatMap(Reader.file((bytes) => Either.right(bytes))(value), Ocr.prepare)

/** Without white space that a layout adds, and without telling apart what only its font does: `ls` is often read as `1s`. */
const legible = (text: string): string => collapse(text).replace(/[1|]/g, "l").replace(/0/g, "O")

/**
 * The text is written in the picture, a screenshot or an X window dump. It needs the `tesseract` program. White space counts
 * as a space, and the digits 1 and 0 as the letters that look like them.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareImageText: Metric = makeEffect({
  name: "compare_image_text",
  result: forReading,
  expected: writtenText,
  options: none,
  score: (png, { text }) =>
    Effect.gen(function* () {
      const wanted = legible(text)
      // Scattered pieces are what screens have; a page's layout keeps long lines together.
      for (const layout of [11, 3] as const) {
        if (legible(yield* Ocr.recognize(png, layout)).includes(wanted)) return 1
      }
      return 0
    }).pipe(Effect.mapError(({ reason }) => reason))
})

/** The names in a folder: of files that were fetched, of a list, or of a folder's tree. */
const fileNames: ReaderType<ReadonlyArray<string>> = (value: Value | undefined) => {
  if (value?._tag === "File") return Effect.succeed([value.name])
  if (value?._tag === "Files") return Effect.succeed(value.files.map(({ name }) => name))
  if (value?._tag === "Missing") return new Unusable({ kind: "Missing", reason: value.reason })
  const json = value?._tag === "Json" ? value.json : undefined
  const entries = isObject(json) ? json["children"] : json
  if (!Array.isArray(entries)) {
    // Upstream takes a folder of the evaluator's machine, which no agent ever wrote into.
    return new Unusable({ kind: "Undecidable", reason: "files, a list of names or a folder's tree are needed" })
  }
  return Effect.succeed(
    entries.flatMap((entry: unknown) => {
      const name = isObject(entry) ? (entry["type"] === "directory" ? undefined : entry["name"]) : entry
      return typeof name === "string" ? [name] : []
    })
  )
}

const fileName: ReaderType<string> = Reader.text

/**
 * A file of that name is there: among the fetched files, in a list of names, or directly in a folder's tree.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkFileExists: Metric = make({
  name: "check_file_exists",
  result: fileNames,
  expected: fileName,
  options: none,
  score: (names, name) => verdict(names.includes(name))
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [checkFileExists, compareDocxImages, compareImageText]
