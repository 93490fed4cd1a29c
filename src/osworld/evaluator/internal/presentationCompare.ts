/** How two decks are compared: what differs, and what is let pass because applications write it as they please. */
import type { Box, Deck, Shape, Slide, Table } from "./presentation.js"
import { sameColor } from "./presentationColors.js"
import type { Looks, Paragraph, Run, TextBody } from "./presentationText.js"

/** Which parts count. Positions that tasks ask to change are specials, and have the deck before the task as gold. */
export interface Examine {
  readonly examine_number_of_slides: boolean
  readonly examine_shape: boolean
  readonly examine_text: boolean
  readonly examine_indent: boolean
  readonly examine_font_name: boolean
  readonly examine_font_size: boolean
  readonly examine_font_bold: boolean
  readonly examine_font_italic: boolean
  readonly examine_color_rgb: boolean
  readonly examine_font_underline: boolean
  readonly examine_strike_through: boolean
  readonly examine_alignment: boolean
  readonly examine_run_count: boolean
  readonly examine_bullets: boolean
  readonly examine_background_color: boolean
  readonly examine_note: boolean
  /** The title "Product Comparison" was moved to the lower half. */
  readonly examine_title_bottom_position: boolean
  /** The table of the third slide was moved to the lower half. */
  readonly examine_table_bottom_position: boolean
  /** What has no text on the second slide was moved to the right. */
  readonly examine_right_position: boolean
  /** The pictures of the second slide were moved to the top. */
  readonly examine_top_position: boolean
  /** One text box may have changed its place and size, and no other. */
  readonly examine_shape_for_shift_size: boolean
  /** Pictures may have moved; their sizes are the gold's. */
  readonly examine_image_size: boolean
  /** Freeforms and what has no text have the gold's heights and may differ otherwise. */
  readonly examine_modify_height: boolean
  /** A share of the larger of two lengths. */
  readonly approximately_tolerance: number
}

/** The tasks' own text and places, in EMU: 10 cm, 12 cm and 5.5 cm. */
const special = {
  title: "Product Comparison",
  shifted: "Elaborate on what you want to discuss.",
  lowerHalf: 3_600_000,
  rightHalf: 4_320_000,
  nearTop: 1_980_000
}

/** LibreOffice keeps places in hundredths of a millimetre. */
const rounding = 360

interface Rules {
  readonly examine: Examine
  readonly compat: boolean
}

const isNear = (a: number | null, b: number | null, { compat, examine }: Rules): boolean => {
  if (a === b) return true
  if (a === null || b === null) return false
  const apart = Math.abs(a - b)
  if (!compat && apart <= rounding) return true
  return a !== 0 && b !== 0 && apart / Math.max(Math.abs(a), Math.abs(b)) <= examine.approximately_tolerance
}

const sameBox = (a: Box, b: Box, rules: Rules): boolean =>
  isNear(a.left, b.left, rules) &&
  isNear(a.top, b.top, rules) &&
  isNear(a.width, b.width, rules) &&
  isNear(a.height, b.height, rules)

/** Moved further than the gold, and at least as far as the limit. */
const beyond = (value: number | null, gold: number | null, limit: number): boolean =>
  value !== null && gold !== null && value > gold && value >= limit

const before = (value: number | null, gold: number | null, limit: number): boolean =>
  value !== null && gold !== null && value < gold && value <= limit

/**
 * Boxes that show nothing have no size that matters, and what a table or a chart takes is up to the program's layout.
 * Upstream lets pass whatever has no text, pictures and lines too.
 */
const placeMatters = (result: Shape, gold: Shape, { compat }: Rules): boolean => {
  const showsText = ({ text }: Shape) => text !== undefined && text.text.trim() !== ""
  if (showsText(result) || showsText(gold)) return true
  const isFree = ({ kind, text }: Shape) => text !== undefined || kind === "table" || kind === "frame"
  return !compat && !(isFree(result) && isFree(gold))
}

const placesHold = (number: number, result: Shape, gold: Shape, rules: Rules): boolean => {
  const { examine } = rules
  const same = sameBox(result.box, gold.box, rules)
  const both = (kind: Shape["kind"]) => result.kind === kind && gold.kind === kind
  const text = result.text?.text
  const alikeText = text !== undefined && text === gold.text?.text
  const neitherHasText = result.text === undefined && gold.text === undefined

  if (examine.examine_title_bottom_position) {
    if (!alikeText && !same) return false
    if (alikeText && text === special.title && !beyond(result.box.top, gold.box.top, special.lowerHalf)) return false
  }
  if (examine.examine_table_bottom_position) {
    const moved = number === 3 && both("table")
    if (moved ? !beyond(result.box.top, gold.box.top, special.lowerHalf) : !same) return false
  }
  if (examine.examine_right_position && number === 2 && neitherHasText) {
    if (!beyond(result.box.left, gold.box.left, special.rightHalf)) return false
  }
  if (examine.examine_top_position && number === 2 && both("picture")) {
    if (!before(result.box.top, gold.box.top, special.nearTop)) return false
  }
  if (examine.examine_shape_for_shift_size && !same && !(alikeText && text === special.shifted)) return false
  if (examine.examine_shape && !same && placeMatters(result, gold, rules)) return false
  if (examine.examine_image_size) {
    const sameSize =
      isNear(result.box.width, gold.box.width, rules) && isNear(result.box.height, gold.box.height, rules)
    if (both("picture") ? !sameSize : !same) return false
  }
  if (examine.examine_modify_height) {
    const changed = neitherHasText || both("freeform")
    if (changed ? !isNear(result.box.height, gold.box.height, rules) : !same) return false
  }
  return true
}

const sameFlag = (a: boolean | null, b: boolean | null): boolean => (a ?? false) === (b ?? false)

const sameUnderline = (a: string | null, b: string | null, compat: boolean): boolean => {
  if (a === b) return true
  if (!compat) return (a ?? "none") === (b ?? "none")
  // Upstream sees no difference between nothing written and any line but a single one.
  return (a === null && b !== "sng") || (b === null && a !== "sng")
}

/** Upstream compares values that are written at both runs, and takes any other pair for equal. */
const sameRunColor = (a: Run, b: Run, compat: boolean): boolean => {
  if (a.looks.rgb !== undefined && b.looks.rgb !== undefined) return a.looks.rgb === b.looks.rgb
  return compat || sameColor(a.color(), b.color()) !== false
}

const sameWritten = (a: Looks, b: Looks, { compat, examine }: Rules): boolean =>
  (!examine.examine_font_name || a.fontName === b.fontName) &&
  (!examine.examine_font_size || a.size === b.size) &&
  (!examine.examine_font_bold || sameFlag(a.bold, b.bold)) &&
  (!examine.examine_font_italic || sameFlag(a.italic, b.italic)) &&
  (!examine.examine_font_underline || sameUnderline(a.underline, b.underline, compat)) &&
  (!examine.examine_strike_through || (a.strike ?? "noStrike") === (b.strike ?? "noStrike"))

const sameLooks = (a: Run, b: Run, rules: Rules): boolean =>
  sameWritten(a.looks, b.looks, rules) && (!rules.examine.examine_color_rgb || sameRunColor(a, b, rules.compat))

const isBlank = (text: string): boolean => text.trim() === ""

const sameTrimmed = (a: string, b: string): boolean => a === b || a.trim() === b.trim()

/**
 * How many runs have a partner in the place of theirs. In a line of blanks none has: programs keep or drop them.
 * `undefined`: their numbers differ.
 */
const pairedRuns = (a: Paragraph, b: Paragraph, examine: Examine): number | undefined => {
  if (isBlank(a.text) && isBlank(b.text)) return 0
  if (examine.examine_run_count && a.runs.length !== b.runs.length) return undefined
  return Math.min(a.runs.length, b.runs.length)
}

/** Runs that have a partner look like it. */
const runsLookSame = (a: Paragraph, b: Paragraph, rules: Rules): boolean => {
  const count = pairedRuns(a, b, rules.examine)
  return count !== undefined && eachPair(a.runs, b.runs, count, (one, other) => sameLooks(one, other, rules))
}

/** Of two lists, the first `count` by place. */
const eachPair = <A>(
  a: ReadonlyArray<A>,
  b: ReadonlyArray<A>,
  count: number,
  holds: (one: A, other: A) => boolean
): boolean => {
  for (let i = 0; i < count; i++) {
    const one = a[i]
    const other = b[i]
    if (one === undefined || other === undefined || !holds(one, other)) return false
  }
  return true
}

/** There are as many on both sides, and it holds for each with the one in the place of it. */
const alike = <A>(a: ReadonlyArray<A>, b: ReadonlyArray<A>, holds: (one: A, other: A) => boolean): boolean =>
  a.length === b.length && eachPair(a, b, a.length, holds)

/** The first two levels look alike where an outline has no marks, and programs write either. */
const sameLevel = (a: number, b: number): boolean => a === b || (a <= 1 && b <= 1 && a >= 0 && b >= 0)

const sameText = (result: TextBody, gold: TextBody, rules: Rules): boolean => {
  const { examine } = rules
  if (examine.examine_text && !sameTrimmed(result.text, gold.text)) return false
  return alike(result.paragraphs, gold.paragraphs, (a, b) => {
    if (examine.examine_alignment && a.alignment !== b.alignment) return false
    if (examine.examine_text && a.text !== b.text) return false
    if (examine.examine_indent && !sameLevel(a.level, b.level)) return false
    return runsLookSame(a, b, rules)
  })
}

const sameCell = (result: TextBody, gold: TextBody, { compat, examine }: Rules): boolean => {
  // Fonts and sizes of cells never count. Upstream looks at the other looks whatever the switches say, and at no text.
  const looks: Examine = {
    ...examine,
    examine_font_name: false,
    examine_font_size: false,
    examine_strike_through: false,
    ...(compat ? { examine_font_bold: true, examine_font_italic: true, examine_font_underline: true } : {})
  }
  return alike(result.paragraphs, gold.paragraphs, (a, b) => {
    if (!compat && examine.examine_text && a.text !== b.text) return false
    return runsLookSame(a, b, { examine: looks, compat })
  })
}

const sameTable = (result: Table, gold: Table, rules: Rules): boolean =>
  result.columns === gold.columns &&
  alike(result.rows, gold.rows, (row, other) => alike(row, other, (a, b) => sameCell(a, b, rules)))

const shapesHold = (number: number, result: Shape, gold: Shape, rules: Rules): boolean => {
  if (!placesHold(number, result, gold, rules)) return false
  const { compat, examine } = rules
  if (result.table !== undefined && (gold.table === undefined || !sameTable(result.table, gold.table, rules)))
    return false
  if (result.text !== undefined && gold.text !== undefined) return sameText(result.text, gold.text, rules)
  if (compat) return true
  // Upstream takes a picture in the place of a text box or of a table for it.
  if (result.table === undefined && gold.table !== undefined) return false
  return !examine.examine_text || sameTrimmed(result.text?.text ?? "", gold.text?.text ?? "")
}

const sameBullets = (result: Slide, gold: Slide, { compat, examine }: Rules): boolean => {
  const [all, allOfGold] = [result.bullets, gold.bullets]
  // There upstream's own check fails, and it lets such slides pass.
  if (compat && [...all, ...allOfGold].some(({ hasEmptyText }) => hasEmptyText)) return true
  const visible = (bullets: typeof all) => bullets.filter(({ text }) => !isBlank(text))
  return alike(visible(all), visible(allOfGold), (bullet, other) => {
    if (bullet.mark !== other.mark) return false
    if ((compat || examine.examine_text) && bullet.text !== other.text) return false
    if (!compat && bullet.numbered !== other.numbered) return false
    return bullet.mark === undefined || bullet.level === other.level
  })
}

/** Upstream looks at the marks from within a run, so not at all on slides without one that has a partner. */
const hasPairedRun = (result: Slide, gold: Slide, examine: Examine): boolean =>
  result.shapes.some((shape, i) => {
    const other = gold.shapes[i]
    if (shape.text === undefined || other?.text === undefined) return false
    const [one, two] = [shape.text.paragraphs, other.text.paragraphs]
    const lacksPairs = (a: Paragraph, b: Paragraph) => (pairedRuns(a, b, examine) ?? 0) === 0
    return one.length === two.length && !alike(one, two, lacksPairs)
  })

const textBodies = (slide: Slide): ReadonlyArray<TextBody> =>
  slide.shapes.flatMap(({ grouped, text }) => (text === undefined ? grouped : [text]))

/** The text boxes of a slide once more, with those inside groups. */
const sameGroupedText = (result: Slide, gold: Slide, { compat, examine }: Rules): boolean => {
  const [bodies, others] = [textBodies(result), textBodies(gold)]
  if (compat && !examine.examine_alignment) return bodies.length === others.length
  return alike(
    bodies,
    others,
    (body, other) =>
      (!examine.examine_text || sameTrimmed(body.text, other.text)) &&
      alike(body.paragraphs, other.paragraphs, (a, b) => !examine.examine_alignment || a.alignment === b.alignment)
  )
}

const sameBackground = (result: Slide, gold: Slide, compat: boolean): boolean => {
  const [a, b] = [result.background, gold.background]
  if (compat) return a.written === b.written
  return a.shown === null || b.shown === null ? a.shown === b.shown : sameColor(a.shown, b.shown) !== false
}

const slidesHold = (number: number, result: Slide, gold: Slide, rules: Rules): boolean => {
  const { compat, examine } = rules
  if (examine.examine_background_color && !sameBackground(result, gold, compat)) return false
  if (examine.examine_note && !sameTrimmed(result.notes, gold.notes)) return false
  if (!alike(result.shapes, gold.shapes, (shape, other) => shapesHold(number, shape, other, rules))) return false
  if (
    examine.examine_bullets &&
    (!compat || hasPairedRun(result, gold, examine)) &&
    !sameBullets(result, gold, rules)
  ) {
    return false
  }
  return sameGroupedText(result, gold, rules)
}

/** Whether the result is what the gold deck and the switches ask for. */
export const decksHold = (result: Deck, gold: Deck, examine: Examine, compat: boolean): boolean => {
  if (examine.examine_number_of_slides && result.slides.length !== gold.slides.length) return false
  return result.slides.every((slide, i) => {
    const other = gold.slides[i]
    return other === undefined || slidesHold(i + 1, slide, other, { examine, compat })
  })
}
