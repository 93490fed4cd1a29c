/**
 * How metrics read what getters produced: from a value to text, JSON or a parsed file.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { type FileRef, type Reader, showParseError, Unusable } from "./Metric.js"

const unparsable = (reason: string) => new Unusable({ kind: "Unparsable", reason })
const undecidable = (reason: string, cause?: unknown) => new Unusable({ kind: "Undecidable", reason, cause })
const missing = (reason: string) => new Unusable({ kind: "Missing", reason })
const absent = missing("the task gives none")

/** Larger files are refused: a metric holds a whole file in memory, beside those of other rollouts. */
const maxFileBytes = 256 * 1024 * 1024

const readFile = Effect.fnUntraced(function* (file: FileRef) {
  const fs = yield* FileSystem.FileSystem
  const failed = (cause: unknown) => undecidable(`${file.path} cannot be read`, cause)
  const info = yield* Effect.mapError(fs.stat(file.path), failed)
  if (info.type !== "File") return yield* undecidable(`${file.path} is not a file`)
  if (info.size > maxFileBytes)
    return yield* undecidable(`${file.path} has ${info.size} bytes, more than ${maxFileBytes}`)
  return yield* Effect.mapError(fs.readFile(file.path), failed)
})

/**
 * How a parser refuses bytes: `Unparsable` is the content's fault, `Undecidable` ours (a limit, an unsupported form).
 *
 * @since 0.1.0
 * @category models
 */
export interface Refusal {
  readonly kind: "Unparsable" | "Undecidable"
  readonly reason: string
}

/**
 * @since 0.1.0
 * @category models
 */
export type Parser<A> = (bytes: Uint8Array, file: FileRef) => Either.Either<A, Refusal>

const parseFile = <A>(parse: Parser<A>, file: FileRef) =>
  Effect.flatMap(readFile(file), (bytes) =>
    Either.mapLeft(parse(bytes, file), ({ kind, reason }) => new Unusable({ kind, reason: `${file.name}: ${reason}` }))
  )

/**
 * One file, read whole and parsed.
 *
 * @since 0.1.0
 * @category readers
 */
export const file =
  <A>(parse: Parser<A>): Reader<A> =>
  (value) => {
    if (value === undefined) return absent
    if (value._tag === "Missing") return missing(value.reason)
    return value._tag === "File" ? parseFile(parse, value) : undecidable(`a file is needed, not ${value._tag}`)
  }

/**
 * One or several files.
 *
 * @since 0.1.0
 * @category readers
 */
export const files =
  <A>(parse: Parser<A>): Reader<ReadonlyArray<A>> =>
  (value) =>
    value?._tag === "Files"
      ? Effect.forEach(value.files, (each) => parseFile(parse, each))
      : Effect.map(file(parse)(value), (one) => [one])

/** The same line ends whoever wrote the file, as Python's text mode has them; bytes that are no UTF-8 become U+FFFD. */
const decodeUtf8 = (bytes: Uint8Array): string =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes).replace(/\r\n?/g, "\n")

/**
 * Text as it is, or a file's content as UTF-8 with `\n` line ends (a byte order mark stays).
 *
 * @since 0.1.0
 * @category readers
 */
export const text: Reader<string> = (value) => {
  if (value?._tag === "Text") return Effect.succeed(value.text)
  if (value?._tag === "Json" && typeof value.json === "string") return Effect.succeed(value.json)
  return file((bytes) => Either.right(decodeUtf8(bytes)))(value)
}

/**
 * JSON or text as a plain value: what a metric compares that does not mind which.
 *
 * @since 0.1.0
 * @category readers
 */
export const plain: Reader<unknown> = (value) => {
  if (value?._tag === "Json") {
    // A getter that answers null has nothing, as upstream's do when they fail to find.
    return value.json === null || value.json === undefined ? missing("null") : Effect.succeed(value.json)
  }
  return text(value)
}

/**
 * JSON of one shape: a task's `rules`. What does not fit is unparsable.
 *
 * @since 0.1.0
 * @category readers
 */
export const json = <A, I>(schema: Schema.Schema<A, I>): Reader<A> => {
  const decode = Schema.decodeUnknown(schema)
  return (value) => {
    if (value === undefined) return absent
    if (value._tag === "Missing") return missing(value.reason)
    if (value._tag !== "Json") return undecidable(`JSON is needed, not ${value._tag}`)
    return Effect.mapError(decode(value.json), (error) => unparsable(showParseError(error)))
  }
}

/**
 * `undefined` where the task gives none.
 *
 * @since 0.1.0
 * @category readers
 */
export const optional =
  <A>(reader: Reader<A>): Reader<A | undefined> =>
  (value) =>
    value === undefined ? Effect.succeed(undefined) : reader(value)
