/**
 * Metrics that ask whether two pictures show the same thing, by structural similarity, and what differs beside.
 *
 * A result of another size is another picture: it scores 0. So does one that is too small to be looked at through a
 * window of 7 x 7 pixels.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Raster from "./internal/raster.js"
import { bicubic, lanczos, resize } from "./internal/resample.js"
import * as Ssim from "./internal/ssim.js"
import { type Metric, makeEffect } from "./Metric.js"

const none = Schema.Struct({})

/** The similarity above which upstream takes two pictures for the same. */
const same = 0.9

const score = (passed: boolean): number => (passed ? 1 : 0)

/** Why nothing can be compared with this gold picture. */
const tooSmall = (gold: Raster.Raster): string | undefined =>
  Math.min(gold.width, gold.height) < Ssim.usualWindow
    ? `the expected picture has ${gold.width} x ${gold.height} pixels, too few to compare`
    : undefined

const similarColours = (a: Raster.Raster, b: Raster.Raster, window: number = Ssim.usualWindow): Effect.Effect<number> =>
  Ssim.similarity(
    ([0, 1, 2] as const).map((channel) => ({
      width: a.width,
      height: a.height,
      a: a.colours[channel],
      b: b.colours[channel]
    })),
    window
  )

/** Whether the pictures have one size and are at least so similar. */
const alike = (result: Raster.Raster, gold: Raster.Raster, threshold: number): Effect.Effect<boolean, string> => {
  const refusal = tooSmall(gold)
  if (refusal !== undefined) return Effect.fail(refusal)
  return Raster.sameSize(result, gold)
    ? Effect.map(similarColours(result, gold), (similarity) => similarity >= threshold)
    : Effect.succeed(false)
}

const structure = (
  name: string,
  judge: (result: Raster.Raster, gold: Raster.Raster) => Effect.Effect<boolean, string>
): Metric =>
  makeEffect({
    name,
    result: Raster.image,
    expected: Raster.image,
    options: none,
    score: (result, gold) => Effect.map(judge(result, gold), score)
  })

/**
 * The pictures have one size, and a similarity of 0.9 or more.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkStructureSim: Metric = structure("check_structure_sim", (result, gold) => alike(result, gold, same))

/**
 * The picture was saved, and is the expected one by `check_structure_sim`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkFileExistsAndStructureSim: Metric = structure("check_file_exists_and_structure_sim", (result, gold) =>
  alike(result, gold, same)
)

/**
 * `check_structure_sim` of what is not transparent in the result, once it has the size of the expected picture.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkStructureSimResized: Metric = structure("check_structure_sim_resized", (result, gold) => {
  const box = Raster.contentBox(result)
  if (box === undefined) return Effect.succeed(false)
  const content = { ...Raster.crop(result, box), alpha: undefined }
  return alike(resize(content, gold, bicubic), gold, same)
})

/** The largest odd window that fits. */
const windowFor = ({ height, width }: Raster.Raster): number => {
  const fits = Math.min(Ssim.usualWindow, width, height)
  return fits % 2 === 1 ? fits : fits - 1
}

/**
 * The similarity is `ssim_threshold` or more (0.85 unless given), once the result has the size of the expected picture.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkStructureSimWithThreshold: Metric = makeEffect({
  name: "check_structure_sim_with_threshold",
  result: Raster.image,
  expected: Raster.image,
  options: Schema.Struct({
    ssim_threshold: Schema.optionalWith(Schema.Number, { default: () => 0.85, nullable: true })
  }),
  score: (result, gold, { ssim_threshold }) => {
    const window = windowFor(gold)
    // The covariance of a sample of one pixel is not defined.
    if (window < 3)
      return Effect.fail(`the expected picture has ${gold.width} x ${gold.height} pixels, too few to compare`)
    return Effect.map(similarColours(resize(result, gold, lanczos), gold, window), (similarity) =>
      score(similarity >= ssim_threshold)
    )
  }
})

/**
 * The result is the expected picture as a mirror shows it: a similarity of 0.99 or more.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkImageMirror: Metric = structure("check_image_mirror", (result, gold) =>
  alike(Raster.mirror(result), gold, 0.99)
)

/**
 * The file names its colours by an index, and shows the expected picture.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPaletteAndStructureSim: Metric = structure("check_palette_and_structure_sim", (result, gold) =>
  Effect.map(alike(result, gold, same), (similar) => similar && result.palette)
)

/** The standard deviation of all samples of all colours. */
const contrast = ({ colours }: Raster.Raster): number => {
  let [count, sum, squares] = [0, 0, 0]
  for (const plane of colours) {
    for (const sample of plane) {
      sum += sample
      squares += sample * sample
    }
    count += plane.length
  }
  return Math.sqrt(Math.max(0, squares / count - (sum / count) ** 2))
}

/**
 * The result has more contrast (the standard deviation of its samples) than the expected picture, and a similarity of
 * 0.65 or more to it.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkContrastIncreaseAndStructureSim: Metric = structure(
  "check_contrast_increase_and_structure_sim",
  (result, gold) => Effect.map(alike(result, gold, 0.65), (similar) => similar && contrast(result) > contrast(gold))
)

/**
 * The result is more saturated than the expected picture on the mean, and its hues and values are similar: 0.9 or more
 * each.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkSaturationIncreaseAndStructureSim: Metric = structure(
  "check_saturation_increase_and_structure_sim",
  (result, gold) => {
    const refusal = tooSmall(gold)
    if (refusal !== undefined) return Effect.fail(refusal)
    if (!Raster.sameSize(result, gold)) return Effect.succeed(false)
    const a = Raster.hsv(result)
    const b = Raster.hsv(gold)
    const similar = (one: Uint8Array, other: Uint8Array) =>
      Effect.map(
        Ssim.similarity([{ width: gold.width, height: gold.height, a: one, b: other }]),
        (similarity) => similarity >= same
      )
    return Raster.mean(a.saturation) > Raster.mean(b.saturation)
      ? Effect.zipWith(similar(a.hue, b.hue), similar(a.value, b.value), (hue, value) => hue && value)
      : Effect.succeed(false)
  }
)

/** The lightness to which two pictures are brought before they are compared. */
const commonLightness = 128

/** What each byte becomes when the mean lightness is brought to `commonLightness`. */
const normalized = (lightness: number): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, sample) => Math.min(255, Math.trunc((sample * commonLightness) / lightness)))

const meanSquaredError = (
  { colours: a }: Raster.Raster,
  { colours: b }: Raster.Raster,
  tables: { readonly a: Uint8Array; readonly b: Uint8Array }
): number => {
  let sum = 0
  let count = 0
  for (const channel of [0, 1, 2] as const) {
    const [one, other] = [a[channel], b[channel]]
    for (let i = 0; i < one.length; i++) {
      const difference = (tables.a[one[i] ?? 0] ?? 0) - (tables.b[other[i] ?? 0] ?? 0)
      sum += difference * difference
    }
    count += one.length
  }
  return sum / count / (255 * 255)
}

/**
 * The result is darker than the expected picture on the mean, and once both have one lightness their mean squared
 * difference is below 0.03 (samples being in [0, 1]).
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkBrightnessDecreaseAndStructureSim: Metric = structure(
  "check_brightness_decrease_and_structure_sim",
  (result, gold) => {
    const dark = Raster.mean(Raster.lightness(result))
    const light = Raster.mean(Raster.lightness(gold))
    if (light === 0) return Effect.fail("the expected picture is black: nothing is darker")
    // Nothing of the picture is left in a black one.
    if (dark === 0 || dark >= light || !Raster.sameSize(result, gold)) return Effect.succeed(false)
    return Effect.succeed(meanSquaredError(result, gold, { a: normalized(dark), b: normalized(light) }) < 0.03)
  }
)

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [
  checkStructureSim,
  checkFileExistsAndStructureSim,
  checkStructureSimResized,
  checkStructureSimWithThreshold,
  checkImageMirror,
  checkPaletteAndStructureSim,
  checkContrastIncreaseAndStructureSim,
  checkSaturationIncreaseAndStructureSim,
  checkBrightnessDecreaseAndStructureSim
]
