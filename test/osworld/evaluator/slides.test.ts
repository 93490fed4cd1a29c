import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { strFromU8 } from "fflate"
import { parse, type Shape } from "../../../src/osworld/evaluator/internal/presentation.js"
import { mediaOfSlide } from "../../../src/osworld/evaluator/internal/presentationMedia.js"
import type { TextBody } from "../../../src/osworld/evaluator/internal/presentationText.js"
import * as Registry from "../../../src/osworld/evaluator/internal/registry.js"
import * as Slides from "../../../src/osworld/evaluator/slides.js"
import { deck, edited, judgeDeck, type Members, plain, variant, zipped } from "./slidesSupport.js"
import { file, fixture, json, judge, missing, rightOf, text, written } from "./support.js"

const one = "ppt/slides/slide1.xml"
const two = "ppt/slides/slide2.xml"
const master = "ppt/slideMasters/slideMaster1.xml"
const broken = edited(deck, "ppt/presentation.xml", "</p:presentation>", "")

describe("presentation", () => {
  /** Our model in the words of python-pptx. */
  const kinds: Record<Shape["kind"], string | null> = {
    placeholder: "PLACEHOLDER",
    freeform: "FREEFORM",
    autoShape: "AUTO_SHAPE",
    textBox: "TEXT_BOX",
    picture: "PICTURE",
    media: "MEDIA",
    table: "TABLE",
    frame: null,
    group: "GROUP",
    line: "LINE",
    other: null
  }
  const alignments: Record<string, string> = { ctr: "CENTER", r: "RIGHT", just: "JUSTIFY" }
  const lines: Record<string, boolean | string> = { sng: true, none: false, dbl: "DOUBLE_LINE" }
  const bodyOf = (body: TextBody) =>
    body.paragraphs.map((paragraph) => ({
      text: paragraph.text,
      level: paragraph.level,
      alignment: alignments[paragraph.alignment] ?? null,
      runs: paragraph.runs.map(({ looks, text }) => ({
        text,
        name: looks.fontName,
        size: looks.size,
        bold: looks.bold,
        italic: looks.italic,
        underline: looks.underline === null ? null : lines[looks.underline],
        strike: looks.strike,
        rgb: looks.rgb ?? null
      }))
    }))
  const reportOf = (members: Members) => {
    const { height, slides, width } = rightOf(parse(zipped(members)))
    return {
      size: [width, height],
      slides: slides.map(({ notes, shapes }) => ({
        notes,
        shapes: shapes.map(({ box, kind, table, text }) => ({
          type: kinds[kind],
          box: [box.left, box.top, box.width, box.height],
          text: text === undefined ? null : bodyOf(text),
          table: table === undefined ? null : table.rows.map((row) => row.map(bodyOf))
        }))
      }))
    }
  }
  const reports: Record<string, unknown> = JSON.parse(readFileSync(fixture("slides/reports.json"), "utf8"))

  it("says what python-pptx says of LibreOffice's file, and of one whose placeholders inherit their places", () => {
    assert.deepStrictEqual<unknown>(reportOf(deck), reports.deck)
    assert.deepStrictEqual<unknown>(reportOf(plain), reports.plain)
  })
})

describe("check_image_stretch_and_center", () => {
  const metric = Slides.checkImageStretchAndCenter
  it.effect("the original's picture fills the slide", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* judgeDeck(metric, variant("stretched"), deck), 1)
      assert.strictEqual(yield* judgeDeck(metric, deck, deck), 0)
      // Half an inch is 457 200 EMU; the slide is 10 080 625 wide.
      const width = (cx: number) =>
        edited(variant("stretched"), one, /cx="100\d{5}" cy="75\d{5}"/, `cx="${cx}" cy="7559675"`)
      assert.strictEqual(yield* judgeDeck(metric, width(10_080_625 - 457_200), deck), 1)
      assert.strictEqual(yield* judgeDeck(metric, width(10_080_625 - 457_201), deck), 0)
      const other = { ...variant("stretched"), "ppt/media/image1.png": new Uint8Array([1]) }
      assert.strictEqual(yield* judgeDeck(metric, other, deck), 0)
      assert.strictEqual(yield* judgeDeck(metric, broken, deck), 0)
      assert.match(String(yield* judgeDeck(metric, deck, plain)), /first slide has no picture/)
    })
  )
})

describe("check_slide_orientation_Portrait", () => {
  it.effect("higher than wide", () =>
    Effect.gen(function* () {
      const metric = Slides.checkSlideOrientationPortrait
      assert.strictEqual(yield* judgeDeck(metric, variant("portrait")), 1)
      assert.strictEqual(yield* judgeDeck(metric, deck), 0)
      assert.strictEqual(yield* judgeDeck(metric, edited(deck, "ppt/presentation.xml", /<p:sldSz[^>]*>/, "")), 0)
      assert.strictEqual(yield* judgeDeck(metric, broken), 0)
    })
  )
})

describe("evaluate_presentation_fill_to_rgb_distance", () => {
  const metric = Slides.evaluatePresentationFillToRgbDistance
  const near = (members: Members, rules: unknown, compat = false) =>
    judgeDeck(metric, members, json(rules), {}, { compat })
  it.effect("mean of slides: blue, the master's FFFFCC, and a picture", () =>
    Effect.gen(function* () {
      // Blue to FFFFCC is as far as sqrt(255² + 255² + 51²), black to white sqrt(3 · 255²); a picture is as far as can be.
      const second = Math.sqrt(2 * 255 ** 2 + 51 ** 2) / Math.sqrt(3 * 255 ** 2)
      assert.closeTo(Number(yield* near(deck, { rgb: [0, 0, 255] })), 1 - (0 + second + 1) / 3, 1e-12)
      assert.closeTo(Number(yield* near(deck, { rgb: [0, 0, 255] }, true)), 1 - (0 + second + 1) / 3, 1e-12)
      assert.closeTo(Number(yield* near(deck, { rgb: [255, 255, 204], original_rgb: [0, 0, 255] })), 1 / 3, 1e-12)
      // Without a background of its own the slide shows the layout's, which upstream does not follow.
      const layout = edited(
        variant("noBackground"),
        "ppt/slideLayouts/slideLayout2.xml",
        /<p:cSld[^>]*>/,
        '$&<p:bg><p:bgPr><a:solidFill><a:schemeClr val="accent1"/></a:solidFill></p:bgPr></p:bg>'
      )
      const alone = edited(layout, "ppt/presentation.xml", /<p:sldId id="257".*?(?=<\/p:sldIdLst>)/, "")
      assert.strictEqual(yield* near(alone, { rgb: [0x4f, 0x81, 0xbd] }), 1)
      assert.strictEqual(yield* near(alone, { rgb: [0xff, 0xff, 0xcc] }, true), 1)
    })
  )
  it.effect("a theme's colour counts", () =>
    Effect.gen(function* () {
      const themed = edited(deck, one, '<a:srgbClr val="0000ff"/>', '<a:schemeClr val="bg1"/>')
      const alone = edited(themed, "ppt/presentation.xml", /<p:sldId id="257".*?(?=<\/p:sldIdLst>)/, "")
      assert.strictEqual(yield* near(alone, { rgb: [255, 255, 255] }), 1)
      assert.strictEqual(yield* near(alone, { rgb: [255, 255, 255] }, true), 0)
    })
  )
  it.effect("broken", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* near(broken, { rgb: [0, 0, 0] }), 0)
      assert.match(String(yield* near(deck, { rgb: [0, 0, 256] })), /cannot decide: expected value/)
    })
  )
})

describe("check_transition", () => {
  it.effect("of that slide and type", () =>
    Effect.gen(function* () {
      const check = (members: Members, slide_idx: number, transition_type: string, compat = false) =>
        judgeDeck(Slides.checkTransition, members, json({ slide_idx, transition_type }), {}, { compat })
      assert.strictEqual(yield* check(deck, 0, "dissolve"), 1)
      assert.strictEqual(yield* check(deck, 0, "fade"), 0)
      assert.strictEqual(yield* check(deck, 1, "dissolve"), 0)
      assert.strictEqual(yield* check(deck, 9, "dissolve"), 0)
      assert.strictEqual(yield* check(variant("transition"), 0, "fade"), 1)
      // The first two slides change places: their files keep their names.
      const swapped = edited(
        deck,
        "ppt/presentation.xml",
        'id="256" r:id="rId4"/><p:sldId id="257" r:id="rId5"',
        'id="257" r:id="rId5"/><p:sldId id="256" r:id="rId4"'
      )
      assert.strictEqual(yield* check(swapped, 1, "dissolve"), 1)
      assert.strictEqual(yield* check(swapped, 1, "dissolve", true), 0)
      assert.strictEqual(yield* check(swapped, 0, "dissolve", true), 1)
      assert.strictEqual(yield* check(broken, 0, "dissolve"), 0)
      const metric = Slides.checkTransition
      assert.match(String(yield* judgeDeck(metric, deck, json({ slide_idx: 0 }))), /transition_type/)
    })
  )
})

describe("the slides' numbers", () => {
  const colored = (members: Members, color: string, compat = false) =>
    judgeDeck(Slides.checkPageNumberColors, members, json({ color }), {}, { compat })
  it.effect("check_page_number_colors", () =>
    Effect.gen(function* () {
      for (const compat of [false, true]) {
        assert.strictEqual(yield* colored(deck, "red", compat), 1)
        assert.strictEqual(yield* colored(deck, "blue", compat), 0)
        assert.strictEqual(yield* colored(variant("digits"), "blue", compat), 1)
        assert.strictEqual(yield* colored(variant("digits"), "red", compat), 0)
        assert.strictEqual(yield* colored(broken, "red", compat), 0)
      }
      // Another red text of the master after a black number: upstream takes it for the number.
      const black = edited(deck, master, /(type="slidenum".*?)ff0000/, "$1000000")
      const later = edited(
        black,
        master,
        "</p:spTree>",
        '<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody><a:p><a:r><a:rPr><a:solidFill><a:srgbClr val="FF0000"/></a:solidFill></a:rPr><a:t>x</a:t></a:r></a:p></p:txBody></p:sp></p:spTree>'
      )
      assert.strictEqual(yield* colored(later, "black"), 1)
      assert.strictEqual(yield* colored(later, "red", true), 1)
      assert.match(String(yield* colored(deck, "yellow")), /cannot decide: expected value/)
    })
  )
  it.effect("check_slide_numbers_color", () =>
    Effect.gen(function* () {
      const metric = Slides.checkSlideNumbersColor
      assert.strictEqual(yield* judgeDeck(metric, deck), 1)
      assert.strictEqual(yield* judgeDeck(metric, variant("digits")), 0)
      assert.strictEqual(yield* judgeDeck(metric, plain), 0)
      assert.strictEqual(yield* judgeDeck(metric, broken), 0)
    })
  )
})

describe("check_strikethrough", () => {
  it.effect("every visible run of those paragraphs", () =>
    Effect.gen(function* () {
      const check = (members: Members, paragraphs: ReadonlyArray<number>, compat = false) =>
        judgeDeck(
          Slides.checkStrikethrough,
          members,
          json({ slide_index_s: [1], shape_index_s: [0], paragraph_index_s: paragraphs }),
          {},
          { compat }
        )
      assert.strictEqual(yield* check(deck, [3]), 1)
      assert.strictEqual(yield* check(deck, [1, 3]), 0)
      assert.strictEqual(yield* check(variant("strikeAll"), [1, 3]), 1)
      assert.strictEqual(yield* check(deck, [99]), 0)
      // LibreOffice writes that a run is not struck, which is enough for upstream.
      assert.strictEqual(yield* check(deck, [1], true), 1)
      assert.strictEqual(yield* check(edited(deck, two, / strike="noStrike"/g, ""), [1], true), 0)
      assert.strictEqual(yield* check(broken, [3]), 0)
      assert.match(String(yield* judgeDeck(Slides.checkStrikethrough, deck, json({}))), /slide_index_s/)
    })
  )
})

describe("a profile's registry", () => {
  const profile = file(fixture("slides/registry.xcu"))
  const xcu = (items: string) =>
    `<?xml version="1.0"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">${items}</oor:items>`
  const item = (path: string, name: string, value: string) =>
    `<item oor:path="${path}"><prop oor:name="${name}" oor:op="fuse"><value>${value}</value></prop></item>`
  const start = "/org.openoffice.Office.Impress/Misc/Start"
  const saving = "/org.openoffice.Office.Common/Save/Document"

  it("reads LibreOffice's own file, nodes below an item, lists, and the last of several", () => {
    const real = rightOf(Registry.parse(readFileSync(fixture("slides/registry.xcu"))))
    assert.strictEqual(real.get("/org.openoffice.Office.Common/Misc", "FirstRun"), "false")
    assert.strictEqual(real.get(saving, "AutoSaveTimeIntervall"), "3")
    const nested =
      '<item oor:path="/a"><node oor:name="b"><prop oor:name="c"><value><it>x</it><it>y</it></value></prop></node></item>'
    const made = rightOf(
      Registry.parse(new TextEncoder().encode(xcu(`${nested}${item("/a", "d", "1")}${item("/a", "d", "2")}`)))
    )
    assert.deepStrictEqual([made.get("/a/b", "c"), made.get("/a", "d"), made.get("/a", "e")], ["x\ny", "2", undefined])
  })

  const judgeText = (metric: typeof Slides.checkAutoSavingTime, content: string, rules?: unknown) =>
    Effect.scoped(
      Effect.gen(function* () {
        const place = yield* written({ "registrymodifications.xcu": content })
        return yield* judge(
          metric,
          file(place("registrymodifications.xcu")),
          rules === undefined ? undefined : json(rules)
        )
      })
    )

  it.effect("check_presenter_console_disable", () =>
    Effect.gen(function* () {
      const metric = Slides.checkPresenterConsoleDisable
      assert.strictEqual(yield* judge(metric, profile), 1)
      assert.strictEqual(yield* judgeText(metric, xcu(item(start, "EnablePresenterScreen", "true"))), 0)
      assert.strictEqual(yield* judgeText(metric, xcu("")), 0)
      assert.strictEqual(yield* judgeText(metric, "<oor:items>"), 0)
      assert.strictEqual(yield* judge(metric, missing), 0)
    })
  )

  it.effect("check_auto_saving_time", () =>
    Effect.gen(function* () {
      const metric = Slides.checkAutoSavingTime
      assert.strictEqual(yield* judge(metric, profile, json({ minutes: 3 })), 1)
      assert.strictEqual(yield* judge(metric, profile, json({ minutes: 10 })), 0)
      assert.strictEqual(yield* judgeText(metric, xcu(item(saving, "AutoSaveTimeIntervall", "")), { minutes: 0 }), 0)
      assert.strictEqual(yield* judgeText(metric, xcu(""), { minutes: 3 }), 0)
      assert.strictEqual(yield* judgeText(metric, "no XML", { minutes: 3 }), 0)
      assert.match(String(yield* judge(metric, profile, json({}))), /minutes/)
    })
  )
})

describe("check_left_panel", () => {
  it.effect("the panel is in the accessibility tree", () =>
    Effect.gen(function* () {
      const frame = (name: string) =>
        text(`<desktop-frame><panel><document-frame name="${name}"/></panel></desktop-frame>`)
      assert.strictEqual(yield* judge(Slides.checkLeftPanel, frame("Slides View")), 1)
      assert.strictEqual(yield* judge(Slides.checkLeftPanel, frame("Drawing View")), 0)
      assert.match(String(yield* judge(Slides.checkLeftPanel, text("<desktop-frame>"))), /cannot decide: result/)
    })
  )
})

describe("mediaOfSlide", () => {
  it("a sound inside the file, or the place of one outside", () => {
    const inside = rightOf(mediaOfSlide(zipped(variant("sound")), 1, "audio"))
    assert.strictEqual(inside?._tag, "Embedded")
    // A wave file of 0.05 s with 8000 samples a second, a byte each, after its header.
    if (inside?._tag === "Embedded") {
      assert.strictEqual(strFromU8(inside.bytes.slice(0, 4)), "RIFF")
      assert.strictEqual(inside.bytes.length - 400, 78)
      assert.match(inside.name, /^media\d+\.wav$/)
    }
    assert.deepStrictEqual(rightOf(mediaOfSlide(zipped(variant("linkedSound")), 1, "audio")), {
      _tag: "External",
      target: "file:///tmp/slides-fixtures/tone.wav"
    })
    assert.isUndefined(rightOf(mediaOfSlide(zipped(deck), 0, "audio")))
    assert.isUndefined(rightOf(mediaOfSlide(zipped(deck), 9, "audio")))
    assert.strictEqual(mediaOfSlide(zipped(broken), 1, "audio")._tag, "Left")
  })

  it("the picture behind a slide, and none of those on it", () => {
    const picture = rightOf(mediaOfSlide(zipped(deck), 2, "background"))
    assert.strictEqual(picture?._tag, "Embedded")
    if (picture?._tag === "Embedded") assert.deepStrictEqual(picture.bytes.slice(1, 4), new Uint8Array([80, 78, 71]))
    assert.isUndefined(rightOf(mediaOfSlide(zipped(deck), 0, "background")))
    const gone = { ...deck }
    for (const name of Object.keys(gone)) if (name.startsWith("ppt/media/")) delete gone[name]
    assert.isUndefined(rightOf(mediaOfSlide(zipped(gone), 2, "background")))
  })
})
