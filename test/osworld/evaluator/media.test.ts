import { readFileSync } from "node:fs"
import * as CommandExecutor from "@effect/platform/CommandExecutor"
import * as PlatformError from "@effect/platform/Error"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as AudioFeatures from "../../../src/osworld/evaluator/internal/audioFeatures.js"
import * as TimeWarp from "../../../src/osworld/evaluator/internal/timeWarp.js"
import type { Metric, Value } from "../../../src/osworld/evaluator/Metric.js"
import { checkMp3Meta, compareAudios, compareVideos, metrics } from "../../../src/osworld/evaluator/media.js"
import { file, fixture, json, judge, missing, written } from "./support.js"

/** Recordings that ffmpeg made: `fixtures/media/make.sh`. */
const recording = (name: string) => file(fixture(`media/${name}`))

/** What librosa, fastdtw and mutagen say of them: `fixtures/media/peers.py`. */
const peers: {
  readonly frames: number
  readonly frame0: Array<number>
  readonly frame30: Array<number>
  readonly warp: Record<string, { readonly distance: number; readonly path: number; readonly score: number }>
  readonly tags: Record<string, Record<string, Array<string>>>
} = JSON.parse(readFileSync(fixture("media/peers.json"), "utf8"))

const vectors = (...rows: ReadonlyArray<ReadonlyArray<number>>): TimeWarp.Vectors => ({
  length: rows.length,
  dimension: rows[0]?.length ?? 1,
  values: Float64Array.from(rows.flat())
})

describe("dynamic time warping", () => {
  it.effect("finds the cheapest path, worked by hand", () =>
    Effect.gen(function* () {
      const [east, north] = [
        [1, 0],
        [0, 1]
      ]
      // One of three stays twice: no distance at all.
      const stretched = yield* TimeWarp.warp(vectors(east, north), vectors(east, east, north))
      assert.deepStrictEqual(stretched, {
        distance: 0,
        path: [
          [0, 0],
          [0, 1],
          [1, 2]
        ]
      })
      // The cosine of a right angle is 0, of half of it 1/sqrt(2): east meets (1, 1), and then north does.
      const { distance } = yield* TimeWarp.warp(vectors(east, north), vectors([1, 1]))
      assert.approximately(distance, 2 * (1 - Math.SQRT1_2), 1e-12)
    })
  )

  const row = FastCheck.array(FastCheck.tuple(FastCheck.integer({ min: -9, max: 9 }), FastCheck.constant(1)), {
    minLength: 1,
    maxLength: 40
  })
  it.effect.prop(
    "a row is at no distance from itself, and a path goes from start to end in single steps",
    [row, row],
    ([a, b]) =>
      Effect.gen(function* () {
        assert.approximately((yield* TimeWarp.warp(vectors(...a), vectors(...a))).distance, 0, 1e-9)
        const { distance, path } = yield* TimeWarp.warp(vectors(...a), vectors(...b))
        assert.isAtLeast(distance, 0)
        assert.deepStrictEqual(path[0], [0, 0])
        assert.deepStrictEqual(path.at(-1), [a.length - 1, b.length - 1])
        for (const [index, [i, j]] of path.slice(1).entries()) {
          const [fromI, fromJ] = path[index] ?? [0, 0]
          assert.include([1, 2], i - fromI + (j - fromJ))
          assert.isTrue(i - fromI <= 1 && j - fromJ <= 1)
        }
      })
  )
})

describe("mel-frequency cepstral coefficients", () => {
  it.effect("are librosa's", () =>
    Effect.gen(function* () {
      // FLAC is lossless: the samples are those of the formula in make.sh, in 16 bits.
      const rate = AudioFeatures.sampleRate
      const samples = Float32Array.from({ length: 1.5 * rate }, (_, n) => {
        const t = n / rate
        const tone = 0.4 * Math.sin(2 * Math.PI * t * (220 + 110 * Math.floor(2 * t)))
        return Math.round(32768 * (tone + 0.2 * Math.sin(2 * Math.PI * 880 * t * t))) / 32768
      })
      const rows = yield* AudioFeatures.mfcc(samples)
      const frame = (index: number) => Array.from(rows.slice(index * 20, (index + 1) * 20))
      assert.strictEqual(rows.length / 20, peers.frames)
      for (const [index, expected] of [
        [0, peers.frame0],
        [30, peers.frame30]
      ] as const) {
        for (const [k, value] of frame(index).entries())
          assert.approximately(value, expected[k] ?? 0, 5e-3, `${index}.${k}`)
      }
    })
  )
})

const tags = (rules: Record<string, readonly [string, unknown]>) =>
  json(Object.fromEntries(Object.entries(rules).map(([name, [method, ref]]) => [name, { method, ref }])))

const cases: ReadonlyArray<readonly [Metric, string, Value, Record<string, unknown>, number]> = [
  [compareAudios, "tune.flac", recording("tune.flac"), {}, 1],
  [compareVideos, "film.mp4", recording("film.mp4"), {}, 1],
  // Another size and another codec, frame by frame.
  [compareVideos, "smaller.avi", recording("film.mp4"), {}, 1],
  [compareVideos, "film.mp4", recording("smaller.avi"), {}, 1],
  [compareVideos, "other.mp4", recording("film.mp4"), {}, 0],
  [compareVideos, "shorter.mp4", recording("film.mp4"), {}, 0],
  [compareVideos, "film.mp4", recording("shorter.mp4"), {}, 0],
  // The end is beyond what is looked at.
  [compareVideos, "shorter.mp4", recording("film.mp4"), { max_frames_to_check: 19 }, 1],
  [compareVideos, "other.mp4", recording("film.mp4"), { threshold: 64 }, 1],
  [checkMp3Meta, "tagged.mp3", tags({ title: ["eq", "Maple Leaf Rag"], artist: ["eq", "Scott Joplin"] }), {}, 1],
  [checkMp3Meta, "tagged.mp3", tags({ title: ["eq", "Maple Leaf Rag"], artist: ["eq", "Eubie Blake"] }), {}, 0],
  [checkMp3Meta, "tagged.mp3", tags({ composer: ["eq", ""], title: ["re", "^Maple"] }), {}, 1],
  [checkMp3Meta, "tagged4.mp3", tags({ title: ["eq", "Grüße"] }), {}, 1]
]

describe("media metrics", () => {
  for (const [metric, result, expected, options, score] of cases) {
    const said = JSON.stringify([expected, options]).slice(-70)
    it.live(`${metric.name} of ${result} by ${said} is ${score}`, () =>
      Effect.map(judge(metric, recording(result), expected, options), (actual) =>
        typeof actual === "number" ? assert.approximately(actual, score, 1e-9) : assert.fail(actual)
      )
    )
  }

  it.live("compare_audios is librosa's and fastdtw's distance, and hardly cares who is first", () =>
    Effect.gen(function* () {
      for (const [name, { score }] of Object.entries(peers.warp)) {
        const there = Number(yield* judge(compareAudios, recording("tune.flac"), recording(name)))
        assert.approximately(there, score, 2e-3, name)
        const back = Number(yield* judge(compareAudios, recording(name), recording("tune.flac")))
        assert.approximately(back, there, 0.02, name)
      }
      // What a codec does to the sound is little.
      assert.isAbove(Number(yield* judge(compareAudios, recording("untagged.mp3"), recording("tune.flac"))), 0.95)
    })
  )

  it.live("check_mp3_meta has the tags that mutagen has", () =>
    Effect.gen(function* () {
      for (const [name, expected] of Object.entries(peers.tags)) {
        const rules = Object.entries(expected).map(([tag, values]) => [tag, ["eq", values.join(",")] as const])
        assert.strictEqual(yield* judge(checkMp3Meta, recording(name), tags(Object.fromEntries(rules))), 1)
      }
      assert.strictEqual(yield* judge(checkMp3Meta, recording("untagged.mp3"), tags({ title: ["eq", ""] })), 0)
      assert.include(
        String(yield* judge(checkMp3Meta, recording("tagged.mp3"), tags({ title: ["like", "Maple"] }))),
        "not supported"
      )
    })
  )

  it.live("score a result that is missing or no recording 0, and say so of a gold one", () =>
    Effect.gen(function* () {
      const place = yield* written({ "text.mp3": "no recording at all", "empty.mp3": "" })
      const bad = [missing, file(place("text.mp3")), file(place("empty.mp3"))]
      for (const metric of metrics) {
        const [, good = "", gold] = cases.find(([one]) => one === metric) ?? []
        for (const value of bad) {
          assert.strictEqual(yield* judge(metric, value, gold), 0, metric.name)
          assert.include(String(yield* judge(metric, recording(good), value)), "cannot decide", metric.name)
        }
      }
      // A film has no sound to compare.
      assert.strictEqual(yield* judge(compareAudios, recording("film.mp4"), recording("tune.flac")), 0)
      assert.include(
        String(yield* judge(compareVideos, recording("film.mp4"), recording("film.mp4"), { threshold: -1 })),
        "bad options"
      )
    }).pipe(Effect.scoped)
  )

  it.live("do not follow a playlist to the files of this host, whatever it is called", () =>
    Effect.gen(function* () {
      const tune = fixture("media/tune.flac")
      const place = yield* written({
        "list.mp3": `#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile://${tune}\n#EXT-X-ENDLIST\n`,
        "concat.mp3": `ffconcat version 1.0\nfile '${tune}'\n`
      })
      for (const name of ["list.mp3", "concat.mp3"]) {
        assert.strictEqual(yield* judge(compareAudios, file(place(name)), recording("tune.flac")), 0, name)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("say what to install where there is no ffmpeg", () =>
    Effect.gen(function* () {
      const absent = new PlatformError.SystemError({
        reason: "NotFound",
        module: "Command",
        method: "spawn",
        pathOrDescriptor: "ffmpeg"
      })
      const executor = CommandExecutor.makeExecutor(() => Effect.fail(absent))
      const without = Layer.merge(NodeContext.layer, Layer.succeed(CommandExecutor.CommandExecutor, executor))
      for (const metric of [compareAudios, compareVideos]) {
        const [, good = "", gold] = cases.find(([one]) => one === metric) ?? []
        const error = yield* metric
          .evaluate({ result: recording(good), expected: gold, options: {} })
          .pipe(Effect.provide(without), Effect.flip)
        assert.include(error.message, "install the package ffmpeg")
      }
    })
  )
})
