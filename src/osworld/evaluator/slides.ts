/**
 * Metrics over presentations (.pptx), and over how the presentation program is set up.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { type Box, type Deck, parse, type Slide } from "./internal/presentation.js"
import { decksHold, type Examine } from "./internal/presentationCompare.js"
import { compatNumberColor, numberColor, type Rgb, rgbOf } from "./internal/presentationNumbers.js"
import * as Registry from "./internal/registry.js"
import * as Selector from "./internal/selector.js"
import { type Element, parse as parseTree } from "./internal/xml.js"
import * as Xml from "./internal/xmlTree.js"
import { type Metric, make, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const off = Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })
const on = Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true })
const none = Schema.Struct({})
const deck: ReaderType<Deck> = Reader.file((bytes) => parse(bytes))
const registry: ReaderType<Registry.Registry> = Reader.file((bytes) => Registry.parse(bytes))
/** What a task gives as expected to a metric that needs nothing. */
const ignored: ReaderType<undefined> = () => Effect.succeed(undefined)

const ExamineOptions = Schema.Struct({
  examine_number_of_slides: on,
  examine_shape: on,
  examine_text: on,
  examine_indent: on,
  examine_font_name: on,
  examine_font_size: on,
  examine_font_bold: on,
  examine_font_italic: on,
  examine_color_rgb: on,
  examine_font_underline: on,
  examine_strike_through: on,
  examine_alignment: on,
  examine_run_count: on,
  examine_bullets: on,
  examine_background_color: on,
  examine_note: on,
  examine_title_bottom_position: off,
  examine_table_bottom_position: off,
  examine_right_position: off,
  examine_top_position: off,
  examine_shape_for_shift_size: off,
  examine_image_size: off,
  examine_modify_height: off,
  approximately_tolerance: Schema.optionalWith(Schema.NonNegative, { default: () => 0.005, nullable: true })
})

/**
 * Two decks are alike in what the `examine_*` switches ask for: slide by slide and shape by shape in the file's order.
 *
 * Places and sizes within `approximately_tolerance` (a share of the larger one) or a hundredth of a millimetre are equal.
 * Switches for a position that the task wants changed (`examine_top_position` and its like) take the deck before the
 * task as gold; `examine_modify_height` and they need `examine_shape` to be false.
 *
 * @since 0.1.0
 * @category metrics
 */
export const comparePptxFiles: Metric = make({
  name: "compare_pptx_files",
  result: deck,
  expected: deck,
  options: ExamineOptions,
  score: (result, expected, examine: Examine, { compat }) => verdict(decksHold(result, expected, examine, compat))
})

/** EMU in half an inch. */
const halfInch = 457_200

const equalBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && Buffer.from(a.buffer, a.byteOffset, a.length).equals(b)

/** The bytes of the pictures on a first slide, one at a time. */
const pictures = (from: Deck) => (from.slides[0]?.shapes ?? []).filter(({ kind }) => kind === "picture")

const stretched = (result: Deck, original: Deck): Either.Either<boolean, string> =>
  Either.gen(function* () {
    const bytesOf = (of: Deck, image: string | undefined) =>
      image === undefined
        ? Either.right(undefined)
        : Either.mapLeft(of.package.media(image), ({ reason }) => `a picture cannot be read: ${reason}`)
    const first = pictures(original)[0]
    const wanted = yield* bytesOf(original, first?.image)
    const { height, width } = original
    if (wanted === undefined || width === null || height === null) {
      return yield* Either.left("the original's first slide has no picture or no size")
    }
    let box: Box | undefined
    for (const picture of pictures(result)) {
      const bytes = yield* bytesOf(result, picture.image)
      if (bytes !== undefined && equalBytes(bytes, wanted)) box = picture.box
    }
    if (box === undefined || box.width === null || box.height === null || box.left === null || box.top === null) {
      return false
    }
    return (
      Math.abs(box.width - width) <= halfInch &&
      Math.abs(box.height - height) <= halfInch &&
      Math.abs(box.left - (width - box.width) / 2) <= halfInch &&
      Math.abs(box.top - (height - box.height) / 2) <= halfInch
    )
  })

/**
 * The picture of the original's first slide now fills that slide and is in its middle, within half an inch. Expected is
 * the deck before the task.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkImageStretchAndCenter: Metric = make({
  name: "check_image_stretch_and_center",
  result: deck,
  expected: deck,
  options: none,
  score: (result, original) => Either.flatMap(stretched(result, original), verdict)
})

/**
 * Slides are higher than wide.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkSlideOrientationPortrait: Metric = make({
  name: "check_slide_orientation_Portrait",
  result: deck,
  expected: ignored,
  options: none,
  score: ({ height, width }) => verdict(width !== null && height !== null && width < height)
})

const Channel = Schema.Int.pipe(Schema.between(0, 255))
const Triple = Schema.Tuple(Channel, Channel, Channel)

const farthest = Math.sqrt(3 * 255 ** 2)

const distance = (a: Rgb, b: Rgb): number => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) / farthest

const fillRules = Reader.json(
  Schema.Struct({ rgb: Triple, original_rgb: Schema.optionalWith(Triple, { nullable: true, exact: true }) })
)

/**
 * How near the slides' backgrounds are to `rgb`: 1 less the mean distance, 1 of which is that of black to white. A
 * background that is no single colour, or still has `original_rgb`, is as far as can be.
 *
 * Backgrounds of layouts and colours of themes count, which upstream does not follow.
 *
 * @since 0.1.0
 * @category metrics
 */
export const evaluatePresentationFillToRgbDistance: Metric = make({
  name: "evaluate_presentation_fill_to_rgb_distance",
  result: deck,
  expected: fillRules,
  options: none,
  score: ({ slides }, { original_rgb, rgb }, _, { compat }) => {
    const far = ({ background }: Slide): number => {
      const color = rgbOf(compat ? background.written : (background.shown?.hex ?? undefined))
      if (color === undefined || (original_rgb !== undefined && distance(color, original_rgb) === 0)) return 1
      return distance(color, rgb)
    }
    if (slides.length === 0) return Either.right(0)
    const mean = slides.reduce((sum, slide) => sum + far(slide), 0) / slides.length
    return Either.right(Math.min(1, Math.max(0, 1 - mean)))
  }
})

/** A file has alternatives for older programs. Upstream looks at the first. */
const isTransition = ({ transitions }: Slide, type: string, compat: boolean): boolean =>
  (compat ? transitions.slice(0, 1) : transitions).some((each) => Xml.descendants(each, type).length > 0)

const transitionRules = Reader.json(
  Schema.Struct({ slide_idx: Schema.NonNegativeInt, transition_type: Schema.NonEmptyString })
)

/**
 * A slide (`slide_idx`, from 0) comes in with a transition of that type: `dissolve`, `fade`, `push`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkTransition: Metric = make({
  name: "check_transition",
  result: deck,
  expected: transitionRules,
  options: none,
  score: ({ slides }, { slide_idx, transition_type }, _, { compat }) => {
    // Upstream takes slides by the numbers in their files' names, which need not be those of the deck.
    const byName = ({ part }: Slide) => part === `ppt/slides/slide${slide_idx + 1}.xml`
    const slide = compat ? slides.find(byName) : slides[slide_idx]
    return verdict(slide !== undefined && isTransition(slide, transition_type, compat))
  }
})

/** How much a channel has to outdo the others, or stay below for black. */
const threshold = 50

const colorClasses = {
  red: ([r, g, b]: Rgb) => r > g + threshold && r > b + threshold,
  green: ([r, g, b]: Rgb) => g > r + threshold && g > b + threshold,
  blue: ([r, g, b]: Rgb) => b > r + threshold && b > g + threshold,
  black: ([r, g, b]: Rgb) => r < threshold && g < threshold && b < threshold
}

const colorRules = Reader.json(Schema.Struct({ color: Schema.Literal("red", "green", "blue", "black") }))

/**
 * The slide number of the first master is `red`, `green`, `blue` or `black`, or close to it.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPageNumberColors: Metric = make({
  name: "check_page_number_colors",
  result: deck,
  expected: colorRules,
  options: none,
  score: ({ master }, { color }, _, { compat }) => {
    const found = master === undefined ? undefined : compat ? compatNumberColor(master) : numberColor(master)
    return verdict(found !== undefined && colorClasses[color](found))
  }
})

const showsNumber = ({ shapes }: Slide): boolean =>
  shapes.some(({ placeholder, text }) => placeholder === "sldNum" || /^\d+$/.test(text?.text ?? ""))

/**
 * Slides show their numbers, and the master's is pure red.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkSlideNumbersColor: Metric = make({
  name: "check_slide_numbers_color",
  result: deck,
  expected: ignored,
  options: none,
  score: ({ master, slides }) => {
    const color = master === undefined ? undefined : numberColor(master)
    return verdict(slides.some(showsNumber) && color !== undefined && distance(color, [255, 0, 0]) === 0)
  }
})

const Indices = Schema.Array(Schema.NonNegativeInt)

const strikeRules = Reader.json(
  Schema.Struct({ slide_index_s: Indices, shape_index_s: Indices, paragraph_index_s: Indices })
)

/**
 * The paragraphs of those shapes of those slides (all from 0) are struck through. Upstream looks at a paragraph's first
 * run, and takes an explicit "not struck" for struck.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkStrikethrough: Metric = make({
  name: "check_strikethrough",
  result: deck,
  expected: strikeRules,
  options: none,
  score: ({ slides }, { paragraph_index_s, shape_index_s, slide_index_s }, _, { compat }) =>
    verdict(
      slide_index_s.every((slide) =>
        shape_index_s.every((shape) =>
          paragraph_index_s.every((paragraph) => {
            const runs = slides[slide]?.shapes[shape]?.text?.paragraphs[paragraph]?.runs ?? []
            if (compat) return (runs[0]?.looks.strike ?? null) !== null
            const visible = runs.filter(({ text }) => text.trim() !== "")
            return (
              visible.length > 0 && visible.every(({ looks }) => looks.strike !== null && looks.strike !== "noStrike")
            )
          })
        )
      )
    )
})

/**
 * The profile says that a presentation starts without the presenter console. It has one unless told otherwise.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPresenterConsoleDisable: Metric = make({
  name: "check_presenter_console_disable",
  result: registry,
  expected: ignored,
  options: none,
  score: (settings) => {
    const enabled = settings.get("/org.openoffice.Office.Impress/Misc/Start", "EnablePresenterScreen")
    return verdict(enabled?.trim().toLowerCase() === "false")
  }
})

const savingRules = Reader.json(Schema.Struct({ minutes: Schema.Number }))

/**
 * The profile says how often, in minutes, documents are saved by themselves. The property's name is spelt like that.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkAutoSavingTime: Metric = make({
  name: "check_auto_saving_time",
  result: registry,
  expected: savingRules,
  options: none,
  score: (settings, { minutes }) => {
    const interval = settings.get("/org.openoffice.Office.Common/Save/Document", "AutoSaveTimeIntervall")?.trim() ?? ""
    return verdict(/^[+-]?\d+$/.test(interval) && Number(interval) === minutes)
  }
})

/** The tree comes from the guest's accessibility bus and not from the agent: a broken one judges nobody. */
const tree: ReaderType<Element> = (value) =>
  Effect.flatMap(Reader.text(value), (text) =>
    Either.mapLeft(parseTree(text), (reason) => new Unusable({ kind: "Undecidable", reason }))
  )

/**
 * The accessibility tree has the panel with the slides' small pictures, which Impress calls "Slides View".
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkLeftPanel: Metric = make({
  name: "check_left_panel",
  result: tree,
  expected: ignored,
  options: none,
  score: (root) =>
    Either.flatMap(Selector.parse('[name="Slides View"]'), (panel) =>
      verdict(Selector.select(root, [panel]).length > 0)
    )
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  comparePptxFiles,
  checkImageStretchAndCenter,
  checkSlideOrientationPortrait,
  evaluatePresentationFillToRgbDistance,
  checkTransition,
  checkPageNumberColors,
  checkSlideNumbersColor,
  checkStrikethrough,
  checkPresenterConsoleDisable,
  checkAutoSavingTime,
  checkLeftPanel
]
