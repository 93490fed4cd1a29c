/**
 * Metrics over sound and film. What is in the files comes from the host's `ffmpeg`; without it there is no score.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as AudioFeatures from "./internal/audioFeatures.js"
import * as Ffmpeg from "./internal/ffmpeg.js"
import * as Id3 from "./internal/id3.js"
import * as PerceptualHash from "./internal/perceptualHash.js"
import * as TimeWarp from "./internal/timeWarp.js"
import { type FileRef, type Metric, make, makeEffect, type Reader as ReaderType, Unusable } from "./Metric.js"
import * as Reader from "./Reader.js"
import * as Rule from "./Rule.js"

/** A file that is there. Its content is another program's to read. */
const fileRef: ReaderType<FileRef> = (value) => {
  if (value?._tag === "File") return Effect.succeed(value)
  return value?._tag === "Missing"
    ? new Unusable({ kind: "Missing", reason: value.reason })
    : new Unusable({ kind: "Undecidable", reason: `a file is needed, not ${value?._tag ?? "nothing"}` })
}

/** Half an hour: what is longer is not compared. */
const maxSeconds = 1800

const mono = ["-map", "0:a:0", "-vn", "-ac", "1", "-ar", String(AudioFeatures.sampleRate), "-f", "f32le"]

/** The sound of a file as a row of mel-frequency cepstral coefficients. */
const sound: ReaderType<TimeWarp.Vectors> = (value) =>
  Effect.gen(function* () {
    const file = yield* fileRef(value)
    const bytes = yield* Ffmpeg.read(file, mono, 4 * maxSeconds * AudioFeatures.sampleRate)
    // A copy, because numbers of four bytes have to begin where four divides.
    const samples = new Float32Array(new Uint8Array(bytes).buffer, 0, bytes.length >> 2)
    const dimension = AudioFeatures.coefficients
    const values = yield* AudioFeatures.mfcc(samples)
    return { values, dimension, length: values.length / dimension }
  })

/**
 * How similar two sounds are: e to the power of minus the mean distance (of cosines) along the path of the dynamic time
 * warping of their mel-frequency cepstral coefficients.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareAudios: Metric = makeEffect({
  name: "compare_audios",
  result: sound,
  expected: sound,
  options: Schema.Struct({}),
  score: (result, gold) =>
    Effect.map(TimeWarp.warp(result, gold), ({ distance, path }) => Math.exp(-distance / path.length))
})

const square = PerceptualHash.side

/** Every frame once, whatever its time is: the frame rate of the output is made that of the frames. */
const framesOf = (count: number) => [
  ...["-map", "0:v:0", "-an", "-r", "25", "-frames:v", String(count), "-f", "rawvideo", "-vf"],
  `settb=1/25,setpts=N,scale=${square}:${square}:flags=lanczos:out_range=full,format=gray`
]

/**
 * Two films show the same: of their first frames, pair by pair, at most `threshold` differ in more than `threshold` bits of
 * their perceptual hashes (5), and neither ends before the other within the `max_frames_to_check` (100) that are looked at.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareVideos: Metric = makeEffect({
  name: "compare_videos",
  result: fileRef,
  expected: fileRef,
  options: Schema.Struct({
    max_frames_to_check: Schema.optionalWith(Schema.Int.pipe(Schema.between(1, 10_000)), {
      default: () => 100,
      nullable: true
    }),
    threshold: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 5, nullable: true })
  }),
  score: (result, gold, { max_frames_to_check: count, threshold }) => {
    const size = square * square
    const frames = (file: FileRef) => Ffmpeg.read(file, framesOf(count), size * count)
    return Effect.gen(function* () {
      const expected = yield* Effect.mapError(frames(gold), ({ reason }) => `expected value: ${reason}`)
      const found = yield* Effect.catchAll(frames(result), (error) =>
        error.kind === "Undecidable" ? Effect.fail(`result: ${error.reason}`) : Effect.succeed(undefined)
      )
      if (found === undefined || found.length !== expected.length) return 0
      let different = 0
      for (let at = 0; at < found.length; at += size) {
        const [a, b] = [found.subarray(at, at + size), expected.subarray(at, at + size)]
        const distance = PerceptualHash.distance(PerceptualHash.ofSquare(a), PerceptualHash.ofSquare(b))
        if (distance > threshold) different++
      }
      return different > threshold ? 0 : 1
    })
  }
})

const tagRules = Reader.json(Schema.Record({ key: Schema.String, value: Rule.Rule }))

/**
 * The ID3 tags satisfy a rule each: `{ title: { method, ref }, artist: ... }`, by Mutagen's easy names. A tag that is not
 * there is empty; several values are joined by commas.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkMp3Meta: Metric = make({
  name: "check_mp3_meta",
  result: Id3.tags,
  expected: tagRules,
  options: Schema.Struct({}),
  score: (tags, rules) =>
    Either.map(
      Either.all(Object.entries(rules).map(([name, rule]) => Rule.matches((tags.get(name) ?? []).join(","), rule))),
      (held) => (held.every(Boolean) ? 1 : 0)
    )
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [compareAudios, compareVideos, checkMp3Meta]
