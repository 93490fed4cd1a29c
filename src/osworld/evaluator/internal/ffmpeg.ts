/** Sound and frames of a file that an agent may have made, by the host's ffmpeg. */
import * as Command from "@effect/platform/Command"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type FileRef, type Requirements, Unusable } from "../Metric.js"

/**
 * Containers of sound and pictures alone. Playlists and scripts, which name other files and addresses of this host, are
 * not among them whatever a file is called.
 */
const demuxers = [
  ...[
    "aac",
    "ac3",
    "aiff",
    "amr",
    "ape",
    "asf",
    "au",
    "avi",
    "caf",
    "dv",
    "eac3",
    "flac",
    "flv",
    "gif",
    "h264",
    "hevc"
  ],
  ...["ivf", "m4v", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2", "mp3", "mpeg", "mpegts", "mpegvideo", "ogg", "opus"],
  ...["w64", "wav", "wv"]
]

const timeLimit = "120 seconds"

const tail = <E>(stream: Stream.Stream<Uint8Array, E>): Effect.Effect<string, E> => {
  const decoder = new TextDecoder()
  return Stream.runFold(stream, "", (text, bytes) => (text + decoder.decode(bytes, { stream: true })).slice(-2000))
}

/**
 * What ffmpeg writes to its standard output: at most `maxBytes`, beyond which it is refused. `options` come after the
 * input.
 */
export const read = (
  file: FileRef,
  options: ReadonlyArray<string>,
  maxBytes: number
): Effect.Effect<Uint8Array, Unusable, Requirements> => {
  const unusable = (kind: Unusable["kind"], reason: string, cause?: unknown) =>
    new Unusable({ kind, reason: `${file.name}: ${reason}`, cause })
  return Effect.gen(function* () {
    const process = yield* Command.start(
      Command.make(
        "ffmpeg",
        ...["-nostdin", "-hide_banner", "-v", "error", "-protocol_whitelist", "file"],
        ...["-format_whitelist", demuxers.join(","), "-max_pixels", "50000000", "-i", `file:${file.path}`],
        ...options,
        "pipe:1"
      )
    ).pipe(
      Effect.mapError((cause) =>
        cause._tag === "SystemError" && cause.reason === "NotFound"
          ? unusable("Undecidable", "ffmpeg is needed to read it and is not on this host: install the package ffmpeg")
          : unusable("Undecidable", "ffmpeg could not be started", cause)
      )
    )
    let size = 0
    const collect = Stream.runFoldEffect(process.stdout, [] as Uint8Array[], (chunks, chunk) => {
      size += chunk.length
      if (size > maxBytes) return Effect.fail(unusable("Undecidable", "it is too long to be judged"))
      chunks.push(chunk)
      return Effect.succeed(chunks)
    })
    const [chunks, said] = yield* Effect.all([collect, tail(process.stderr)], { concurrency: 2 })
    yield* process.exitCode
    // ffmpeg decodes what it can of a damaged file, as players do.
    if (size > 0) return Buffer.concat(chunks)
    return yield* /Decoder .*not found|Protocol not found/.test(said)
      ? unusable("Undecidable", `this host's ffmpeg cannot read it: ${said.trim()}`)
      : unusable("Unparsable", `nothing to hear or see: ${said.trim()}`)
  }).pipe(
    Effect.catchTags({
      SystemError: (cause) => unusable("Undecidable", "ffmpeg broke off", cause),
      BadArgument: (cause) => unusable("Undecidable", "ffmpeg broke off", cause)
    }),
    Effect.scoped,
    Effect.timeoutFail({
      duration: timeLimit,
      onTimeout: () => unusable("Undecidable", `ffmpeg did not read it within ${timeLimit}`)
    })
  )
}
