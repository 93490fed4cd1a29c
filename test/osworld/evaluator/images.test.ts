import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import sharp from "sharp"
import * as Structure from "../../../src/osworld/evaluator/imageStructure.js"
import * as Images from "../../../src/osworld/evaluator/images.js"
import * as PerceptualHash from "../../../src/osworld/evaluator/internal/perceptualHash.js"
import * as Raster from "../../../src/osworld/evaluator/internal/raster.js"
import { bicubic, lanczos, resize, resizePlane } from "../../../src/osworld/evaluator/internal/resample.js"
import * as Ssim from "../../../src/osworld/evaluator/internal/ssim.js"
import { type Metric, Value } from "../../../src/osworld/evaluator/Metric.js"
import { file, fixture, json, judge, missing, written } from "./support.js"

const picture = (name: string) => file(fixture(`images/${name}`))
const load = (name: string) =>
  Raster.decode({ name, bytes: readFileSync(fixture(`images/${name}`)) }).pipe(Effect.orDie)

/** What Pillow, scikit-image and imagehash say of the same pictures: `fixtures/images/peers.py`. */
const peers: {
  readonly ssim: Record<string, number>
  readonly greySsim: Record<string, number>
  readonly phash: Record<string, string>
  readonly every37th: Record<
    "L" | "H" | "S" | "V" | "lanczosL41x29" | "lanczosL150x130" | "bicubicRgb33x50" | "lanczosRgba60x40",
    Array<number>
  >
  readonly windows5: number
} = JSON.parse(readFileSync(fixture("images/peers.json"), "utf8"))

const pairs = (a: Raster.Raster, b: Raster.Raster) =>
  ([0, 1, 2] as const).map((channel) => ({
    width: a.width,
    height: a.height,
    a: a.colours[channel],
    b: b.colours[channel]
  }))

const interleaved = ({ alpha, colours }: Raster.Raster): Array<number> => {
  const channels = alpha === undefined ? colours : [...colours, alpha]
  return Array.from(colours[0], (_, i) => channels.map((plane) => plane[i] ?? 0)).flat()
}
const every37th = (samples: Uint8Array | Array<number>) => Array.from(samples).filter((_, i) => i % 37 === 0)

const hex = (hash: ReadonlyArray<boolean>): string =>
  BigInt(`0b${hash.map((bit) => (bit ? "1" : "0")).join("")}`)
    .toString(16)
    .padStart(16, "0")

describe("structural similarity", () => {
  const flat = (value: number) => new Uint8Array(49).fill(value)
  const similarity = (a: Uint8Array, b: Uint8Array) => Ssim.similarity([{ width: 7, height: 7, a, b }])

  it.effect("is what the formula says, worked by hand for one window", () =>
    Effect.gen(function* () {
      // Flat pictures have no variance: (2ab + C1) / (a^2 + b^2 + C1), C1 = 2.55^2.
      assert.approximately(yield* similarity(flat(100), flat(50)), (10_000 + 6.5025) / (12_500 + 6.5025), 1e-12)
      // One sample of 49 is 49 in a, all are 0 in b. Mean 1, sample variance (49^2/49 - 1) * 49/48 = 49; C2 = 7.65^2.
      const spot = flat(0)
      spot[24] = 49
      const expected = (6.5025 * 58.5225) / ((1 + 6.5025) * (49 + 58.5225))
      assert.approximately(yield* similarity(spot, flat(0)), expected, 1e-12)
      assert.strictEqual(yield* similarity(spot, spot), 1)
    })
  )

  it.effect("is scikit-image's", () =>
    Effect.gen(function* () {
      const scene = yield* load("scene.png")
      for (const [name, expected] of Object.entries(peers.ssim)) {
        const other = yield* load(name)
        // libjpeg and libjpeg-turbo may differ by one in a sample.
        const slack = name.endsWith(".jpg") ? 1e-3 : 1e-9
        assert.approximately(yield* Ssim.similarity(pairs(scene, other)), expected, slack, name)
      }
      const box = { left: 0, top: 0, right: 9, bottom: 5 }
      const [a, b] = [Raster.crop(scene, box), Raster.crop(yield* load("blurred.png"), box)]
      assert.approximately(yield* Ssim.similarity(pairs(a, b), 5), peers.windows5, 1e-9)
    })
  )

  it.effect.prop(
    "is 1 for equal pictures, symmetric, and the same in bands",
    [
      FastCheck.uint8Array({ minLength: 240, maxLength: 240 }),
      FastCheck.uint8Array({ minLength: 240, maxLength: 240 })
    ],
    ([a, b]) =>
      Effect.gen(function* () {
        const pair = { width: 15, height: 16, a, b }
        assert.strictEqual(yield* Ssim.similarity([{ ...pair, b: a }]), 1)
        const there = yield* Ssim.similarity([pair])
        assert.approximately(yield* Ssim.similarity([{ ...pair, a: b, b: a }]), there, 1e-12)
        const bands = Ssim.windowSum(pair, 7, 0, 3) + Ssim.windowSum(pair, 7, 3, 10)
        assert.approximately(bands, Ssim.windowSum(pair, 7, 0, 10), 1e-9)
      })
  )
})

describe("pictures", () => {
  it.effect("have the lightness, hue, saturation and value that Pillow gives them", () =>
    Effect.gen(function* () {
      const scene = yield* load("scene.png")
      const { hue, saturation, value } = Raster.hsv(scene)
      assert.deepStrictEqual(every37th(Raster.lightness(scene)), peers.every37th.L)
      assert.deepStrictEqual(every37th(hue), peers.every37th.H)
      assert.deepStrictEqual(every37th(saturation), peers.every37th.S)
      assert.deepStrictEqual(every37th(value), peers.every37th.V)
    })
  )

  it.effect("are resized as Pillow resizes them", () =>
    Effect.gen(function* () {
      const scene = yield* load("scene.png")
      const grey = (width: number, height: number) =>
        every37th(resizePlane(Raster.lightness(scene), scene, { width, height }, lanczos))
      assert.deepStrictEqual(grey(41, 29), peers.every37th.lanczosL41x29)
      assert.deepStrictEqual(grey(150, 130), peers.every37th.lanczosL150x130)
      const small = resize(scene, { width: 33, height: 50 }, bicubic)
      assert.deepStrictEqual(every37th(interleaved(small)), peers.every37th.bicubicRgb33x50)
      const framed = resize(yield* load("framed.png"), { width: 60, height: 40 }, lanczos)
      assert.deepStrictEqual(every37th(interleaved(framed)), peers.every37th.lanczosRgba60x40)
    })
  )

  it.effect("have imagehash's perceptual hash", () =>
    Effect.gen(function* () {
      for (const [name, expected] of Object.entries(peers.phash)) {
        if (name.endsWith(".jpg")) continue
        assert.strictEqual(hex(PerceptualHash.ofRaster(yield* load(name))), expected, name)
      }
    })
  )

  it.effect("keep what the file says of transparency and palettes", () =>
    Effect.gen(function* () {
      const facts = (name: string) =>
        Effect.map(load(name), ({ alpha, palette }) => ({ alpha: alpha !== undefined, palette }))
      assert.deepStrictEqual(yield* facts("scene.png"), { alpha: false, palette: false })
      assert.deepStrictEqual(yield* facts("gimp-palette.png"), { alpha: false, palette: true })
      assert.deepStrictEqual(yield* facts("framed.png"), { alpha: true, palette: false })
      assert.deepStrictEqual(Raster.contentBox(yield* load("framed.png")), {
        left: 20,
        top: 15,
        right: 116,
        bottom: 79
      })
      assert.strictEqual(Raster.contentBox(yield* load("empty.png")), undefined)
    })
  )
})

/** Metric, result, gold or rule, options, score. The pictures are described in `fixtures/images/make.sh`. */
const cases: ReadonlyArray<
  readonly [Metric, string, string | Record<string, unknown> | undefined, Record<string, unknown>, number]
> = [
  [Structure.checkStructureSim, "scene.jpg", "scene.png", {}, 1],
  [Structure.checkStructureSim, "blurred.png", "scene.png", {}, 0],
  [Structure.checkStructureSim, "small.png", "scene.png", {}, 0],
  [Structure.checkStructureSim, "tiny.png", "scene.png", {}, 0],
  [Structure.checkFileExistsAndStructureSim, "scene.png", "scene.png", {}, 1],
  [Structure.checkFileExistsAndStructureSim, "other.png", "scene.png", {}, 0],
  [Structure.checkStructureSimResized, "framed.png", "scene.png", {}, 1],
  [Structure.checkStructureSimResized, "scene.png", "small.png", {}, 1],
  [Structure.checkStructureSimResized, "other.png", "small.png", {}, 0],
  [Structure.checkStructureSimResized, "empty.png", "scene.png", {}, 0],
  // scikit-image says 0.79.
  [Structure.checkStructureSimWithThreshold, "blurred.png", "scene.png", {}, 0],
  [Structure.checkStructureSimWithThreshold, "blurred.png", "scene.png", { ssim_threshold: 0.75 }, 1],
  [Structure.checkStructureSimWithThreshold, "scene.png", "small.png", {}, 1],
  [Structure.checkStructureSimWithThreshold, "tiny.png", "tiny.png", {}, 1],
  [Structure.checkImageMirror, "gimp-mirrored.png", "scene.png", {}, 1],
  [Structure.checkImageMirror, "mirrored.png", "scene.png", {}, 1],
  [Structure.checkImageMirror, "scene.png", "scene.png", {}, 0],
  [Structure.checkPaletteAndStructureSim, "gimp-palette.png", "scene.png", {}, 1],
  [Structure.checkPaletteAndStructureSim, "palette.png", "scene.png", {}, 1],
  [Structure.checkPaletteAndStructureSim, "scene.png", "scene.png", {}, 0],
  [Structure.checkPaletteAndStructureSim, "palette.png", "other.png", {}, 0],
  // scikit-image says 0.697, above 0.65.
  [Structure.checkContrastIncreaseAndStructureSim, "contrast.png", "scene.png", {}, 1],
  [Structure.checkContrastIncreaseAndStructureSim, "scene.png", "contrast.png", {}, 0],
  [Structure.checkContrastIncreaseAndStructureSim, "scene.png", "scene.png", {}, 0],
  [Structure.checkSaturationIncreaseAndStructureSim, "saturated.png", "scene.png", {}, 1],
  [Structure.checkSaturationIncreaseAndStructureSim, "scene.png", "saturated.png", {}, 0],
  [Structure.checkSaturationIncreaseAndStructureSim, "scene.png", "scene.png", {}, 0],
  [Structure.checkBrightnessDecreaseAndStructureSim, "darker.png", "scene.png", {}, 1],
  [Structure.checkBrightnessDecreaseAndStructureSim, "scene.png", "darker.png", {}, 0],
  [Structure.checkBrightnessDecreaseAndStructureSim, "small.png", "scene.png", {}, 0],
  [Images.compareImageList, "scene.png", "scene.png", {}, 1],
  [Images.compareImageList, "darker.png", "scene.png", {}, 0],
  [Images.checkImageSize, "scene.png", { width: 96, height: 64 }, {}, 1],
  [Images.checkImageSize, "scene.png", { height: 64 }, {}, 1],
  [Images.checkImageSize, "scene.png", { width: 64 }, {}, 0],
  [Images.checkImageSize, "framed.png", { width: 96, height: 64, ignore_transparent: true }, {}, 1],
  [Images.checkImageSize, "framed.png", { width: 96, height: 64 }, {}, 0],
  [Images.checkImageSize, "empty.png", { width: 96, ignore_transparent: true }, {}, 0],
  [Images.checkImageFileSize, "scene.png", { max_size: 500_000 }, {}, 1],
  [Images.checkImageFileSize, "scene.png", { max_size: 1000 }, {}, 0],
  [Images.checkGreenBackground, "green.png", "figure.png", {}, 1],
  [Images.checkGreenBackground, "part-green.png", "figure.png", {}, 0],
  [Images.checkGreenBackground, "figure.png", "figure.png", {}, 0],
  [Images.checkGreenBackground, "scene.png", "figure.png", {}, 0],
  [Images.checkTrianglePosition, "middle.png", undefined, {}, 1],
  [Images.checkTrianglePosition, "middle-soft.png", undefined, {}, 1],
  [Images.checkTrianglePosition, "corner.png", undefined, {}, 0],
  [Images.checkTrianglePosition, "empty.png", undefined, {}, 0],
  [Images.checkTextboxOnLeftside, "left.png", undefined, {}, 1],
  [Images.checkTextboxOnLeftside, "centred.png", undefined, {}, 0],
  [Images.increaseSaturation, "scene.png", "saturated.png", {}, 1],
  [Images.increaseSaturation, "saturated.png", "scene.png", {}, 0],
  [Images.decreaseBrightness, "scene.png", "darker.png", {}, 1],
  [Images.decreaseBrightness, "darker.png", "scene.png", {}, 0],
  [Images.checkSharper, "scene.png", "blurred.png", {}, 1],
  [Images.checkSharper, "blurred.png", "scene.png", {}, 0],
  [Images.compareTrianglePositions, "corner.png", "middle.png", {}, 1],
  [Images.compareTrianglePositions, "middle.png", "corner.png", {}, 0],
  [Images.compareTrianglePositions, "figure.png", "middle.png", {}, 0]
]

describe("picture metrics", () => {
  for (const [metric, result, expected, options, score] of cases) {
    const gold = typeof expected === "string" ? picture(expected) : expected === undefined ? undefined : json(expected)
    const said = typeof expected === "string" ? expected : JSON.stringify(expected)
    it.effect(`${metric.name} of ${result} by ${said} ${JSON.stringify(options)} is ${score}`, () =>
      Effect.map(judge(metric, picture(result), gold, options), (actual) => assert.strictEqual(actual, score))
    )
  }

  it.effect("score a result that is missing, broken or no picture 0, and say so of a gold one", () =>
    Effect.gen(function* () {
      const place = yield* written({ "text.png": "not a picture", "empty.png": "" })
      const bad = [missing, file(place("text.png")), file(place("empty.png")), picture("cut.png")]
      for (const metric of [...Images.metrics, ...Structure.metrics]) {
        const [, , expected] = cases.find(([one]) => one === metric) ?? []
        const gold =
          typeof expected === "string" ? picture(expected) : expected === undefined ? undefined : json(expected)
        for (const value of bad) {
          // The size of a file is the size of a file.
          if (metric === Images.checkImageFileSize && value !== missing) continue
          assert.strictEqual(yield* judge(metric, value, gold ?? picture("scene.png")), 0, metric.name)
        }
        if (expected === undefined) continue
        for (const value of bad) {
          assert.include(String(yield* judge(metric, picture("scene.png"), value)), "cannot decide", metric.name)
        }
      }
    }).pipe(Effect.scoped)
  )

  it.effect("compare_images is the similarity in black and white at the smaller size, raw", () =>
    Effect.gen(function* () {
      for (const [name, expected] of Object.entries(peers.greySsim)) {
        const slack = name.endsWith(".jpg") ? 1e-3 : 1e-9
        const score = yield* judge(Images.compareImages, picture(name), picture("scene.png"))
        assert.approximately(Number(score), expected, slack, name)
        assert.strictEqual(yield* judge(Images.compareImages, picture(name), picture(name)), 1)
      }
    })
  )

  it.effect("compare_images counts from the base result, and wants it beaten by 0.01", () =>
    Effect.gen(function* () {
      const similarity = peers.greySsim["blurred.png"] ?? 0
      const judged = (base: number) =>
        judge(Images.compareImages, picture("blurred.png"), picture("scene.png"), { reference_base_result: base })
      assert.approximately(Number(yield* judged(0.5)), (similarity - 0.5) / 0.5, 1e-9)
      assert.strictEqual(yield* judged(similarity - 0.009), 0)
      assert.include(String(yield* judged(1)), "bad options")
      assert.strictEqual(yield* judge(Images.compareImages, picture("tiny.png"), picture("scene.png")), 0)
      assert.include(
        String(yield* judge(Images.compareImages, picture("scene.png"), picture("tiny.png"))),
        "too few to compare"
      )
    })
  )

  it.effect("compare_image_list wants as many pictures, in order, at any size", () =>
    Effect.gen(function* () {
      const list = (...names: ReadonlyArray<string>) =>
        Value.Files({ files: names.map((name) => ({ name, path: fixture(`images/${name}`) })) })
      const judged = (result: Value, gold: Value) => judge(Images.compareImageList, result, gold)
      assert.strictEqual(yield* judged(list("scene.png", "other.png"), list("scene.png", "other.png")), 1)
      assert.strictEqual(yield* judged(list("other.png", "scene.png"), list("scene.png", "other.png")), 0)
      assert.strictEqual(yield* judged(list("scene.png"), list("scene.png", "other.png")), 0)
      assert.strictEqual(yield* judged(list("scene.png", "cut.png"), list("scene.png", "other.png")), 0)
      assert.include(
        String(yield* judged(list("other.png", "scene.png"), list("scene.png", "cut.png"))),
        "cannot decide"
      )
      // A flat picture is the same at every size.
      const flat = (width: number) =>
        Effect.promise(() =>
          sharp({ create: { width, height: 9, channels: 3, background: "#406080" } })
            .png()
            .toBuffer()
        )
      const place = yield* written({ "a.png": yield* flat(9), "b.png": yield* flat(20) })
      assert.strictEqual(yield* judged(file(place("a.png")), file(place("b.png"))), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("check_triangle_position in compat takes the rarest colour but one, as upstream does", () =>
    Effect.gen(function* () {
      // Two colours: that is the background, and its centre is near the middle wherever the triangle is.
      const judged = (compat: boolean) =>
        judge(Images.checkTrianglePosition, picture("corner.png"), undefined, {}, { compat })
      assert.strictEqual(yield* judged(false), 0)
      assert.strictEqual(yield* judged(true), 1)
    })
  )

  it.effect("refuse a picture that claims too many pixels, and formats that are not decoded", () =>
    Effect.gen(function* () {
      // A white picture of 60 million pixels is a file of some hundred kilobytes.
      const large = yield* Effect.promise(() =>
        sharp({ create: { width: 10_000, height: 6000, channels: 3, background: "white" } })
          .png()
          .toBuffer()
      )
      const bomb = yield* written({ "bomb.png": large })
      assert.include(
        String(yield* judge(Structure.checkStructureSim, file(bomb("bomb.png")), picture("scene.png"))),
        "10000 x 6000 pixels"
      )
      assert.include(
        String(yield* judge(Structure.checkStructureSim, picture("scene.bmp"), picture("scene.png"))),
        "not supported"
      )
    }).pipe(Effect.scoped)
  )
})
