/**
 * Metrics over pictures: sizes, colours, places, and how equal two of them are. `evaluator/imageStructure` has those that
 * ask whether two pictures show the same thing.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Raster from "./internal/raster.js"
import { lanczos, resize, resizePlane } from "./internal/resample.js"
import * as Ssim from "./internal/ssim.js"
import { type Metric, make, makeEffect, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const none = Schema.Struct({})
const absent: ReaderType<void> = () => Effect.void
const off = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })

/** The smaller of two sizes as Python orders pairs: by width, and by height where the widths are equal. */
const smallerSize = (a: Raster.Raster, b: Raster.Raster) => {
  const { height, width } = a.width < b.width || (a.width === b.width && a.height < b.height) ? a : b
  return { height, width }
}

/**
 * How similar two pictures are in black and white, once both have the size of the smaller one: their structural
 * similarity, 0 where it is negative. With `reference_base_result`, the similarity that doing nothing would give, the
 * score is what is above it: `(s - base) / (1 - base)`, and 0 below `base + 0.01`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareImages: Metric = makeEffect({
  name: "compare_images",
  result: Raster.image,
  expected: Raster.image,
  options: Schema.Struct({
    reference_base_result: Schema.optionalWith(Schema.NullOr(Schema.Number.pipe(Schema.lessThan(1))), {
      default: () => null
    })
  }),
  score: (result, gold, { reference_base_result: base }) =>
    Effect.gen(function* () {
      if (Math.min(gold.width, gold.height) < Ssim.usualWindow) {
        return yield* Effect.fail(`the expected picture has ${gold.width} x ${gold.height} pixels, too few to compare`)
      }
      const size = smallerSize(result, gold)
      if (Math.min(size.width, size.height) < Ssim.usualWindow) return 0
      const grey = (raster: Raster.Raster) => resizePlane(Raster.lightness(raster), raster, size, lanczos)
      const similarity = yield* Ssim.similarity([{ ...size, a: grey(result), b: grey(gold) }])
      if (base === null) return Math.max(0, similarity)
      return similarity >= base + 0.01 ? Math.max(0, (similarity - base) / (1 - base)) : 0
    })
})

const equalColours = (a: Raster.Raster, b: Raster.Raster): boolean =>
  ([0, 1, 2] as const).every((channel) => {
    const other = b.colours[channel]
    return a.colours[channel].every((sample, i) => sample === other[i])
  })

/** Undefined where the file is no picture; a picture that is not to be judged is a failure. */
const decodeResult = (encoded: Raster.Encoded): Effect.Effect<Raster.Raster | undefined, string> =>
  Raster.decode(encoded).pipe(
    Effect.catchAll((error) =>
      error.kind === "Undecidable" ? Effect.fail(`result: ${error.reason}`) : Effect.succeed(undefined)
    )
  )

/**
 * Pictures have the colours of the expected ones, pixel by pixel, once they have their sizes. As many are needed as are
 * expected, in the same order.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareImageList: Metric = makeEffect({
  name: "compare_image_list",
  result: Raster.encodedList,
  expected: Raster.encodedList,
  options: none,
  score: (results, golds) =>
    Effect.gen(function* () {
      let equal = results.length === golds.length
      for (const [index, encoded] of golds.entries()) {
        // Every gold picture is looked at, whatever came before: a broken one is an error and no score.
        const gold = yield* Effect.mapError(Raster.decode(encoded), ({ reason }) => `expected value: ${reason}`)
        const candidate = results[index]
        if (!equal || candidate === undefined) continue
        const result = yield* decodeResult(candidate)
        equal = result !== undefined && equalColours(resize(result, gold, lanczos), gold)
      }
      return equal ? 1 : 0
    })
})

const optionalNumber = Schema.optionalWith(Schema.NullOr(Schema.Number), { default: () => null })
const expectedSize = Reader.json(
  Schema.Struct({ width: optionalNumber, height: optionalNumber, ignore_transparent: off })
)
const expectedFileSize = Reader.json(Schema.Struct({ max_size: Schema.Number }))

/**
 * The picture has the `width` and the `height` that are given, in pixels; with `ignore_transparent`, the box around what
 * is not wholly transparent has them.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkImageSize: Metric = make({
  name: "check_image_size",
  result: Raster.image,
  expected: expectedSize,
  options: none,
  score: (result, { height, ignore_transparent, width }) => {
    const whole = { left: 0, top: 0, right: result.width, bottom: result.height }
    const box = ignore_transparent ? (Raster.contentBox(result) ?? { left: 0, top: 0, right: 0, bottom: 0 }) : whole
    return verdict(
      (width === null || width === box.right - box.left) && (height === null || height === box.bottom - box.top)
    )
  }
})

/** A file's size in bytes; nothing of it is read. */
const fileSize: ReaderType<number> = (value) => {
  if (value?._tag === "Missing") return new Unusable({ kind: "Missing", reason: value.reason })
  if (value?._tag !== "File")
    return new Unusable({ kind: "Undecidable", reason: `a file is needed, not ${value?._tag}` })
  return Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.mapBoth(fs.stat(value.path), {
      onSuccess: ({ size }) => Number(size),
      onFailure: (cause) => new Unusable({ kind: "Undecidable", reason: `${value.path} cannot be read`, cause })
    })
  )
}

/**
 * The file is smaller than `max_size` bytes.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkImageFileSize: Metric = make({
  name: "check_image_file_size",
  result: fileSize,
  expected: expectedFileSize,
  options: none,
  score: (size, { max_size }) => verdict(size < max_size)
})

/**
 * Where the expected picture is not black, the result is green: greener than red and than blue.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkGreenBackground: Metric = make({
  name: "check_green_background",
  result: Raster.image,
  expected: Raster.image,
  options: none,
  score: (result, gold) => {
    if (!Raster.sameSize(result, gold)) return verdict(false)
    const [red, green, blue] = result.colours
    const [goldRed, goldGreen, goldBlue] = gold.colours
    for (let i = 0; i < red.length; i++) {
      if (goldRed[i] === 0 && goldGreen[i] === 0 && goldBlue[i] === 0) continue
      const g = green[i] ?? 0
      if (g <= (red[i] ?? 0) || g <= (blue[i] ?? 0)) return verdict(false)
    }
    return verdict(true)
  }
})

interface Spot {
  readonly count: number
  /** The mean column and row. */
  readonly x: number
  readonly y: number
}

/** For each colour of a picture how often it is there and where. Whatever is wholly transparent is one colour. */
const spots = ({ alpha, colours: [red, green, blue], height, width }: Raster.Raster): ReadonlyArray<Spot> => {
  const found = new Map<number, { count: number; x: number; y: number }>()
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const opacity = alpha === undefined ? 255 : (alpha[i] ?? 0)
      const key =
        opacity === 0 ? 0 : (((red[i] ?? 0) << 16) | ((green[i] ?? 0) << 8) | (blue[i] ?? 0)) + opacity * 2 ** 24
      const spot = found.get(key)
      if (spot === undefined) found.set(key, { count: 1, x, y })
      else {
        spot.count++
        spot.x += x
        spot.y += y
      }
    }
  }
  return Array.from(found.values(), ({ count, x, y }) => ({ count, x: x / count, y: y / count })).toSorted(
    (a, b) => b.count - a.count
  )
}

/**
 * The triangle is in the middle: the centre of the most common colour but one, which is what is drawn on a background of
 * the most common, is less than 5 % of the width and of the height from the picture's.
 *
 * In compat it is the rarest colour but one, as upstream has it: on a picture of two colours that is the background,
 * wherever the triangle is.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkTrianglePosition: Metric = make({
  name: "check_triangle_position",
  result: Raster.image,
  expected: absent,
  options: none,
  score: (result, _, __, { compat }) => {
    const triangle = spots(result).at(compat ? -2 : 1)
    if (triangle === undefined) return verdict(false)
    const { height, width } = result
    return verdict(Math.abs(triangle.x - width / 2) < 0.05 * width && Math.abs(triangle.y - height / 2) < 0.05 * height)
  }
})

/**
 * Something dark (a lightness below 128) begins within the left 5 % of the picture.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkTextboxOnLeftside: Metric = make({
  name: "check_textbox_on_leftside",
  result: Raster.image,
  expected: absent,
  options: none,
  score: (result) => {
    const { height, width } = result
    const grey = Raster.lightness(result)
    const near = Math.ceil(width * 0.05)
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < near; x++) if ((grey[y * width + x] ?? 255) < 128) return verdict(true)
    }
    return verdict(false)
  }
})

const comparison = (
  name: string,
  judge: (result: Raster.Raster, expected: Raster.Raster) => Either.Either<boolean, string>
): Metric =>
  make({
    name,
    result: Raster.image,
    expected: Raster.image,
    options: none,
    score: (result, expected) => Either.map(judge(result, expected), (passed) => (passed ? 1 : 0))
  })

const saturation = (raster: Raster.Raster): number => Raster.mean(Raster.hsv(raster).saturation)

/**
 * The expected picture is more saturated than the result on the mean: upstream hands the earlier picture in first.
 *
 * @since 0.1.0
 * @category metrics
 */
export const increaseSaturation: Metric = comparison("increase_saturation", (before, after) =>
  Either.right(saturation(before) < saturation(after))
)

/**
 * The expected picture is darker than the result on the mean: upstream hands the earlier picture in first.
 *
 * @since 0.1.0
 * @category metrics
 */
export const decreaseBrightness: Metric = comparison("decrease_brightness", (before, after) =>
  Either.right(Raster.mean(Raster.lightness(before)) > Raster.mean(Raster.lightness(after)))
)

/** The variance of the Laplacian: of each pixel's four neighbours less four times itself. Edges are mirrored. */
const sharpness = (raster: Raster.Raster): number => {
  const { height, width } = raster
  const grey = Raster.lightness(raster)
  const inside = (at: number, length: number): number =>
    length === 1 ? 0 : at < 0 ? -at : at >= length ? 2 * length - 2 - at : at
  const at = (x: number, y: number): number => grey[inside(y, height) * width + inside(x, width)] ?? 0
  let [sum, squares] = [0, 0]
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const value = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4 * at(x, y)
      sum += value
      squares += value * value
    }
  }
  return squares / grey.length - (sum / grey.length) ** 2
}

/**
 * The result is sharper than the expected picture: the variance of its Laplacian is greater.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkSharper: Metric = comparison("check_sharper", (result, expected) =>
  Either.right(sharpness(result) > sharpness(expected))
)

/** How far the centre of what is yellow is from the centre of the picture; undefined where nothing is. */
const yellowOffset = ({ colours: [red, green, blue], height, width }: Raster.Raster): number | undefined => {
  let [count, sumX, sumY] = [0, 0, 0]
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const r = red[i] ?? 0
      const g = green[i] ?? 0
      if (Math.min(r, g) < 128 || (blue[i] ?? 0) > Math.min(r, g) / 2) continue
      count++
      sumX += x
      sumY += y
    }
  }
  return count === 0 ? undefined : Math.hypot(sumX / count - width / 2, sumY / count - height / 2)
}

/**
 * The yellow triangle is nearer to the middle in the expected picture than in the result: upstream hands the earlier
 * picture in first.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareTrianglePositions: Metric = comparison("compare_triangle_positions", (before, after) => {
  const far = yellowOffset(before)
  const near = yellowOffset(after)
  if (near === undefined) return Either.left("nothing is yellow in the expected picture")
  return Either.right(far !== undefined && far > near)
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [
  compareImages,
  compareImageList,
  checkImageSize,
  checkImageFileSize,
  checkGreenBackground,
  checkTrianglePosition,
  checkTextboxOnLeftside,
  increaseSaturation,
  decreaseBrightness,
  checkSharper,
  compareTrianglePositions
]
