/** What a PDF says and shows, read by pdf.js in a thread of its own that has limits and can be stopped. */
import { createRequire } from "node:module"
import * as NodePath from "node:path"
import { pathToFileURL } from "node:url"
import { Worker } from "node:worker_threads"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { type Reader as ReaderType, Unusable } from "../Metric.js"
import * as Reader from "../Reader.js"
import { program } from "./pdfWorker.js"
import * as PerceptualHash from "./perceptualHash.js"
import { lanczos, resizePlane } from "./resample.js"

/** A PDF's file. */
export interface Document {
  readonly name: string
  readonly bytes: Uint8Array
}

/** Far above the documents of the tasks. */
export const limits = {
  fileBytes: 128 * 1024 * 1024,
  pages: 5000,
  characters: 5_000_000,
  /** Of all pictures together. */
  pixels: 200_000_000,
  /** Of one stream, unpacked. */
  bufferBytes: 128 * 1024 * 1024,
  heapMegabytes: 512,
  millis: 60_000
}

const documentOf: Reader.Parser<Document> = (bytes, { name }) =>
  bytes.length > limits.fileBytes
    ? Either.left({ kind: "Undecidable", reason: `${bytes.length} bytes, more than ${limits.fileBytes}` })
    : Either.right({ name, bytes })

/** A file that may be a PDF. */
export const document: ReaderType<Document> = Reader.file(documentOf)

/** Files that may be PDFs, to be read one at a time. */
export const documents: ReaderType<ReadonlyArray<Document>> = Reader.files(documentOf)

/** As pdf.js hands it over: kind 1 is a bit a pixel in rows of whole bytes, 2 RGB, 3 RGBA. */
const Image = Schema.Struct({
  width: Schema.Positive,
  height: Schema.Positive,
  kind: Schema.Literal(1, 2, 3),
  data: Schema.Union(Schema.Uint8ArrayFromSelf, Schema.instanceOf(Uint8ClampedArray))
})

const Message = Schema.Union(
  Schema.Struct({ pages: Schema.NonNegativeInt }),
  Schema.Struct({ text: Schema.String }),
  Schema.Struct({ image: Image }),
  Schema.Struct({
    refused: Schema.Struct({ kind: Schema.Literal("Unparsable", "Undecidable"), reason: Schema.String })
  }),
  Schema.Struct({ done: Schema.Literal(true) })
)
type Message = typeof Message.Type
const isMessage = Schema.is(Message)

/** Runs the thread until it says that it is done, and hands every message on. */
const run = (
  { bytes, name }: Document,
  wanted: "pages" | "text" | "images",
  onMessage: (message: Message) => void
): Effect.Effect<void, Unusable> => {
  const unusable = (kind: Unusable["kind"], reason: string) => new Unusable({ kind, reason: `${name}: ${reason}` })
  return Effect.async<void, Unusable>((resume) => {
    const library = createRequire(import.meta.url).resolve("pdfjs-dist/legacy/build/pdf.mjs")
    const folder = (part: string) => NodePath.join(library, "..", "..", "..", part, NodePath.sep)
    const worker = new Worker(program, {
      eval: true,
      // What pdf.js prints is nobody's.
      stdout: true,
      stderr: true,
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: limits.heapMegabytes },
      workerData: {
        pdfjs: pathToFileURL(library).href,
        cmaps: folder("cmaps"),
        fonts: folder("standard_fonts"),
        bytes,
        wanted,
        limits
      }
    })
    // A thread that has said its last word stays, holding the document, until it is stopped.
    const end = (exit: Effect.Effect<void, Unusable>): void => {
      worker.removeAllListeners("exit")
      worker.terminate().then(
        () => resume(exit),
        () => resume(exit)
      )
    }
    worker.on("message", (message: unknown) => {
      // A picture of a kind that we don't know is no picture.
      if (!isMessage(message)) return
      if ("done" in message) end(Effect.void)
      else if ("refused" in message) end(unusable(message.refused.kind, message.refused.reason))
      else onMessage(message)
    })
    worker.once("error", (error) => end(unusable("Undecidable", `reading it took too much: ${error.message}`)))
    worker.once("exit", () => resume(unusable("Undecidable", "the thread that reads it ended early")))
    return Effect.promise(() => worker.terminate())
  }).pipe(
    Effect.timeoutFail({
      duration: limits.millis,
      onTimeout: () => unusable("Undecidable", `it could not be read within ${limits.millis / 1000} s`)
    })
  )
}

export const pageCount = (pdf: Document): Effect.Effect<number, Unusable> =>
  Effect.suspend(() => {
    let count = 0
    return Effect.map(
      run(pdf, "pages", (message) => {
        if ("pages" in message) count = message.pages
      }),
      () => count
    )
  })

/** The text of all pages in the order in which the document has it, without white space at the ends. */
export const text = (pdf: Document): Effect.Effect<string, Unusable> =>
  Effect.suspend(() => {
    const pages: Array<string> = []
    return Effect.map(
      run(pdf, "text", (message) => {
        if ("text" in message) pages.push(message.text)
      }),
      () => pages.join("\n").trim()
    )
  })

const lightness = ({ data, height, kind, width }: typeof Image.Type): Uint8Array => {
  const plane = new Uint8Array(width * height)
  const rowBytes = (width + 7) >> 3
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (kind === 1) plane[i] = ((data[y * rowBytes + (x >> 3)] ?? 0) & (0x80 >> (x & 7))) === 0 ? 0 : 255
      else {
        const at = i * (kind + 1)
        plane[i] = ((data[at] ?? 0) * 19595 + (data[at + 1] ?? 0) * 38470 + (data[at + 2] ?? 0) * 7471 + 0x8000) >> 16
      }
    }
  }
  return plane
}

/** The perceptual hashes of the pictures, page by page; a picture that a page shows several times counts once there. */
export const imageHashes = (pdf: Document): Effect.Effect<ReadonlyArray<ReadonlyArray<boolean>>, Unusable> =>
  Effect.suspend(() => {
    const hashes: Array<ReadonlyArray<boolean>> = []
    const size = { width: PerceptualHash.side, height: PerceptualHash.side }
    return Effect.map(
      run(pdf, "images", (message) => {
        if ("image" in message) {
          const small = resizePlane(lightness(message.image), message.image, size, lanczos)
          hashes.push(PerceptualHash.ofSquare(small))
        }
      }),
      () => hashes
    )
  })
