/** Text in pictures, by the `tesseract` program of this machine. */
import * as Command from "@effect/platform/Command"
import type { CommandExecutor } from "@effect/platform/CommandExecutor"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import { Unusable } from "../Metric.js"
import { maxPixels } from "./raster.js"
import * as WindowDump from "./windowDump.js"

const undecidable = (reason: string, cause?: unknown) => new Unusable({ kind: "Undecidable", reason, cause })

const detail = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** Letters on a screen are a third as large as those on paper that the program was taught with. */
const smallWidth = 2600

/**
 * A PNG that suits the program: grey, dark on light, of a paper's size. One that is no picture is the fault of whoever
 * made it.
 */
export const prepare = (bytes: Uint8Array): Effect.Effect<Uint8Array, Unusable> =>
  Effect.gen(function* () {
    const dump = WindowDump.isWindowDump(bytes)
      ? yield* Either.mapLeft(WindowDump.decode(bytes), ({ kind, reason }) => new Unusable({ kind, reason }))
      : undefined
    const { default: sharp } = yield* Effect.promise(() => import("sharp"))
    const open = () =>
      dump === undefined
        ? sharp(bytes, { limitInputPixels: maxPixels })
        : sharp(dump.data, { raw: { width: dump.width, height: dump.height, channels: 3 } })
    return yield* Effect.tryPromise({
      try: async () => {
        const { width } = await open().metadata()
        const grey = () => open().flatten({ background: "#ffffff" }).greyscale()
        const { channels } = await grey().stats()
        const dark = (channels[0]?.mean ?? 255) < 128
        const scaled = width < smallWidth ? grey().resize({ width: width * 2, kernel: "cubic" }) : grey()
        return await (dark ? scaled.negate() : scaled).png({ compressionLevel: 1 }).toBuffer()
      },
      catch: (cause) => {
        const reason = detail(cause)
        return /pixel limit/i.test(reason)
          ? undecidable(`a picture of more than ${maxPixels} pixels`, cause)
          : new Unusable({ kind: "Unparsable", reason: `no picture: ${reason}`, cause })
      }
    })
  })

const program = "tesseract"
const patience = "60 seconds"
const decode = (stream: Stream.Stream<Uint8Array, unknown>) =>
  Effect.catchAll(
    Stream.runFold(Stream.decodeText(stream), "", (text, part) => text + part),
    (cause) => Effect.fail(undecidable(`what ${program} says cannot be read: ${detail(cause)}`, cause))
  )

/**
 * What is written in a PNG. `layout` is the program's `--psm`: 3 takes the picture for a page, 11 for pieces of text all over
 * it.
 */
export const recognize = (png: Uint8Array, layout: 3 | 11): Effect.Effect<string, Unusable, CommandExecutor> =>
  Effect.scoped(
    Effect.gen(function* () {
      const command = Command.make(program, "stdin", "stdout", "-l", "eng", "--psm", String(layout)).pipe(
        // Rollouts are judged side by side: a thread each is enough.
        Command.env({ OMP_THREAD_LIMIT: "1" }),
        Command.stdin(Stream.make(png))
      )
      const process = yield* Effect.mapError(Command.start(command), (cause) =>
        cause._tag === "SystemError" && cause.reason === "NotFound"
          ? undecidable(`the program ${program} reads text in pictures and is not there: install tesseract-ocr`, cause)
          : undecidable(`${program} does not start: ${cause.message}`, cause)
      )
      const [text, complaint, exitCode] = yield* Effect.all(
        [
          decode(process.stdout),
          decode(process.stderr),
          Effect.mapError(process.exitCode, (cause) => undecidable(`${program}: ${cause.message}`, cause))
        ],
        { concurrency: "unbounded" }
      )
      return exitCode === 0
        ? text
        : yield* undecidable(`${program} ended with ${exitCode}: ${complaint.trim().slice(-500)}`)
    })
  ).pipe(
    Effect.timeoutFail({ duration: patience, onTimeout: () => undecidable(`${program} took more than ${patience}`) })
  )
